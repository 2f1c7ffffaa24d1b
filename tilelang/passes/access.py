"""Which buffers a statement reads and writes, and walking statement lists.  A view counts as the buffer it is a view of."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilelang.ir import tile
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Const, Expr, Load
from tilelang.ir.walk import walk


def sub_bodies(stmt: tile.Stmt) -> tuple[tile.Body, ...]:
    """The statement lists directly inside a statement."""
    if isinstance(stmt, tile.If):
        return (stmt.then, stmt.otherwise)
    if isinstance(stmt, (tile.For, tile.While, tile.Parallel, tile.Warpgroups)):
        return (stmt.body,)
    return ()


def _loads(*nodes: object) -> set[Buffer]:
    return {n.buffer.storage for node in nodes for n in walk(node) if isinstance(n, Load)}


def _index_loads(region: Region) -> set[Buffer]:
    return _loads(*region.base)


def own_expressions(stmt: tile.Stmt) -> tuple[Expr, ...]:
    """The expressions of a structured statement's head, or of one that synchronises: bounds, extents, condition, index."""
    match stmt:
        case tile.For():
            return (stmt.start, stmt.stop)
        case tile.Parallel():
            return stmt.extents
        case tile.While() | tile.If():
            return (stmt.condition,)
        case tile.MbarrierArrive():
            return (stmt.index,)
        case tile.MbarrierWait():
            return (stmt.index, stmt.parity)
    return ()


def reads(stmt: tile.Stmt) -> set[Buffer]:
    """Buffers that `stmt` itself reads, statements inside it not counted."""
    match stmt:
        case tile.Copy():
            return {stmt.src.buffer.storage} | _index_loads(stmt.src) | _index_loads(stmt.dst)
        case tile.Gemm():
            accumulator = set() if stmt.clear_accum is True else {stmt.c.buffer.storage}
            condition = _loads(stmt.clear_accum) if isinstance(stmt.clear_accum, Expr) else set()
            return {stmt.a.buffer.storage, stmt.b.buffer.storage} | accumulator | condition
        case tile.Reduce():
            return {stmt.src.buffer.storage} | (set() if stmt.clear else {stmt.dst.buffer.storage})
        case tile.Fill():
            return _loads(stmt.value) | _index_loads(stmt.dst)
        case tile.Let():
            return _loads(stmt.value)
        case tile.Store():
            return _loads(stmt.value, *stmt.indices)
    return _loads(*own_expressions(stmt))


def ordinary_reads(stmt: tile.Stmt) -> set[Buffer]:
    """Buffers that `stmt` itself reads by ordinary loads where an instruction does what it is about: those of its indices and
    conditions for a copy or a gemm, all of `reads` for any other."""
    match stmt:
        case tile.Copy():
            return _index_loads(stmt.src) | _index_loads(stmt.dst)
        case tile.Gemm():
            return _loads(stmt.clear_accum) if isinstance(stmt.clear_accum, Expr) else set()
    return reads(stmt)


def writes(stmt: tile.Stmt) -> set[Buffer]:
    """Buffers that `stmt` itself writes, statements inside it not counted."""
    match stmt:
        case tile.Copy() | tile.Fill() | tile.Reduce():
            return {stmt.dst.buffer.storage}
        case tile.Gemm():
            return {stmt.c.buffer.storage}
        case tile.Store():
            return {stmt.buffer.storage}
    return set()


def statements(body: tile.Body) -> Iterator[tile.Stmt]:
    """Every statement of a body and of the bodies inside it, in program order."""
    for stmt in body:
        yield stmt
        for inner in sub_bodies(stmt):
            yield from statements(inner)


def leaves(stmt: tile.Stmt) -> bool:
    """Whether a statement, or one inside it, is a break or continue of the loop around it."""
    if isinstance(stmt, (tile.Break, tile.Continue)):
        return True
    inside = sub_bodies(stmt) if isinstance(stmt, (tile.If, tile.Warpgroups)) else ()
    return any(leaves(inner) for body in inside for inner in body)


def reads_inside(stmt: tile.Stmt, buffer: Buffer) -> bool:
    """Whether `stmt` or a statement inside it reads `buffer`."""
    return any(buffer in reads(inner) for inner in statements((stmt,)))


def touches_inside(stmt: tile.Stmt, buffer: Buffer) -> bool:
    """Whether `stmt` or a statement inside it reads or writes `buffer`."""
    return any(buffer in reads(inner) or buffer in writes(inner) for inner in statements((stmt,)))


def trip_count(loop: tile.For) -> int | None:
    """How often a loop runs, None where that is not constant."""
    if isinstance(loop.start, Const) and isinstance(loop.stop, Const):
        return len(range(int(loop.start.value), int(loop.stop.value), loop.step))
    return None


@dataclass(frozen=True, slots=True)
class Context:
    """A statement list and the statements around it, outermost first."""

    body: tile.Body
    around: tuple[tile.Stmt, ...] = ()


def contexts(body: tile.Body, around: tuple[tile.Stmt, ...] = ()) -> Iterator[Context]:
    """Every statement list of a kernel, outer lists first."""
    yield Context(body, around)
    for stmt in body:
        for inner in sub_bodies(stmt):
            yield from contexts(inner, (*around, stmt))
