"""Where an element lies, whether it is there at all, and how many neighbours one access can take."""
from __future__ import annotations

from dataclasses import dataclass

from tilelang.ir.arith import INT64, Ranges, bounds, constant_difference, linear_form, simplify
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import INT32, Const, Expr, binary, compare, convert
from tilelang.ir.types import DType
from tilelang.layout.swizzle import CHUNK_BYTES, PanelLayout, swizzle_mask
from tilelang.passes.extents import pitches, size, sizes
from tilelang.passes.lower_arith import add, powers_of_two, quotient, remainder, times, unsigned

ACCESS_BYTES = (4, 8, 16)
PATTERN_BYTES = 128  # of memory in which chunks have one pattern
PATTERN_ROWS = 8  # after so many rows of 128 bytes it begins again
REGISTER_BYTES = 4


@dataclass(frozen=True, slots=True)
class Run:
    """Elements of a buffer that lie at `indices` for e = 0, 1, 2, ... of a vector: the first one's indices, and whether the
    others are its neighbours (`step` 1), the same element (0), or anywhere (None)."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    step: int | None


def run_of(buffer: Buffer, points: list[tuple[Expr, ...]]) -> Run:
    """The run through the elements at the points of a vector."""
    steps = {_step(points[0], point, e) for e, point in enumerate(points[1:], 1)}
    return Run(buffer, points[0], steps.pop() if len(steps) == 1 else None)


def _step(first: tuple[Expr, ...], point: tuple[Expr, ...], e: int) -> int | None:
    """1 if the e-th point is `e` elements behind the first one along the last dimension, 0 if it is the same."""
    *outer, last = [constant_difference(b, a) for a, b in zip(first, point, strict=True)]
    if any(difference != 0 for difference in outer):
        return None
    return {0: 0, e: 1}.get(last) if last is not None else None


def is_multiple(value: Expr, unit: int) -> bool:
    """Whether `value` is surely a multiple of `unit`: every term of its linear form is."""
    constant, terms = linear_form(value)
    return constant % unit == 0 and all(coefficient % unit == 0 for coefficient in terms.values())


def width(run: Run, vector: int, alignment_bytes: int, ranges: Ranges) -> int:
    """How many of a vector's elements one access takes: the most that are neighbours, aligned, at most 16 bytes, and all inside
    the buffer or all outside.  1, or the elements of 4, 8 or 16 bytes (of types of at most 4)."""
    element_bytes = run.buffer.dtype.bytes
    if run.step != 1 or element_bytes > REGISTER_BYTES:
        return 1
    row = size(run.buffer.storage.shape[-1])
    for access_bytes in reversed(ACCESS_BYTES):
        count = access_bytes // element_bytes
        fits = access_bytes <= alignment_bytes and vector % count == 0 and row % count == 0
        if fits and _aligned(run, count) and _whole(run, vector, count, ranges):
            return max(count, 1)
    return 1


def _aligned(run: Run, count: int) -> bool:
    """The row-major element number is a multiple of `count`: the last index is, and so is every pitch of a dimension that
    moves."""
    *outer, last = run.indices
    steps = (times(index, pitch) for index, pitch in zip(outer, pitches(run.buffer.shape), strict=False))
    return is_multiple(last, count) and all(is_multiple(step, count) for step in steps)


def _whole(run: Run, vector: int, count: int, ranges: Ranges) -> bool:
    """Each access has all of its `count` elements inside the last dimension, or none: the extent is a multiple of `count`, or the
    whole vector is proved to be inside."""
    extent = size(run.buffer.shape[-1])
    if extent % count == 0:
        return True
    found = bounds(run.indices[-1], ranges)
    return found is not None and found[0] >= 0 and found[1] + vector <= extent


def inside(buffer: Buffer, indices: tuple[Expr, ...], ranges: Ranges) -> list[Expr]:
    """The conditions, beyond what is proved, for the element to be inside the buffer."""
    conditions = []
    for index, extent in zip(indices, sizes(buffer.shape), strict=True):
        found = bounds(index, ranges)
        if found is None or found[0] < 0:
            conditions.append(compare(">=", index, 0))
        if found is None or found[1] >= extent:
            conditions.append(compare("<", index, extent))
    return conditions


def global_offset(buffer: Buffer, indices: tuple[Expr, ...], ranges: Ranges) -> Expr:
    """The element number, row-major: in 32 bits where every possible value is proved to fit, else in 64."""
    if any(index.dtype != INT32 for index in indices):
        return _number(buffer, indices, INT64)
    narrow = _number(buffer, indices, INT32)
    found = bounds(narrow, ranges)
    low, high = INT32.limits
    if found is not None and found[0] >= low and found[1] <= high:
        return simplify(narrow, ranges)
    return _number(buffer, indices, INT64)


def _number(buffer: Buffer, indices: tuple[Expr, ...], dtype: DType) -> Expr:
    """The row-major element number, computed in `dtype`."""
    total: Expr = Const(0, dtype)
    for index, pitch in zip(indices, pitches(buffer.shape), strict=True):
        total = add(total, times(convert(index, dtype), pitch))
    return total


def in_storage(buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The indices into a view's storage of the element at `indices` of the view."""
    if buffer.view_of is None:
        return indices
    number: Expr = Const(0)
    for index, extent in zip(indices, sizes(buffer.shape), strict=True):
        number = add(times(number, extent), index if index.dtype == INT64 else convert(index, INT32))
    found: list[Expr] = []
    for extent in reversed(sizes(buffer.view_of.shape)):
        number, last = _divided(number, extent)
        found.insert(0, last)
    return tuple(found)


def shared_address(layout: PanelLayout, start: Expr, shape: tuple[int, ...], indices: tuple[Expr, ...], ranges: Ranges) -> Expr:
    """The byte address of an element of a shared tile that begins at `start`, swizzled as the layout says: the pieces apart, so
    that what differs by whole rows and panels differs by constants."""
    indices = tuple(convert(index, INT32) for index in indices)
    if layout.slots > 1:
        start = add(start, slot_offset(layout, shape, indices, ranges))
        shape, indices = shape[-2:], indices[-2:]
    row: Expr = Const(0)
    for index, extent in zip(indices[:-1], shape[:-1], strict=True):
        row = add(times(row, extent), index)
    panel, column = _divided(indices[-1], layout.panel_columns) if layout.panels > 1 else (Const(0), indices[-1])
    offset, byte = add(times(row, layout.row_bytes), times(panel, layout.panel_bytes)), times(column, layout.element_bytes)
    if not layout.swizzle_bytes:
        return add(start, _bytes(add(offset, byte), ranges))
    line = row if layout.rows % PATTERN_ROWS == 0 else add(times(panel, layout.rows), row)
    swizzled = binary("^", simplify(byte, ranges), times(swizzle_pattern(layout, line), CHUNK_BYTES))
    return add(add(start, _bytes(offset, ranges)), _bytes(swizzled, ranges))


def _bytes(value: Expr, ranges: Ranges) -> Expr:
    return unsigned(powers_of_two(simplify(value, ranges)))


def swizzle_pattern(layout: PanelLayout, line: Expr) -> Expr:
    """What the numbers of 16-byte chunks are XORed with in the `line`-th row from the tile's start, counted through its panels:
    all rows that make 128 bytes have the same."""
    return remainder(quotient(line, max(PATTERN_BYTES // layout.row_bytes, 1)), swizzle_mask(layout.swizzle_bytes) + 1)


def _divided(value: Expr, divisor: int) -> tuple[Expr, Expr]:
    """Quotient and remainder, which `simplify` knows in this form."""
    return binary("//", value, divisor), binary("%", value, divisor)


def slot_offset(
    layout: PanelLayout, shape: tuple[int, ...], indices: tuple[Expr, ...], ranges: Ranges, unit_bytes: int = 1
) -> Expr:
    """Where the slot that the indices but the last two name begins, in units of `unit_bytes`, as uint32."""
    slot: Expr = Const(0)
    for index, extent in zip(indices[:-2], shape[:-2], strict=True):
        slot = add(times(slot, extent), convert(index, INT32))
    return unsigned(powers_of_two(simplify(times(slot, layout.slot_bytes // unit_bytes), ranges)))
