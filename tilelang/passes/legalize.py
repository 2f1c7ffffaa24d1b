"""Refuses by name what this path cannot take.  Ensures: only statements, scopes and sizes that the later passes know."""
from __future__ import annotations

from tilelang.errors import ResourceExceeded, Unsupported
from tilelang.ir import tile
from tilelang.ir.expr import Const
from tilelang.ir.types import Scope
from tilelang.passes.access import statements
from tilelang.target import Target

CONSUMER_THREADS = 128
GRID_LIMITS = (2**31 - 1, 65535, 65535)
_KNOWN = (tile.Copy, tile.Gemm, tile.Fill, tile.For, tile.Let)


def legalize(kernel: tile.Kernel, target: Target) -> None:
    """Raises Unsupported or ResourceExceeded, naming the statement and the value."""
    if kernel.threads != CONSUMER_THREADS:
        raise Unsupported(
            f"threads={kernel.threads}: on {target.arch} this compiler takes threads=128 (one consumer warpgroup) so far",
            code="TL301", span=kernel.span, hint="write threads=128; the block's producer warpgroup comes on top",
        )  # fmt: skip
    _check_grid(kernel)
    for buffer in kernel.buffers:
        if buffer.scope not in (Scope.SHARED, Scope.FRAGMENT):
            raise Unsupported(f"{buffer.name}: {buffer.scope} buffers run on the CPU only so far", code="TL302", span=buffer.span)
    for stmt in statements(kernel.body):
        if not isinstance(stmt, _KNOWN):
            name = type(stmt).__name__
            raise Unsupported(
                f"{name} statements run on the CPU only so far; for {target.arch} there are copy, gemm, fill, clear and loops",
                code="TL303", span=stmt.span,
            )  # fmt: skip


def _check_grid(kernel: tile.Kernel) -> None:
    for axis, limit, letter in zip(kernel.grid, GRID_LIMITS, "xyz", strict=False):
        if isinstance(axis.extent, int) and axis.extent > limit:
            raise ResourceExceeded(
                f"the grid has {axis.extent} blocks along {letter}, the hardware takes at most {limit}",
                code="TL404", span=kernel.span, hint="put the largest extent first, or use larger tiles",
            )  # fmt: skip


def trip_count(loop: tile.For) -> int | None:
    """How often a loop runs, None where that is not constant."""
    if isinstance(loop.start, Const) and isinstance(loop.stop, Const):
        return len(range(int(loop.start.value), int(loop.stop.value), loop.step))
    return None
