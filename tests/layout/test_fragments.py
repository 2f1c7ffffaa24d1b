"""The wgmma accumulator's layout against the formula of the PTX ISA, for every instruction shape."""
from __future__ import annotations

import numpy as np
import pytest

from tilelang.layout.digits import Axis, Layout, Place
from tilelang.layout.fragments import WGMMA_M, wgmma_accumulator

WIDTHS = range(8, 257, 8)


def isa_element(thread: int | np.ndarray, register: int | np.ndarray) -> tuple[int | np.ndarray, int | np.ndarray]:
    """PTX ISA, "Register fragments for wgmma.mma_async.m64nNk16", figure of the accumulator D: in each warp, four lanes share a
    row of 8 x 8 blocks; a thread's registers come in pairs of columns, then rows 0-7 and 8-15, then the next 8 columns."""
    warp, lane = thread // 32, thread % 32
    group, member = lane // 4, lane % 4
    pair, column = register // 2, register % 2
    return 16 * warp + 8 * (pair % 2) + group, 8 * (pair // 2) + 2 * member + column


def threads_and_registers(layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """For every element of the tile, the thread and the register that hold it."""
    place = layout.place(tuple(np.indices(layout.shape)))  # type: ignore[arg-type] - digits work on whole arrays as on numbers
    zeros = np.zeros(layout.shape, int)
    return place.warp * 32 + place.lane + zeros, place.register + zeros


@pytest.mark.parametrize("n", WIDTHS)
@pytest.mark.parametrize(("m_tiles", "n_tiles"), [(1, 1), (2, 1), (1, 2), (3, 1), (2, 3)])
def test_every_element_is_where_the_isa_says(m_tiles: int, n_tiles: int, n: int) -> None:
    layout = wgmma_accumulator(m_tiles, n_tiles, n)
    assert layout.shape == (WGMMA_M * m_tiles, n * n_tiles)
    assert [layout.extent(axis) for axis in (Axis.REGISTER, Axis.LANE, Axis.WARP)] == [n // 2 * m_tiles * n_tiles, 32, 4]
    thread, register = threads_and_registers(layout)
    tile, within = register // (n // 2), register % (n // 2)
    row, column = isa_element(thread, within)
    rows, columns = np.indices(layout.shape)
    assert np.array_equal(tile // n_tiles * WGMMA_M + row, rows)
    assert np.array_equal(tile % n_tiles * n + column, columns)


@pytest.mark.parametrize("n", [8, 24, 104, 256])
def test_no_register_is_idle(n: int) -> None:
    """Element by element with plain numbers, in both directions."""
    layout = wgmma_accumulator(2, 2, n)
    for thread in (0, 1, 31, 32, 77, 127):
        for register in range(layout.extent(Axis.REGISTER)):
            place = Place(register, thread % 32, thread // 32)
            index = layout.element(place)
            assert index is not None
            assert layout.place(index) == place


def test_an_example_by_hand() -> None:
    """Thread 77 is lane 13 of warp 2: rows 32 + 3 and 32 + 11, columns 2 and 3 of each block of 8."""
    layout = wgmma_accumulator(1, 1, 16)
    found = [layout.element(Place(register, 13, 2)) for register in range(8)]
    assert found == [(35, 2), (35, 3), (43, 2), (43, 3), (35, 10), (35, 11), (43, 10), (43, 11)]


@pytest.mark.parametrize("n", [1, 4, 12, 100])
def test_widths_that_are_no_instruction_are_refused(n: int) -> None:
    with pytest.raises(ValueError, match=f"wgmma's n is a multiple of 8, not {n}"):
        wgmma_accumulator(1, 1, n)


@pytest.mark.parametrize(("m_tiles", "n_tiles", "n"), [(0, 1, 8), (1, 0, 8), (1, 1, 0), (-1, 1, 8)])
def test_empty_tiles_are_refused(m_tiles: int, n_tiles: int, n: int) -> None:
    with pytest.raises(ValueError, match="positive sizes"):
        wgmma_accumulator(m_tiles, n_tiles, n)
