"""Fragment layouts of the tensor-core instructions, as data.

PTX ISA, "Register fragments for wgmma.mma_async.m64nNk16": in an m64nN accumulator, thread t holds for register r the element
row 16 * (t / 32) + (t % 32) / 4 + 8 * (r / 2 % 2), column 8 * (r / 4) + 2 * (t % 4) + r % 2.
"""
from __future__ import annotations

from tilelang.layout.digits import Axis, Digit, Layout

WARPGROUP_THREADS = 128
WGMMA_M = 64
WGMMA_K_BYTES = 32


def wgmma_accumulator(m_tiles: int, n_tiles: int, n: int, warpgroups_m: int = 1, warpgroups_n: int = 1) -> Layout:
    """The accumulator of a tile of (64 * m_tiles * warpgroups_m) x (n * n_tiles * warpgroups_n): for each warpgroup m_tiles *
    n_tiles wgmma accumulators of n / 2 registers, m outermost; warpgroups in a grid with n fastest.  `n` is a multiple of 8."""
    if n % 8:
        raise ValueError(f"wgmma's n is a multiple of 8, not {n}")
    registers = n // 2
    rows = (
        Digit(warpgroups_m, Axis.WARP, 4 * warpgroups_n),
        Digit(m_tiles, Axis.REGISTER, registers * n_tiles),
        Digit(4, Axis.WARP, 1),
        Digit(2, Axis.REGISTER, 2),
        Digit(8, Axis.LANE, 4),
    )
    columns = (
        Digit(warpgroups_n, Axis.WARP, 4),
        Digit(n_tiles, Axis.REGISTER, registers),
        Digit(n // 8, Axis.REGISTER, 4),
        Digit(4, Axis.LANE, 1),
        Digit(2, Axis.REGISTER, 1),
    )
    return Layout((rows, columns))


def wgmma_operand_a(m_tiles: int, k: int, warpgroups_m: int = 1, warpgroups_n: int = 1) -> Layout:
    """A 16-bit A operand in registers, (64 * m_tiles * warpgroups_m) x k: the accumulator's pattern with k columns, of which
    every 16 are one instruction's 8 elements; warpgroups along n hold copies.  (PTX ISA, "Register fragments for wgmma", matrix
    A.)"""
    whole = wgmma_accumulator(m_tiles, 1, k, warpgroups_m, warpgroups_n)
    return Layout((whole.dims[0], whole.dims[1][1:]))
