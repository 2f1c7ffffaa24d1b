"""The layout of a tile that no instruction prescribes: neighbouring elements in a thread, neighbouring vectors in a warp.

Along the last dimension a thread holds vectors of `vector` elements; lanes, then warps, go over the vectors of a row and then
over rows, so that a warp touches whole runs of memory.  What is left over is repeated in registers.  Dimensions that do not
divide are padded: the layout covers a larger box, whose extra elements nobody may store.

Example: 64 x 64 over 128 threads with vectors of 8: columns are (8 lanes, 8 registers), rows (4 registers, 4 warps, 4 lanes).
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from tilelang.layout.digits import WARP_THREADS, Axis, Digit, Layout


@dataclass(slots=True)
class _Pool:
    """Lanes and warps not handed out yet, and the stride the next ones get."""

    lanes: int
    warps: int
    lane_stride: int = 1
    warp_stride: int = 1

    def take_lanes(self, count: int) -> Digit:
        digit = Digit(count, Axis.LANE, self.lane_stride)
        self.lanes //= count
        self.lane_stride *= count
        return digit

    def take_warps(self, count: int) -> Digit:
        digit = Digit(count, Axis.WARP, self.warp_stride)
        self.warps //= count
        self.warp_stride *= count
        return digit


def spread(shape: tuple[int, ...], threads: int, vector: int) -> Layout:
    """A layout of `shape` over `threads` (a multiple of 32).  `vector` divides the last extent."""
    if threads % WARP_THREADS or shape[-1] % vector:
        raise ValueError(f"{threads} threads, vectors of {vector} for {shape}")
    pool = _Pool(WARP_THREADS, threads // WARP_THREADS)
    dims: list[tuple[Digit, ...]] = []
    register_stride = vector
    for position, extent in reversed(list(enumerate(shape))):
        last = position == len(shape) - 1
        count = extent // vector if last else extent
        lanes = pool.take_lanes(_lanes(count, pool.lanes, pad=position == 0))
        count = -(-count // lanes.size)
        warps = pool.take_warps(_warps(count, pool.warps, pad=position == 0) if pool.lanes == 1 else 1)
        count = -(-count // warps.size)
        outer = Digit(count, Axis.REGISTER, register_stride)
        register_stride *= count
        inner = (Digit(vector, Axis.REGISTER, 1),) if last else ()
        dims.insert(0, (outer, warps, lanes, *inner))
    return Layout(tuple(dims))


def transposing(shape: tuple[int, int], threads: int, element_bytes: int, inner: int) -> Layout | None:
    """A layout for a loop over two swizzled tiles of which one is walked along its rows and the other across: free of bank
    conflicts, but for the rows of 4-byte elements, where two lanes share a bank.

    A warp does blocks of 8 points along one dimension and, along dimension `inner`, 4 lanes of 4 bytes each: 8 rows of one tile,
    whose swizzles differ, and at most 8 rows of the other.  None where the extents are no multiples of that."""
    vector = max(4 // element_bytes, 1)
    sizes = {inner: (4, 8, vector), 1 - inner: (8, 1, 1)}  # lanes, their stride, elements of a lane
    if any(shape[dim] % (lanes * size) for dim, (lanes, _, size) in sizes.items()):
        return None
    warps, register_stride, warp_stride = threads // WARP_THREADS, vector, 1
    dims: dict[int, tuple[Digit, ...]] = {}
    for dim in (1 - inner, inner):
        lanes, stride, size = sizes[dim]
        count = shape[dim] // (lanes * size)
        here = math.gcd(warps // warp_stride, count)
        outer = Digit(count // here, Axis.REGISTER, register_stride)
        dims[dim] = (outer, Digit(here, Axis.WARP, warp_stride), Digit(lanes, Axis.LANE, stride), Digit(size, Axis.REGISTER, 1))
        register_stride *= count // here
        warp_stride *= here
    return Layout((dims[0], dims[1]))


def _lanes(count: int, available: int, pad: bool) -> int:
    """How many lanes go along a dimension of `count` vectors: a power of two that divides it; all that are useful, padding, if
    the dimension is the last to be served or dividing would leave most lanes idle."""
    exact = min(available, count & -count)
    useful = min(available, 1 << (count - 1).bit_length())
    return useful if pad or exact * 4 <= useful else exact


def _warps(count: int, available: int, pad: bool) -> int:
    fitting = next(warps for warps in range(available, 0, -1) if available % warps == 0 and (count % warps == 0 or warps == 1))
    useful = next(warps for warps in range(available, 0, -1) if available % warps == 0 and warps <= max(count, 1))
    return useful if pad else fitting
