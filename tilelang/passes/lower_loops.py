"""What lowered statements are wrapped in: unrolled loops around them, the declarations that they need in front."""
from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilelang.errors import Span
from tilelang.ir import device as d
from tilelang.ir.expr import Var
from tilelang.ir.walk import walk


def unrolled(body: d.Body, loops: Sequence[tuple[Var, int]], span: Span | None) -> d.Body:
    """`body` inside unrolled loops (variable, turns), the first one outermost; loops of one turn are left out, so `body` does not
    name their variables."""
    for var, count in reversed(loops):
        if count > 1:
            body = (d.Unroll(var=var, count=count, body=body, span=span),)
    return body


def used(declarations: Iterable[d.Declare], body: d.Body) -> d.Body:
    """The declarations whose variables the body names, itself or by way of one another."""
    kept: d.Body = ()
    for stmt in reversed(tuple(declarations)):
        if any(node is stmt.var for node in walk((*kept, *body))):
            kept = (stmt, *kept)
    return kept
