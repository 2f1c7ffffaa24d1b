"""Walking and rewriting trees of either IR by their dataclass fields.  No memo: a node met twice is visited twice."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache

from tilelang.ir import device, tile
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr, Var

_NODES = (Expr, tile.Stmt, device.Stmt, Region, device.BarrierRef, device.RegisterSlice)


@cache
def _fields(node_type: type) -> tuple[str, ...]:
    """Names of the fields that can hold nodes (spans and names cannot, nor the declarations they refer to)."""
    skip = {"span", "buffer", "array", "registers", "map", "dtype", "op", "fn", "text"}
    return tuple(f.name for f in dataclasses.fields(node_type) if f.name not in skip)


def children(node: object) -> Iterator[object]:
    """The direct sub-nodes, in field order."""
    for name in _fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, _NODES):
            yield value
        elif isinstance(value, tuple):
            yield from (item for item in value if isinstance(item, _NODES))


def walk(node: object) -> Iterator[object]:
    """The node and everything below it, parents first.  A tuple is walked as a list of nodes."""
    if isinstance(node, tuple):
        for item in node:
            yield from walk(item)
        return
    yield node
    for child in children(node):
        yield from walk(child)


def rewrite(node: object, change: Callable[[object], object]) -> object:
    """Rebuilds bottom-up: `change` sees each node after its children; the same object comes back where nothing changed."""
    if isinstance(node, tuple):
        items = tuple(rewrite(item, change) for item in node)
        return node if all(a is b for a, b in zip(items, node, strict=True)) else items
    if not isinstance(node, _NODES):
        return node
    changed = {}
    for name in _fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, _NODES) or (isinstance(value, tuple) and value):
            new = rewrite(value, change)
            if new is not value:
                changed[name] = new
    return change(dataclasses.replace(node, **changed) if changed else node)  # type: ignore[type-var]


def substitute(node: object, values: dict[Var, Expr]) -> object:
    """`node` with variables replaced by expressions."""
    return rewrite(node, lambda n: values.get(n, n) if isinstance(n, Var) else n)
