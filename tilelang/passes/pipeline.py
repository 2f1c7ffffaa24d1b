"""The compiler from tile IR to device IR: the order of the passes.

Planning changes nothing and decides everything; lowering obeys.  `Lowered.decisions` is every choice with its reason.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilelang.ir.device import DeviceKernel
from tilelang.ir.tile import Kernel
from tilelang.passes.allocate_shared import allocate_shared
from tilelang.passes.legalize import legalize
from tilelang.passes.lower_kernel import lower
from tilelang.passes.plan_copy import plan_copies
from tilelang.passes.plan_gemm import plan_gemms
from tilelang.passes.plan_pipeline import plan_channels
from tilelang.passes.plan_roles import plan_roles
from tilelang.passes.plan_schedule import plan_clears
from tilelang.passes.plans import Plans
from tilelang.target import Target
from tilelang.trace import Decision


@dataclass(frozen=True, slots=True)
class Lowered:
    """A compiled kernel: what was planned, why, and the device kernel it became."""

    kernel: Kernel
    plans: Plans
    device: DeviceKernel
    decisions: tuple[Decision, ...]


def plan(kernel: Kernel, target: Target) -> tuple[Plans, tuple[Decision, ...]]:
    """All plans of a legal kernel, and the decisions behind them."""
    gemms, operand_layouts, fragments, gemm_reasons = plan_gemms(kernel)
    accumulators = {gemm.c.buffer: gemm_plan for gemm, gemm_plan in gemms.items()}
    copies = plan_copies(kernel, operand_layouts, accumulators)
    channels, channel_reasons = plan_channels(kernel, copies.copies)
    clears, clear_reasons = plan_clears(kernel)
    shared, shared_reasons = allocate_shared(kernel, copies.shared_layouts, channels, copies.copies, target)
    roles, role_reasons = plan_roles(kernel, bool(channels), fragments.values(), shared.bytes, target)
    plans = Plans(copies.shared_layouts, fragments, copies.copies, gemms, clears, channels, roles, shared)
    return plans, (*gemm_reasons, *copies.decisions, *channel_reasons, *clear_reasons, *shared_reasons, *role_reasons)


def compile_kernel(kernel: Kernel, target: Target, options: Mapping[str, object] | None = None) -> Lowered:
    """The device kernel of a tile kernel.  Raises KernelError subclasses for what the target or this compiler cannot take."""
    legalize(kernel, target)
    plans, decisions = plan(kernel, target)
    return Lowered(kernel, plans, lower(kernel, plans, target), (*kernel.decisions, *decisions))
