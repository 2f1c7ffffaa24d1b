"""Shared-memory tiles in panels with the swizzles that TMA and wgmma share.

A tile of rows x columns is cut along the columns into panels of `swizzle_bytes` (64 columns of 16 bits for the 128-byte swizzle);
a panel holds its rows one after the other, and panels follow each other.  Within a panel, 16-byte chunks are exchanged by XOR on
the byte address: bits 4.. get bits 7.. XORed in, 3, 2 or 1 of them for 128, 64 or 32 bytes.  The hardware does this on absolute
addresses, so a tile starts at a multiple of 8 * swizzle_bytes.  (PTX ISA, "Tensor swizzling modes"; "Strides and swizzle of wgmma
operands".)  Such panels are at once the boxes of a TMA transfer and legal wgmma operands.

Example: 128 x 64 float16, 128-byte swizzle: one panel of 16384 bytes; element (5, 9) lies in row 5, chunk 1, bytes 2-3: offset
5 * 128 + ((1 ^ 5) << 4) + 2 = 706.
"""
from __future__ import annotations

from dataclasses import dataclass

SWIZZLES_BYTES = (128, 64, 32)
CHUNK_BYTES = 16


def swizzle_mask(swizzle_bytes: int) -> int:
    """Which of the three address bits from bit 7 on are XORed into bits 4..6: 7, 3, 1, or 0 for no swizzle."""
    return {128: 7, 64: 3, 32: 1, 0: 0}[swizzle_bytes]


def swizzle_address(address: int, swizzle_bytes: int) -> int:
    """The byte address that a swizzled access to `address` really touches."""
    return address ^ ((address >> 7 & swizzle_mask(swizzle_bytes)) << 4)


def widest_swizzle(row_bytes: int) -> int:
    """The widest swizzle whose panels divide a row exactly, 0 if none does."""
    return next((width for width in SWIZZLES_BYTES if row_bytes % width == 0), 0)


@dataclass(frozen=True, slots=True)
class PanelLayout:
    """A 2-D tile in shared memory; `swizzle_bytes` 0 means one plain row-major panel.  `slots` such tiles may follow each
    other, each aligned like the first."""

    rows: int
    columns: int
    element_bytes: int
    swizzle_bytes: int
    slots: int = 1

    def __post_init__(self) -> None:
        if self.swizzle_bytes not in (0, *SWIZZLES_BYTES):
            raise ValueError(f"there is no swizzle of {self.swizzle_bytes} bytes")
        tile_row_bytes = self.columns * self.element_bytes
        if self.swizzle_bytes and tile_row_bytes % self.swizzle_bytes:
            raise ValueError(f"rows of {tile_row_bytes} bytes are not whole panels of {self.swizzle_bytes} bytes")

    @property
    def panel_columns(self) -> int:
        return self.swizzle_bytes // self.element_bytes if self.swizzle_bytes else self.columns

    @property
    def panels(self) -> int:
        return self.columns // self.panel_columns

    @property
    def row_bytes(self) -> int:
        """Bytes of one row within one panel."""
        return self.panel_columns * self.element_bytes

    @property
    def panel_bytes(self) -> int:
        return self.rows * self.row_bytes

    @property
    def slot_bytes(self) -> int:
        """From one slot to the next; with a single slot its size."""
        size = self.panels * self.panel_bytes
        return size if self.slots == 1 else -(-size // self.alignment_bytes) * self.alignment_bytes

    @property
    def size_bytes(self) -> int:
        return self.slots * self.slot_bytes

    @property
    def alignment_bytes(self) -> int:
        """What the first byte must be aligned to: the period of the XOR pattern, at least TMA's 128 bytes."""
        return max(8 * self.swizzle_bytes, 128)

    def offset_bytes(self, row: int, column: int) -> int:
        """Byte offset of an element from its slot's (aligned) start."""
        panel, within = divmod(column, self.panel_columns)
        plain = panel * self.panel_bytes + row * self.row_bytes + within * self.element_bytes
        return swizzle_address(plain, self.swizzle_bytes)

    def __str__(self) -> str:
        panels = f"{self.panels} panels of {self.panel_columns} columns, " if self.panels > 1 else ""
        swizzle = f"{self.swizzle_bytes}-byte swizzle" if self.swizzle_bytes else "row-major"
        slots = f"{self.slots} slots of " if self.slots > 1 else ""
        return f"{slots}{self.rows} x {self.columns}, {panels}{swizzle}"
