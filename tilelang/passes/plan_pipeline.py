"""Which loads travel ahead of their use, in rings of how many slots.

A shared buffer filled by TMA becomes a *channel*: a ring of slots between the producer, who fills them, and the consumers.  Both
walk the same control flow; where the author wrote the copies, the producer fills the next slot as soon as it is free, and the
consumers wait for it before the first statement that reads it and free it after the last one.  That needs every read of the
buffer to stand in the statement list of its copy, behind it; any loops and conditions around that list are then right, whatever
their trip counts, because both sides count slots and phases the same way.  A load for which this does not hold is *demoted*: the
consumers do it themselves, element by element, where the author wrote it.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.tile import Copy, Kernel, Stmt
from tilelang.ir.types import LoopKind
from tilelang.passes.access import Context, contexts, reads, reads_inside, statements, writes
from tilelang.passes.options import DISABLE_WARP_SPECIALIZED, Options
from tilelang.passes.plan_producer import consumer_scalars, follow_refusal
from tilelang.passes.plans import Channel, CopyKind, CopyPlan, Site
from tilelang.trace import Decision, Rejection


@dataclass(frozen=True, slots=True)
class ChannelPlan:
    """The channels, and the loads that cannot travel ahead with the decisions about them."""

    channels: tuple[Channel, ...]
    demoted: Mapping[Copy, Decision]


def plan_channels(kernel: Kernel, copies: Mapping[Copy, CopyPlan], options: Options) -> ChannelPlan:
    """Channels for all loads that can travel ahead."""
    demoted = _demoted(kernel, copies, options)
    order = [copy.dst.buffer for copy in copies]
    found: dict[tuple[Buffer, ...], list[tuple[Site, int]]] = {}
    for context in contexts(kernel.body):
        for site in _sites(context, copies, demoted):
            key = tuple(sorted((copy.dst.buffer for copy in site.copies), key=order.index))
            found.setdefault(key, []).append((site, _stages(context)))
    _split_overlapping(found, demoted)
    channels = tuple(_channel(buffers, sites, copies, len(found)) for buffers, sites in found.items())
    where = "where it is written, by the consumers, element by element"
    demotions = {
        copy: Decision(copy.span, f"load of {copy.dst.buffer.name}", where, rejected=(why_not,))
        for copy, why_not in demoted.items()
    }
    return ChannelPlan(channels, demotions)


def _channel(
    buffers: tuple[Buffer, ...], sites: list[tuple[Site, int]], copies: Mapping[Copy, CopyPlan], count: int
) -> Channel:
    size = sum(copies[copy].tma.bytes for copy in sites[0][0].copies)  # type: ignore[union-attr]
    name = "_".join(buffer.name for buffer in buffers) if count > 1 else ""
    return Channel(name, buffers, max(stages for _, stages in sites), size, tuple(site for site, _ in sites))


def _stages(context: Context) -> int:
    """Slots for a copy in this list: the num_stages of the nearest loop if that is pipelined, else one."""
    for stmt in reversed(context.around):
        if isinstance(stmt, tile.For):
            return max(stmt.num_stages, 1) if stmt.kind is LoopKind.PIPELINED else 1
    return 1


def _sites(context: Context, copies: Mapping[Copy, CopyPlan], demoted: Mapping[Copy, Rejection]) -> list[Site]:
    """The loads of one list, those with the same first and last reader together."""
    groups: dict[tuple[Stmt, Stmt], list[Copy]] = {}
    for position, copy in enumerate(context.body):
        if isinstance(copy, Copy) and copies[copy].kind is CopyKind.TMA_LOAD and copy not in demoted:
            readers = [stmt for stmt in context.body[position + 1 :] if reads_inside(stmt, copy.dst.buffer)]
            groups.setdefault((readers[0], readers[-1]), []).append(copy)
    return [Site(tuple(group), first, last) for (first, last), group in groups.items()]


def _split_overlapping(found: dict[tuple[Buffer, ...], list[tuple[Site, int]]], demoted: dict[Copy, Rejection]) -> None:
    """A buffer that is loaded here together with one buffer and there with another cannot share barriers with both."""
    owners: dict[Buffer, list[tuple[Buffer, ...]]] = {}
    for buffers in found:
        for buffer in buffers:
            owners.setdefault(buffer, []).append(buffers)
    for buffer, groups in owners.items():
        if len(groups) > 1:
            for group in groups:
                why = Rejection("a ring", f"{buffer.name} is always loaded together with the same buffers", "it is not")
                for site, _ in found.pop(group, []):
                    demoted.update(dict.fromkeys(site.copies, why))


# ---- what cannot travel ahead ------------------------------------------------------------------------------------------------


def _demoted(kernel: Kernel, copies: Mapping[Copy, CopyPlan], options: Options) -> dict[Copy, Rejection]:
    loads = [s for s in statements(kernel.body) if isinstance(s, Copy) and copies[s].kind is CopyKind.TMA_LOAD]
    if not options.warp_specialize:
        why_not = Rejection("a ring", "there may be producer warps", "the author forbids them", f"no {DISABLE_WARP_SPECIALIZED}")
        return dict.fromkeys(loads, why_not)
    if not options.room_for_producer:
        why_not = Rejection("a ring", "the block has room for a producer warpgroup", f"{kernel.threads} threads", "fewer threads")
        return dict.fromkeys(loads, why_not)
    theirs = consumer_scalars(kernel)
    demoted: dict[Copy, Rejection] = {}
    for buffer in dict.fromkeys(copy.dst.buffer for copy in loads):
        mine = [copy for copy in loads if copy.dst.buffer is buffer]
        refusals = (_misplaced_read(kernel, buffer, mine), *(follow_refusal(kernel, copy, theirs) for copy in mine))
        why_not = next((refusal for refusal in refusals if refusal is not None), None)
        if why_not is not None:
            demoted.update(dict.fromkeys(mine, why_not))
    return demoted


def _misplaced_read(kernel: Kernel, buffer: Buffer, loads: list[Copy]) -> Rejection | None:
    """Every reader must be covered: in the list of a load, behind it; and nobody else may write the buffer."""
    covered: set[Stmt] = set()
    for context in contexts(kernel.body):
        for copy in loads:
            if copy in context.body:
                region = _live_region(context, copy)
                why_not = _broken_region(region, buffer)
                if why_not is not None:
                    return why_not
                covered.update(region)
    for stmt in statements(kernel.body):
        if buffer in reads(stmt) and stmt not in covered:
            rule = f"every read of {buffer.name} stands behind its load, in the same block of statements"
            return Rejection("a ring", rule, f"it is read at {stmt.span}" if stmt.span else "it is read elsewhere")
        if buffer in writes(stmt) and stmt not in loads:
            return Rejection("a ring", f"only TMA loads write {buffer.name}", "something else does")
    return None


def _live_region(context: Context, load: Copy) -> tuple[Stmt, ...]:
    """The statements from behind a load to the last one in its list that reads what it loads, with those inside them."""
    rest = context.body[context.body.index(load) + 1 :]
    end = max((i + 1 for i, stmt in enumerate(rest) if reads_inside(stmt, load.dst.buffer)), default=0)
    return tuple(statements(rest[:end]))


def _broken_region(region: tuple[Stmt, ...], buffer: Buffer) -> Rejection | None:
    if not region:
        return Rejection("a ring", f"{buffer.name} is read behind its load, in the same block of statements", "it is not")
    if any(isinstance(stmt, (tile.Break, tile.Continue)) for stmt in region):
        return Rejection("a ring", f"no break or continue stands between load and last use of {buffer.name}", "one does")
    if any(buffer in writes(stmt) for stmt in region):
        return Rejection("a ring", f"{buffer.name} is not written again before its last use", "it is")
    return None


# ---- words -------------------------------------------------------------------------------------------------------------------


def channel_decisions(kernel: Kernel, channels: tuple[Channel, ...]) -> tuple[Decision, ...]:
    """What became of the loads that travel ahead, and of `num_stages` where none does."""
    loaded = {copy for channel in channels for site in channel.sites for copy in site.copies}
    idle = [
        stmt for stmt in statements(kernel.body)
        if isinstance(stmt, tile.For) and stmt.kind is LoopKind.PIPELINED and stmt.num_stages > 0
        and loaded.isdisjoint(statements(stmt.body))
    ]  # fmt: skip
    return (*(_decision(channel) for channel in channels), *(_idle(loop) for loop in idle))


def _decision(channel: Channel) -> Decision:
    names = " and ".join(buffer.name for buffer in channel.buffers)
    many = channel.stages > 1
    slots = f"a ring of {channel.stages} slots" if many else "one slot"
    chosen = f"{slots} of {channel.bytes_per_stage} bytes, a full and an empty mbarrier{' each' * many}"
    reason = "they are read together, so they share barriers" if len(channel.buffers) > 1 else "its reads follow its load"
    return Decision(channel.sites[0].copies[0].span, f"loads of {names}", chosen, reason)


def _idle(loop: tile.For) -> Decision:
    why = Rejection("loads ahead of their use", "some load in the loop is done by TMA, by the producer", "none is")
    return Decision(loop.span, f"num_stages={loop.num_stages}", "of no effect: the iterations do not overlap", rejected=(why,))
