"""Where everything lies in dynamic shared memory.

The rings come first.  A tile that only serves to store an accumulator lies on top of them where they are dead by then: its copy
stands at the top of the kernel, behind every statement that loads or reads a ring.  What warps exchange in reductions comes last.
"""
from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tilelang.errors import InternalError, ResourceExceeded, Span
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import SharedArray
from tilelang.ir.tile import Copy, Kernel, Reduce, Stmt
from tilelang.ir.types import Scope
from tilelang.layout.digits import Axis, Layout
from tilelang.layout.swizzle import PanelLayout
from tilelang.passes.access import reads, statements, touches_inside
from tilelang.passes.plans import Channel, CopyPlan, SharedPlan
from tilelang.target import Target
from tilelang.trace import Decision

STATIC_SHARED_BYTES = 1024  # where the mbarriers lie; the compiler rounds it up to this
SCRATCH_ALIGNMENT_BYTES = 16
WORD_BYTES = 4


@dataclass(slots=True)
class _Memory:
    """The arrays so far and where they end, in bytes."""

    arrays: dict[Buffer | Stmt, SharedArray] = field(default_factory=dict)
    end: int = 0

    def place(self, key: Buffer | Stmt, array: SharedArray) -> None:
        self.arrays[key] = array
        self.end = max(self.end, array.offset_bytes + array.stage_bytes * array.stages)


def allocate_shared(
    kernel: Kernel,
    layouts: Mapping[Buffer, PanelLayout],
    channels: tuple[Channel, ...],
    copies: Mapping[Copy, CopyPlan],
    fragments: Mapping[Buffer, Layout],
    target: Target,
    consumer_groups: int = 1,
    guests: Mapping[Buffer, Copy] = MappingProxyType({}),
) -> tuple[SharedPlan, tuple[Decision, ...]]:
    """Offsets of all arrays.  `consumer_groups`: groups of threads that store tiles at the same time, while others use the rings.
    `guests`: buffers that lie where a copy has its tile.  Raises ResourceExceeded (TL401), with the table of buffers, if they do
    not fit."""
    memory = _Memory()
    stages = {buffer: channel.stages for channel in channels for buffer in channel.buffers}
    for buffer in kernel.buffers:
        if buffer in layouts and buffer not in guests:
            array = _tile(buffer.name, layouts[buffer], stages.get(buffer, 1), memory.end, buffer.span)
            memory.place(buffer, array)
    decisions = _place_store_tiles(kernel, copies, memory, consumer_groups)
    for buffer, copy in guests.items():
        host = memory.arrays[copy]
        guest = _tile(buffer.name, layouts[buffer], consumer_groups, host.offset_bytes, buffer.span)
        if guest.offset_bytes != host.offset_bytes or guest.stage_bytes > host.stage_bytes:
            raise InternalError(f"{buffer.name} does not fit into the tile that {host.name} is", code="TL902", span=buffer.span)
        memory.place(buffer, dataclasses.replace(guest, stage_bytes=host.stage_bytes))
    for stmt in statements(kernel.body):
        if isinstance(stmt, Reduce):
            _place_scratch(stmt, fragments[stmt.src.buffer], kernel.threads, memory)
    _check(memory, kernel, target)
    return SharedPlan(memory.arrays, memory.end), decisions


def _place_store_tiles(
    kernel: Kernel, copies: Mapping[Copy, CopyPlan], memory: _Memory, consumer_groups: int
) -> tuple[Decision, ...]:
    """Tiles through which accumulators leave.  Those of one role share memory; warpgroups on their own, and several
    `consumer_groups`, may store at the same time."""
    ring_end, decisions = memory.end, []
    staged = {copy: plan.staging for copy, plan in copies.items() if plan.staging is not None}
    stride = max((_aligned(staging.slot_bytes, staging.alignment_bytes) for staging in staged.values()), default=0)
    for copy, staging in staged.items():
        reuse = consumer_groups == 1 and _rings_are_dead(kernel, copy)
        start = 0 if reuse else memory.end if kernel.is_explicit else ring_end
        array = _tile(f"{copy.dst.buffer.name}_tile", staging, consumer_groups, start, copy.span)
        # What one group stores from never overlaps what another one does, whichever of their copies they are at.
        memory.place(copy, array if consumer_groups == 1 else dataclasses.replace(array, stage_bytes=stride))
        where = "on top of the tiles, which are dead by then" if reuse else "in memory of its own, since tiles are used after it"
        where = "a tile for each warpgroup, since the other one uses the rings meanwhile" if consumer_groups > 1 else where
        decisions.append(Decision(copy.span, f"shared memory for storing {copy.dst.buffer.name}", where))
    return tuple(decisions)


def _place_scratch(reduce: Reduce, layout: Layout, threads: int, memory: _Memory) -> None:
    """A word of every thread for each result it has, if the reduced dimension goes over several warps."""
    if not layout.digits_on(reduce.dim, Axis.WARP):
        return
    kept = (dim for dim in range(len(layout.dims)) if dim != reduce.dim)
    results = math.prod(digit.size for dim in kept for digit in layout.digits_on(dim, Axis.REGISTER))
    array = SharedArray(
        name=f"{reduce.dst.buffer.name}_scratch", offset_bytes=_aligned(memory.end, SCRATCH_ALIGNMENT_BYTES),
        stage_bytes=WORD_BYTES * threads * results, stages=1, swizzle_bytes=0, text="exchange between warps", span=reduce.span,
    )  # fmt: skip
    memory.place(reduce, array)


def _tile(name: str, layout: PanelLayout, stages: int, start: int, span: Span | None) -> SharedArray:
    """A tile at the next aligned offset, `stages` times; each slot keeps the alignment too."""
    align = layout.alignment_bytes
    stages *= layout.slots
    stage_bytes = _aligned(layout.slot_bytes, align) if stages > 1 else layout.slot_bytes
    return SharedArray(
        name=name, offset_bytes=_aligned(start, align), stage_bytes=stage_bytes, stages=stages,
        swizzle_bytes=layout.swizzle_bytes, text=str(layout), span=span,
    )  # fmt: skip


def _aligned(offset_bytes: int, unit_bytes: int) -> int:
    return -(-offset_bytes // unit_bytes) * unit_bytes


def _rings_are_dead(kernel: Kernel, copy: Copy) -> bool:
    """Whether nothing behind the copy, which no loop repeats, touches shared memory, nor do its own indices, and nobody runs
    behind on his own."""
    if copy not in kernel.body or kernel.is_explicit or any(buffer.scope is Scope.SHARED for buffer in reads(copy)):
        return False
    after = kernel.body[kernel.body.index(copy) + 1 :]
    shared = [buffer for buffer in kernel.buffers if buffer.scope is Scope.SHARED]
    return not any(touches_inside(stmt, buffer) for stmt in after for buffer in shared)


def _check(memory: _Memory, kernel: Kernel, target: Target) -> None:
    if memory.end + STATIC_SHARED_BYTES <= target.shared_bytes_per_block:
        return
    rows = [
        f"{a.name:<16} {a.stages} x {a.stage_bytes:>8} = {a.stages * a.stage_bytes:>8} bytes from {a.offset_bytes}"
        for a in memory.arrays.values()
    ]
    raise ResourceExceeded(
        f"the block needs {memory.end} bytes of shared memory and {STATIC_SHARED_BYTES} for its barriers, {target.arch} has "
        f"{target.shared_bytes_per_block}",
        code="TL401", span=kernel.span, notes=tuple(rows), hint="use fewer stages or smaller tiles",
    )  # fmt: skip
