"""The compiler from tile IR to device IR: the order of the passes.

1. `legalize` refuses what this path cannot take; `transform_unused` leaves out what nobody uses, `transform_hoist` moves loads.
2. `plan_gemms` chooses instructions and the layouts that they ask of their operands; `plan_copies` says how each copy is done, in
   shared tiles of those layouts; `plan_clears` finds the zeros that a gemm can leave out.
3. `_settle` fixes the statements: copies that no instruction does become loops (`transform_elementwise`), every loop and fragment
   gets its layout (`infer_layouts`, with `transform_relayout` where two do not agree), loads are put into rings
   (`plan_channels`); a load that cannot travel ahead becomes a loop, and the step begins again.
4. What the statements need is handed out: registers, shared memory, roles, barriers, the order of blocks and of stores.  Where
   two warpgroups take tiles in turn (`plan_ping_pong`) and a tile of the epilogue can be a guest (`transform_guest`), planning
   begins again with it.
5. `lower` obeys; `prune` drops what it declared in vain.

Planning changes nothing and decides everything.  `Lowered.decisions` is every choice with its reason.  A kernel that its author
divides and synchronises by hand has plans (`plan_explicit`) and a lowering (`lower_explicit`) of its own.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilelang.ir.buffer import Buffer
from tilelang.ir.device import DeviceKernel
from tilelang.ir.tile import Copy, Kernel
from tilelang.passes.allocate_shared import allocate_shared
from tilelang.passes.infer_layouts import Demand, Inference, infer_layouts
from tilelang.passes.legalize import legalize
from tilelang.passes.lower_explicit import lower_explicit
from tilelang.passes.lower_kernel import lower
from tilelang.passes.options import DISABLE_PING_PONG, DISABLE_TMA, DISABLE_WARP_SPECIALIZED, Options, parse_options
from tilelang.passes.plan_copy import ELEMENTWISE, plan_copies
from tilelang.passes.plan_explicit import plan_explicit
from tilelang.passes.plan_gemm import plan_gemms
from tilelang.passes.plan_order import plan_order
from tilelang.passes.plan_ping_pong import Situation, plan_ping_pong
from tilelang.passes.plan_pipeline import channel_decisions, plan_channels
from tilelang.passes.plan_producer import producer_scalars
from tilelang.passes.plan_register_hints import apply_hints
from tilelang.passes.plan_registers import plan_registers
from tilelang.passes.plan_roles import PRODUCER_THREADS, plan_roles, spare_registers
from tilelang.passes.plan_schedule import plan_clears, plan_ordered_stores
from tilelang.passes.plan_sync import plan_sync
from tilelang.passes.plans import CONSUMER_GROUPS, Channel, Clear, CopyKind, CopyPlan, Plans
from tilelang.passes.prune import prune
from tilelang.passes.settle import layouts_of_shared, settle_layouts, whole_statements, with_body
from tilelang.passes.transform_elementwise import transform_elementwise
from tilelang.passes.transform_guest import Guests, explain_in_place, transform_guest
from tilelang.passes.transform_hoist import transform_hoist
from tilelang.passes.transform_unused import transform_unused
from tilelang.target import Target
from tilelang.trace import Decision

OPTIONS = frozenset({DISABLE_PING_PONG, DISABLE_TMA, DISABLE_WARP_SPECIALIZED})
"""The pass configurations that these passes read."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A compiled kernel: what was planned, why, and the device kernel it became."""

    kernel: Kernel
    plans: Plans
    device: DeviceKernel
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    """A kernel whose statements are what they will stay, with the plans of its copies, its channels and its layouts; `demoted`
    are loads by TMA that the consumers do themselves after all."""

    kernel: Kernel
    copies: Mapping[Copy, CopyPlan]
    channels: tuple[Channel, ...]
    layouts: Inference
    demoted: Mapping[Copy, Decision]
    decisions: tuple[Decision, ...]


def plan(
    kernel: Kernel, target: Target, options: Options, alignments: Mapping[Buffer, int]
) -> tuple[Plans, tuple[Decision, ...]]:
    """All plans of a legal kernel that is not divided by hand, and the decisions behind them.  `alignments`: of tensors whose
    address is no multiple of 16 bytes, in bytes."""
    body, hoisted = transform_hoist(kernel, spare_registers(kernel, target))
    around = _Around(kernel, target, options, alignments)
    first = with_body(kernel, body)
    plans, reasons = _plan(first, around)
    found = transform_guest(first, plans.copies) if plans.ping_pong is not None else None
    if found is not None and _comes_by_tma(found, plans, around):
        plans, reasons = _plan(found.kernel, around, found.hosts)
        others = explain_in_place(first, found.copy, "there is one such tile")
        return plans, (*hoisted, *found.decisions, *others, *reasons)
    why_not = "two warpgroups take tiles in turn" if plans.ping_pong is None else "TMA can load it, and it fits there"
    return plans, (*hoisted, *explain_in_place(first, None, why_not), *reasons)


def _comes_by_tma(guests: Guests, plans: Plans, around: _Around) -> bool:
    """Whether TMA can load the guest, at an address where its host may begin."""
    planned = plan_copies(guests.kernel, plans.shared_layouts, {}, around.alignments, around.options)
    if planned.copies[guests.copy].kind is not CopyKind.TMA_LOAD:
        return False
    hosts = ((planned.shared_layouts[guest], plans.copies[host].staging) for guest, host in guests.hosts.items())
    return all(room is not None and room.alignment_bytes % guest.alignment_bytes == 0 for guest, room in hosts)


@dataclass(frozen=True, slots=True)
class _Around:
    """What a plan depends on beside the statements: the kernel as its author wrote it, the chip, the options, and the tensors
    whose address is no multiple of 16 bytes."""

    authors: Kernel
    target: Target
    options: Options
    alignments: Mapping[Buffer, int]


def _plan(
    kernel: Kernel, around: _Around, guests: Mapping[Buffer, Copy] = MappingProxyType({})
) -> tuple[Plans, tuple[Decision, ...]]:
    """All plans of the kernel; `guests` are buffers that lie where a copy has its tile."""
    target, alignments = around.target, around.alignments
    gemms = plan_gemms(kernel, target)
    copied = plan_copies(kernel, gemms.shared, gemms.accumulators, alignments, around.options)
    clears, clear_reasons = plan_clears(kernel)
    settled = _settle(kernel, copied.copies, clears, gemms.fragments, around.options)
    kernel, copies, channels, loops = settled.kernel, settled.copies, settled.channels, settled.layouts.loops
    fragments = {buffer: demand.layout for buffer, demand in settled.layouts.fragments.items()}
    shared_layouts = layouts_of_shared(kernel, copied.shared_layouts)
    registers = plan_registers(kernel.body, fragments, loops, gemms.accumulators)
    found = Situation(kernel, channels, copies, gemms.gemms, shared_layouts, fragments, registers, guests)
    ping_pong, channels, turn_reasons = plan_ping_pong(found, target, around.options)
    groups = CONSUMER_GROUPS if ping_pong else 1
    shared, shared_reasons = allocate_shared(
        kernel, shared_layouts, channels, copies, fragments, target, groups, guests if ping_pong else {}
    )
    roles, role_reasons = plan_roles(around.authors, bool(channels), registers, gemms.accumulators, shared.bytes, target, groups)
    roles, role_reasons = apply_hints(kernel, roles, role_reasons, target)
    order, order_reasons = plan_order(kernel)
    loads = {copy for channel in channels for site in channel.sites for copy in site.copies}
    plans = Plans(
        body=kernel.body, shared_layouts=shared_layouts, fragment_layouts=fragments, loop_layouts=loops, copies=copies,
        gemms=gemms.gemms, clears=clears, channels=channels, roles=roles, shared=shared,
        syncs=plan_sync(kernel.body, copies, shared.arrays, ping_pong is not None), alignments=alignments, registers=registers,
        producer_scalars=producer_scalars(kernel, loads), order=order, ordered_stores=plan_ordered_stores(kernel, copies),
        ping_pong=ping_pong,
    )  # fmt: skip
    copy_reasons = {**copied.decisions, **settled.demoted}.values()
    reasons = (
        gemms.decisions, copy_reasons, turn_reasons, channel_decisions(kernel, channels), settled.decisions, clear_reasons,
        shared_reasons, role_reasons, order_reasons,
    )  # fmt: skip
    return plans, tuple(decision for group in reasons for decision in group)


def _settle(
    kernel: Kernel, copies: Mapping[Copy, CopyPlan], clears: tuple[Clear, ...], prescribed: Mapping[Buffer, Demand],
    options: Options,
) -> Settled:  # fmt: skip
    """The statements, layouts and channels, once they agree."""
    demoted: dict[Copy, Decision] = {}
    while True:
        body = transform_elementwise(kernel.body, whole_statements(copies, clears))
        settled, layouts, relayouts = settle_layouts(kernel, body, lambda body: infer_layouts(body, prescribed, kernel.threads))
        ahead = plan_channels(settled, copies, options)
        if not ahead.demoted:
            return Settled(settled, copies, ahead.channels, layouts, demoted, (*relayouts, *layouts.decisions()))
        demoted |= ahead.demoted
        copies = {copy: ELEMENTWISE if copy in ahead.demoted else known for copy, known in copies.items()}


def compile_kernel(
    kernel: Kernel, target: Target, options: Mapping[str, object] | None = None, alignments: Mapping[Buffer, int] | None = None
) -> Lowered:
    """The device kernel of a tile kernel.

    `options`: pass configurations by name (`passes/options.py` has those that mean something here).  `alignments`: of tensors
    whose address is no multiple of 16 bytes, in bytes.  Raises KernelError subclasses for what the target or this compiler cannot
    take."""
    legalize(kernel, target)
    chosen = parse_options(options)
    if kernel.threads + PRODUCER_THREADS > target.threads_per_block_max:
        chosen = dataclasses.replace(chosen, room_for_producer=False)
    if kernel.is_explicit:
        explicit, reasons = plan_explicit(kernel, target, chosen, alignments or {})
        plans, device = explicit.plans, lower_explicit(kernel, explicit, target)
    else:
        plans, reasons = plan(with_body(kernel, transform_unused(kernel.body)), target, chosen, alignments or {})
        device = lower(kernel, plans, target)
    return Lowered(kernel, plans, prune(device), (*kernel.decisions, *reasons))
