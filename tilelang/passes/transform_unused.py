"""Names that nothing uses are left out, and with them what their values are loaded from.

It comes first: a load in such a value would be the last reader of a slot of a ring, and nobody would ever do it.
"""
from __future__ import annotations

import dataclasses
from collections import Counter

from tilelang.ir import tile
from tilelang.ir.expr import Var
from tilelang.ir.walk import walk


def transform_unused(body: tile.Body) -> tile.Body:
    """The body without the lets whose variable appears nowhere, or only in such lets."""
    while True:
        nodes = [node for stmt in body for node in walk(stmt)]
        names = Counter(node for node in nodes if isinstance(node, Var))
        names.subtract(node.var for node in nodes if isinstance(node, tile.Let))
        kept = _without(body, {var for var, count in names.items() if count > 0})
        if kept is body:
            return body
        body = kept


def _without(body: tile.Body, used: set[Var]) -> tile.Body:
    kept = tuple(_inside(stmt, used) for stmt in body if not (isinstance(stmt, tile.Let) and stmt.var not in used))
    return body if len(kept) == len(body) and all(a is b for a, b in zip(kept, body, strict=True)) else kept


def _inside(stmt: tile.Stmt, used: set[Var]) -> tile.Stmt:
    bodies = {name: getattr(stmt, name) for name in ("body", "then", "otherwise") if hasattr(stmt, name)}
    changed = {name: _without(inner, used) for name, inner in bodies.items()}
    return stmt if all(changed[name] is bodies[name] for name in bodies) else dataclasses.replace(stmt, **changed)
