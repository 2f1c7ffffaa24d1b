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
from tilelang.ir.types import Scope
from tilelang.passes.allocate_shared import allocate_shared
from tilelang.passes.infer_layouts import Demand, Inference, RelayoutWanted, infer_layouts
from tilelang.passes.legalize import legalize
from tilelang.passes.lower_explicit import lower_explicit
from tilelang.passes.lower_kernel import lower
from tilelang.passes.options import DISABLE_TMA, DISABLE_WARP_SPECIALIZED, Options, parse_options
from tilelang.passes.plan_copy import ELEMENTWISE, default_layout, plan_copies
from tilelang.passes.plan_explicit import plan_explicit
from tilelang.passes.plan_gemm import plan_gemms
from tilelang.passes.plan_order import plan_order
from tilelang.passes.plan_pipeline import consumer_only, plan_channels
from tilelang.passes.plan_register_hints import apply_hints
from tilelang.passes.plan_registers import plan_registers
from tilelang.passes.plan_roles import PRODUCER_THREADS, plan_roles
from tilelang.passes.plan_schedule import plan_clears, plan_ordered_stores
from tilelang.passes.plan_sync import plan_sync
from tilelang.passes.plans import Channel, CopyKind, CopyPlan, Plans
from tilelang.passes.transform_elementwise import transform_elementwise
from tilelang.passes.transform_relayout import transform_relayout
from tilelang.target import Target
from tilelang.trace import Decision

OPTIONS = frozenset({DISABLE_TMA, DISABLE_WARP_SPECIALIZED})
"""The pass configurations that these passes read."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A compiled kernel: what was planned, why, and the device kernel it became."""

    kernel: Kernel
    plans: Plans
    device: DeviceKernel
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class Shaped:
    """A kernel whose loops and copies are what they will stay, with its channels and layouts."""

    kernel: Kernel
    copies: Mapping[Copy, CopyPlan]
    channels: tuple[Channel, ...]
    layouts: Inference
    decisions: tuple[Decision, ...]


def plan(
    kernel: Kernel, target: Target, options: Options, alignments: Mapping[Buffer, int]
) -> tuple[Plans, tuple[Decision, ...]]:
    """All plans of a legal kernel, and the decisions behind them."""
    gemms = plan_gemms(kernel, target)
    copied = plan_copies(kernel, gemms.shared, gemms.accumulators, alignments, options)
    clears, clear_reasons = plan_clears(kernel)
    shaped = _shape_body(kernel, copied.copies, [clear.fill for clear in clears], gemms.fragments, options)
    kernel, layouts, copies = shaped.kernel, shaped.layouts, shaped.copies
    shared_layouts = {b: copied.shared_layouts.get(b) or default_layout(b) for b in kernel.buffers if b.scope is Scope.SHARED and b.view_of is None}
    fragments = {buffer: demand.layout for buffer, demand in layouts.fragments.items()}
    registers = plan_registers(kernel.body, fragments, layouts.loops, gemms.accumulators)
    shared, shared_reasons = allocate_shared(kernel, shared_layouts, shaped.channels, copies, fragments, target)
    roles, role_reasons = plan_roles(
        kernel, bool(shaped.channels), registers.values(), gemms.accumulators, shared.bytes, target
    )
    roles, role_reasons = apply_hints(kernel, roles, role_reasons, target)
    order, order_reasons = plan_order(kernel)
    plans = Plans(
        kernel.body, shared_layouts, fragments, layouts.loops, copies, gemms.gemms, clears, shaped.channels, roles, shared,
        plan_sync(kernel.body, copies, shared.arrays), alignments, registers, consumer_only(kernel), order,
        plan_ordered_stores(kernel, copies),
    )  # fmt: skip
    reasons = (gemms.decisions, copied.decisions, shaped.decisions, clear_reasons, shared_reasons, role_reasons, order_reasons)
    return plans, tuple(decision for group in reasons for decision in group)


def _shape_body(
    kernel: Kernel, copies: Mapping[Copy, CopyPlan], clears: list[Fill], prescribed: Mapping[Buffer, Demand], options: Options
) -> Shaped:
    """Element-wise copies and fills become loops, loads that cannot travel ahead too, and fragments that a loop needs in another
    layout pass through shared memory - until all layouts and channels are settled."""
    extra: list[Decision] = []
    while True:
        body = transform_elementwise(kernel.body, _whole(copies, clears))
        body, staged, layouts, relayouts = _settle_layouts(kernel, body, prescribed)
        shaped = dataclasses.replace(kernel, body=body, buffers=(*kernel.buffers, *staged))
        ahead = plan_channels(shaped, copies, options)
        if not ahead.demoted:
            decisions = (*extra, *relayouts, *ahead.decisions, *layouts.decisions())
            return Shaped(shaped, copies, ahead.channels, layouts, decisions)
        extra += ahead.decisions[len(ahead.channels) :]
        copies = {copy: ELEMENTWISE if copy in ahead.demoted else known for copy, known in copies.items()}


def _settle_layouts(
    kernel: Kernel, body: Body, prescribed: Mapping[Buffer, Demand]
) -> tuple[Body, list[Buffer], Inference, list[Decision]]:
    staged: list[Buffer] = []
    decisions: list[Decision] = []
    while True:
        try:
            return body, staged, infer_layouts(body, prescribed, kernel.threads), decisions
        except RelayoutWanted as wanted:
            body, copy = transform_relayout(body, wanted.loop, wanted.buffer)
            staged.append(copy)
            decisions.append(wanted.decision)


def _whole(copies: Mapping[Copy, CopyPlan], clears: list[Fill]) -> set[Stmt]:
    """The copies and fills that stay what they are: an instruction does them, or nobody needs to."""
    return {copy for copy, found in copies.items() if found.kind is not CopyKind.ELEMENTWISE} | set(clears)


def compile_kernel(
    kernel: Kernel, target: Target, options: Mapping[str, object] | None = None, alignments: Mapping[Buffer, int] | None = None
) -> Lowered:
    """The device kernel of a tile kernel.

    `options`: pass configurations by name (`passes/options.py` has those that mean something here).  `alignments`: of tensors whose address is no multiple of 16 bytes, in bytes.  Raises KernelError subclasses for what the target or
    this compiler cannot take."""
    legalize(kernel, target)
    chosen = parse_options(options)
    if kernel.threads + PRODUCER_THREADS > target.threads_per_block_max:
        chosen = dataclasses.replace(chosen, warp_specialize=False)
    if kernel.is_explicit:
        explicit, reasons = plan_explicit(kernel, target, chosen, alignments or {})
        return Lowered(kernel, explicit.plans, lower_explicit(kernel, explicit, target), (*kernel.decisions, *reasons))
    plans, decisions = plan(kernel, target, chosen, alignments or {})
    return Lowered(kernel, plans, lower(kernel, plans, target), (*kernel.decisions, *decisions))
