"""`Parallel` of tile IR on NumPy: its body, statement by statement, for all points at once.

That equals point by point, in any order, as long as no point touches an element that another one writes.  Where the indices do
not show this, each access is recorded (`Claims`) and a meeting of two points is a `HazardError`.  `If`, loops of different
length, `break` and `continue` switch points off by a mask.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tilelang.errors import HazardError, InternalError, TileError, Unsupported
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Binary, Const, Expr, Load, Var, is_const
from tilelang.ir.text import render_expr
from tilelang.ir.types import Scope
from tilelang.ir.walk import walk
from tilelang.sim import reference_values as values
from tilelang.sim.reference_expr import (
    Claims,
    Frame,
    Loop,
    Points,
    active,
    array_of,
    clipped,
    evaluate,
    flat_index,
    index_values,
    integer,
    point_numbers,
    truth,
)
from tilelang.sim.reference_values import Value

MAX_WHILE_TRIPS = 1_000_000
_PRIVATE = (Scope.LOCAL, Scope.VAR)


def run_parallel(stmt: tile.Parallel, frame: Frame) -> None:
    """The whole box of points; nested boxes that are all of the body become more dimensions."""
    if stmt not in frame.loops:
        frame.loops[stmt] = _prepared(stmt)
    stmt, stored, meeting = frame.loops[stmt]
    grid = tuple(integer(extent, frame) for extent in stmt.extents)
    if any(extent <= 0 for extent in grid):
        return
    points = Points(grid, tuple(np.ogrid[tuple(slice(0, extent) for extent in grid)]))
    _privatise(points, stored, frame)
    for buffer in meeting:
        size = array_of(buffer, frame).size
        points.claims[buffer] = Claims(buffer, np.zeros(size, np.int64), np.zeros(size, np.int64))
    for var, axis in zip(stmt.vars, points.axes, strict=True):
        frame.env[var] = axis.astype(values.NUMPY[var.dtype])
    frame.points = points
    try:
        _run_body(stmt.body, frame)
    finally:
        frame.points = None
    frame.scattered.update((buffer, stmt.span) for buffer in points.private)


def _prepared(stmt: tile.Parallel) -> Loop:
    """What does not depend on values: the flattened loop, the buffers it stores to, those of them where points may meet."""
    stmt = _flattened(stmt)
    touched = _touched(stmt)
    meeting = [buffer for buffer, accesses in touched.items() if buffer.scope not in _PRIVATE and not _apart(stmt, accesses)]
    return Loop(stmt, tuple(touched), tuple(meeting))


def _flattened(stmt: tile.Parallel) -> tile.Parallel:
    while len(stmt.body) == 1 and isinstance(inner := stmt.body[0], tile.Parallel):
        if any(var in set(stmt.vars) for extent in inner.extents for var in walk(extent) if isinstance(var, Var)):
            break
        stmt = tile.Parallel(vars=stmt.vars + inner.vars, extents=stmt.extents + inner.extents, body=inner.body, span=stmt.span)
    return stmt


# ---- what points may share ----------------------------------------------------------------------------------------------------


Access = tile.Store | Load


def _touched(stmt: tile.Parallel) -> dict[Buffer, list[Access]]:
    """For each buffer that the body stores to (what it is a view of, for a view), all accesses to its elements."""
    nodes = list(walk(stmt.body))
    found: dict[Buffer, list[Access]] = {node.buffer.storage: [] for node in nodes if isinstance(node, tile.Store)}
    for node in nodes:
        if isinstance(node, (tile.Store, Load)) and node.buffer.storage in found:
            found[node.buffer.storage].append(node)
    return found


def _apart(stmt: tile.Parallel, accesses: list[Access]) -> bool:
    """Whether the indices show that two points never meet: all accesses are through one name, and each variable stands, plus or
    times something that is the same for all points, alone in one index that all accesses share."""
    first, *others = accesses
    if any(other.buffer is not first.buffer for other in others):
        return False
    inside = {var for node in walk(stmt.body) for var in _bound(node)} | set(stmt.vars)
    shared = [index for i, index in enumerate(first.indices) if all(other.indices[i] == index for other in others)]
    apart = {_only_variable(index, inside) for index in shared}
    return all(var in apart or is_const(extent, 1) for var, extent in zip(stmt.vars, stmt.extents, strict=True))


def _bound(node: object) -> Iterator[Var]:
    if isinstance(node, (tile.Let, tile.For)):
        yield node.var
    elif isinstance(node, tile.Parallel):
        yield from node.vars


def _only_variable(index: Expr, inside: set[Var]) -> Var | None:
    """The variable v of an index `v`, `v + u`, `u + v`, `v - u`, or with `v * c` for v, where u is uniform; else None."""
    if isinstance(index, Var):
        return index if index in inside else None
    if not isinstance(index, Binary):
        return None
    if index.op in ("+", "-") and _uniform(index.b, inside):
        return _only_variable(index.a, inside)
    if index.op == "+" and _uniform(index.a, inside):
        return _only_variable(index.b, inside)
    if index.op == "*":
        factor, other = (index.a, index.b) if isinstance(index.a, Const) else (index.b, index.a)
        return _only_variable(other, inside) if isinstance(factor, Const) and factor.value != 0 else None
    return None


def _uniform(expr: Expr, inside: set[Var]) -> bool:
    return not any(isinstance(node, Load) or (isinstance(node, Var) and node in inside) for node in walk(expr))


def _privatise(points: Points, stored: tuple[Buffer, ...], frame: Frame) -> None:
    """A copy for each point of the LOCAL and VAR buffers that the body writes."""
    for buffer in stored:
        if buffer.scope not in _PRIVATE:
            continue
        array = array_of(buffer, frame)
        points.private[buffer] = np.broadcast_to(array, points.grid + array.shape).copy()
        if buffer in frame.scattered:
            points.defined[buffer] = np.zeros(points.grid + array.shape, bool)


# ---- statements ---------------------------------------------------------------------------------------------------------------


class _Loop:
    """The innermost loop: the points that left it by `break`."""

    __slots__ = ("broken",)

    def __init__(self, grid: tuple[int, ...]) -> None:
        self.broken = np.zeros(grid, bool)


def _points(frame: Frame) -> Points:
    assert frame.points is not None  # statements of this module run inside run_parallel only
    return frame.points


def _run_body(body: tile.Body, frame: Frame, loop: _Loop | None = None) -> None:
    for stmt in body:
        mask = _points(frame).mask
        if mask is not None and not mask.any():
            return
        try:
            STATEMENTS[type(stmt)](stmt, frame, loop)
        except TileError as error:
            error.span = error.span or stmt.span
            raise


def _let(stmt: tile.Let, frame: Frame, loop: _Loop | None) -> None:
    frame.env[stmt.var] = evaluate(stmt.value, frame)


def _store(stmt: tile.Store, frame: Frame, loop: _Loop | None) -> None:
    points, buffer = _points(frame), stmt.buffer
    value = values.convert(evaluate(stmt.value, frame), stmt.value.dtype, buffer.dtype)
    indices = index_values(stmt.indices, frame)
    if buffer in points.private:
        everywhere = [*points.axes, *indices]
        _write(points.private[buffer], everywhere, value, points)
        if buffer in points.defined:
            _write(points.defined[buffer], everywhere, np.bool_(True), points)
        return
    array = array_of(buffer, frame)
    _write(array, indices, value, points)
    if buffer.storage in points.claims:
        _claim_write(points.claims[buffer.storage], array, indices, value, points)


def _write(array: np.ndarray, indices: list[Value], value: Value, points: Points) -> None:
    """`array[indices] = value` at the active points, dropped where an index is outside."""
    safe, inside = clipped(indices, array.shape)
    where = active(points, inside)
    if where is None:
        if np.broadcast_shapes(*(np.shape(index) for index in safe)) != points.grid:
            safe = (np.broadcast_to(safe[0], points.grid), *safe[1:])
        array[safe] = value
    elif where.any():
        chosen = tuple(np.broadcast_to(index, points.grid)[where] for index in safe)
        array[chosen] = np.broadcast_to(value, points.grid)[where]


def _claim_write(claims: Claims, array: np.ndarray, indices: list[Value], value: Value, points: Points) -> None:
    safe, inside = clipped(indices, array.shape)
    where = active(points, inside)
    if where is not None and not where.any():
        return
    keep = np.ones(points.grid, bool) if where is None else where
    element = flat_index(safe, array.shape, points.grid)[keep]
    wanted = np.broadcast_to(value, points.grid)[keep]
    left = array[tuple(np.broadcast_to(index, points.grid)[keep] for index in safe)]
    same = bool(np.all((left == wanted) | ((left != left) & (wanted != wanted))))
    claims.write(element, point_numbers(points.grid)[keep], same)


def _if(stmt: tile.If, frame: Frame, loop: _Loop | None) -> None:
    points, condition = _points(frame), truth(stmt.condition, frame)
    if not np.ndim(condition):
        return _run_body(stmt.then if condition else stmt.otherwise, frame, loop)
    saved = points.mask
    points.mask = active(points, condition)
    _run_body(stmt.then, frame, loop)
    after_then, points.mask = points.mask, saved
    points.mask = active(points, ~condition)
    _run_body(stmt.otherwise, frame, loop)
    if loop is None:
        points.mask = saved
    elif after_then is not None and points.mask is not None:  # without those that met a break or continue
        points.mask = after_then | points.mask
    return None


def _for(stmt: tile.For, frame: Frame, loop: _Loop | None) -> None:
    start, stop = evaluate(stmt.start, frame), evaluate(stmt.stop, frame)
    kind = values.NUMPY[stmt.var.dtype].type
    if not np.ndim(start) and not np.ndim(stop):
        trips = ((kind(value), None) for value in range(int(start), int(stop), stmt.step))
    else:
        trips = _different_trips(start, stop, stmt.step, kind)
    points = _points(frame)
    saved, inner = points.mask, _Loop(points.grid)
    for value, going in trips:
        points.mask = _still(saved, inner)
        if going is not None:
            points.mask = active(points, going)
        if points.mask is not None and not points.mask.any():
            break
        frame.env[stmt.var] = value
        _run_body(stmt.body, frame, inner)
    points.mask = saved


def _different_trips(start: Value, stop: Value, step: int, kind: type) -> Iterator[tuple[Value, np.ndarray]]:
    """(loop variable, points that still go on), for bounds that differ between points."""
    value = np.asarray(start, np.int64)
    while True:
        going = value < stop if step > 0 else value > stop
        if not going.any():
            return
        yield value.astype(kind), going
        value = value + step


def _still(saved: np.ndarray | None, loop: _Loop) -> np.ndarray | None:
    """The points that begin an iteration: those that entered and did not break."""
    if not loop.broken.any():
        return saved
    return ~loop.broken if saved is None else saved & ~loop.broken


def _while(stmt: tile.While, frame: Frame, loop: _Loop | None) -> None:
    points = _points(frame)
    saved, inner = points.mask, _Loop(points.grid)
    done = np.zeros(points.grid, bool)
    for _ in range(MAX_WHILE_TRIPS):
        going = ~(done | inner.broken)
        points.mask = going if saved is None else saved & going
        done |= points.mask & ~np.broadcast_to(truth(stmt.condition, frame), points.grid)
        points.mask = points.mask & ~done
        if not points.mask.any():
            points.mask = saved
            return
        _run_body(stmt.body, frame, inner)
    raise endless(stmt)


def endless(stmt: tile.While) -> HazardError:
    """The error for a `while` that does not end."""
    return HazardError(
        f"while {render_expr(stmt.condition)} did not end after {MAX_WHILE_TRIPS} iterations",
        code="TL861",
        span=stmt.span,
        hint="check that the body changes what the condition reads",
    )


def _break(stmt: tile.Break, frame: Frame, loop: _Loop | None) -> None:
    if loop is None:
        raise InternalError("break outside a loop, inside a T.Parallel", code="TL914", span=stmt.span)
    points = _points(frame)
    loop.broken |= True if points.mask is None else points.mask
    points.mask = np.zeros(points.grid, bool)


def _continue(stmt: tile.Continue, frame: Frame, loop: _Loop | None) -> None:
    if loop is None:
        raise InternalError("continue outside a loop, inside a T.Parallel", code="TL914", span=stmt.span)
    points = _points(frame)
    points.mask = np.zeros(points.grid, bool)


def _inner_parallel(stmt: tile.Parallel, frame: Frame, loop: _Loop | None) -> None:
    """Points within points: any order will do, so one after the other."""
    extents = [integer(extent, frame) for extent in stmt.extents]
    for point in np.ndindex(*(max(extent, 0) for extent in extents)):
        for var, value in zip(stmt.vars, point, strict=True):
            frame.env[var] = values.NUMPY[var.dtype].type(value)
        _run_body(stmt.body, frame, None)


def _refused(stmt: tile.Stmt, frame: Frame, loop: _Loop | None) -> None:
    raise Unsupported(
        f"T.{type(stmt).__name__.lower()} inside a T.Parallel works on a tile for each point",
        code="TL373",
        span=stmt.span,
        hint="move it out of the T.Parallel, or make the loop a T.serial",
    )


STATEMENTS: dict[type[tile.Stmt], Callable[..., None]] = {
    tile.Let: _let, tile.Store: _store, tile.For: _for, tile.Parallel: _inner_parallel, tile.While: _while, tile.If: _if,
    tile.Break: _break, tile.Continue: _continue,
    tile.Copy: _refused, tile.Fill: _refused, tile.Gemm: _refused, tile.Reduce: _refused, tile.TmaCopy: _refused,
    tile.Warpgroups: _refused, tile.MbarrierArrive: _refused, tile.MbarrierWait: _refused, tile.SyncThreads: _refused,
    tile.FenceProxyAsync: _refused, tile.SetMaxRegisters: _refused,
}  # fmt: skip
