"""PanelLayout and its swizzles over their whole domain, against the chunk tables of the PTX ISA."""
from __future__ import annotations

import itertools

import pytest

from tilelang.layout.swizzle import PanelLayout, swizzle_address, swizzle_mask, widest_swizzle

SWIZZLES = (0, 32, 64, 128)
LINE_BYTES = 128

# PTX ISA, "Tensor swizzling modes": for each line of 128 bytes (counted from an aligned start, and repeating), which 16-byte
# chunk of the row-major tile stands at chunk position 0, 1, ... 7.
CHUNK_TABLES = {
    0: ("01234567",),
    32: ("01234567", "10325476"),
    64: ("01234567", "10325476", "23016745", "32107654"),
    128: (
        "01234567", "10325476", "23016745", "32107654",
        "45670123", "54761032", "67452301", "76543210",
    ),
}  # fmt: skip


def table_offset(layout: PanelLayout, row: int, column: int) -> int:
    """The byte offset of an element by the tables: find the line it lies in, then where its chunk went."""
    panel_columns = layout.swizzle_bytes // layout.element_bytes or layout.columns
    panel, within = column // panel_columns, column % panel_columns
    row_bytes = panel_columns * layout.element_bytes
    plain = panel * layout.rows * row_bytes + row * row_bytes + within * layout.element_bytes
    line, in_line = divmod(plain, LINE_BYTES)
    table = CHUNK_TABLES[layout.swizzle_bytes][line % len(CHUNK_TABLES[layout.swizzle_bytes])]
    return line * LINE_BYTES + table.index(str(in_line // 16)) * 16 + in_line % 16


def layouts() -> list[PanelLayout]:
    """Every swizzle and element size, with rows that are and are not whole periods, and one to three panels."""
    return [
        PanelLayout(rows, width // element, element, swizzle)
        for swizzle, element, rows in itertools.product(SWIZZLES, (1, 2, 4), (1, 2, 3, 4, 5, 7, 8, 9, 16, 24, 64))
        for width in ((swizzle, 2 * swizzle, 3 * swizzle) if swizzle else (16, 48, 80, 256))
    ]


def test_offsets_agree_with_the_tables_and_never_collide() -> None:
    checked = layouts()
    assert len(checked) == 11 * 3 * (3 * 3 + 4)
    for layout in checked:
        elements = list(itertools.product(range(layout.rows), range(layout.columns)))
        offsets = [layout.offset_bytes(*element) for element in elements]
        assert offsets == [table_offset(layout, *element) for element in elements], layout
        # Every element's bytes lie in the tile and no two elements share one: together they are all of it.
        assert sorted(offsets) == list(range(0, layout.size_bytes, layout.element_bytes)), layout


def test_sizes() -> None:
    for layout in layouts():
        assert layout.size_bytes == layout.rows * layout.columns * layout.element_bytes
        assert layout.panels * layout.panel_bytes == layout.size_bytes
        assert layout.panels * layout.panel_columns == layout.columns
        assert layout.panel_bytes == layout.rows * layout.row_bytes
        assert layout.row_bytes == (layout.swizzle_bytes or layout.columns * layout.element_bytes)


@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_the_pattern_repeats_at_the_alignment(swizzle: int) -> None:
    alignment = PanelLayout(8, 256, 2, swizzle).alignment_bytes
    assert alignment == max(128, LINE_BYTES * len(CHUNK_TABLES[swizzle]))
    for address in range(2048):
        assert swizzle_address(address + alignment, swizzle) == swizzle_address(address, swizzle) + alignment


@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_swizzling_twice_is_nothing(swizzle: int) -> None:
    for address in range(4096):
        swizzled = swizzle_address(address, swizzle)
        assert swizzle_address(swizzled, swizzle) == address
        assert swizzled // LINE_BYTES == address // LINE_BYTES, "a swizzle stays inside its line of 128 bytes"
        assert swizzled % 16 == address % 16, "chunks of 16 bytes move as a whole"
        if swizzle:
            assert swizzled // swizzle == address // swizzle, "and inside its row"


def test_the_columns_of_eight_rows_use_every_bank() -> None:
    """What the 128-byte swizzle is for: one 16-byte chunk of 8 consecutive rows never meets another in the banks of a line."""
    layout = PanelLayout(64, 64, 2, 128)
    for first, chunk in itertools.product(range(0, 64, 8), range(8)):
        positions = {layout.offset_bytes(first + row, 8 * chunk) // 16 % 8 for row in range(8)}
        assert positions == set(range(8))


def test_an_example_by_hand() -> None:
    layout = PanelLayout(128, 64, 2, 128)
    assert (layout.panels, layout.panel_bytes, layout.size_bytes, layout.alignment_bytes) == (1, 16384, 16384, 1024)
    assert layout.offset_bytes(5, 9) == 706
    two = PanelLayout(64, 128, 2, 128)
    assert (two.panels, two.panel_columns, two.panel_bytes) == (2, 64, 8192)
    assert two.offset_bytes(3, 64 + 8) == 8192 + 3 * 128 + (1 ^ 3) * 16


def test_widest_swizzle() -> None:
    for row_bytes in range(1, 1100):
        dividing = [width for width in (32, 64, 128) if row_bytes % width == 0]
        assert widest_swizzle(row_bytes) == max(dividing, default=0)


def test_masks() -> None:
    assert [swizzle_mask(swizzle) for swizzle in SWIZZLES] == [len(CHUNK_TABLES[swizzle]) - 1 for swizzle in SWIZZLES]


@pytest.mark.parametrize(("columns", "element", "swizzle"), [(63, 2, 128), (24, 2, 32), (96, 2, 128), (48, 1, 64), (4, 4, 32)])
def test_partial_panels_are_refused(columns: int, element: int, swizzle: int) -> None:
    with pytest.raises(ValueError, match=f"rows of {columns * element} bytes are not whole panels of {swizzle} bytes"):
        PanelLayout(8, columns, element, swizzle)


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (PanelLayout(128, 64, 2, 128), "128 x 64, 128-byte swizzle"),
        (PanelLayout(64, 128, 2, 128), "64 x 128, 2 panels of 64 columns, 128-byte swizzle"),
        (PanelLayout(64, 96, 2, 64), "64 x 96, 3 panels of 32 columns, 64-byte swizzle"),
        (PanelLayout(3, 20, 4, 0), "3 x 20, row-major"),
    ],
)
def test_text(layout: PanelLayout, text: str) -> None:
    assert str(layout) == text
