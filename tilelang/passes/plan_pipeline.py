"""Which loads travel ahead of their use, in rings of how many slots.

A shared buffer filled by TMA becomes a *channel*: a ring of slots between the producer, who fills them, and the consumers.  Both
walk the same control flow; where the author wrote the copies, the producer fills the next slot as soon as it is free, and the
consumers wait for it before the first statement that reads it and free it after the last one.  That needs every read of the
buffer to stand in the statement list of its copy, behind it; any loop structure around that list is then right, whatever its
trip counts, because both sides count slots and phases the same way.
"""
from __future__ import annotations

from collections.abc import Mapping

from tilelang.errors import Unsupported
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.tile import Copy, Kernel, Stmt
from tilelang.ir.types import LoopKind
from tilelang.passes.access import Context, contexts, reads, reads_inside, statements
from tilelang.passes.plans import Channel, CopyKind, CopyPlan, Site
from tilelang.trace import Decision


def plan_channels(kernel: Kernel, copies: Mapping[Copy, CopyPlan]) -> tuple[tuple[Channel, ...], tuple[Decision, ...]]:
    """The channels of a kernel.  Raises Unsupported where a read stands where the ring could not serve it."""
    found: dict[tuple[Buffer, ...], list[tuple[Site, int]]] = {}
    for context in contexts(kernel.body):
        for site in _sites(context, copies):
            key = tuple(copy.dst.buffer for copy in site.copies)
            found.setdefault(key, []).append((site, _stages(context)))
    _check_disjoint(found)
    channels = []
    for buffers, sites in found.items():
        for buffer in buffers:
            _check_reads(kernel, buffer, [site for site, _ in sites])
        size = sum(copies[copy].tma.bytes for copy in sites[0][0].copies)  # type: ignore[union-attr]
        stages = max(stages for _, stages in sites)
        name = "_".join(buffer.name for buffer in buffers) if len(found) > 1 else ""
        channels.append(Channel(name, buffers, stages, size, tuple(site for site, _ in sites)))
    return tuple(channels), tuple(_decision(channel) for channel in channels)


def _stages(context: Context) -> int:
    """Slots for a copy in this list: the num_stages of the nearest loop if that is pipelined, else one."""
    for stmt in reversed(context.around):
        if isinstance(stmt, tile.For):
            return max(stmt.num_stages, 1) if stmt.kind is LoopKind.PIPELINED else 1
    return 1


def _sites(context: Context, copies: Mapping[Copy, CopyPlan]) -> list[Site]:
    """The loads of one list, those with the same first and last reader together."""
    groups: dict[tuple[Stmt, Stmt], list[Copy]] = {}
    for position, copy in enumerate(context.body):
        if isinstance(copy, Copy) and copies[copy].kind is CopyKind.TMA_LOAD:
            readers = [stmt for stmt in context.body[position + 1 :] if reads_inside(stmt, copy.dst.buffer)]
            if not readers:
                raise Unsupported(
                    f"{copy.dst.buffer.name} is loaded here and not read later in the same block of statements",
                    code="TL331", span=copy.span, hint="load a tile next to where it is used, or drop the copy",
                )  # fmt: skip
            groups.setdefault((readers[0], readers[-1]), []).append(copy)
    return [Site(tuple(group), first, last) for (first, last), group in groups.items()]


def _check_disjoint(found: Mapping[tuple[Buffer, ...], object]) -> None:
    owner: dict[Buffer, tuple[Buffer, ...]] = {}
    for buffers in found:
        for buffer in buffers:
            if buffer in owner:
                raise Unsupported(
                    f"{buffer.name} is loaded in two places together with different buffers", code="TL332", span=buffer.span,
                    hint="give each place its own shared buffers",
                )  # fmt: skip
            owner[buffer] = buffers


def _check_reads(kernel: Kernel, buffer: Buffer, sites: list[Site]) -> None:
    """Every reader must be covered by a site: within the list of its copy, from the first to the last reader."""
    covered: set[Stmt] = set()
    for context in contexts(kernel.body):
        for site in sites:
            if site.copies[0] in context.body:
                first, last = context.body.index(site.copies[-1]), context.body.index(site.last_reader)
                covered.update(statements(context.body[first + 1 : last + 1]))
                _check_overwrite(context, site, buffer)
    for stmt in statements(kernel.body):
        if buffer in reads(stmt) and stmt not in covered:
            raise Unsupported(
                f"{buffer.name} is read here, outside the block of statements that loads it", code="TL333", span=stmt.span,
                hint="load it in the same block of statements, before this one",
            )  # fmt: skip


def _check_overwrite(context: Context, site: Site, buffer: Buffer) -> None:
    """A second load between a load and its last read would need the slot twice."""
    span = context.body[context.body.index(site.copies[0]) : context.body.index(site.last_reader) + 1]
    loads = [s for s in statements(span) if isinstance(s, Copy) and s.dst.buffer is buffer]
    if len(loads) > 1:
        raise Unsupported(f"{buffer.name} is loaded again before its last use", code="TL334", span=loads[1].span)


def _decision(channel: Channel) -> Decision:
    names = " and ".join(buffer.name for buffer in channel.buffers)
    slots = f"a ring of {channel.stages} slots of {channel.bytes_per_stage} bytes, a full and an empty mbarrier each"
    return Decision(channel.sites[0].copies[0].span, f"loads of {names}", slots, "they are read together, so they share barriers")
