"""Whether two consumer warpgroups share a block and take tiles in turn.

What a block does behind its main loop - an activation, a residual, the store - leaves the tensor core idle, and two blocks on an
SM that started together come to it together.  Two warpgroups that share one ring cannot: its slots are filled for one tile after
the other, so one computes while the other is behind its loop.  The tensor core then never waits for an epilogue but the last.

The price is that a single warpgroup has to keep the tensor core busy: its wgmmas of one turn run on while it waits for the next,
which needs a ring of several slots.  (`docs/pipeline.md` has figures.)
"""
from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.tile import Copy, For, Kernel
from tilelang.ir.types import Scope
from tilelang.layout.digits import Axis, Layout
from tilelang.layout.fragments import WARPGROUP_THREADS
from tilelang.layout.swizzle import PanelLayout
from tilelang.passes.access import statements, trip_count
from tilelang.passes.allocate_shared import STATIC_SHARED_BYTES
from tilelang.passes.plans import Channel, CopyKind, CopyPlan, PingPong
from tilelang.target import Target
from tilelang.trace import Decision, Rejection

CONSUMERS = 2
LEAST_SLOTS = 4  # with fewer, the slot that is being read and the one that is waited for leave none to load ahead
SLOT_ALIGNMENT_BYTES = 1024
SUBJECT = "consumer warpgroups and tiles"
ALTERNATIVE = "two that take tiles in turn"


def plan_ping_pong(
    kernel: Kernel, channels: tuple[Channel, ...], copies: Mapping[Copy, CopyPlan], layouts: Mapping[Buffer, PanelLayout],
    fragments: Mapping[Buffer, Layout], target: Target,
) -> tuple[PingPong | None, tuple[Channel, ...], tuple[Decision, ...]]:  # fmt: skip
    """The plan and the channels with as many slots as it wants; None and the channels as they are where it does not pay or cannot
    be.  A decision is recorded only for kernels with work behind their main loop."""
    loop = _main_loop(kernel, channels)
    if loop is None or not _has_epilogue(kernel, loop):
        return None, channels, ()
    slots = _slots(channels[0], copies, layouts, target)
    why_not = _why_not(kernel, loop, channels, copies, fragments, slots, target)
    if why_not is not None:
        return None, channels, (Decision(loop.span, SUBJECT, "one, a block for each tile", rejected=(why_not,)),)
    tiles, turns = math.prod(axis.extent for axis in kernel.grid), trip_count(loop)  # type: ignore[misc]
    assert turns is not None
    plan = PingPong(loop, turns, tiles, target.multiprocessors)
    chosen = f"two, which take the {tiles} tiles in turn in {plan.blocks} blocks, with a ring of {slots} slots"
    reason = "what one does behind its main loop hides under the main loop of the other"
    deeper = dataclasses.replace(channels[0], stages=slots)
    return plan, (deeper,), (Decision(loop.span, SUBJECT, chosen, reason),)


def _main_loop(kernel: Kernel, channels: tuple[Channel, ...]) -> For | None:
    """The one loop of the kernel's body that uses the one ring."""
    if len(channels) != 1 or len(channels[0].sites) != 1:
        return None
    site = channels[0].sites[0]
    return next((stmt for stmt in kernel.body if isinstance(stmt, For) and site.copies[0] in stmt.body), None)


def _has_epilogue(kernel: Kernel, loop: For) -> bool:
    """Whether more than stores through shared memory stands behind the loop."""
    behind = kernel.body[kernel.body.index(loop) + 1 :]
    return any(not isinstance(stmt, (Copy, tile.Let)) for stmt in behind)


def _slots(channel: Channel, copies: Mapping[Copy, CopyPlan], layouts: Mapping[Buffer, PanelLayout], target: Target) -> int:
    """As many as two blocks on an SM would have together, as far as they fit beside a tile to store from for each warpgroup."""
    slot = sum(_whole(layouts[buffer].slot_bytes) for buffer in channel.buffers)
    staging = max((_whole(plan.staging.slot_bytes) for plan in copies.values() if plan.staging is not None), default=0)
    room = target.shared_bytes_per_block - STATIC_SHARED_BYTES - CONSUMERS * staging
    return min(CONSUMERS * channel.stages, room // slot)


def _whole(size_bytes: int) -> int:
    return -(-size_bytes // SLOT_ALIGNMENT_BYTES) * SLOT_ALIGNMENT_BYTES


def _why_not(
    kernel: Kernel, loop: For, channels: tuple[Channel, ...], copies: Mapping[Copy, CopyPlan], fragments: Mapping[Buffer, Layout],
    slots: int, target: Target,
) -> Rejection | None:  # fmt: skip
    """The predicate that does not hold, if one does not."""
    extents = [axis.extent for axis in kernel.grid]
    tiles = math.prod(extent for extent in extents if isinstance(extent, int))
    most = CONSUMERS * target.multiprocessors
    shared = {buffer for buffer in kernel.buffers if buffer.scope is Scope.SHARED and buffer.view_of is None}
    plain = all(
        isinstance(stmt, (tile.Let, tile.Gemm)) or (isinstance(stmt, Copy) and copies[stmt].kind is CopyKind.TMA_LOAD)
        for stmt in loop.body
    )
    gemms = [stmt for stmt in statements(kernel.body) if isinstance(stmt, tile.Gemm)]
    alone = len(gemms) == 1 and gemms[0] in loop.body and gemms[0].a.buffer.scope is Scope.SHARED
    checks = (
        (kernel.threads == WARPGROUP_THREADS, f"the kernel has {WARPGROUP_THREADS} threads", str(kernel.threads)),
        (all(isinstance(extent, int) for extent in extents), "the extents of the grid are constants", "they are not"),
        (tiles > most, f"more tiles than two for each of the {target.multiprocessors} SMs", str(tiles)),
        (plain and alone, "the loop holds its loads and the kernel's one gemm, nothing else", "it does not"),
        (bool(trip_count(loop)), "the loop's trip count is a constant", "it is not, or 0"),
        (shared <= set(channels[0].buffers), "all shared memory is in the ring", "there is other"),
        (not _exchanges(kernel, fragments), "no reduction goes over several warps", "one does"),
        (slots >= LEAST_SLOTS, f"a ring of {LEAST_SLOTS} slots or more fits, of twice num_stages", str(slots)),
    )
    return next((Rejection(ALTERNATIVE, predicate, found) for holds, predicate, found in checks if not holds), None)


def _exchanges(kernel: Kernel, fragments: Mapping[Buffer, Layout]) -> bool:
    """Whether a reduction needs memory in which warps exchange what they have."""
    return any(
        isinstance(stmt, tile.Reduce) and fragments[stmt.src.buffer].digits_on(stmt.dim, Axis.WARP)
        for stmt in statements(kernel.body)
    )
