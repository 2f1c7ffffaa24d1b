"""The compiler from tile IR to device IR: the order of the passes.

Planning changes nothing and decides everything; lowering obeys.  `Lowered.decisions` is every choice with its reason.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from tilelang.ir.buffer import Buffer
from tilelang.ir.device import DeviceKernel
from tilelang.ir.tile import Body, Copy, Fill, Kernel, Stmt
from tilelang.passes.allocate_shared import allocate_shared
from tilelang.passes.infer_layouts import infer_layouts
from tilelang.passes.legalize import legalize
from tilelang.passes.lower_kernel import lower
from tilelang.passes.plan_copy import ELEMENTWISE, plan_copies
from tilelang.passes.plan_gemm import plan_gemms
from tilelang.passes.plan_order import plan_order
from tilelang.passes.plan_pipeline import ChannelPlan, consumer_only, plan_channels
from tilelang.passes.plan_registers import plan_registers
from tilelang.passes.plan_roles import plan_roles
from tilelang.passes.plan_schedule import plan_clears
from tilelang.passes.plan_sync import plan_sync
from tilelang.passes.plans import CopyKind, CopyPlan, Plans
from tilelang.passes.transform_elementwise import transform_elementwise
from tilelang.target import Target
from tilelang.trace import Decision


@dataclass(frozen=True, slots=True)
class Lowered:
    """A compiled kernel: what was planned, why, and the device kernel it became."""

    kernel: Kernel
    plans: Plans
    device: DeviceKernel
    decisions: tuple[Decision, ...]


def plan(kernel: Kernel, target: Target, alignments: Mapping[Buffer, int]) -> tuple[Plans, tuple[Decision, ...]]:
    """All plans of a legal kernel, and the decisions behind them."""
    gemms = plan_gemms(kernel)
    copied = plan_copies(kernel, gemms.shared, gemms.accumulators, alignments)
    clears, clear_reasons = plan_clears(kernel)
    body, copies, ahead = _ahead(kernel, copied.copies, [clear.fill for clear in clears])
    layouts = infer_layouts(kernel, body, gemms.fragments, kernel.threads)
    fragments = {buffer: demand.layout for buffer, demand in layouts.fragments.items()}
    registers = plan_registers(fragments, gemms.accumulators)
    shared, shared_reasons = allocate_shared(kernel, body, copied.shared_layouts, ahead.channels, copies, fragments, target)
    roles, role_reasons = plan_roles(kernel, bool(ahead.channels), registers.values(), shared.bytes, target)
    syncs = plan_sync(body, copies, shared.arrays)
    order, order_reasons = plan_order(kernel)
    plans = Plans(
        body, copied.shared_layouts, fragments, layouts.loops, copies, gemms.gemms, clears, ahead.channels, roles, shared, syncs,
        alignments, registers, consumer_only(dataclasses.replace(kernel, body=body)), order,
    )  # fmt: skip
    reasons = (gemms.decisions, copied.decisions, ahead.decisions, clear_reasons, layouts.decisions(), shared_reasons, role_reasons, order_reasons)
    return plans, tuple(decision for group in reasons for decision in group)


def _ahead(
    kernel: Kernel, copies: Mapping[Copy, CopyPlan], clears: list[Fill]
) -> tuple[Body, Mapping[Copy, CopyPlan], ChannelPlan]:
    """The body with element-wise copies and fills as loops, and the channels of the loads that are left; a load that cannot travel
    ahead becomes such a loop, too."""
    demoted: tuple[Decision, ...] = ()
    while True:
        body = transform_elementwise(kernel.body, _whole(copies, clears))
        found = plan_channels(dataclasses.replace(kernel, body=body), copies)
        if not found.demoted:
            return body, copies, dataclasses.replace(found, decisions=(*demoted, *found.decisions))
        demoted += found.decisions[len(found.channels) :]
        copies = {copy: ELEMENTWISE if copy in found.demoted else known for copy, known in copies.items()}


def _whole(copies: Mapping[Copy, CopyPlan], clears: list[Fill]) -> set[Stmt]:
    """The copies and fills that stay what they are: an instruction does them, or nobody needs to."""
    return {copy for copy, found in copies.items() if found.kind is not CopyKind.ELEMENTWISE} | set(clears)


def compile_kernel(
    kernel: Kernel, target: Target, options: Mapping[str, object] | None = None, alignments: Mapping[Buffer, int] | None = None
) -> Lowered:
    """The device kernel of a tile kernel.

    `alignments`: of tensors whose address is no multiple of 16 bytes, in bytes.  Raises KernelError subclasses for what the target or
    this compiler cannot take."""
    legalize(kernel, target)
    plans, decisions = plan(kernel, target, alignments or {})
    return Lowered(kernel, plans, lower(kernel, plans, target), (*kernel.decisions, *decisions))
