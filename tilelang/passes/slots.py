"""Shared buffers of several tiles, such as (stages, rows, columns): each tile a slot with a panel layout of its own."""
from __future__ import annotations

import math

from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Const


def slots_of(buffer: Buffer) -> int:
    """Tiles of the last two dimensions; 1 for a matrix, and for less."""
    return math.prod(int(extent) for extent in buffer.shape[:-2])  # type: ignore[arg-type]


def tile_of(buffer: Buffer) -> tuple[int, int]:
    """Rows and columns of one of them; a vector is one row."""
    rows, columns = (1, *buffer.shape)[-2:]
    return int(rows), int(columns)  # type: ignore[arg-type]


def is_slot(region: Region) -> bool:
    """Whether the region is one whole tile: `A[k % stages, :, :]`."""
    return is_in_slot(region) and (1, *region.extents)[-2:] == tile_of(region.buffer)


def is_in_slot(region: Region) -> bool:
    """Whether the region lies in one tile, beginning at a row and a column that are constants."""
    leading = all(extent == 1 for extent in region.extents[:-2])
    return leading and region.buffer.view_of is None and all(isinstance(base, Const) for base in region.base[-2:])


def corner(region: Region) -> tuple[int, int]:
    """The first row and column, in its tile, of a region that is in one."""
    row, column = (Const(0), *region.base)[-2:]
    return int(row.value), int(column.value)  # type: ignore[union-attr]
