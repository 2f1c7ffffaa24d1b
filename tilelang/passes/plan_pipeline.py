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
from tilelang.ir.expr import Load, Var
from tilelang.ir.tile import Copy, Kernel, Stmt
from tilelang.ir.types import LoopKind, Scope
from tilelang.ir.walk import walk
from tilelang.passes.access import Context, contexts, own_expressions, reads, reads_inside, statements, writes
from tilelang.passes.options import Options
from tilelang.passes.plans import Channel, CopyKind, CopyPlan, Site
from tilelang.trace import Decision, Rejection


@dataclass(frozen=True, slots=True)
class ChannelPlan:
    """The channels, the loads that cannot travel ahead with the reason, and the decisions about either."""

    channels: tuple[Channel, ...]
    demoted: Mapping[Copy, Rejection]
    decisions: tuple[Decision, ...]
    demotions: tuple[Decision, ...]


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
    demotions = tuple(
        Decision(copy.span, f"load of {copy.dst.buffer.name}", "where it is written, by the consumers", rejected=(why_not,))
        for copy, why_not in demoted.items()
    )
    return ChannelPlan(channels, demoted, tuple(_decision(channel) for channel in channels), demotions)


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
                for site, _ in found.pop(group, []):
                    for copy in site.copies:
                        why = Rejection("a ring", f"{buffer.name} is always loaded together with the same buffers", "it is not")
                        demoted[copy] = why


# ---- what cannot travel ahead ------------------------------------------------------------------------------------------------


def _demoted(kernel: Kernel, copies: Mapping[Copy, CopyPlan], options: Options) -> dict[Copy, Rejection]:
    loads = [s for s in statements(kernel.body) if isinstance(s, Copy) and copies[s].kind is CopyKind.TMA_LOAD]
    if not options.warp_specialize:
        return dict.fromkeys(loads, Rejection("a ring", "there may be producer warps", "the author forbids them, or the block is full"))
    tainted = consumer_only(kernel)
    demoted: dict[Copy, Rejection] = {}
    for buffer in dict.fromkeys(copy.dst.buffer for copy in loads):
        mine = [copy for copy in loads if copy.dst.buffer is buffer]
        why_not = _misplaced_read(kernel, buffer, mine) or next(filter(None, (_follow_refusal(kernel, c, tainted) for c in mine)), None)
        if why_not is not None:
            demoted.update(dict.fromkeys(mine, why_not))
    return demoted


def _misplaced_read(kernel: Kernel, buffer: Buffer, loads: list[Copy]) -> Rejection | None:
    """Every reader must be covered: in the list of a load, behind it; and nobody else may write the buffer."""
    covered: set[Stmt] = set()
    for context in contexts(kernel.body):
        for copy in loads:
            if copy in context.body:
                start = context.body.index(copy)
                readers = [i for i, stmt in enumerate(context.body) if i > start and reads_inside(stmt, buffer)]
                if not readers:
                    return Rejection("a ring", f"{buffer.name} is read behind its load, in the same block of statements", "it is not")
                region = context.body[start + 1 : readers[-1] + 1]
                if any(isinstance(stmt, (tile.Break, tile.Continue)) for stmt in statements(region)):
                    return Rejection("a ring", f"no break or continue stands between load and last use of {buffer.name}", "one does")
                if any(buffer in writes(stmt) for stmt in statements(region)):
                    return Rejection("a ring", f"{buffer.name} is not written again before its last use", "it is")
                covered.update(statements(region))
    for stmt in statements(kernel.body):
        if buffer in reads(stmt) and stmt not in covered:
            where = f"it is read at {stmt.span}" if stmt.span else "it is read elsewhere"
            return Rejection("a ring", f"every read of {buffer.name} stands behind its load, in the same block of statements", where)
        if buffer in writes(stmt) and stmt not in loads:
            return Rejection("a ring", f"only TMA loads write {buffer.name}", "something else does")
    return None


def _follow_refusal(kernel: Kernel, copy: Copy, tainted: set[Var | Buffer]) -> Rejection | None:
    """The producer must be able to evaluate every index and condition on the way to the load, and to read the tensor early."""
    if any(copy.src.buffer in writes(stmt) for stmt in statements(kernel.body)):
        return Rejection("a ring", f"the kernel does not write {copy.src.buffer.name}", "it does")
    context = next(context for context in contexts(kernel.body) if copy in context.body)
    for expression in (*copy.src.base, *(e for stmt in context.around for e in own_expressions(stmt))):
        for node in walk(expression):
            if (isinstance(node, Var) and node in tainted) or (isinstance(node, Load) and _is_consumers(node.buffer, tainted)):
                return Rejection("a ring", "indices and conditions of the load are known without the consumers' data", "they are not")
    return None


def consumer_only(kernel: Kernel) -> set[Var | Buffer]:
    """Variables whose values come from shared memory or fragments, which only the consumers know."""
    tainted: set[Var | Buffer] = set()
    size = -1
    while len(tainted) > size:
        size = len(tainted)
        for context in contexts(kernel.body):
            dark = any(_reads_consumers(e, tainted) for stmt in context.around for e in own_expressions(stmt))
            for stmt in context.body:
                if isinstance(stmt, tile.Let) and _reads_consumers(stmt.value, tainted):
                    tainted.add(stmt.var)
                if isinstance(stmt, tile.Store) and stmt.buffer.scope is Scope.VAR and (dark or _reads_consumers(stmt.value, tainted)):
                    tainted.add(stmt.buffer)
    return tainted


def _reads_consumers(expression: object, tainted: set[Var | Buffer]) -> bool:
    return any(
        (isinstance(node, Load) and _is_consumers(node.buffer, tainted)) or (isinstance(node, Var) and node in tainted)
        for node in walk(expression)
    )


def _is_consumers(buffer: Buffer, tainted: set[Var | Buffer]) -> bool:
    return buffer.scope in (Scope.SHARED, Scope.FRAGMENT, Scope.LOCAL) or buffer in tainted


def _decision(channel: Channel) -> Decision:
    names = " and ".join(buffer.name for buffer in channel.buffers)
    slots = f"a ring of {channel.stages} slots of {channel.bytes_per_stage} bytes, a full and an empty mbarrier each"
    reason = "they are read together, so they share barriers" if len(channel.buffers) > 1 else "its reads follow its load"
    return Decision(channel.sites[0].copies[0].span, f"loads of {names}", slots, reason)
