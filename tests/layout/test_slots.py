"""Shared buffers of several tiles: each slot is aligned and laid out like the first."""
from __future__ import annotations

import pytest

from tilelang.layout.swizzle import PanelLayout


@pytest.mark.parametrize("slots", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("rows", "columns", "element", "swizzle"), [(8, 64, 2, 128), (12, 32, 2, 64), (3, 128, 2, 128), (5, 20, 4, 0), (1, 8, 4, 0)]
)
def test_slots_do_not_meet(rows: int, columns: int, element: int, swizzle: int, slots: int) -> None:
    one, many = PanelLayout(rows, columns, element, swizzle), PanelLayout(rows, columns, element, swizzle, slots)
    assert many.size_bytes == slots * many.slot_bytes
    assert slots == 1 or many.slot_bytes % many.alignment_bytes == 0
    places = {
        slot * many.slot_bytes + many.offset_bytes(row, column) + byte
        for slot in range(slots) for row in range(rows) for column in range(columns) for byte in range(element)
    }  # fmt: skip
    assert len(places) == slots * rows * columns * element
    assert max(places) < many.size_bytes
    for row in range(rows):
        assert [many.offset_bytes(row, c) for c in range(columns)] == [one.offset_bytes(row, c) for c in range(columns)]


def test_one_slot_is_the_tile_itself() -> None:
    assert PanelLayout(5, 20, 4, 0).slot_bytes == PanelLayout(5, 20, 4, 0).size_bytes == 400
    assert PanelLayout(5, 20, 4, 0, 2).slot_bytes == 512


def test_text() -> None:
    assert str(PanelLayout(64, 128, 2, 128, 3)) == "3 slots of 64 x 128, 2 panels of 64 columns, 128-byte swizzle"
