"""Layouts of loops and fragments that nothing prescribes: those that suit the memory they touch."""
from __future__ import annotations

import math

from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.types import Scope
from tilelang.layout.digits import Layout
from tilelang.layout.spread import spread, transposing
from tilelang.passes.extents import size, sizes
from tilelang.passes.fragment_access import Access, element_accesses, loop_extents

VECTOR_BYTES = 16
MEMORY = (Scope.GLOBAL, Scope.SHARED)


def choose_loop(loop: tile.Parallel, accesses: tuple[Access, ...], threads: int) -> Layout:
    """The layout of a loop, with the widest vectors that its accesses to memory allow.  It covers the whole of every fragment
    that the loop touches, of which the loop may do a part only: the layout is the fragment's, too."""
    shape = list(loop_extents(loop))
    for access in accesses:
        for dim, extent in zip(access.dims, access.buffer.shape, strict=True):
            if dim is not None:
                shape[dim] = max(shape[dim], size(extent))
    return _transposing(loop, threads) or spread(tuple(shape), threads, _vector(loop, tuple(shape), threads))


def choose_fragment(buffer: Buffer, threads: int) -> Layout:
    """The layout of a fragment that is first met as the source of a reduction."""
    shape = sizes(buffer.shape)
    return spread(shape, threads, _fit(VECTOR_BYTES // buffer.dtype.bytes, shape, threads))


def touches_memory(loop: tile.Parallel) -> bool:
    """Whether a loop loads from or stores to shared or global memory."""
    return any(buffer.scope in MEMORY for buffer, _, _ in element_accesses(loop))


def _transposing(loop: tile.Parallel, threads: int) -> Layout | None:
    """The layout of a loop that moves between shared tiles, rows of the one to columns of the other; None for any other loop."""
    last = {}
    for buffer, indices, _ in element_accesses(loop):
        if buffer.scope is not Scope.SHARED or len(indices) < 2:
            return None
        last[buffer] = next((dim for dim, var in enumerate(loop.vars) if indices[-1] is var), None)
    if len(loop.vars) != 2 or set(last.values()) != {0, 1}:
        return None
    rows, columns = loop_extents(loop)
    across = next(buffer for buffer, dim in last.items() if dim == 0)
    return transposing((rows, columns), threads, across.dtype.bytes, 0)


def _vector(loop: tile.Parallel, shape: tuple[int, ...], threads: int) -> int:
    """Elements in a row for one thread: 16 bytes of the narrowest type in memory that the loop touches."""
    accesses = list(element_accesses(loop))
    widths = [buffer.dtype.bytes for buffer, indices, _ in accesses if buffer.scope in MEMORY and indices]
    widths = widths or [buffer.dtype.bytes for buffer, _, _ in accesses] or [4]
    return _fit(VECTOR_BYTES // min(widths), shape, threads)


def _fit(vector: int, shape: tuple[int, ...], threads: int) -> int:
    """Halved until it divides the last extent and gives every thread something to do."""
    while vector > 1 and (shape[-1] % vector or math.prod(shape) // vector < threads):
        vector //= 2
    return max(vector, 1)
