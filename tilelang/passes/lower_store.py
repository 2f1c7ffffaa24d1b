"""An accumulator from registers to a tile of shared memory, as the layouts match.

16-bit tiles go by stmatrix.x4: its four 8 x 8 matrices are rows 0-7 and 8-15 of two neighbouring 8-column blocks of the accumulator.
float32 tiles go by 8-byte stores.  Either way a warp writes *pairs* of 16-byte chunks, and the swizzle keeps them free of bank
conflicts.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilelang.errors import Span
from tilelang.ir import device as d
from tilelang.ir.device import RegisterLoad, i32, u32
from tilelang.ir.expr import INT32, UINT32, Call, Cast, Const, Expr, Var, binary
from tilelang.ir.types import DType
from tilelang.layout.fragments import WGMMA_M
from tilelang.layout.swizzle import CHUNK_BYTES, PanelLayout, swizzle_mask
from tilelang.passes.lower_access import powers_of_two
from tilelang.passes.lower_copy import add
from tilelang.passes.plans import GemmPlan

WARP_ROWS = 16
PAIR_BYTES = 2 * CHUNK_BYTES


@dataclass(frozen=True, slots=True)
class _Tile:
    """What is written where: the accumulator and its plan, the shared tile from address `start`, its element type."""

    accumulator: d.Registers
    plan: GemmPlan
    layout: PanelLayout
    start: Expr
    dtype: DType
    thread: Expr
    span: Span | None


@dataclass(frozen=True, slots=True)
class _Lane:
    """Where a thread writes, as variables: the address of its row, and its chunk of a pair, XORed with the row's swizzle."""

    row_address: Var
    chunk: Var


def lower_store(
    accumulator: d.Registers, plan: GemmPlan, layout: PanelLayout, start: Expr, dtype: DType, thread: Expr, span: Span | None
) -> d.Body:
    """Writes the whole accumulator, rounded to `dtype` (float16, bfloat16 or float32), to the tile from shared address `start`."""
    tile = _Tile(accumulator, plan, layout, start, dtype, thread, span)
    lane = _Lane(Var("row_address", UINT32), Var("chunk", UINT32))
    if dtype == "float32":
        declare, write = _word_lane(tile, lane), _write_words
    else:
        declare, write = _stmatrix_lane(tile, lane), _write_matrices
    return (*declare, *_pair_loops(tile, lane, write))


def _stmatrix_lane(tile: _Tile, lane: _Lane) -> d.Body:
    """stmatrix.x4: lane i addresses row i % 16 of the warp's 16 rows, in the first chunk of a pair for i < 16, else the second."""
    row = binary("&", tile.thread, 15)
    chunk = binary("&", binary(">>", tile.thread, 4), 1)
    return _declare(tile, lane, row, chunk, i32(0), "this lane's row of each stmatrix")


def _word_lane(tile: _Tile, lane: _Lane) -> d.Body:
    """8-byte stores: lane i holds columns 2 * (i % 4) and + 1 of row i / 4 of an 8 x 8 block, whose rows are one pair of chunks."""
    row = binary("&", binary(">>", tile.thread, 2), 7)
    chunk = binary("&", binary(">>", tile.thread, 1), 1)
    return _declare(tile, lane, row, chunk, binary("*", binary("&", tile.thread, 1), 8), "this lane's row of each 8 x 8 block")


def _declare(tile: _Tile, lane: _Lane, row: Expr, chunk: Expr, byte: Expr, text: str) -> d.Body:
    shift = {128: 0, 64: 1, 32: 2}.get(tile.layout.swizzle_bytes, 0)
    tile_row = Var("row", INT32)
    warp_row = binary("*", binary("&", binary(">>", tile.thread, 5), 3) if _warpgroups(tile) > 1 else binary(">>", tile.thread, 5), WARP_ROWS)
    pattern = binary("&", binary(">>", tile_row, shift) if shift else tile_row, swizzle_mask(tile.layout.swizzle_bytes))
    offset = add(binary("*", tile_row, tile.layout.row_bytes), byte)
    return (
        d.Declare(var=tile_row, value=add(binary("+", warp_row, row), _first_row(tile)), text=text, span=tile.span),
        d.Declare(var=lane.row_address, value=add(tile.start, Cast(add(offset, _first_panel(tile)), UINT32)), span=tile.span),
        d.Declare(var=lane.chunk, value=Cast(binary("^", chunk, pattern), UINT32), text="its chunk of a pair, swizzled", span=tile.span),
    )  # fmt: skip


def _warpgroups(tile: _Tile) -> int:
    return tile.plan.warpgroups_m * tile.plan.warpgroups_n


def _first_row(tile: _Tile) -> Expr:
    """Where this warpgroup's rows begin; a multiple of 64, so that it does not change the swizzle."""
    plan = tile.plan
    if plan.warpgroups_m == 1:
        return i32(0)
    row = binary("//", binary(">>", tile.thread, 7), plan.warpgroups_n) if plan.warpgroups_n > 1 else binary(">>", tile.thread, 7)
    return powers_of_two(binary("*", row, plan.m_tiles * WGMMA_M))


def _first_panel(tile: _Tile) -> Expr:
    """Byte offset of this warpgroup's first panel of columns."""
    plan = tile.plan
    if plan.warpgroups_n == 1:
        return i32(0)
    column = binary("%", binary(">>", tile.thread, 7), plan.warpgroups_n)
    panels = plan.n_tiles * plan.n // tile.layout.panel_columns
    return powers_of_two(binary("*", column, panels * tile.layout.panel_bytes))


_Write = Callable[[_Tile, Expr, Expr, Expr], d.Stmt]


def _pair_loops(tile: _Tile, lane: _Lane, write: _Write) -> d.Body:
    """Unrolled over m tiles, n tiles, the panels of an n tile and the chunk pairs of a panel."""
    layout, plan = tile.layout, tile.plan
    panels = plan.n // layout.panel_columns
    counts = (plan.m_tiles, plan.n_tiles, panels, layout.row_bytes // PAIR_BYTES)
    variables = [Var(name) for name in ("i", "j", "panel", "pair")]
    i, j, panel, pair = (var if count > 1 else i32(0) for var, count in zip(variables, counts, strict=True))
    address = add(lane.row_address, _unsigned(i, WGMMA_M * layout.row_bytes))
    address = add(address, _unsigned(add(_scaled(j, panels), panel), layout.panel_bytes))
    address = add(address, binary("*", binary("^", _unsigned(pair, 2), lane.chunk), u32(CHUNK_BYTES)))
    registers_per_pair = PAIR_BYTES // layout.element_bytes // 2
    register = add(_scaled(panel, layout.panel_columns // 2), _scaled(pair, registers_per_pair))
    body: d.Body = (write(tile, address, add(_scaled(i, plan.n_tiles), j), register),)
    for var, count in reversed(list(zip(variables, counts, strict=True))):
        if count > 1:
            body = (d.Unroll(var=var, count=count, body=body, span=tile.span),)
    return body


def _write_matrices(tile: _Tile, address: Expr, accumulator_row: Expr, register: Expr) -> d.Stmt:
    """Registers 2v and 2v + 1 are matrix v: rows 0-7 and 8-15 of the first block, then of the second."""
    values = []
    for matrix in range(4):
        low, high = (Cast(RegisterLoad(tile.accumulator, (accumulator_row, add(register, 2 * matrix + v))), tile.dtype) for v in (0, 1))
        values.append(Call("pack", (low, high), UINT32))
    return d.StoreMatrix(address=address, values=tuple(values), span=tile.span)


def _write_words(tile: _Tile, address: Expr, accumulator_row: Expr, register: Expr) -> d.Stmt:
    """Rows 0-7 of the block, then rows 8-15, whose swizzle is the same."""
    half = Var("half", INT32)
    first = add(register, _scaled(half, 2))
    values = tuple(RegisterLoad(tile.accumulator, (accumulator_row, add(first, v))) for v in (0, 1))
    store = d.StoreShared(address=add(address, _unsigned(half, 8 * tile.layout.row_bytes)), values=values, span=tile.span)
    return d.Unroll(var=half, count=2, body=(store,), span=tile.span)


def _scaled(value: Expr, factor: int) -> Expr:
    """`value * factor`, folded where either is trivial."""
    if isinstance(value, Const):
        return i32(int(value.value) * factor)
    return value if factor == 1 else binary("*", value, factor)


def _unsigned(value: Expr, factor: int) -> Expr:
    """`value * factor` as an operand of address arithmetic."""
    scaled = _scaled(value, factor)
    return u32(int(scaled.value)) if isinstance(scaled, Const) else Cast(scaled, UINT32)
