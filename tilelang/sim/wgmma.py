"""wgmma by bytes: matrix descriptors, the operands they name in shared memory, and the accumulator's registers.

(PTX ISA, "Asynchronous warpgroup-level matrix multiply-accumulate instructions": "Shared memory matrix layout", "Matrix
descriptor format", and the figure of the m64nN accumulator fragment.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tilelang.errors import HazardError, Span
from tilelang.ir.types import DType
from tilelang.sim.memory import CHUNK_BYTES, SWIZZLE_PERIOD_BYTES, Access, SharedMemory, swizzle

M = 64
K_BYTES = 32
"""Extent of one wgmma along k, whatever the operand type."""
_FIELD = 0x3FFF
_RESERVED = 0x3 << 14 | 0x3 << 30 | 0x7 << 46 | 0x3FF << 52


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A decoded matrix descriptor: start address, leading and stride offsets, all in bytes, and the swizzle's span in bytes."""

    start: int
    leading_bytes: int
    stride_bytes: int
    swizzle_bytes: int


def decode(word: int, span: Span | None) -> Descriptor:
    """The fields of a 64-bit descriptor.  Raises HazardError TL822: a field that overflowed into reserved bits, a base offset, or
    no swizzle, none of which this machine models."""
    if word & _RESERVED:
        raise HazardError(f"matrix descriptor {word:#018x} has reserved bits set: a field overflowed", code="TL822", span=span)
    if word >> 49 & 7:
        raise HazardError(
            f"matrix descriptor {word:#018x} has a base offset; tiles must be aligned to it", code="TL822", span=span
        )
    swizzle_bytes = {0: 0, 1: 128, 2: 64, 3: 32}[word >> 62]
    if not swizzle_bytes:
        raise HazardError(f"matrix descriptor {word:#018x} names a layout without swizzle", code="TL822", span=span)
    return Descriptor((word & _FIELD) << 4, (word >> 16 & _FIELD) << 4, (word >> 32 & _FIELD) << 4, swizzle_bytes)


@lru_cache(maxsize=4096)
def _operand_chunks(extent: int, geometry: Descriptor, mn_major: bool) -> np.ndarray:
    """Byte addresses of an operand's 16-byte chunks, `geometry.start` being the first address modulo the swizzle's period.

    K-major: (extent rows, 2 chunks along k); rows of `swizzle_bytes`, groups of eight `stride_bytes` apart.  MN-major: (16 k
    rows, extent / 8 chunks); panels of `swizzle_bytes` along MN `leading_bytes` apart, groups of eight k rows `stride_bytes`
    apart."""
    span = geometry.swizzle_bytes
    if mn_major:
        row, chunk = np.arange(16)[:, None], np.arange(extent // 8)[None, :]
        panel, within = chunk // (span // CHUNK_BYTES), chunk % (span // CHUNK_BYTES)
        linear = panel * geometry.leading_bytes + within * CHUNK_BYTES
    else:
        row, chunk = np.arange(extent)[:, None], np.arange(K_BYTES // CHUNK_BYTES)[None, :]
        linear = chunk * CHUNK_BYTES
    linear = linear + row // 8 * geometry.stride_bytes + row % 8 * span
    return swizzle((geometry.start + linear).astype(np.int64), span)


def operand_chunks(descriptor: Descriptor, extent: int, mn_major: bool) -> np.ndarray:
    """Byte addresses of the 16-byte chunks of the k16 slice that `descriptor` names: (extent, 2) or, MN-major, (16, extent /
    8)."""
    phase = descriptor.start % SWIZZLE_PERIOD_BYTES
    geometry = Descriptor(phase, descriptor.leading_bytes, descriptor.stride_bytes, descriptor.swizzle_bytes)
    return _operand_chunks(extent, geometry, mn_major) + (descriptor.start - phase)


@lru_cache(maxsize=2)
def warps_of_a(mn_major: bool) -> np.ndarray:
    """Which warp of the warpgroup reads each chunk of A: warp w has rows 16 w to 16 w + 15."""
    warps = np.repeat(np.arange(4), 32).reshape(M, 2)
    return (np.repeat(np.arange(4), 2)[None, :] + np.zeros((16, 1), int) if mn_major else warps).reshape(-1)


def operand(
    shared: SharedMemory, descriptor: Descriptor, extent: int, mn_major: bool, dtype: DType, access: Access
) -> np.ndarray:
    """The k16 slice of an operand that `descriptor` names, as float32 of shape (extent, 16) (`extent`: 64 for A, n for B)."""
    starts = operand_chunks(descriptor, extent, mn_major)
    words = shared.read(starts, CHUNK_BYTES, access).reshape(starts.shape[0], -1)
    values = _to_float32(words, dtype)
    return values.T if mn_major else values


def _to_float32(words: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype == "bfloat16":
        return (words.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return words.view(np.float16).astype(np.float32)


def accumulator_order(tile: np.ndarray) -> np.ndarray:
    """A (64, n) tile as the registers of a warpgroup: (n / 2 registers, 128 threads).

    Register r of thread t holds row 16 * (t // 32) + t % 32 // 4 + 8 * (r // 2 % 2), column 8 * (r // 4) + 2 * (t % 4) + r % 2.
    """
    n = tile.shape[1]
    digits = tile.reshape(4, 2, 8, n // 8, 4, 2)  # warp, upper half, row of eight | eight columns, lane % 4, odd
    return digits.transpose(3, 1, 5, 0, 2, 4).reshape(n // 2, 128)


def tile_order(registers: np.ndarray) -> np.ndarray:
    """The inverse of `accumulator_order`: (n / 2 registers, 128 threads) as a (64, n) tile; for n = 16 also the layout of A."""
    columns = registers.shape[0] // 4
    digits = registers.reshape(columns, 2, 2, 4, 8, 4)  # eight columns, upper half, odd | warp, row of eight, lane % 4
    return digits.transpose(3, 1, 4, 0, 5, 2).reshape(64, 8 * columns)
