"""What the producer's walk over the program depends on.

It goes ahead of the consumers, so whatever decides where and how often a load is done - indices, bounds, conditions, and the
conditions that leave a loop - must be known without their data.  What it needs of the program's scalars it computes itself.
"""
from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeGuard

from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Load, Var
from tilelang.ir.tile import Copy, Kernel, Stmt
from tilelang.ir.types import Scope
from tilelang.ir.walk import walk
from tilelang.passes.access import Context, contexts, leaves, own_expressions, statements, writes
from tilelang.trace import Rejection

Scalar = Var | Buffer
"""A let or a loop variable, or the buffer of a mutable scalar (or of a tensor that takes its place)."""


def _steering(context: Context) -> Iterator[Expr]:
    """The expressions that decide whether and how often the statements of a list are done."""
    for stmt in context.around:
        yield from own_expressions(stmt)
        if isinstance(stmt, (tile.For, tile.While)):
            yield from _leaving(stmt.body)


def _leaving(body: tile.Body) -> Iterator[Expr]:
    """The conditions under which a statement list leaves the loop around it, or its turn."""
    for stmt in body:
        if isinstance(stmt, tile.If) and leaves(stmt):
            yield stmt.condition
            yield from _leaving(stmt.then)
            yield from _leaving(stmt.otherwise)


# ---- what only the consumers know --------------------------------------------------------------------------------------------


def consumer_scalars(kernel: Kernel) -> set[Scalar]:
    """Scalars whose values come from shared memory, fragments or tensors that the kernel writes; and those tensors."""
    found: set[Scalar] = {b for stmt in statements(kernel.body) for b in writes(stmt) if b.scope is Scope.GLOBAL}
    size = -1
    while len(found) > size:
        size = len(found)
        for context in contexts(kernel.body):
            steered = any(_reads_consumers(expr, found) for expr in _steering(context))
            for stmt in context.body:
                if isinstance(stmt, tile.Let) and _reads_consumers(stmt.value, found):
                    found.add(stmt.var)
                if _sets_scalar(stmt) and (steered or _reads_consumers(stmt.value, found)):
                    found.add(stmt.buffer)
    return found


def follow_refusal(kernel: Kernel, load: Copy, theirs: Collection[Scalar]) -> Rejection | None:
    """Why the producer cannot do a load ahead; None if it can.  `theirs`: the scalars that only the consumers know, and the
    tensors that they write."""
    if load.src.buffer in theirs:
        return Rejection("a ring", f"the kernel does not write {load.src.buffer.name}", "it does")
    context = next(context for context in contexts(kernel.body) if load in context.body)
    if any(_reads_consumers(expr, theirs) for expr in (*load.src.base, *_steering(context))):
        return Rejection("a ring", "indices and conditions of the load are known without the consumers' data", "they are not")
    return None


def _reads_consumers(expression: Expr, theirs: Collection[Scalar]) -> bool:
    return any(
        node in theirs if isinstance(node, Var) else isinstance(node, Load) and _is_consumers(node.buffer, theirs)
        for node in walk(expression)
    )


def _is_consumers(buffer: Buffer, theirs: Collection[Scalar]) -> bool:
    return buffer.scope in (Scope.SHARED, Scope.FRAGMENT, Scope.LOCAL) or buffer in theirs


# ---- what the producer needs -------------------------------------------------------------------------------------------------


def producer_scalars(kernel: Kernel, loads: Collection[Stmt]) -> frozenset[Scalar]:
    """Scalars that decide where and how often the loads of the rings are done, directly or by way of others."""
    needed: set[Scalar] = set()
    size = -1
    while len(needed) > size:
        size = len(needed)
        for context in contexts(kernel.body):
            for stmt in context.body:
                if stmt in loads and isinstance(stmt, Copy):
                    needed.update(_named((*stmt.src.base, *_steering(context))))
                if isinstance(stmt, tile.Let) and stmt.var in needed:
                    needed.update(_named((stmt.value,)))
                if _sets_scalar(stmt) and stmt.buffer in needed:
                    needed.update(_named((stmt.value, *_steering(context))))
    return frozenset(needed)


def _named(expressions: tuple[Expr, ...]) -> Iterator[Scalar]:
    for node in walk(expressions):
        if isinstance(node, Var):
            yield node
        elif isinstance(node, Load) and node.buffer.scope is Scope.VAR:
            yield node.buffer


def _sets_scalar(stmt: Stmt) -> TypeGuard[tile.Store]:
    return isinstance(stmt, tile.Store) and stmt.buffer.scope is Scope.VAR
