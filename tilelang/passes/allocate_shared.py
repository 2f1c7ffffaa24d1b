"""Where everything lies in dynamic shared memory.

The rings come first.  A tile that only serves to store an accumulator lies on top of them where they are dead by then: its copy
stands at the top of the kernel, behind every statement that loads or reads a ring.
"""
from __future__ import annotations

from collections.abc import Mapping

from tilelang.errors import ResourceExceeded
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import SharedArray
from tilelang.ir.tile import Copy, Kernel, Reduce, Stmt
from tilelang.ir.types import Scope
from tilelang.layout.digits import Layout
from tilelang.layout.swizzle import PanelLayout
from tilelang.passes.access import statements, touches_inside
from tilelang.passes.lower_reduce import scratch_bytes
from tilelang.passes.plans import Channel, CopyPlan, SharedPlan
from tilelang.target import Target
from tilelang.trace import Decision

STATIC_SHARED_BYTES = 1024  # where the mbarriers lie; the compiler rounds it up to this


def allocate_shared(
    kernel: Kernel,
    layouts: Mapping[Buffer, PanelLayout],
    channels: tuple[Channel, ...],
    copies: Mapping[Copy, CopyPlan],
    fragments: Mapping[Buffer, Layout],
    target: Target,
) -> tuple[SharedPlan, tuple[Decision, ...]]:
    """Offsets of all arrays.  Raises ResourceExceeded with the table of buffers if they do not fit."""
    stages = {buffer: channel.stages for channel in channels for buffer in channel.buffers}
    arrays: dict[Buffer | Stmt, SharedArray] = {}
    end = 0
    for buffer in kernel.buffers:
        if buffer in layouts:
            array = arrays[buffer] = _array(buffer.name, layouts[buffer], stages.get(buffer, 1), end, buffer.span)
            end = array.offset_bytes + array.stage_bytes * array.stages
    ring_end, decisions = end, []
    for copy, plan in copies.items():
        if plan.staging is None:
            continue
        reuse = _rings_are_dead(kernel, copy)
        start = 0 if reuse else end if kernel.is_explicit else ring_end  # warpgroups on their own may store at the same time
        array = arrays[copy] = _array(f"{copy.dst.buffer.name}_tile", plan.staging, 1, start, copy.span)
        end = max(end, array.offset_bytes + array.stage_bytes)
        where = "on top of the rings, which are dead by then" if reuse else "in memory of its own, since rings are used after it"
        decisions.append(Decision(copy.span, f"shared memory for storing {copy.dst.buffer.name}", where))
    for stmt in statements(kernel.body):
        size = scratch_bytes(stmt, fragments[stmt.src.buffer], kernel.threads) if isinstance(stmt, Reduce) else 0
        if size:
            arrays[stmt] = SharedArray(
                name=f"{stmt.dst.buffer.name}_scratch", offset_bytes=-(-end // 16) * 16, stage_bytes=size, stages=1, swizzle_bytes=0,  # type: ignore[attr-defined]
                text="exchange between warps", span=stmt.span,
            )  # fmt: skip
            end = arrays[stmt].offset_bytes + size
    _check(arrays, end, kernel, target)
    return SharedPlan(arrays, end), tuple(decisions)


def _array(name: str, layout: PanelLayout, stages: int, start: int, span: object) -> SharedArray:
    """A SharedArray at the next aligned offset; each slot keeps the alignment too."""
    align = layout.alignment_bytes
    stages *= layout.slots
    stage_bytes = -(-layout.slot_bytes // align) * align if stages > 1 else layout.slot_bytes
    return SharedArray(
        name=name, offset_bytes=-(-start // align) * align, stage_bytes=stage_bytes, stages=stages,
        swizzle_bytes=layout.swizzle_bytes, text=str(layout), span=span,  # type: ignore[arg-type]
    )  # fmt: skip


def _rings_are_dead(kernel: Kernel, copy: Copy) -> bool:
    """Whether nothing behind the copy, which no loop repeats, touches shared memory, and nobody runs behind on his own."""
    if copy not in kernel.body or kernel.is_explicit:
        return False
    after = kernel.body[kernel.body.index(copy) + 1 :]
    shared = [buffer for buffer in kernel.buffers if buffer.scope is Scope.SHARED]
    return not any(touches_inside(stmt, buffer) for stmt in after for buffer in shared)


def _check(arrays: Mapping[Buffer | Stmt, SharedArray], total: int, kernel: Kernel, target: Target) -> None:
    if total + STATIC_SHARED_BYTES <= target.shared_bytes_per_block:
        return
    rows = [
        f"{a.name:<16} {a.stages} x {a.stage_bytes:>8} = {a.stages * a.stage_bytes:>8} bytes from {a.offset_bytes}" for a in arrays.values()
    ]
    raise ResourceExceeded(
        f"the block needs {total} bytes of shared memory and {STATIC_SHARED_BYTES} for its barriers, {target.arch} has "
        f"{target.shared_bytes_per_block}",
        code="TL401", span=kernel.span, notes=tuple(rows), hint="use fewer stages or smaller tiles",
    )  # fmt: skip
