"""Reductions of a fragment along one dimension: over a thread's registers, over lanes by shuffles, over warps through shared
memory.

A thread first folds the points it has itself; a vector of neighbours is folded in as many independent chains.  Lanes that hold
other parts of the same row exchange by butterflies, so that each ends up with the result, which is just what the result's layout,
the projection of the source's, says.  Integers are folded in int32 or uint32, everything else in float32; the result is rounded
once.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from tilelang.ir import device as d
from tilelang.ir import tile
from tilelang.ir.arith import simplify
from tilelang.ir.device import RegisterLoad, SharedAddress, i32
from tilelang.ir.expr import FLOAT32, INT32, Call, Const, Expr, Load, Select, Var, binary, convert
from tilelang.ir.types import DType, ReduceKind, promote
from tilelang.layout.digits import WARP_THREADS, Axis, Layout
from tilelang.passes.lower_arith import add, powers_of_two, quotient, remainder, times, unsigned
from tilelang.passes.lower_context import Context
from tilelang.passes.lower_loops import unrolled
from tilelang.passes.lower_points import Points, Walk, walk_points
from tilelang.passes.lower_values import Values

WORD_BYTES = 4
_OPERATORS = {ReduceKind.SUM: "+", ReduceKind.ABSSUM: "+", ReduceKind.MAX: "max", ReduceKind.ABSMAX: "max", ReduceKind.MIN: "min"}


@dataclass(frozen=True, slots=True)
class _Fold:
    """One reduction: the loop over the source's points, the element type it is folded in, and where partial results are kept."""

    reduce: tile.Reduce
    walk: Walk
    vars: tuple[Var, ...]
    layout: Layout
    dtype: DType
    context: Context

    @property
    def chains(self) -> int:
        """Independent partial results of one row: the vector's length if it lies along the reduced dimension, else one."""
        vector = self.layout.vector_digit()
        return self.walk.points.count if vector is not None and vector[0] == self.reduce.dim else 1

    def combine(self, a: Expr, b: Expr) -> Expr:
        return binary(_OPERATORS[self.reduce.kind], a, b)

    @property
    def identity(self) -> Const:
        return _identity(self.reduce.kind, self.dtype)


def lower_reduce(reduce: tile.Reduce, context: Context, scratch: d.SharedArray | None, barrier: d.Stmt) -> d.Body:
    """The whole reduction, by every thread of the role.  `barrier` is where the role's threads meet."""
    layout = context.fragment_layouts[reduce.src.buffer]
    variables = tuple(Var(name, INT32) for name, _ in zip("rstuvw", layout.dims, strict=False))
    extents = tuple(Const(int(extent)) for extent in reduce.src.buffer.shape)  # type: ignore[arg-type]
    loop = tile.Parallel(vars=variables, extents=extents, body=(), span=reduce.span)
    walk = walk_points(loop, layout, context)
    fold = _Fold(reduce, walk, variables, layout, _fold_dtype(reduce), context)
    kept = [(var, count) for var, count, dim in walk.turns if dim != reduce.dim]
    across = scratch is not None
    body = _through_shared(fold, kept, scratch, barrier) if across else unrolled(_rows(fold), kept, reduce.span)
    return (*walk.declare, *body)


def _fold_dtype(reduce: tile.Reduce) -> DType:
    """The 32-bit type in which the elements are folded; wider ones are refused before."""
    common = promote(reduce.src.buffer.dtype, reduce.dst.buffer.dtype)
    if not common.is_int:
        return FLOAT32
    return common if common.bits == FLOAT32.bits else INT32


def _rows(fold: _Fold) -> d.Body:
    """The results at one turn of the kept loops: one, or one for each point of a vector that lies across."""
    body: list[d.Stmt] = []
    _store(fold, [_within_warp(fold, points, body) for points in _rows_of_vector(fold)], body)
    return tuple(body)


def _rows_of_vector(fold: _Fold) -> list[Points]:
    points = fold.walk.points
    return [points] if fold.chains > 1 else [points.only(e) for e in range(points.count)]


def _within_warp(fold: _Fold, points: Points, body: list[d.Stmt]) -> Expr:
    """One row folded over the thread's registers and the warp's lanes, as a value."""
    span = fold.reduce.span
    partial = d.Registers(name=f"{fold.reduce.dst.buffer.name}_partial", dtype=fold.dtype, shape=(fold.chains,))
    body.append(d.DeclareRegisters(registers=partial, span=span))
    body.extend(
        d.RegisterStore(registers=partial, indices=(i32(chain),), value=fold.identity, span=span) for chain in range(fold.chains)
    )
    inner: list[d.Stmt] = []
    for chain, value in enumerate(_sources(fold, points, inner)):
        old = RegisterLoad(partial, (i32(chain),))
        inner.append(d.RegisterStore(registers=partial, indices=(i32(chain),), value=fold.combine(old, value), span=span))
    reduced = [(var, count) for var, count, dim in fold.walk.turns if dim == fold.reduce.dim]
    body.extend(unrolled(tuple(inner), reduced, span))
    value: Expr = RegisterLoad(partial, (i32(0),))
    for chain in range(1, fold.chains):
        value = fold.combine(value, RegisterLoad(partial, (i32(chain),)))
    for digit in fold.layout.digits_on(fold.reduce.dim, Axis.LANE):
        step = digit.stride
        while step < digit.stride * digit.size:
            value = _exchanged(fold, value, step, body)
            step *= 2
    return value


def _sources(fold: _Fold, points: Points, body: list[d.Stmt]) -> list[Expr]:
    """The source's elements at these points, in the folding type; elements beyond the tile do not count."""
    values = Values(fold.context, body, fold.reduce.span, points)
    loaded: list[Expr] = values.vector(convert(Load(fold.reduce.src.buffer, fold.vars), fold.dtype))
    if fold.reduce.kind in (ReduceKind.ABSSUM, ReduceKind.ABSMAX):
        loaded[:] = (Call("abs", (value,), fold.dtype) for value in loaded)
    if points.valid is None:
        return loaded
    return [Select(points.valid, value, fold.identity) for value in loaded]


def _exchanged(fold: _Fold, value: Expr, lane_mask: int, body: list[d.Stmt]) -> Expr:
    """`value` folded with that of the lane across."""
    mine, other = Var("mine", fold.dtype), Var("other", fold.dtype)
    body.append(d.Declare(var=mine, value=value, span=fold.reduce.span))
    body.append(d.ShuffleXor(var=other, value=mine, lane_mask=lane_mask, span=fold.reduce.span))
    return fold.combine(mine, other)


def _store(fold: _Fold, results: list[Expr], body: list[d.Stmt]) -> None:
    """The results of one turn, folded into the old values unless those are cleared; together, since they may share registers."""
    reduce, dst = fold.reduce, fold.reduce.dst.buffer
    indices = _result_indices(fold)
    points = fold.walk.points.only(0) if fold.chains > 1 else fold.walk.points
    values = Values(fold.context, body, reduce.span, points)
    if not reduce.clear:
        old = values.vector(convert(Load(dst, indices), fold.dtype))
        results = [fold.combine(before, result) for before, result in zip(old, results, strict=True)]
    values.put(dst, indices, [convert(result, dst.dtype) for result in results])


def _result_indices(fold: _Fold) -> tuple[Expr, ...]:
    rank, dim = len(fold.vars), fold.reduce.dim
    kept = tuple(var for i, var in enumerate(fold.vars) if i != dim)
    if fold.reduce.dst.buffer.rank == rank:
        return tuple(i32(0) if i == dim else var for i, var in enumerate(fold.vars))
    return kept or (i32(0),)


def _identity(kind: ReduceKind, dtype: DType) -> Const:
    if kind in (ReduceKind.SUM, ReduceKind.ABSSUM, ReduceKind.ABSMAX):
        return convert(Const(0), dtype)  # type: ignore[return-value]
    if dtype.is_float:
        return Const(-math.inf if kind is ReduceKind.MAX else math.inf, dtype)
    low, high = dtype.limits
    return Const(low if kind is ReduceKind.MAX else high, dtype)


# ---- across warps ------------------------------------------------------------------------------------------------------------


def _through_shared(fold: _Fold, kept: list[tuple[Var, int]], scratch: d.SharedArray, barrier: d.Stmt) -> d.Body:
    """Every thread leaves its warp's results in shared memory, one row of `threads` words for each result; then it reads those of
    the warps that have the other parts.  The barrier in front keeps an earlier exchange's readers ahead of the writers."""
    span, thread = fold.reduce.span, fold.context.thread
    write: list[d.Stmt] = []
    read: list[d.Stmt] = []
    rows = _rows_of_vector(fold)
    results = []
    for number, points in enumerate(rows):
        row = add(_row_number(kept, len(rows)), i32(number))
        value = _within_warp(fold, points, write)
        write.append(d.StoreShared(address=_word(fold, scratch, row, thread), values=(value,), span=span))
        results.append(_folded_over_warps(fold, scratch, row, read))
    _store(fold, results, read)
    return (barrier, *unrolled(tuple(write), kept, span), barrier, *unrolled(tuple(read), kept, span))


def _row_number(kept: list[tuple[Var, int]], results_per_turn: int) -> Expr:
    row: Expr = i32(0)
    weight = results_per_turn
    for var, count in reversed(kept):
        row = add(row, times(var, weight))
        weight *= count
    return row


def _word(fold: _Fold, scratch: d.SharedArray, row: Expr, thread: Expr) -> Expr:
    offset = times(add(times(row, fold.context.threads), thread), WORD_BYTES)
    return add(SharedAddress(scratch), unsigned(offset))


def _folded_over_warps(fold: _Fold, scratch: d.SharedArray, row: Expr, body: list[d.Stmt]) -> Expr:
    """The results of all warps that differ only in the digits of the reduced dimension, this one's among them, in their order."""
    thread = fold.context.thread
    offsets = [0]
    base = thread
    for digit in fold.layout.digits_on(fold.reduce.dim, Axis.WARP):
        step = WARP_THREADS * digit.stride
        mine = remainder(quotient(thread, step), digit.size)
        base = binary("-", base, times(mine, step))
        offsets = [offset + turn * step for turn in range(digit.size) for offset in offsets]
    first = Var("first", INT32)
    base = powers_of_two(simplify(base, fold.context.ranges))
    body.append(d.Declare(var=first, value=base, span=fold.reduce.span))
    target = d.Registers(name="parts", dtype=fold.dtype, shape=(len(offsets),))
    body.append(d.DeclareRegisters(registers=target, span=fold.reduce.span))
    for i, offset in enumerate(offsets):
        address = _word(fold, scratch, row, add(first, i32(offset)))
        body.append(d.LoadShared(address=address, target=target, first=(i32(i),), count=1, span=fold.reduce.span))
    value: Expr = RegisterLoad(target, (i32(0),))
    for i in range(1, len(offsets)):
        value = fold.combine(value, RegisterLoad(target, (i32(i),)))
    return value
