"""Unrolled loops around lowered statements."""
from __future__ import annotations

from collections.abc import Sequence

from tilelang.errors import Span
from tilelang.ir import device as d
from tilelang.ir.expr import Var


def unrolled(body: d.Body, loops: Sequence[tuple[Var, int]], span: Span | None) -> d.Body:
    """`body` inside unrolled loops (variable, turns), the first one outermost; loops of one turn are left out, so `body` does not
    name their variables."""
    for var, count in reversed(loops):
        if count > 1:
            body = (d.Unroll(var=var, count=count, body=body, span=span),)
    return body
