"""Who does what: consumer warpgroups and a producer warpgroup, their registers, and how many blocks share an SM.

One consumer warpgroup alone leaves the tensor core idle whenever it waits; a second block on the SM fills those holes, so two are
planned wherever shared memory and registers allow it.  Registers come in units of 8 a thread; `setmaxnreg` moves them from the
producer, which needs few, to the consumers.
"""
from __future__ import annotations

import math
from collections.abc import Iterable

from tilelang.ir.device import Registers
from tilelang.ir.tile import Kernel
from tilelang.passes.plans import RolePlan
from tilelang.target import Target
from tilelang.trace import Decision, Rejection

PRODUCER_THREADS = 128
WARP_THREADS = 32
PRODUCER_REGISTERS = 24
MAX_CONSUMER_REGISTERS = 240
REGISTER_UNIT = 8
WORKING_REGISTERS = 48  # addresses, ring state and the epilogue's temporaries, beside the accumulators
STATIC_SHARED_UNIT_BYTES = 1024
MAX_BLOCKS_PER_SM = 2


def plan_roles(
    kernel: Kernel, loads: bool, fragments: Iterable[Registers], shared_bytes: int, target: Target
) -> tuple[RolePlan, tuple[Decision, ...]]:
    """The split for the most blocks per SM (at most two) that shared memory and registers allow."""
    needed = sum(_count(registers) for registers in fragments) + WORKING_REGISTERS
    rejected: list[Rejection] = []
    for blocks in range(MAX_BLOCKS_PER_SM, 0, -1):
        plan = _split(kernel.threads, loads, blocks, target)
        why_not = _why_not(plan, needed, shared_bytes, target)
        if why_not is None or blocks == 1:
            break
        rejected.append(why_not)
    producer = f", {plan.producer_threads} producer threads" if plan.producer_threads else ""
    producer += f" with {plan.producer_registers}" if plan.producer_registers else ""
    decision = Decision(
        kernel.span, "roles and blocks per SM",
        f"{plan.min_blocks_per_sm} block{'s' * (plan.min_blocks_per_sm > 1)} per SM, {plan.consumer_threads} consumer threads with "
        f"{plan.consumer_registers} registers{producer}",
        "a second block keeps the tensor core busy while the first one waits", tuple(rejected),
    )  # fmt: skip
    return plan, (decision,)


def _split(consumers: int, loads: bool, blocks: int, target: Target) -> RolePlan:
    """Registers per thread for `blocks` blocks on an SM; without loads there is no producer."""
    whole = consumers % PRODUCER_THREADS == 0  # registers move between whole warpgroups
    producers = (PRODUCER_THREADS if whole else WARP_THREADS) if loads else 0
    threads = consumers + producers
    entry = min(target.registers_per_sm // (blocks * threads), target.registers_per_thread_max) // REGISTER_UNIT * REGISTER_UNIT
    if not producers or not whole:
        return RolePlan(consumers, producers, entry, 0, blocks)
    left = (entry * threads - PRODUCER_REGISTERS * producers) // consumers // REGISTER_UNIT * REGISTER_UNIT
    return RolePlan(consumers, producers, min(left, MAX_CONSUMER_REGISTERS), PRODUCER_REGISTERS, blocks)


def _why_not(plan: RolePlan, needed_registers: int, shared_bytes: int, target: Target) -> Rejection | None:
    """The predicate that forbids this many blocks, if one does."""
    alternative = f"{plan.min_blocks_per_sm} blocks per SM"
    block_bytes = shared_bytes + STATIC_SHARED_UNIT_BYTES + target.shared_reserved_bytes_per_block
    if block_bytes * plan.min_blocks_per_sm > target.shared_bytes_per_sm:
        return Rejection(
            alternative, f"shared memory of the blocks <= {target.shared_bytes_per_sm} bytes",
            f"{block_bytes * plan.min_blocks_per_sm}", "fewer stages or smaller tiles",
        )  # fmt: skip
    if needed_registers > plan.consumer_registers:
        return Rejection(
            alternative, f"registers of a consumer thread <= {plan.consumer_registers}", f"about {needed_registers}", "smaller tiles"
        )
    return None


def _count(registers: Registers) -> int:
    """32-bit registers of one thread."""
    elements = math.prod(registers.shape)
    per_register = 32 // registers.dtype.bits if registers.packed else 1
    return elements // per_register * max(registers.dtype.bits // 32, 1)
