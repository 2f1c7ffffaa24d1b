"""Extents as numbers: behind `legalize` the shapes of buffers are constants, and so is every region that a plan takes."""
from __future__ import annotations

import math
from collections.abc import Iterable

from tilelang.errors import InternalError
from tilelang.ir.buffer import Extent
from tilelang.ir.expr import Const


def size(extent: Extent) -> int:
    """An extent that is known to be constant.  Raises InternalError (TL906) where it is not."""
    if isinstance(extent, Const):
        return int(extent.value)
    if not isinstance(extent, int):
        raise InternalError(f"an extent is not constant: {extent}", code="TL906")
    return extent


def sizes(extents: Iterable[Extent]) -> tuple[int, ...]:
    """The same of several."""
    return tuple(size(extent) for extent in extents)


def pitches(shape: Iterable[Extent]) -> tuple[int, ...]:
    """How many elements, row-major, a step along each dimension is."""
    extents = sizes(shape)
    return tuple(math.prod(extents[dim + 1 :]) for dim in range(len(extents)))
