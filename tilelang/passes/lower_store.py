"""An accumulator from registers to a tile of shared memory, as the layouts match.

16-bit tiles go by stmatrix.x4: its four 8 x 8 matrices are rows 0-7 and 8-15 of two neighbouring 8-column blocks of the
accumulator. float32 tiles go by 8-byte stores.  Either way a warp writes *pairs* of 16-byte chunks, and the swizzle keeps them
free of bank conflicts.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilelang.errors import Span
from tilelang.ir import device as d
from tilelang.ir.device import RegisterLoad, i32
from tilelang.ir.expr import INT32, UINT32, Call, Cast, Expr, Var, binary, is_const
from tilelang.ir.types import DType
from tilelang.layout.digits import WARP_THREADS
from tilelang.layout.fragments import WARPGROUP_THREADS, WGMMA_M
from tilelang.layout.swizzle import CHUNK_BYTES, PanelLayout
from tilelang.passes.lower_access import swizzle_pattern
from tilelang.passes.lower_arith import add, quotient, remainder, times, unsigned
from tilelang.passes.lower_loops import unrolled
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
    """Writes the whole accumulator, rounded to `dtype` (float16, bfloat16 or float32), to the tile from shared address
    `start`."""
    tile = _Tile(accumulator, plan, layout, start, dtype, thread, span)
    lane = _Lane(Var("row_address", UINT32), Var("chunk", UINT32))
    if dtype == "float32":
        declare, write = _word_lane(tile, lane), _write_words
    else:
        declare, write = _stmatrix_lane(tile, lane), _write_matrices
    return (*declare, *_pair_loops(tile, lane, write))


def _stmatrix_lane(tile: _Tile, lane: _Lane) -> d.Body:
    """stmatrix.x4: lane i addresses row i % 16 of the warp's 16 rows, in the first chunk of a pair for i < 16, else the
    second."""
    row = binary("&", tile.thread, 15)
    chunk = binary("&", binary(">>", tile.thread, 4), 1)
    return _declare(tile, lane, row, chunk, i32(0), "this lane's row of each stmatrix")


def _word_lane(tile: _Tile, lane: _Lane) -> d.Body:
    """8-byte stores: lane i holds columns 2 * (i % 4) and + 1 of row i / 4 of an 8 x 8 block, whose rows are one pair of
    chunks."""
    row = binary("&", binary(">>", tile.thread, 2), 7)
    chunk = binary("&", binary(">>", tile.thread, 1), 1)
    return _declare(tile, lane, row, chunk, binary("*", binary("&", tile.thread, 1), 8), "this lane's row of each 8 x 8 block")


def _declare(tile: _Tile, lane: _Lane, row: Expr, chunk: Expr, byte: Expr, text: str) -> d.Body:
    """The lane's variables, from its row and chunk in the warp's rows, and the byte in the chunk."""
    tile_row, layout = Var("row", INT32), tile.layout
    warp = quotient(tile.thread, WARP_THREADS)
    warp_row = times(remainder(warp, 4) if tile.plan.warpgroups > 1 else warp, WARP_ROWS)
    pattern = swizzle_pattern(layout, tile_row)
    offset = add(add(times(tile_row, layout.row_bytes), byte), _first_panel(tile))
    return (
        d.Declare(var=tile_row, value=add(binary("+", warp_row, row), _first_row(tile)), text=text, span=tile.span),
        d.Declare(var=lane.row_address, value=add(tile.start, unsigned(offset)), span=tile.span),
        d.Declare(
            var=lane.chunk, value=unsigned(binary("^", chunk, pattern)), text="its chunk of a pair, swizzled", span=tile.span,
        ),
    )  # fmt: skip


def _first_row(tile: _Tile) -> Expr:
    """Where this warpgroup's rows begin; a multiple of 64, so that it does not change the swizzle."""
    plan = tile.plan
    if plan.warpgroups_m == 1:
        return i32(0)
    return times(quotient(quotient(tile.thread, WARPGROUP_THREADS), plan.warpgroups_n), plan.m_tiles * WGMMA_M)


def _first_panel(tile: _Tile) -> Expr:
    """Byte offset of this warpgroup's first panel of columns."""
    plan = tile.plan
    if plan.warpgroups_n == 1:
        return i32(0)
    panels = plan.n_tiles * plan.n // tile.layout.panel_columns
    return times(remainder(quotient(tile.thread, WARPGROUP_THREADS), plan.warpgroups_n), panels * tile.layout.panel_bytes)


_Write = Callable[[_Tile, Expr, Expr, Expr], d.Stmt]


def _pair_loops(tile: _Tile, lane: _Lane, write: _Write) -> d.Body:
    """Unrolled over m tiles, n tiles, the panels of an n tile and the chunk pairs of a panel."""
    layout, plan = tile.layout, tile.plan
    panels = plan.n // layout.panel_columns
    counts = (plan.m_tiles, plan.n_tiles, panels, layout.row_bytes // PAIR_BYTES)
    variables = [Var(name) for name in ("i", "j", "panel", "pair")]
    i, j, panel, pair = (var if count > 1 else i32(0) for var, count in zip(variables, counts, strict=True))
    address = add(lane.row_address, unsigned(times(i, WGMMA_M * layout.row_bytes)))
    address = add(address, unsigned(times(add(times(j, panels), panel), layout.panel_bytes)))
    chunk = lane.chunk if is_const(pair, 0) else binary("^", unsigned(times(pair, 2)), lane.chunk)
    address = add(address, times(chunk, CHUNK_BYTES))
    registers_per_pair = PAIR_BYTES // layout.element_bytes // 2
    register = add(times(panel, layout.panel_columns // 2), times(pair, registers_per_pair))
    body = (write(tile, address, add(times(i, plan.n_tiles), j), register),)
    return unrolled(body, list(zip(variables, counts, strict=True)), tile.span)


def _write_matrices(tile: _Tile, address: Expr, accumulator_row: Expr, register: Expr) -> d.Stmt:
    """Registers 2v and 2v + 1 are matrix v: rows 0-7 and 8-15 of the first block, then of the second."""
    values = []
    for matrix in range(4):
        places = ((accumulator_row, add(register, 2 * matrix + v)) for v in (0, 1))
        low, high = (Cast(RegisterLoad(tile.accumulator, place), tile.dtype) for place in places)
        values.append(Call("pack", (low, high), UINT32))
    return d.StoreMatrix(address=address, values=tuple(values), span=tile.span)


def _write_words(tile: _Tile, address: Expr, accumulator_row: Expr, register: Expr) -> d.Stmt:
    """Rows 0-7 of the block, then rows 8-15, whose swizzle is the same."""
    half = Var("half", INT32)
    first = add(register, times(half, 2))
    values = tuple(RegisterLoad(tile.accumulator, (accumulator_row, add(first, v))) for v in (0, 1))
    store = d.StoreShared(address=add(address, unsigned(times(half, 8 * tile.layout.row_bytes))), values=values, span=tile.span)
    return d.Unroll(var=half, count=2, body=(store,), span=tile.span)
