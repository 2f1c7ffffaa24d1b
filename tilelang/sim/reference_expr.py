"""Expressions of tile IR on NumPy: what one block, or all points of a `Parallel` at once, knows and reads.

A value is a NumPy scalar, or inside a `Parallel` an array that broadcasts to the grid of its points.  Evaluation is total: an
element outside its buffer reads as 0, whatever side of a `Select` it stands on, so laziness is only a matter of speed.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tilelang.errors import HazardError, InternalError, Span, Unsupported
from tilelang.ir import tile
from tilelang.ir.arith import widened
from tilelang.ir.buffer import Buffer, Extent
from tilelang.ir.expr import Binary, Call, Cast, Compare, Const, Expr, Load, Reinterpret, Select, Unary, Var
from tilelang.ir.text import render_expr
from tilelang.sim import reference_values as values
from tilelang.sim.reference_values import Value


@dataclass(slots=True)
class Points:
    """All points of one `Parallel`, evaluated together.

    `axes` are open index grids (np.ogrid), `mask` the points still active (None: all).  `private` holds the arrays that each
    point has for itself (LOCAL, VAR), shape grid + buffer shape; `defined` says which of their elements were written, for those
    that an earlier `Parallel` left different in each thread.  `claims` finds points that touch each
    other's elements, by storage: a view and what it is a view of have one."""

    grid: tuple[int, ...]
    axes: tuple[np.ndarray, ...]
    mask: np.ndarray | None = None
    private: dict[Buffer, np.ndarray] = field(default_factory=dict)
    defined: dict[Buffer, np.ndarray] = field(default_factory=dict)
    claims: dict[Buffer, Claims] = field(default_factory=dict)


@dataclass(slots=True)
class Claims:
    """Which point wrote and which read each element of one buffer in one `Parallel`: 0 none, p + 1 the point p, -1 several."""

    buffer: Buffer
    writer: np.ndarray
    reader: np.ndarray

    def read(self, element: np.ndarray, point: np.ndarray) -> None:
        """Points read elements (flat indices); raises HazardError if another point wrote one."""
        self._check(self.writer[element], point, "reads an element that another point writes")
        before = self.reader[element]
        self.reader[element] = point
        shared = (self.reader[element] != point) | ((before != 0) & (before != point))
        self.reader[element[shared]] = -1

    def write(self, element: np.ndarray, point: np.ndarray, same: bool) -> None:
        """Points write elements; `same`: they write equal values where they meet, which alone is harmless."""
        self._check(self.writer[element], point, "writes an element that another point writes")
        self._check(self.reader[element], point, "writes an element that another point reads")
        self.writer[element] = point
        if not same:
            self._check(self.writer[element], point, "writes an element that another point writes")

    def _check(self, owner: np.ndarray, point: np.ndarray, what: str) -> None:
        if np.any((owner != 0) & (owner != point)):
            raise HazardError(
                f"one point of a T.Parallel {what}: {self.buffer.name}",
                code="TL860",
                hint="the points have no order: give each its own element, use T.reduce_* for sums, or T.serial for an order",
            )


class Loop(NamedTuple):
    """A `Parallel` with what is known of it before it runs: the buffers it stores to, and those where points may meet."""

    stmt: tile.Parallel
    stored: tuple[Buffer, ...]
    meeting: tuple[Buffer, ...]


@dataclass(slots=True)
class Frame:
    """One block as it runs.  `scattered`: LOCAL and VAR buffers whose value an earlier `Parallel` left different in each thread,
    with the place; they cannot be read as one value per block.  `loops` is shared by all blocks of a run."""

    env: dict[Var, Value]
    arrays: dict[Buffer, np.ndarray]
    points: Points | None = None
    scattered: dict[Buffer, Span | None] = field(default_factory=dict)
    loops: dict[tile.Parallel, Loop] = field(default_factory=dict)


def evaluate(expr: Expr, frame: Frame) -> Value:
    """The value of `expr`, in the NumPy type of its dtype."""
    function = EXPRESSIONS.get(type(expr))
    if function is None:
        raise InternalError(f"{type(expr).__name__} is not an expression of tile IR", code="TL911")
    return function(expr, frame)


def integer(expr: Extent, frame: Frame) -> int:
    """A block-uniform integer: an index, an extent or a bound."""
    if isinstance(expr, int):
        return expr
    value = evaluate(expr, frame)
    if np.ndim(value):
        raise Unsupported(f"{render_expr(expr)} differs between the points of a T.Parallel here", code="TL371")
    return int(value)


def index_values(indices: tuple[Expr, ...], frame: Frame) -> list[Value]:
    """Indices as integers, which do not wrap (NumPy would take an array of bool for a mask)."""
    return [evaluate(index if isinstance(index, Var) else widened(index), frame) for index in indices]


def truth(expr: Expr, frame: Frame) -> Value:
    """A condition as bool."""
    return values.convert(evaluate(expr, frame), expr.dtype, values.BOOL)


# ---- reading and writing elements ---------------------------------------------------------------------------------------------


def read_elements(array: np.ndarray, indices: list[Value]) -> Value:
    """`array[indices]`, 0 where an index lies outside."""
    safe, inside = clipped(indices, array.shape)
    if inside is None:
        return array[safe]
    if array.size == 0 or np.ndim(inside) == 0:  # one element, outside
        return np.zeros(np.broadcast_shapes(*(np.shape(index) for index in indices)), array.dtype)[()]
    return np.where(inside, array[safe], np.zeros((), array.dtype))


def clipped(indices: list[Value], shape: tuple[int, ...]) -> tuple[tuple[Value, ...], np.ndarray | np.bool_ | None]:
    """Indices made safe to use, and the mask of those that were inside (None: all)."""
    safe: list[Value] = []
    inside = None
    for index, extent in zip(indices, shape, strict=True):
        if not np.ndim(index):
            if not 0 <= index < extent:
                return tuple(indices), np.bool_(False)
            safe.append(int(index))
            continue
        good = (index >= 0) & (index < extent)
        if good.all():
            safe.append(index)
        else:
            inside = good if inside is None else inside & good
            safe.append(np.where(good, index, 0))
    return tuple(safe), inside


def flat_index(indices: tuple[Value, ...], shape: tuple[int, ...], grid: tuple[int, ...]) -> np.ndarray:
    """Row-major element numbers of in-range indices, on the whole grid."""
    flat = np.zeros(grid, np.int64)
    for index, extent in zip(indices, shape, strict=True):
        flat = flat * extent + np.asarray(index, np.int64)
    return flat


def point_numbers(grid: tuple[int, ...]) -> np.ndarray:
    """1, 2, ... for the points of a grid."""
    return np.arange(1, int(np.prod(grid)) + 1).reshape(grid)


def active(points: Points, inside: Value | None) -> np.ndarray | None:
    """The mask of points that are active and whose indices are inside (None: all), on the whole grid."""
    if inside is None:
        return points.mask
    whole = np.broadcast_to(inside, points.grid)
    return whole if points.mask is None else whole & points.mask


# ---- nodes --------------------------------------------------------------------------------------------------------------------


def _const(expr: Const, frame: Frame) -> Value:
    return values.constant(expr.value, expr.dtype)


def _var(expr: Var, frame: Frame) -> Value:
    try:
        return frame.env[expr]
    except KeyError:
        raise InternalError(f"the variable {expr.name} has no value here", code="TL912") from None


def _unary(expr: Unary, frame: Frame) -> Value:
    if expr.op == "not":
        return values.unary("not", truth(expr.value, frame), values.BOOL)
    return values.unary(expr.op, evaluate(expr.value, frame), expr.value.dtype)


def _binary(expr: Binary, frame: Frame) -> Value:
    if expr.op in ("and", "or"):
        return values.binary(expr.op, truth(expr.a, frame), truth(expr.b, frame), values.BOOL)
    return values.binary(expr.op, evaluate(expr.a, frame), evaluate(expr.b, frame), expr.a.dtype)


def _compare(expr: Compare, frame: Frame) -> Value:
    return values.compare(expr.op, evaluate(expr.a, frame), evaluate(expr.b, frame), expr.a.dtype)


def _select(expr: Select, frame: Frame) -> Value:
    condition = truth(expr.condition, frame)
    if not np.ndim(condition):
        return evaluate(expr.then if condition else expr.otherwise, frame)
    points = frame.points
    if points is None or not (points.claims or points.defined):
        return np.where(condition, evaluate(expr.then, frame), evaluate(expr.otherwise, frame))
    saved = points.mask  # only the points that take a side count as its readers
    points.mask = active(points, condition)
    then = evaluate(expr.then, frame)
    points.mask = saved
    points.mask = active(points, ~condition)
    otherwise = evaluate(expr.otherwise, frame)
    points.mask = saved
    return np.where(condition, then, otherwise)


def _cast(expr: Cast, frame: Frame) -> Value:
    return values.convert(evaluate(expr.value, frame), expr.value.dtype, expr.dtype)


def _reinterpret(expr: Reinterpret, frame: Frame) -> Value:
    return values.reinterpret(evaluate(expr.value, frame), expr.dtype)


def _call(expr: Call, frame: Frame) -> Value:
    return values.call(expr.fn, [(evaluate(arg, frame), arg.dtype) for arg in expr.args], expr.dtype)


def _load(expr: Load, frame: Frame) -> Value:
    indices = index_values(expr.indices, frame)
    points, buffer = frame.points, expr.buffer
    if points is not None and buffer in points.private:
        return _load_private(buffer, indices, points)
    if buffer in frame.scattered:
        raise scattered_error(buffer, frame.scattered[buffer])
    if points is not None and buffer.storage in points.claims:
        _claim_read(points, buffer, indices, frame.arrays[buffer].shape)
    return read_elements(array_of(buffer, frame), indices)


def array_of(buffer: Buffer, frame: Frame) -> np.ndarray:
    """The array of a buffer; raises InternalError (TL913) for one that the kernel does not declare."""
    try:
        return frame.arrays[buffer]
    except KeyError:
        raise InternalError(f"the buffer {buffer.name} is not declared by the kernel", code="TL913") from None


def _load_private(buffer: Buffer, indices: list[Value], points: Points) -> Value:
    """An element of the array that each point has for itself."""
    everywhere = [*points.axes, *indices]
    if buffer in points.defined:
        known = read_elements(points.defined[buffer], everywhere) | ~_inside(indices, buffer, points)
        if not np.all(known if points.mask is None else known | ~points.mask):
            raise scattered_error(buffer, None)
    return read_elements(points.private[buffer], everywhere)


def _inside(indices: list[Value], buffer: Buffer, points: Points) -> np.ndarray:
    shape = points.private[buffer].shape[len(points.grid) :]
    inside = clipped(indices, shape)[1]
    return np.broadcast_to(np.bool_(True) if inside is None else inside, points.grid)


def scattered_error(buffer: Buffer, span: Span | None) -> Unsupported:
    return Unsupported(
        f"{buffer.name} has a value of its own in each thread after a T.Parallel wrote it, and is read as one value",
        code="TL372",
        span=span,
        hint="on the CPU a thread's array lives as long as one T.Parallel: write it again before reading, or use a fragment",
    )


def _claim_read(points: Points, buffer: Buffer, indices: list[Value], shape: tuple[int, ...]) -> None:
    safe, inside = clipped(indices, shape)
    where = active(points, inside)
    if where is not None and not where.any():
        return
    element, point = flat_index(safe, shape, points.grid), point_numbers(points.grid)
    keep = slice(None) if where is None else where
    points.claims[buffer.storage].read(element[keep].ravel(), point[keep].ravel())


EXPRESSIONS: dict[type[Expr], Callable[..., Value]] = {
    Const: _const, Var: _var, Unary: _unary, Binary: _binary, Compare: _compare, Select: _select, Cast: _cast,
    Reinterpret: _reinterpret, Call: _call, Load: _load,
}  # fmt: skip
