"""Device IR without the variables that nothing names: lowering declares block indices, parts of indices and the like before it is
known who wants them."""
from __future__ import annotations

import dataclasses

from tilelang.ir import device as d
from tilelang.ir.expr import Var
from tilelang.ir.walk import walk

_BODIES = ("body", "then", "otherwise")


def prune(kernel: d.DeviceKernel) -> d.DeviceKernel:
    """The same kernel without `Declare` statements whose variables no other statement names."""
    named: set[Var] = set()
    roles = []
    for role in kernel.roles:
        mine: set[Var] = set()
        roles.append(dataclasses.replace(role, body=_pruned(role.body, mine)))
        named |= mine
    return dataclasses.replace(kernel, roles=tuple(roles), setup=_pruned(kernel.setup, named))


def _pruned(body: d.Body, named: set[Var]) -> d.Body:
    """A statement list from its end on, so that every use of a variable is seen before its declaration; `named` collects the
    uses."""
    kept: list[d.Stmt] = []
    for stmt in reversed(body):
        if isinstance(stmt, d.Declare):
            if stmt.var in named:
                _name(stmt.value, named)
                kept.append(stmt)
        else:
            inner = {name: _pruned(getattr(stmt, name), named) for name in _BODIES if hasattr(stmt, name)}
            bare = dataclasses.replace(stmt, **dict.fromkeys(inner, ()))
            _name(bare, named)
            same = all(part is getattr(stmt, name) for name, part in inner.items())
            kept.append(stmt if same else dataclasses.replace(stmt, **inner))  # type: ignore[arg-type]
    kept.reverse()
    same = len(kept) == len(body) and all(a is b for a, b in zip(kept, body, strict=True))
    return body if same else tuple(kept)


def _name(node: object, named: set[Var]) -> None:
    named.update(each for each in walk(node) if isinstance(each, Var))
