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
from dataclasses import dataclass

from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.tile import Copy, For, Kernel
from tilelang.ir.types import Scope
from tilelang.layout.digits import Axis, Layout
from tilelang.layout.fragments import WARPGROUP_THREADS
from tilelang.layout.swizzle import PanelLayout
from tilelang.passes.access import statements, trip_count
from tilelang.passes.allocate_shared import STATIC_SHARED_BYTES
from tilelang.passes.plans import CONSUMERS, Channel, CopyKind, CopyPlan, PingPong
from tilelang.target import Target
from tilelang.trace import Decision, Rejection

LEAST_SLOTS = 4  # with fewer, the slot that is being read and the one that is waited for leave none to load ahead
SLOT_ALIGNMENT_BYTES = 1024
SUBJECT = "consumer warpgroups and tiles"
ALTERNATIVE = "two that take tiles in turn"


@dataclass(frozen=True, slots=True)
class _Parts:
    """The one loop of the kernel's body that holds loads, its channel, and the channels of the loads outside of it."""

    loop: For
    main: Channel
    sides: tuple[Channel, ...]


def plan_ping_pong(
    kernel: Kernel, channels: tuple[Channel, ...], copies: Mapping[Copy, CopyPlan], layouts: Mapping[Buffer, PanelLayout],
    fragments: Mapping[Buffer, Layout], target: Target, guests: Mapping[Buffer, Copy],
) -> tuple[PingPong | None, tuple[Channel, ...], tuple[Decision, ...]]:  # fmt: skip
    """The plan and the channels as it wants them; None and the channels as they are where it does not pay or cannot be.  `guests`
    are buffers that lie where a copy has its tile, so that their slot is free only behind that."""
    parts = _parts(kernel, channels)
    if parts is None:
        return None, channels, ()
    slots = _slots(parts, copies, layouts, guests, target)
    why_not = _why_not(kernel, parts, copies, fragments, slots, target)
    if why_not is not None:
        return None, channels, (Decision(parts.loop.span, SUBJECT, "one, a block for each tile", rejected=(why_not,)),)
    tiles, turns = math.prod(axis.extent for axis in kernel.grid), trip_count(parts.loop)  # type: ignore[misc]
    assert turns is not None
    plan = PingPong(parts.loop, turns, tiles, target.multiprocessors)
    chosen = f"two, which take the {tiles} tiles in turn in {plan.blocks} blocks, with a ring of {slots} slots"
    reason = "what one does behind its main loop hides under the main loop of the other"
    main = dataclasses.replace(parts.main, stages=slots)
    deeper = tuple(main if channel is parts.main else _one_each(channel, guests) for channel in channels)
    return plan, deeper, (Decision(parts.loop.span, SUBJECT, chosen, reason),)


def _parts(kernel: Kernel, channels: tuple[Channel, ...]) -> _Parts | None:
    """None where there is no such loop, or another load than that of a tile for all of the block's work stands outside of it."""
    if any(len(channel.sites) != 1 for channel in channels):
        return None
    loops = [stmt for stmt in kernel.body if isinstance(stmt, For)]
    mains = [(loop, channel) for loop in loops for channel in channels if channel.sites[0].copies[0] in loop.body]
    sides = tuple(channel for channel in channels if channel.sites[0].copies[0] in kernel.body)
    if len(mains) != 1 or len(sides) + 1 != len(channels):
        return None
    return _Parts(*mains[0], sides)


def _one_each(channel: Channel, guests: Mapping[Buffer, Copy]) -> Channel:
    """A slot for each warpgroup; that of a guest is used until its host is done with the memory."""
    site = channel.sites[0]
    hosts = [guests[buffer] for buffer in channel.buffers if buffer in guests]
    sites = (dataclasses.replace(site, last_reader=hosts[0]),) if hosts else (site,)
    return dataclasses.replace(channel, stages=CONSUMERS, sites=sites)


def _slots(
    parts: _Parts, copies: Mapping[Copy, CopyPlan], layouts: Mapping[Buffer, PanelLayout], guests: Mapping[Buffer, Copy],
    target: Target,
) -> int:  # fmt: skip
    """As many as two blocks on an SM would have together, as far as they fit beside what each warpgroup has to itself."""
    slot = sum(_whole(layouts[buffer].slot_bytes) for buffer in parts.main.buffers)
    staging = max((_whole(plan.staging.slot_bytes) for plan in copies.values() if plan.staging is not None), default=0)
    own = (buffer for channel in parts.sides for buffer in channel.buffers if buffer not in guests)
    each = staging + sum(_whole(layouts[buffer].slot_bytes) for buffer in own)
    room = target.shared_bytes_per_block - STATIC_SHARED_BYTES - CONSUMERS * each
    return min(CONSUMERS * parts.main.stages, room // slot)


def _whole(size_bytes: int) -> int:
    return -(-size_bytes // SLOT_ALIGNMENT_BYTES) * SLOT_ALIGNMENT_BYTES


def _why_not(
    kernel: Kernel, parts: _Parts, copies: Mapping[Copy, CopyPlan], fragments: Mapping[Buffer, Layout], slots: int, target: Target
) -> Rejection | None:
    """The predicate that does not hold, if one does not."""
    extents = [axis.extent for axis in kernel.grid]
    tiles = math.prod(extent for extent in extents if isinstance(extent, int))
    most = CONSUMERS * target.multiprocessors
    shared = {buffer for buffer in kernel.buffers if buffer.scope is Scope.SHARED and buffer.view_of is None}
    loaded = {buffer for channel in (parts.main, *parts.sides) for buffer in channel.buffers}
    loop = parts.loop
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
        (bool(trip_count(loop)), "the loop's trip count is a constant, and not 0", "it is not"),
        (shared <= loaded, "all shared memory is filled by TMA, ahead of its use", "there is other"),
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
