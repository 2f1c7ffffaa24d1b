"""Layouts that memory decides: every element in one place at least, whatever the shape; loops that transpose without bank
conflicts."""
from __future__ import annotations

import itertools

import pytest

from tilelang.layout.digits import Axis
from tilelang.layout.spread import spread, transposing
from tilelang.layout.swizzle import PanelLayout, widest_swizzle

SHAPES = [(64, 64), (128, 128), (48, 80), (64,), (1000,), (3, 5), (192, 128), (2, 64, 64), (1, 4096), (7, 1), (1, 1), (229, 8)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("threads", [32, 96, 128, 384])
@pytest.mark.parametrize("vector", [1, 2, 8])
def test_spread_covers_every_element_once(shape: tuple[int, ...], threads: int, vector: int) -> None:
    if shape[-1] % vector:
        with pytest.raises(ValueError, match="vectors"):
            spread(shape, threads, vector)
        return
    layout = spread(shape, threads, vector)
    assert all(covered >= extent for covered, extent in zip(layout.shape, shape, strict=True))
    places = [layout.place(index) for index in itertools.product(*map(range, shape))]
    assert len(set(places)) == len(places)
    assert all(place.lane < 32 and place.warp < threads // 32 for place in places)
    indices = itertools.product(*map(range, shape))
    firsts = [layout.place((*index[:-1], index[-1] // vector * vector)).register for index in indices]
    assert all(place.register - first == index[-1] % vector for place, first, index in zip(
        places, firsts, itertools.product(*map(range, shape)), strict=True
    ))  # fmt: skip


@pytest.mark.parametrize("shape", [(64, 64), (32, 64), (128, 32), (64, 8)], ids=str)
@pytest.mark.parametrize("threads", [32, 128, 384])
@pytest.mark.parametrize("element_bytes", [1, 2, 4])
def test_transposing_has_no_bank_conflicts(shape: tuple[int, int], threads: int, element_bytes: int) -> None:
    layout = transposing(shape, threads, element_bytes, 0)
    if shape[0] % (4 * max(4 // element_bytes, 1)) or shape[1] % 8:
        assert layout is None
        return
    assert layout is not None
    assert layout.shape == shape
    accesses: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for index in layout.indices():
        place = layout.place(index)
        accesses.setdefault((place.register, place.warp), []).append((place.lane, *index))
    vector = max(4 // element_bytes, 1)
    along, across = _tile(shape, element_bytes), _tile((shape[1], shape[0]), element_bytes)
    for (register, _), points in accesses.items():
        assert sorted(lane for lane, _, _ in points) == list(range(32))
        if across.swizzle_bytes == 128 and register % vector == 0:  # one word of each lane
            assert _words_per_bank([across.offset_bytes(j, i) for _, i, j in points]) == 1
        if along.swizzle_bytes == 128:
            assert _words_per_bank([along.offset_bytes(i, j) for _, i, j in points]) <= (2 if element_bytes == 4 else 1)


def _tile(shape: tuple[int, int], element_bytes: int) -> PanelLayout:
    return PanelLayout(*shape, element_bytes, widest_swizzle(shape[1] * element_bytes))


def _words_per_bank(addresses: list[int]) -> int:
    banks: dict[int, set[int]] = {}
    for address in addresses:
        banks.setdefault(address // 4 % 32, set()).add(address // 4)
    return max(len(words) for words in banks.values())


def test_registers_are_the_same_in_every_thread() -> None:
    layout = spread((64, 64), 128, 8)
    assert layout.extent(Axis.REGISTER) == 32
