"""Where an element lies, whether it is there at all, and how many neighbours one access can take."""
from __future__ import annotations

from dataclasses import dataclass

from tilelang.ir.arith import INT64, Ranges, bounds, constant_difference, linear_form, simplify
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import u32
from tilelang.ir.expr import INT32, UINT32, Binary, Call, Cast, Const, Expr, binary, compare, convert
from tilelang.ir.types import DType
from tilelang.ir.walk import rewrite
from tilelang.layout.swizzle import PanelLayout
from tilelang.passes.lower_copy import add

MAX_ACCESS_BYTES = 16


@dataclass(frozen=True, slots=True)
class Run:
    """Elements of a buffer that lie at `indices` for e = 0, 1, 2, ... of a vector: the first one's indices, and whether the
    others are its neighbours (`step` 1), the same element (0), or anywhere (None)."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    step: int | None


def run_of(buffer: Buffer, first: tuple[Expr, ...], second: tuple[Expr, ...] | None) -> Run:
    """The run through the elements at `first` (e = 0) and `second` (e = 1; None for a vector of one)."""
    if second is None:
        return Run(buffer, first, None)
    *outer, last = [constant_difference(b, a) for a, b in zip(first, second, strict=True)]
    step = last if last in (0, 1) and all(difference == 0 for difference in outer) else None
    return Run(buffer, first, step)


def is_multiple(value: Expr, unit: int) -> bool:
    """Whether `value` is surely a multiple of `unit`: every term of its linear form is."""
    constant, terms = linear_form(value)
    return constant % unit == 0 and all(coefficient % unit == 0 for coefficient in terms.values())


def width(run: Run, vector: int, alignment_bytes: int, ranges: Ranges) -> int:
    """How many of a vector's elements one access takes: the most that are neighbours, aligned, at most 16 bytes, and all inside
    the buffer or all outside.  1, or the elements of 4, 8 or 16 bytes (of types of at most 4)."""
    size = run.buffer.dtype.bytes
    if size > 4:
        return 1  # a register holds 4 bytes
    count = min(vector, MAX_ACCESS_BYTES // size)
    while count > 1:
        fits = count * size in (4, 8, 16) and vector % count == 0
        if fits and run.step == 1 and int(run.buffer.storage.shape[-1]) % count == 0 and count * size <= alignment_bytes and _aligned(run, count) and _whole(run, vector, count, ranges):
            return count
        count //= 2
    return 1


def _aligned(run: Run, count: int) -> bool:
    """The row-major element number is a multiple of `count`: the last index is, and so is every pitch of a dimension that
    moves."""
    *outer, last = run.indices
    pitch = 1
    for index, extent in zip(reversed(outer), reversed(run.buffer.shape[1:]), strict=True):
        pitch *= int(extent)  # type: ignore[arg-type]
        if pitch % count and not is_multiple(binary("*", index, pitch), count):
            return False
    return is_multiple(last, count)


def _whole(run: Run, vector: int, count: int, ranges: Ranges) -> bool:
    """Each access has all of its `count` elements inside the last dimension, or none: the extent is a multiple of `count`, or the
    whole vector is proved to be inside."""
    extent = int(run.buffer.shape[-1])  # type: ignore[arg-type]
    if extent % count == 0:
        return True
    found = bounds(run.indices[-1], ranges)
    return found is not None and found[0] >= 0 and found[1] + vector <= extent


def inside(buffer: Buffer, indices: tuple[Expr, ...], ranges: Ranges) -> list[Expr]:
    """The conditions, beyond what is proved, for the element to be inside the buffer."""
    conditions = []
    for index, extent in zip(indices, buffer.shape, strict=True):
        found = bounds(index, ranges)
        if found is None or found[0] < 0:
            conditions.append(compare(">=", index, 0))
        if found is None or found[1] >= int(extent):  # type: ignore[arg-type]
            conditions.append(compare("<", index, int(extent)))  # type: ignore[arg-type]
    return conditions


def all_of(conditions: list[Expr]) -> Expr | None:
    """Their conjunction; None if there is nothing to check."""
    found: Expr | None = None
    for condition in conditions:
        if isinstance(condition, Const) and condition.value:
            continue
        found = condition if found is None else binary("and", found, condition)
    return found


def global_offset(buffer: Buffer, indices: tuple[Expr, ...], ranges: Ranges) -> Expr:
    """The element number, row-major: in 32 bits where every possible value is proved to fit, else in 64."""
    pitches = [1]
    for extent in reversed(buffer.shape[1:]):
        pitches.insert(0, pitches[0] * int(extent))  # type: ignore[arg-type]
    if any(index.dtype != INT32 for index in indices):
        return _sum(indices, pitches, INT64)
    narrow = _sum(indices, pitches, INT32)
    found = bounds(narrow, ranges)
    if found is not None and -(2**31) <= found[0] and found[1] < 2**31:
        return simplify(narrow, ranges)
    return _sum(indices, pitches, INT64)


def in_storage(buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The indices into a view's storage of the element at `indices` of the view."""
    if buffer.view_of is None:
        return indices
    number: Expr = Const(0)
    for index, extent in zip(indices, buffer.shape, strict=True):
        number = add(binary("*", number, extent), index)
    found: list[Expr] = []
    for extent in reversed(buffer.view_of.shape):
        found.insert(0, binary("%", number, extent))
        number = binary("//", number, extent)
    return tuple(found)


def _sum(indices: tuple[Expr, ...], pitches: list[int], dtype: DType) -> Expr:
    total: Expr = Const(0, dtype)
    for index, pitch in zip(indices, pitches, strict=True):
        wide = convert(index, dtype)
        total = add(total, wide if pitch == 1 else binary("*", wide, Const(pitch, dtype)))
    return total


def shared_address(layout: PanelLayout, start: Expr, shape: tuple[int, ...], indices: tuple[Expr, ...], ranges: Ranges) -> Expr:
    """The byte address of an element of a shared tile that begins at `start`, swizzled as the layout says."""
    if layout.slots > 1:
        start = add(start, slot_offset(layout, shape, indices, ranges))
        shape, indices = shape[-2:], indices[-2:]
    row: Expr = Const(0)
    for index, extent in zip(indices[:-1], shape[:-1], strict=True):
        row = add(row if isinstance(row, Const) and row.value == 0 else binary("*", row, extent), index)
    column = indices[-1]
    offset = binary("*", row, layout.row_bytes)
    if layout.panels > 1:
        panel = binary("//", column, layout.panel_columns)
        column = binary("%", column, layout.panel_columns)
        offset = add(offset, binary("*", panel, layout.panel_bytes))
    offset = add(offset, binary("*", column, layout.element_bytes) if layout.element_bytes > 1 else column)
    address = add(start, Cast(powers_of_two(simplify(offset, ranges)), UINT32))
    return Call("swizzle", (address, u32(layout.swizzle_bytes)), UINT32) if layout.swizzle_bytes else address


def slot_offset(layout: PanelLayout, shape: tuple[int, ...], indices: tuple[Expr, ...], ranges: Ranges, unit_bytes: int = 1) -> Expr:
    """Where the slot that the indices but the last two name begins, in units of `unit_bytes`, as uint32."""
    slot: Expr = Const(0)
    for index, extent in zip(indices[:-2], shape[:-2], strict=True):
        slot = index if isinstance(slot, Const) and slot.value == 0 else add(binary("*", slot, extent), index)
    offset = powers_of_two(simplify(binary("*", slot, layout.slot_bytes // unit_bytes), ranges))
    return u32(int(offset.value)) if isinstance(offset, Const) else Cast(offset, UINT32)


def powers_of_two(value: Expr) -> Expr:
    """Floor divisions and remainders by powers of two as shifts and masks, which they equal for any sign."""
    return rewrite(value, _shift_or_mask)  # type: ignore[return-value]


def _shift_or_mask(node: object) -> object:
    if not (isinstance(node, Binary) and node.op in ("//", "%") and isinstance(node.b, Const) and node.dtype.is_int):
        return node
    divisor = int(node.b.value)
    if divisor <= 0 or divisor & (divisor - 1):
        return node
    return binary(">>", node.a, divisor.bit_length() - 1) if node.op == "//" else binary("&", node.a, divisor - 1)
