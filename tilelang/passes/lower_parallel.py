"""An element-wise loop: each thread's points, statement by statement, a vector of points at a time."""
from __future__ import annotations

import dataclasses
import math

from tilelang.errors import Span, Unsupported
from tilelang.ir import device as d
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Const, Expr, Var, compare
from tilelang.ir.types import LoopKind, Scope
from tilelang.ir.walk import walk as tree
from tilelang.layout.digits import Layout, real_digits
from tilelang.passes.access import reads, statements, writes
from tilelang.passes.extents import size, sizes
from tilelang.passes.fragment_access import Access, element_accesses, loop_accesses
from tilelang.passes.lower_arith import add, all_of, times
from tilelang.passes.lower_context import Context
from tilelang.passes.lower_loops import unrolled
from tilelang.passes.lower_points import Points, walk_points
from tilelang.passes.lower_values import Values


def lower_parallel(loop: tile.Parallel, context: Context) -> d.Body:
    """The loop as every thread of the role does its share."""
    layout = context.loop_layouts[loop]
    walk = walk_points(loop, layout, context)
    owner = walk.points.owner if _is_owners(loop, walk.points) else None
    points = walk.points if owner is None else dataclasses.replace(walk.points, owner=None)
    declare, points = _with_locals(loop, points)
    if _needs_guards(loop, layout):
        inner = _guarded(loop, points, owner, layout, context)
    else:
        inner = _statements(loop.body, dataclasses.replace(points, valid=all_of([points.valid, owner])), context)
    body = unrolled((*declare, *inner), [(var, count) for var, count, _ in walk.turns], loop.span)
    return (*walk.declare, *body)


def _needs_guards(loop: tile.Parallel, layout: Layout) -> bool:
    """Whether points must be told apart one by one: the loop writes only part of a fragment, whose layout goes further, or ends
    within a vector."""
    vector = layout.vector_digit()
    if vector is not None and size(loop.extents[vector[0]]) % real_digits(layout.dims[vector[0]])[-1].size:
        return True
    written = {buffer for stmt in statements(loop.body) for buffer in writes(stmt)}
    return any(access.buffer.storage in written and not _is_whole(loop, access) for access in loop_accesses(loop))


def _is_whole(loop: tile.Parallel, access: Access) -> bool:
    """Whether the loop goes over all elements of a fragment."""
    extents = zip(access.dims, sizes(access.buffer.shape), strict=True)
    return all(dim is None or size(loop.extents[dim]) == extent for dim, extent in extents)


def _guarded(loop: tile.Parallel, points: Points, owner: Expr | None, layout: Layout, context: Context) -> d.Body:
    """Point by point, each only if it lies in the loop's box, and for its owner if it has one."""
    lowered: list[d.Stmt] = []
    for e in range(points.count):
        inside = [
            compare("<", points.subs[e][var], extent)
            for var, extent, covered in zip(loop.vars, loop.extents, layout.shape, strict=True)
            if isinstance(extent, Const) and covered > int(extent.value)
        ]  # fmt: skip
        body = _statements(loop.body, dataclasses.replace(points.only(e), valid=None), context)
        condition = all_of([owner, *inside])
        lowered += body if condition is None else (d.If(condition=condition, then=body, uniform=False, span=loop.span),)
    return tuple(lowered)


def _is_owners(loop: tile.Parallel, points: Points) -> bool:
    """Whether only the owner of a point may do it at all: threads hold copies of it and the loop writes memory that it reads,
    so that a copy could read what the owner has already written."""
    inner = tuple(statements(loop.body))
    memory = {b for stmt in inner for b in writes(stmt) if b.scope in (Scope.GLOBAL, Scope.SHARED)}
    if points.owner is None or not any(b in memory for stmt in inner for b in reads(stmt)):
        return False
    kept = next((b for stmt in inner for b in writes(stmt) if b.scope is Scope.FRAGMENT), None)
    if kept is not None:
        raise Unsupported(
            f"this loop writes {kept.name}, of which several threads hold copies, from memory that it writes, too", code="TL347",
            span=loop.span, hint="write the two in loops of their own",
        )  # fmt: skip
    return True


def _with_locals(loop: tile.Parallel, points: Points) -> tuple[d.Body, Points]:
    """Each point's own copy of the arrays that the loop's body uses, and their declarations."""
    buffers = dict.fromkeys(buffer for buffer, _, _ in element_accesses(loop) if buffer.scope is Scope.LOCAL)
    if not buffers:
        return (), points
    homes = tuple({buffer: _array(buffer) for buffer in buffers} for _ in range(points.count))
    declare = tuple(d.DeclareRegisters(registers=home, span=loop.span) for own in homes for home in own.values())
    return declare, dataclasses.replace(points, locals=homes)


def _array(buffer: Buffer) -> d.Registers:
    return d.Registers(name=buffer.name, dtype=buffer.dtype, shape=(math.prod(int(extent) for extent in buffer.shape),))  # type: ignore[arg-type]


def _statements(body: tile.Body, points: Points, context: Context) -> d.Body:
    lowered: list[d.Stmt] = []
    for stmt in body:
        _statement(stmt, points, context, lowered)
    return tuple(lowered)


def _statement(stmt: tile.Stmt, points: Points, context: Context, out: list[d.Stmt]) -> None:
    """One statement at all points; a conditional one point by point, since its points part ways."""
    values = Values(context, out, stmt.span, points)
    match stmt:
        case tile.Store():
            values.store(stmt.buffer, stmt.indices, stmt.value)
        case tile.Let():
            _let(stmt, points, values, out)
        case tile.If():
            for e in range(points.count):
                _if(stmt, points.only(e), context, out)
        case tile.For():
            _for(stmt, points, context, values, out)
        case _:
            raise _unsupported(type(stmt).__name__, stmt.span)


def _let(stmt: tile.Let, points: Points, values: Values, out: list[d.Stmt]) -> None:
    """A variable for every point, or one for all of them where they agree."""
    found: dict[Expr, Var] = {}
    lowered = values.vector(stmt.value)
    for value in dict.fromkeys(lowered):
        found[value] = Var(stmt.var.name, stmt.var.dtype)
        out.append(d.Declare(var=found[value], value=value, span=stmt.span))
        values.context.note(found[value], value)
    points.with_values(stmt.var, [found[value] for value in lowered])


def _if(stmt: tile.If, point: Points, context: Context, out: list[d.Stmt]) -> None:
    condition = Values(context, out, stmt.span, point).one(stmt.condition)
    then, otherwise = (_statements(body, point, context) for body in (stmt.then, stmt.otherwise))
    out.append(d.If(condition=condition, then=then, otherwise=otherwise, uniform=False, span=stmt.span))


def _for(stmt: tile.For, points: Points, context: Context, values: Values, out: list[d.Stmt]) -> None:
    """A loop that all points go through together."""
    start, stop = values.vector(stmt.start), values.vector(stmt.stop)
    if not (_agree(start, stmt.start, points) and _agree(stop, stmt.stop, points)):
        raise Unsupported(
            "a loop inside T.Parallel whose bounds depend on the point runs on the CPU only so far", code="TL345", span=stmt.span,
            hint="let it run to the largest bound, with an if inside that the point decides",
        )  # fmt: skip
    if stmt.kind is not LoopKind.SERIAL and isinstance(start[0], Const) and isinstance(stop[0], Const):
        out.append(_unrolled(stmt, range(int(start[0].value), int(stop[0].value), stmt.step), points, context))
        return
    context.enter_loop(stmt)
    body = _statements(stmt.body, points, context)
    out.append(d.For(var=stmt.var, start=start[0], stop=stop[0], step=stmt.step, body=body, span=stmt.span))


def _agree(lowered: list[Expr], bound: Expr, points: Points) -> bool:
    """Whether a bound is the same at all points, of all threads."""
    return len(set(lowered)) == 1 and not any(node in points.loop_vars for node in tree(bound))


def _unrolled(stmt: tile.For, turns: range, points: Points, context: Context) -> d.Stmt:
    """A loop of constant bounds that the author wants unrolled."""
    turn = Var(stmt.var.name, stmt.var.dtype)
    context.ranges[turn] = (0, max(len(turns) - 1, 0))
    value = add(times(turn, stmt.step), turns.start)
    points.with_values(stmt.var, [value] * points.count)
    return d.Unroll(var=turn, count=len(turns), body=_statements(stmt.body, points, context), span=stmt.span)


def _unsupported(what: str, span: Span | None) -> Unsupported:
    return Unsupported(
        f"{what} inside T.Parallel runs on the CPU only so far", code="TL346", span=span,
        hint="a T.Parallel may hold assignments, if and loops over a range",
    )  # fmt: skip
