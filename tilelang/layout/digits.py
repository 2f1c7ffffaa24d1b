"""Fragment layouts as mixed-radix digits: where in registers, lanes and warps each element of a tile lives.

Each logical dimension is a list of digits, most significant first; a digit has a size, an axis and a stride on that axis.  The
digits' sizes multiply to the dimension's extent, so any extent with such a factorisation is exact, powers of two or not.

Example, the columns of one 16-bit row of a wgmma accumulator of 24 columns: (3, REGISTER, 4), (4, LANE, 1), (2, REGISTER, 1).
Column 13 = 1 * 8 + 2 * 2 + 1 lives in register 1 * 4 + 1 = 5 of lane 2.
"""
from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from enum import StrEnum

WARP_THREADS = 32


class Axis(StrEnum):
    REGISTER = "register"
    LANE = "lane"
    WARP = "warp"


@dataclass(frozen=True, slots=True)
class Digit:
    size: int
    axis: Axis
    stride: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where one element lives; the thread of the role is 32 * warp + lane."""

    register: int
    lane: int
    warp: int


@dataclass(frozen=True, slots=True)
class Layout:
    """`dims[d]` are the digits of logical dimension d, most significant first.  Raises ValueError for a digit without size or for
    two digits that step on each other (a layout is injective by construction)."""

    dims: tuple[tuple[Digit, ...], ...]

    def __post_init__(self) -> None:
        digits = [digit for dim in self.dims for digit in dim]
        if any(digit.size < 1 or digit.stride < 1 for digit in digits):
            raise ValueError(f"digits have positive sizes and strides: {digits}")
        for axis in Axis:
            reach = 1
            for digit in sorted((d for d in digits if d.axis is axis and d.size > 1), key=lambda d: d.stride):
                if digit.stride < reach or digit.stride % reach:
                    within = f"stride {digit.stride} within the reach {reach} of smaller ones"
                    raise ValueError(f"digits overlap on axis {axis}: {within}")
                reach = digit.stride * digit.size

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(math.prod(digit.size for digit in dim) for dim in self.dims)

    def extent(self, axis: Axis) -> int:
        """One more than the largest position used on an axis."""
        return 1 + sum((d.size - 1) * d.stride for dim in self.dims for d in dim if d.axis is axis)

    def place(self, index: tuple[int, ...]) -> Place:
        """Where the element at `index` lives."""
        at = dict.fromkeys(Axis, 0)
        for position, dim in zip(index, self.dims, strict=True):
            rest = position
            for digit in reversed(dim):
                rest, value = divmod(rest, digit.size)
                at[digit.axis] += value * digit.stride
        return Place(at[Axis.REGISTER], at[Axis.LANE], at[Axis.WARP])

    def element(self, place: Place) -> tuple[int, ...] | None:
        """The index of the element that lives at `place`, None where none does."""
        at = {Axis.REGISTER: place.register, Axis.LANE: place.lane, Axis.WARP: place.warp}
        index = []
        for dim in self.dims:
            position = 0
            for digit in dim:
                position = position * digit.size + at[digit.axis] // digit.stride % digit.size
            index.append(position)
        found = tuple(index)
        return found if self.place(found) == place else None

    def digits_on(self, dim: int, axis: Axis) -> tuple[Digit, ...]:
        """The digits of more than one value that a dimension has on an axis, most significant first."""
        return tuple(digit for digit in real_digits(self.dims[dim]) if digit.axis is axis)

    def vector_digit(self) -> tuple[int, int] | None:
        """The digit whose values are neighbouring registers of a thread and neighbours in their dimension, as (dimension,
        position among its digits of more than one value); None if there is none."""
        for dim, digits in enumerate(self.dims):
            real = real_digits(digits)
            if real and real[-1].axis is Axis.REGISTER and real[-1].stride == 1:
                return dim, len(real) - 1
        return None

    def project(self, dims: tuple[int, ...]) -> Layout:
        """The layout of a tile that has only some of the dimensions (in the order given): the same digits, on the same lanes and
        warps, with registers renumbered without holes.  Lanes and warps of the other dimensions hold copies."""
        kept = tuple(self.dims[dim] for dim in dims)
        registers = sorted((d for dim in kept for d in dim if d.axis is Axis.REGISTER and d.size > 1), key=lambda d: d.stride)
        strides: dict[Digit, int] = {}
        reach = 1
        for digit in registers:
            strides[digit] = reach
            reach *= digit.size
        return Layout(tuple(tuple(_renumbered(digit, strides) for digit in dim) for dim in kept))

    def regroup(self, shape: tuple[int, ...]) -> Layout | None:
        """The layout of the same elements, in the same row-major order, seen as a tile of another `shape`; None where a digit
        would have to be cut at a place that does not divide it."""
        digits = [digit for dim in self.dims for digit in real_digits(dim)]
        dims: list[tuple[Digit, ...]] = []
        for extent in reversed(shape):
            dim = _taken(digits, extent)
            if dim is None:
                return None
            dims.insert(0, dim)
        return None if digits else Layout(tuple(dims))

    def canonical(self) -> Layout:
        """The same layout without digits of size 1, neighbouring digits that count on as one digit."""
        return Layout(tuple(_merged(dim) for dim in self.dims))

    def same_threads(self, other: Layout) -> bool:
        """Whether every thread holds the same elements in both, in whatever registers."""
        full = tuple(range(len(self.dims)))
        if len(self.dims) != len(other.dims):
            return False
        return self.project(full).canonical() == other.project(full).canonical()

    def indices(self) -> itertools.product[tuple[int, ...]]:
        """All indices of the tile, row-major."""
        return itertools.product(*(range(extent) for extent in self.shape))


def real_digits(dim: tuple[Digit, ...]) -> tuple[Digit, ...]:
    """The digits that have more than one value."""
    return tuple(digit for digit in dim if digit.size > 1)


def _taken(digits: list[Digit], extent: int) -> tuple[Digit, ...] | None:
    """The least significant digits of a list that make up `extent`, the last one cut if need be; they leave the list."""
    dim: list[Digit] = []
    rest = extent
    while rest > 1:
        if not digits:
            return None
        digit = digits.pop()
        part = math.gcd(digit.size, rest)
        if part < min(digit.size, rest):
            return None
        if part < digit.size:
            digits.append(Digit(digit.size // part, digit.axis, digit.stride * part))
        dim.insert(0, Digit(part, digit.axis, digit.stride))
        rest //= part
    return tuple(dim)


def _renumbered(digit: Digit, strides: dict[Digit, int]) -> Digit:
    if digit.axis is not Axis.REGISTER:
        return digit
    return Digit(digit.size, Axis.REGISTER, strides.get(digit, 1))


def _merged(dim: tuple[Digit, ...]) -> tuple[Digit, ...]:
    """Digits of one dimension, most significant first, joined where the more significant one continues the other."""
    found: list[Digit] = []
    for digit in real_digits(dim):
        last = found[-1] if found else None
        if last is not None and last.axis is digit.axis and last.stride == digit.stride * digit.size:
            found[-1] = Digit(last.size * digit.size, digit.axis, digit.stride)
        else:
            found.append(digit)
    return tuple(found)
