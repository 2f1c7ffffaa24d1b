"""Fragment layouts of the tensor-core instructions, as data.

PTX ISA, "Register fragments for wgmma.mma_async.m64nNk16": in an m64nN accumulator, thread t holds for register r the element
row 16 * (t / 32) + (t % 32) / 4 + 8 * (r / 2 % 2), column 8 * (r / 4) + 2 * (t % 4) + r % 2.
"""
from __future__ import annotations

from tilelang.layout.digits import Axis, Digit, Layout

WGMMA_M = 64
WGMMA_K_BYTES = 32


def wgmma_accumulator(m_tiles: int, n_tiles: int, n: int) -> Layout:
    """The accumulator of one warpgroup for a tile of (64 * m_tiles) x (n * n_tiles), as m_tiles * n_tiles wgmma accumulators of
    n / 2 registers each, m outermost.  `n` is a multiple of 8."""
    if n % 8:
        raise ValueError(f"wgmma's n is a multiple of 8, not {n}")
    registers = n // 2
    rows = (
        Digit(m_tiles, Axis.REGISTER, registers * n_tiles),
        Digit(4, Axis.WARP, 1),
        Digit(2, Axis.REGISTER, 2),
        Digit(8, Axis.LANE, 4),
    )
    columns = (
        Digit(n_tiles, Axis.REGISTER, registers),
        Digit(n // 8, Axis.REGISTER, 4),
        Digit(4, Axis.LANE, 1),
        Digit(2, Axis.REGISTER, 1),
    )
    return Layout((rows, columns))
