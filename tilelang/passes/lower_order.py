"""The grid's variables: blockIdx, or the tile that a grouped order gives to a block."""
from __future__ import annotations

from tilelang.ir import device as d
from tilelang.ir import tile
from tilelang.ir.device import BLOCK_IDX
from tilelang.ir.expr import INT32, Const, Expr, Var, binary
from tilelang.passes.lower_arith import times
from tilelang.passes.plans import BlockOrder


def lower_order(kernel: tile.Kernel, order: BlockOrder | None) -> d.Body:
    """Declarations of the author's block indices."""
    if order is None:
        return tuple(d.Declare(var=axis.var, value=index) for axis, index in zip(kernel.grid, BLOCK_IDX, strict=False))
    number, block = binary("+", times(BLOCK_IDX[1], order.columns), BLOCK_IDX[0]), Var("block", INT32)
    groups = f"tiles in groups of {order.group_rows} rows, down the rows first, for the L2 cache"
    return (d.Declare(var=block, value=number, text=groups), *_grouped(kernel, order, block))


def lower_tile(kernel: tile.Kernel, order: BlockOrder | None, number: Expr) -> d.Body:
    """The same for the `number`-th tile of the grid."""
    if order is not None:
        return _grouped(kernel, order, number)
    declared: list[d.Stmt] = []
    for axis in kernel.grid[:-1]:
        declared.append(d.Declare(var=axis.var, value=binary("%", number, axis.extent)))
        number = binary("//", number, axis.extent)
    return (*declared, d.Declare(var=kernel.grid[-1].var, value=number))


def tile_number(extents: tuple[int, ...], order: BlockOrder | None, at: tuple[int, ...]) -> int:
    """The number that `lower_tile` gives the tile with these indices."""
    if order is None:
        number = 0
        for extent, index in zip(reversed(extents), reversed(at), strict=True):
            number = number * extent + index
        return number
    x, y = at
    group, row = divmod(y, order.group_rows)
    height = min(order.rows - group * order.group_rows, order.group_rows)
    return group * order.group_rows * order.columns + x * height + row


def _grouped(kernel: tile.Kernel, order: BlockOrder, block: Expr) -> d.Body:
    """The indices of the `block`-th tile in grouped order."""
    x, y = (axis.var for axis in kernel.grid)
    first, place, rows = (Var(name, INT32) for name in ("first_row", "place", "rows"))
    tiles = order.group_rows * order.columns
    declared: list[d.Stmt] = [
        d.Declare(var=first, value=times(binary("//", block, tiles), order.group_rows)),
        d.Declare(var=place, value=binary("%", block, tiles)),
    ]
    height: Expr = Const(order.group_rows) if order.rows % order.group_rows == 0 else rows
    if order.rows % order.group_rows:
        declared.append(d.Declare(var=rows, value=binary("min", binary("-", order.rows, first), order.group_rows)))
    declared.append(d.Declare(var=x, value=binary("//", place, height)))
    declared.append(d.Declare(var=y, value=binary("+", first, binary("%", place, height))))
    return tuple(declared)
