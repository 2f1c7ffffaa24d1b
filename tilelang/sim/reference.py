"""The meaning of tile IR: a kernel run on NumPy arrays, one block at a time, each statement as `ir/tile.py` describes it.

Everything is exact as far as the IR says so: storage types by `sim/reference_values.py`, one rounding for each operation and for
each tile op, zeros for what lies outside a buffer.  Only the order of a sum is free: `Gemm` adds one product, computed in the
accumulator's type, to the old value; `Reduce` folds halves.  Integer-valued inputs whose sums the accumulator holds give the same
bits in any order.

Buffers of a block begin with recognisable contents (NaN, bytes 0x5A), the same in every block and every run.
"""
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from enum import Enum

import numpy as np

from tilelang.errors import ArgumentError, InternalError, ShapeProblem, TileError, Unsupported
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Expr, Var
from tilelang.ir.text import render_region
from tilelang.ir.types import DType, ReduceKind, Scope, promote
from tilelang.ir.walk import walk
from tilelang.sim import reference_values as values
from tilelang.sim.reference_expr import Frame, array_of, evaluate, index_values, integer, scattered_error, truth
from tilelang.sim.reference_parallel import MAX_WHILE_TRIPS, endless, run_parallel
from tilelang.sim.reference_values import Value

Number = int | float | bool
_BLAS_ONE_THREAD = 2**18  # multiply-adds up to which OpenBLAS does not start threads


class Flow(Enum):
    """How a body ended, where not by reaching its end."""

    BREAK = "break"
    CONTINUE = "continue"


def run(
    kernel: tile.Kernel, arrays: Sequence[np.ndarray | Number], *, blocks: Iterable[tuple[int, ...]] | None = None
) -> None:
    """Runs the kernel on `arrays`, one for each of `kernel.params` in order (a number for a scalar), writing results in place.

    `blocks` chooses blocks by their grid coordinates (x, y, z); all of them by default, x fastest.  Raises ArgumentError for
    arrays that do not fit, HazardError for an endless `while` or points of a T.Parallel that race, Unsupported for what the CPU
    cannot express, ShapeProblem for regions that do not fit at run time."""
    if kernel.is_explicit:
        raise Unsupported(
            f"{kernel.name} is synchronised by hand; what it does depends on what its threads do together, which the simulated "
            "machine runs", code="TL374", span=kernel.span, hint="run what it is compiled to: tilelang.compile(...)(*arrays)",
        )  # fmt: skip
    frame = _bind(kernel, arrays)
    _check_writable(kernel, frame)
    grid = tuple(integer(axis.extent, frame) for axis in kernel.grid)
    with np.errstate(all="ignore"):
        for block in _blocks(grid) if blocks is None else _chosen(blocks, grid):
            _run_block(kernel, frame, block)


def _blocks(grid: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    return (point[::-1] for point in itertools.product(*(range(extent) for extent in reversed(grid))))


def _chosen(blocks: Iterable[tuple[int, ...]], grid: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    for block in blocks:
        if len(block) != len(grid) or not all(0 <= at < extent for at, extent in zip(block, grid, strict=True)):
            raise ArgumentError(f"there is no block {tuple(block)} in a grid of {grid}", code="TL508")
        yield tuple(block)


def _run_block(kernel: tile.Kernel, outer: Frame, block: tuple[int, ...]) -> None:
    frame = Frame(dict(outer.env), dict(outer.arrays), loops=outer.loops)
    for axis, at in zip(kernel.grid, block, strict=True):
        frame.env[axis.var] = values.constant(at, axis.var.dtype)
    _allocate([buffer for buffer in kernel.buffers if buffer not in frame.arrays], frame)
    _run_body(kernel.body, frame)


def _allocate(buffers: list[Buffer], frame: Frame) -> None:
    """Arrays for buffers, and for views the arrays of what they are views of under other extents."""
    for buffer in sorted(buffers, key=lambda buffer: buffer.view_of is not None):
        shape = tuple(max(integer(extent, frame), 0) for extent in buffer.shape)
        viewed = None if buffer.view_of is None else frame.arrays[buffer.view_of]
        frame.arrays[buffer] = values.uninitialised(shape, buffer.dtype) if viewed is None else viewed.reshape(shape)


# ---- arguments ----------------------------------------------------------------------------------------------------------------


def _bind(kernel: tile.Kernel, arrays: Sequence[np.ndarray | Number]) -> Frame:
    """Parameters and the variables in their shapes, with their values; global workspaces."""
    if len(arrays) != len(kernel.params):
        raise ArgumentError(f"{kernel.name} takes {len(kernel.params)} arguments and {len(arrays)} came", code="TL501")
    frame = Frame({}, {})
    for param, given in zip(kernel.params, arrays, strict=True):
        if isinstance(param, Var):
            frame.env[param] = _scalar(param, given)
        else:
            frame.arrays[param] = _array(param, given)
            for extent, size in zip(param.shape, frame.arrays[param].shape, strict=True):
                if isinstance(extent, Var):
                    frame.env.setdefault(extent, values.constant(size, extent.dtype))
    for param in kernel.tensors:
        _check_shape(param, frame)
    in_memory = [buffer for buffer in kernel.buffers if buffer.scope == Scope.GLOBAL]
    for buffer in in_memory:
        viewed = buffer.view_of
        if viewed in frame.arrays and not frame.arrays[viewed].flags.c_contiguous:
            raise ArgumentError(f"{viewed.name}: the kernel views it under other extents, and it is not contiguous", code="TL541")
    _allocate(in_memory, frame)
    return frame


def _scalar(param: Var, given: object) -> Value:
    """A number as the parameter's dtype; it must be in range."""
    number = given.item() if isinstance(given, (np.generic, np.ndarray)) and given.size == 1 else given
    dtype = param.dtype
    fits = isinstance(number, (int, float)) and (
        dtype.is_float or dtype == "bool" or (isinstance(number, int) and dtype.limits[0] <= number <= dtype.limits[1])
    )
    if not fits:
        raise ArgumentError(f"{param.name}: a number of {dtype} is needed and {given!r} came", code="TL507")
    return values.constant(number, dtype)  # type: ignore[arg-type]


def _array(param: Buffer, given: object) -> np.ndarray:
    """The array of a tensor parameter, checked for dtype and rank."""
    if not isinstance(given, np.ndarray):
        raise ArgumentError(f"{param.name}: a NumPy array is needed and {type(given).__name__} came", code="TL502")
    if given.dtype != values.NUMPY[param.dtype]:
        raise ArgumentError(f"{param.name}: dtype {param.dtype} is needed and {given.dtype} came", code="TL503")
    if given.ndim != param.rank:
        raise ArgumentError(f"{param.name}: {param.rank} dimensions are needed and {given.ndim} came", code="TL504")
    return given


def _check_shape(param: Buffer, frame: Frame) -> None:
    shape = frame.arrays[param].shape
    wanted = tuple(integer(extent, frame) for extent in param.shape)
    if shape != wanted:
        raise ArgumentError(f"{param.name}: shape {wanted} is needed and {shape} came", code="TL505")


def _check_writable(kernel: tile.Kernel, frame: Frame) -> None:
    for node in walk(kernel.body):
        target = _target(node)
        buffer = target and target.storage
        if buffer in frame.arrays and not frame.arrays[buffer].flags.writeable:
            raise ArgumentError(f"{buffer.name}: the kernel writes it and the array is read-only", code="TL506")


def _target(node: object) -> Buffer | None:
    """The buffer that a statement writes."""
    if isinstance(node, tile.Store):
        return node.buffer
    if isinstance(node, (tile.Copy, tile.Fill, tile.Reduce)):
        return node.dst.buffer
    return node.c.buffer if isinstance(node, tile.Gemm) else None


# ---- control flow -------------------------------------------------------------------------------------------------------------


def _run_body(body: tile.Body, frame: Frame) -> Flow | None:
    for stmt in body:
        try:
            flow = STATEMENTS[type(stmt)](stmt, frame)
        except TileError as error:
            error.span = error.span or stmt.span
            raise
        if flow is not None:
            return flow
    return None


def _let(stmt: tile.Let, frame: Frame) -> None:
    frame.env[stmt.var] = evaluate(stmt.value, frame)


def _store(stmt: tile.Store, frame: Frame) -> None:
    array = array_of(stmt.buffer, frame)
    value = values.convert(evaluate(stmt.value, frame), stmt.value.dtype, stmt.buffer.dtype)
    indices = tuple(int(index) for index in index_values(stmt.indices, frame))
    if all(0 <= index < extent for index, extent in zip(indices, array.shape, strict=True)):
        array[indices] = value
    if array.size == 1:
        frame.scattered.pop(stmt.buffer, None)


def _for(stmt: tile.For, frame: Frame) -> None:
    kind = values.NUMPY[stmt.var.dtype].type
    for value in range(integer(stmt.start, frame), integer(stmt.stop, frame), stmt.step):
        frame.env[stmt.var] = kind(value)
        if _run_body(stmt.body, frame) is Flow.BREAK:
            return


def _while(stmt: tile.While, frame: Frame) -> None:
    for _ in range(MAX_WHILE_TRIPS):
        if not truth(stmt.condition, frame) or _run_body(stmt.body, frame) is Flow.BREAK:
            return
    raise endless(stmt)


def _if(stmt: tile.If, frame: Frame) -> Flow | None:
    return _run_body(stmt.then if truth(stmt.condition, frame) else stmt.otherwise, frame)


# ---- tile ops -----------------------------------------------------------------------------------------------------------------


class _Box:
    """A region with its bounds as numbers: where it lies in the array, clipped, and where the clipped part lies in the tile."""

    __slots__ = ("array", "extents", "inner", "outer", "region", "whole")

    def __init__(self, region: Region, frame: Frame) -> None:
        self.region, self.array = region, array_of(region.buffer, frame)
        base = [integer(index, frame) for index in region.base]
        self.extents = tuple(max(integer(extent, frame), 0) for extent in region.extents)
        starts = [min(max(at, 0), size) for at, size in zip(base, self.array.shape, strict=True)]
        ends = [min(max(at + n, 0), size) for at, n, size in zip(base, self.extents, self.array.shape, strict=True)]
        self.outer = tuple(slice(a, max(a, b)) for a, b in zip(starts, ends, strict=True))
        self.inner = tuple(slice(s.start - at, s.stop - at) for s, at in zip(self.outer, base, strict=True))
        self.whole = tuple(s.stop - s.start for s in self.outer) == self.extents

    def read(self) -> np.ndarray:
        """The elements, shape `extents`, zeros outside the buffer (a view where nothing is outside)."""
        if self.whole:
            return self.array[self.outer]
        tile_values = np.zeros(self.extents, self.array.dtype)
        if 0 not in self.array[self.outer].shape:
            tile_values[self.inner] = self.array[self.outer]
        return tile_values

    def write(self, value: Value) -> None:
        """Stores an array of shape `extents`, or one value; what lies outside the buffer is dropped."""
        if 0 not in self.array[self.outer].shape:
            self.array[self.outer] = value[self.inner] if np.ndim(value) and not self.whole else value

    def dims(self) -> tuple[int, ...]:
        """The extents of the tile: those that are not the constant 1."""
        return tuple(n for n, extent in zip(self.extents, self.region.extents, strict=True) if not _one(extent))

    def matrix(self) -> tuple[int, int]:
        """Rows and columns: the last two dimensions if the others are 1, else the two that are not 1."""
        lead, last = self.extents[:-2], self.extents[-2:]
        dims = last if len(last) == 2 and all(n == 1 for n in lead) else self.dims()
        if len(dims) != 2:
            raise ShapeProblem(f"{render_region(self.region)} is not a matrix", code="TL204")
        return dims


def _one(extent: int | Expr) -> bool:
    return isinstance(extent, int) and extent == 1


def _read_box(region: Region, frame: Frame) -> _Box:
    """A box that is read: not a LOCAL or VAR that differs between threads."""
    if region.buffer in frame.scattered:
        raise scattered_error(region.buffer, frame.scattered[region.buffer])
    return _Box(region, frame)


def _write_box(box: _Box, value: Value, frame: Frame) -> None:
    box.write(value)
    if box.extents == box.array.shape and box.whole:
        frame.scattered.pop(box.region.buffer, None)


def _copy(stmt: tile.Copy, frame: Frame) -> None:
    src, dst = _read_box(stmt.src, frame), _Box(stmt.dst, frame)
    if src.dims() != dst.dims():
        raise ShapeProblem(f"a copy of {src.dims()} into {dst.dims()} elements", code="TL205")
    value = values.convert(src.read(), stmt.src.buffer.dtype, stmt.dst.buffer.dtype)
    _write_box(dst, value.reshape(dst.extents), frame)


def _fill(stmt: tile.Fill, frame: Frame) -> None:
    value = values.convert(evaluate(stmt.value, frame), stmt.value.dtype, stmt.dst.buffer.dtype)
    _write_box(_Box(stmt.dst, frame), value, frame)


def _gemm(stmt: tile.Gemm, frame: Frame) -> None:
    c = _Box(stmt.c, frame)
    a, b = _matrix(stmt.a, stmt.transpose_a, frame), _matrix(stmt.b, stmt.transpose_b, frame)
    if a.shape[1] != b.shape[0] or (a.shape[0], b.shape[1]) != c.matrix():
        raise ShapeProblem(f"a gemm of {a.shape} and {b.shape} into {c.matrix()}", code="TL204")
    clear = stmt.clear_accum if isinstance(stmt.clear_accum, bool) else bool(truth(stmt.clear_accum, frame))
    old = None if clear else _read_box(stmt.c, frame).read().reshape(c.matrix())
    c.write(_accumulate(stmt, a, b, old).reshape(c.extents))


def _matrix(region: Region, transpose: bool, frame: Frame) -> np.ndarray:
    box = _read_box(region, frame)
    matrix = box.read().reshape(box.matrix())
    return matrix.T if transpose else matrix


def _accumulate(stmt: tile.Gemm, a: np.ndarray, b: np.ndarray, old: np.ndarray | None) -> np.ndarray:
    """`old + a @ b` in the accumulator's dtype: floats in float32 (float64 for a float64 accumulator), integers modulo 2^64."""
    kinds, dtype = (stmt.a.buffer.dtype, stmt.b.buffer.dtype), stmt.c.buffer.dtype
    if dtype.is_float:
        wide = values.wide(dtype)
        product = _product(a.astype(values.NUMPY[wide]), b.astype(values.NUMPY[wide]))
        total = product if old is None else old.astype(product.dtype) + product
        return values.convert(total, wide, dtype)
    if any(kind.is_float for kind in kinds):
        raise InternalError(f"a gemm of {kinds[0]} and {kinds[1]} into {dtype}", code="TL915")
    exact = max(kind.bits for kind in kinds) <= 16 and a.shape[1] < 2**20  # |sum| < 2^52: BLAS is exact, and faster
    kind = np.float64 if exact else np.int64
    product = _product(a.astype(kind), b.astype(kind)).astype(np.int64)
    total = product if old is None else old.astype(np.int64) + product
    return total.astype(values.NUMPY[dtype])


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`a @ b` by bands of rows so small that BLAS stays on this thread: on tiles its threads cost more than they save (13 times
    slower on two busy cores)."""
    rows = max(16, _BLAS_ONE_THREAD // max(1, b.size))
    product = np.empty((a.shape[0], b.shape[1]), a.dtype)
    for at in range(0, a.shape[0], rows):
        np.matmul(a[at : at + rows], b, out=product[at : at + rows])
    return product


def _reduce(stmt: tile.Reduce, frame: Frame) -> None:
    src, dst = _read_box(stmt.src, frame), _Box(stmt.dst, frame)
    dim = stmt.dim % len(src.extents)
    kept = src.extents[:dim] + src.extents[dim + 1 :]
    if [n for n in kept if n != 1] != [n for n in dst.extents if n != 1]:
        raise ShapeProblem(f"a reduction of {src.extents} over dimension {dim} into {dst.extents}", code="TL208")
    source, target = stmt.src.buffer.dtype, stmt.dst.buffer.dtype
    common = promote(source, target)
    common = values.wide(common) if common.is_float else values.INT32 if common == "bool" else common
    combine, first, absolute = _fold_of(stmt.kind, common)
    items = np.moveaxis(values.convert(src.read(), source, common), dim, 0)
    result = _fold(combine, np.abs(items) if absolute else items, first).reshape(dst.extents)
    if not stmt.clear:
        old = values.convert(_read_box(stmt.dst, frame).read(), target, common)
        result = combine(old, result)  # abssum and absmax take src's absolute values, not the old one's
    _write_box(dst, values.convert(result, common, target), frame)


def _fold_of(kind: ReduceKind, dtype: DType) -> tuple[Callable[[Value, Value], Value], Value, bool]:
    """(operation, its neutral value, whether of absolute values)."""
    absolute = kind in (ReduceKind.ABSSUM, ReduceKind.ABSMAX)
    if kind in (ReduceKind.SUM, ReduceKind.ABSSUM):
        return np.add, values.constant(0, dtype), absolute
    smallest: Number = -float("inf") if dtype.is_float else dtype.limits[0]
    largest: Number = float("inf") if dtype.is_float else dtype.limits[1]
    if kind == ReduceKind.MIN:
        return (values.minimum if dtype.is_float else np.minimum), values.constant(largest, dtype), absolute
    neutral = values.constant(0 if absolute else smallest, dtype)
    return (values.maximum if dtype.is_float else np.maximum), neutral, absolute


def _fold(combine: Callable[[Value, Value], Value], items: np.ndarray, first: Value) -> np.ndarray:
    """All of axis 0 combined, by halves: the same bits on every machine, and a small error for sums."""
    result = np.full(items.shape[1:], first, items.dtype)
    while len(items) > 1:
        half = len(items) // 2
        if len(items) % 2:
            result = combine(result, items[-1])
        items = combine(items[:half], items[half : 2 * half])
    return combine(result, items[0]) if len(items) else result


def _by_hand(stmt: tile.Stmt, frame: Frame) -> None:
    """What threads do together has no meaning in one order of statements."""
    raise InternalError(f"{type(stmt).__name__} in a kernel that is run statement by statement", code="TL915")


def _orders_threads(stmt: tile.Stmt, frame: Frame) -> None:
    """Nothing: one statement comes after the other here."""


STATEMENTS: dict[type[tile.Stmt], Callable[..., Flow | None]] = {
    tile.Let: _let, tile.Store: _store, tile.For: _for, tile.Parallel: run_parallel, tile.While: _while, tile.If: _if,
    tile.Break: lambda stmt, frame: Flow.BREAK, tile.Continue: lambda stmt, frame: Flow.CONTINUE,
    tile.Copy: _copy, tile.Fill: _fill, tile.Gemm: _gemm, tile.Reduce: _reduce, tile.TmaCopy: _copy,
    tile.SyncThreads: _orders_threads, tile.FenceProxyAsync: _orders_threads, tile.SetMaxRegisters: _orders_threads,
    tile.Warpgroups: _by_hand, tile.MbarrierArrive: _by_hand, tile.MbarrierWait: _by_hand,
}  # fmt: skip
