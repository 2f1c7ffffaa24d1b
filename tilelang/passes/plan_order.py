"""In which order blocks take the tiles of the grid, for the sake of the L2 cache.

Blocks run roughly in the order of their number.  With x fastest a wave of blocks covers one long row of tiles and reads all of B
for a little of A; in groups of a few rows it covers a squarer patch, and both stay in the cache.  Blocks of one launch are
unordered, so any bijection of block numbers and tiles keeps the meaning.
"""
from __future__ import annotations

from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Var
from tilelang.ir.types import Scope
from tilelang.ir.walk import walk
from tilelang.passes.access import statements
from tilelang.passes.plans import BlockOrder
from tilelang.trace import Decision, Rejection

GROUP_ROWS = 8


def plan_order(kernel: tile.Kernel) -> tuple[BlockOrder | None, tuple[Decision, ...]]:
    """The grouped order where the author asks for it (T.use_swizzle), or where a gemm reads A along one grid axis and B along the
    other; None for the hardware's order."""
    extents = [axis.extent for axis in kernel.grid if isinstance(axis.extent, int) and axis.extent > 1]
    if len(extents) != 2 or len(kernel.grid) != 2:
        if not kernel.swizzle_panel:
            return None, ()
        shown = str([axis.extent for axis in kernel.grid])
        why = Rejection("T.use_swizzle", "the grid has two axes of more than one block", shown)
        return None, (Decision(kernel.span, "order of blocks", "the hardware's", rejected=(why,)),)
    group = kernel.swizzle_panel or (GROUP_ROWS if _crosses(kernel) else 0)
    if not group:
        return None, ()
    columns, rows = extents
    reason = "the author's T.use_swizzle" if kernel.swizzle_panel else "A is read along one axis of the grid, B along the other"
    chosen = f"in groups of {min(group, rows)} rows of tiles, down the rows first"
    return BlockOrder(min(group, rows), columns, rows), (Decision(kernel.span, "order of blocks", chosen, reason),)


def _crosses(kernel: tile.Kernel) -> bool:
    """Whether some gemm's A is loaded by the position along one grid axis, and its B by that along the other."""
    loaded: dict[Buffer, set[Var]] = {}
    grid = {axis.var for axis in kernel.grid}
    every = tuple(statements(kernel.body))
    for stmt in every:
        if isinstance(stmt, tile.Copy) and stmt.src.buffer.scope is Scope.GLOBAL:
            used = {node for index in stmt.src.base for node in walk(index) if isinstance(node, Var) and node in grid}
            loaded.setdefault(stmt.dst.buffer, set()).update(used)
    for gemm in every:
        if isinstance(gemm, tile.Gemm):
            a, b = loaded.get(gemm.a.buffer, set()), loaded.get(gemm.b.buffer, set())
            if len(a) == len(b) == 1 and a != b:
                return True
    return False
