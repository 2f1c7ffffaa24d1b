"""Whether two consumer warpgroups share a block and take tiles in turn.

What a block does behind its main loop - an activation, a residual, the store - leaves the tensor core idle, and two blocks on an
SM that started together come to it together.  Two warpgroups that share one ring cannot: its slots are filled for one tile after
the other, so one computes while the other is behind its loop.  The tensor core then never waits for an epilogue but the last.

The price is that a single warpgroup has to keep the tensor core busy: its wgmmas of one turn run on while it waits for the next,
which needs a ring of several slots, and turns that take long enough.  (`docs/pipeline.md` has figures.)

Tiles are the author's blocks: none touches what another writes, so nothing needs to be ordered between those that one warpgroup
does one after the other, but its own memory.
"""
from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import Registers
from tilelang.ir.expr import INT32
from tilelang.ir.tile import Copy, For, Gemm, Kernel, RegisterHints, Stmt
from tilelang.ir.types import Scope
from tilelang.layout.digits import Axis, Layout
from tilelang.layout.fragments import WARPGROUP_THREADS
from tilelang.layout.swizzle import PanelLayout
from tilelang.passes.access import ordinary_reads, statements, trip_count
from tilelang.passes.allocate_shared import STATIC_SHARED_BYTES
from tilelang.passes.options import DISABLE_PING_PONG, Options
from tilelang.passes.plan_roles import registers_of
from tilelang.passes.plans import CONSUMER_GROUPS, Channel, CopyKind, CopyPlan, GemmPlan, PingPong
from tilelang.target import Target
from tilelang.trace import Decision, Rejection

LEAST_SLOTS = 4  # with fewer, the slot that is being read and the one that is waited for leave none to load ahead
MOST_REGISTERS = 160  # that fragments take, so that an epilogue has the rest of the 240 that there are
SLOT_ALIGNMENT_BYTES = 1024
SUBJECT = "tiles and warpgroups"
ALTERNATIVE = "two warpgroups that take tiles in turn"


@dataclass(frozen=True, slots=True)
class Situation:
    """What has been planned so far: statements, channels, copies, gemms, layouts of shared buffers and fragments, registers; and
    `guests`, buffers that lie where a copy has its tile, so that their slot is free only behind that."""

    kernel: Kernel
    channels: tuple[Channel, ...]
    copies: Mapping[Copy, CopyPlan]
    gemms: Mapping[Gemm, GemmPlan]
    shared: Mapping[Buffer, PanelLayout]
    fragments: Mapping[Buffer, Layout]
    registers: Mapping[Buffer, Registers]
    guests: Mapping[Buffer, Copy]


def plan_ping_pong(
    found: Situation, target: Target, options: Options
) -> tuple[PingPong | None, tuple[Channel, ...], tuple[Decision, ...]]:
    """The plan and the channels as it wants them; None and the channels as they are where it does not pay or cannot be.  Kernels
    that multiply nothing in a ring get no decision."""
    if not found.channels or not found.gemms:
        return None, found.channels, ()
    if not options.ping_pong:
        why = Rejection(ALTERNATIVE, "the author allows it", f"{DISABLE_PING_PONG} is set")
        return None, found.channels, (Decision(found.kernel.span, SUBJECT, "a block for each tile", rejected=(why,)),)
    parts = _parts(found)
    slots = _slots(parts, found, target) if parts is not None else 0
    why_not = _why_not(parts, found, slots, target)
    if parts is None or why_not is not None:
        rejected = (why_not,) if why_not is not None else ()
        return None, found.channels, (Decision(found.kernel.span, SUBJECT, "a block for each tile", rejected=rejected),)
    tiles, turns = _tiles(found.kernel), trip_count(parts.loop)
    assert turns is not None
    main = dataclasses.replace(parts.main, stages=slots)
    deeper = tuple(main if channel is parts.main else _one_each(channel, found.guests) for channel in found.channels)
    return PingPong(parts.loop, turns, tiles, target.multiprocessors), deeper, (_decision(parts, tiles, slots),)


def _decision(parts: _Parts, tiles: int, slots: int) -> Decision:
    wanted = CONSUMER_GROUPS * parts.main.stages
    chosen = f"two warpgroups take the {tiles} tiles in turn, in blocks of which every SM has one, with a ring of {slots} slots"
    reason = "what one does behind its main loop hides under the main loop of the other"
    edit = f'pass_configs={{"{DISABLE_PING_PONG}": True}}'
    asked = Rejection("a block for each tile", "the author asks for it", "not so", edit)
    ring = Rejection(f"{wanted} slots, twice num_stages", "they fit", f"{slots} do", "smaller tiles")
    return Decision(parts.loop.span, SUBJECT, chosen, reason, (asked, ring) if slots < wanted else (asked,))


# ---- the parts of such a kernel ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Parts:
    """The one loop of the kernel's body that holds loads, its channel, and the channels of the loads outside of it."""

    loop: For
    main: Channel
    sides: tuple[Channel, ...]


def _parts(found: Situation) -> _Parts | None:
    """None where there is no such loop, or another load than that of a tile for all of the block's work stands outside of it."""
    body, channels = found.kernel.body, found.channels
    if any(len(channel.sites) != 1 for channel in channels):
        return None
    loops = [stmt for stmt in body if isinstance(stmt, For)]
    mains = [(loop, channel) for loop in loops for channel in channels if channel.sites[0].copies[0] in loop.body]
    sides = tuple(channel for channel in channels if channel.sites[0].copies[0] in body)
    if len(mains) != 1 or len(sides) + 1 != len(channels):
        return None
    return _Parts(*mains[0], sides)


def _one_each(channel: Channel, guests: Mapping[Buffer, Copy]) -> Channel:
    """A slot for each warpgroup; that of a guest is used until its host is done with the memory."""
    site = channel.sites[0]
    hosts = [guests[buffer] for buffer in channel.buffers if buffer in guests]
    sites = (dataclasses.replace(site, last_reader=hosts[0]),) if hosts else (site,)
    return dataclasses.replace(channel, stages=CONSUMER_GROUPS, sites=sites)


def _slots(parts: _Parts, found: Situation, target: Target) -> int:
    """As many as two blocks on an SM would have together, as far as they fit beside what each warpgroup has to itself."""
    slot = sum(_whole(found.shared[buffer].size_bytes) for buffer in parts.main.buffers)
    staging = (_whole(plan.staging.size_bytes) for plan in found.copies.values() if plan.staging is not None)
    own = (buffer for channel in parts.sides for buffer in channel.buffers if buffer not in found.guests)
    each = max(staging, default=0) + sum(_whole(found.shared[buffer].size_bytes) for buffer in own)
    room = target.shared_bytes_per_block - STATIC_SHARED_BYTES - CONSUMER_GROUPS * each
    return min(CONSUMER_GROUPS * parts.main.stages, room // slot)


def _whole(size_bytes: int) -> int:
    return -(-size_bytes // SLOT_ALIGNMENT_BYTES) * SLOT_ALIGNMENT_BYTES


def _tiles(kernel: Kernel) -> int:
    return math.prod(axis.extent for axis in kernel.grid if isinstance(axis.extent, int))


# ---- why not -------------------------------------------------------------------------------------------------------------------


def _why_not(parts: _Parts | None, found: Situation, slots: int, target: Target) -> Rejection | None:
    """The first predicate that does not hold."""
    of_the_loop = _of_the_loop(parts, found, slots, target) if parts is not None else iter((_NO_PARTS,))
    checks = chain(_of_the_kernel(found, target), of_the_loop)
    failed = (Rejection(ALTERNATIVE, predicate, value, edit) for holds, predicate, value, edit in checks if not holds)
    return next(failed, None)


_Check = tuple[bool, str, str, str]
"""Whether a predicate holds, the predicate, the value it has, and the edit that would satisfy it."""
_NO_PARTS: _Check = (False, "one loop of the kernel's body holds loads, and others stand in the body itself", "it is not so", "")


def _of_the_kernel(found: Situation, target: Target) -> Iterator[_Check]:
    kernel, tiles, most = found.kernel, _tiles(found.kernel), CONSUMER_GROUPS * target.multiprocessors
    one = kernel.threads == WARPGROUP_THREADS
    yield one, f"the kernel has {WARPGROUP_THREADS} threads", str(kernel.threads), f"threads={WARPGROUP_THREADS}"
    constant = all(isinstance(axis.extent, int) for axis in kernel.grid)
    yield constant, "the extents of the grid are constants", "they are not", ""
    yield tiles > most, f"more tiles than two for each of the {target.multiprocessors} SMs", str(tiles), ""
    last = INT32.limits[1] - CONSUMER_GROUPS * target.multiprocessors
    yield tiles <= last, "a loop over the tiles counts in 32 bits", str(tiles), ""
    gemms = len([stmt for stmt in statements(kernel.body) if isinstance(stmt, Gemm)])
    yield gemms == 1, "the kernel has one gemm", str(gemms), ""
    left = kernel.registers == RegisterHints()
    yield left, "registers are left to the plan", "the author hands them out", "no annotations of registers"
    held = sum(registers_of(array) for array in found.registers.values())
    yield held <= MOST_REGISTERS, f"fragments take at most {MOST_REGISTERS} registers a thread", str(held), "smaller tiles"
    yield not _exchanges(found), "no reduction goes over several warps", "one does", ""


def _of_the_loop(parts: _Parts, found: Situation, slots: int, target: Target) -> Iterator[_Check]:
    loop, other = parts.loop, next((stmt for stmt in parts.loop.body if not _belongs(stmt, found)), None)
    what = "a loop over elements" if isinstance(other, tile.Parallel) else type(other).__name__
    where = f"{what} at {other.span.short}" if other is not None and other.span else "there is more"
    edit = "let TMA do the copy (see its line)" if isinstance(other, tile.Parallel) else ""
    yield other is None, "the loop holds loads by TMA and a gemm, nothing else", where, edit
    gemm = next((stmt for stmt in loop.body if isinstance(stmt, Gemm)), None)
    yield gemm is not None, "the gemm stands in the loop", "it does not", ""
    assert gemm is not None
    in_registers = gemm.a.buffer.scope is Scope.FRAGMENT
    yield not in_registers, "A comes from shared memory", "from registers", "T.gemm on the shared tile"
    cycles, least = _turn_cycles(found.gemms[gemm]), target.lone_warpgroup_cycles
    long = f"an iteration takes the tensor core {least} cycles or more"
    yield cycles >= least, long, str(cycles), "larger tiles, or a larger step of K"
    yield bool(trip_count(loop)), "the loop's trip count is a constant, and not 0", "it is not", ""
    shared = {buffer for buffer in found.kernel.buffers if buffer.scope is Scope.SHARED and buffer.view_of is None}
    loaded = {buffer for channel in found.channels for buffer in channel.buffers}
    names = ", ".join(sorted(buffer.name for buffer in shared - loaded))
    yield shared <= loaded, "all shared memory is filled by TMA, ahead of its use", f"{names} is not", ""
    wanted = CONSUMER_GROUPS * parts.main.stages
    stages = f"num_stages is {LEAST_SLOTS // CONSUMER_GROUPS} or more, for a ring of twice as many slots"
    yield wanted >= LEAST_SLOTS, stages, str(parts.main.stages), f"num_stages={LEAST_SLOTS // CONSUMER_GROUPS}"
    fits = f"{LEAST_SLOTS} slots fit beside what each warpgroup has to itself"
    yield slots >= LEAST_SLOTS, fits, f"{slots} do", "smaller tiles, or a tile that is read in T.Parallel instead of copied"


def _belongs(stmt: Stmt, found: Situation) -> bool:
    """Whether a statement may stand in the main loop, whose slots are released by warps that read them through wgmma alone."""
    is_load = isinstance(stmt, Copy) and found.copies[stmt].kind is CopyKind.TMA_LOAD
    in_shared = any(buffer.scope is Scope.SHARED for buffer in ordinary_reads(stmt))
    return (is_load or isinstance(stmt, (tile.Let, Gemm))) and not in_shared


def _turn_cycles(plan: GemmPlan) -> int:
    """Of the tensor core: m64nNk16 takes N / 2 (dense float16, 4096 operations a cycle and SM)."""
    return plan.m_tiles * plan.n_tiles * plan.k_steps * plan.n // 2


def _exchanges(found: Situation) -> bool:
    """Whether a reduction needs memory in which warps exchange what they have."""
    return any(
        isinstance(stmt, tile.Reduce) and found.fragments[stmt.src.buffer].digits_on(stmt.dim, Axis.WARP)
        for stmt in statements(found.kernel.body)
    )
