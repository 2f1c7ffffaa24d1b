"""Who does what: consumer warpgroups and a producer warpgroup, their registers, and how many blocks share an SM.

One consumer warpgroup alone leaves the tensor core idle whenever it waits; a second block on the SM fills those holes, so two are
planned wherever shared memory and registers allow it, unless two warpgroups take tiles in turn (`plan_ping_pong`).  Registers
come in units of 8 a thread; `setmaxnreg` moves them from the producer, which needs few, to the consumers.
"""
from __future__ import annotations

import math
from collections.abc import Mapping

from tilelang.errors import ResourceExceeded
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import Registers
from tilelang.ir.tile import Kernel
from tilelang.ir.types import Scope
from tilelang.layout.digits import WARP_THREADS
from tilelang.passes.extents import sizes
from tilelang.passes.plans import GemmPlan, RolePlan
from tilelang.target import Target
from tilelang.trace import Decision, Rejection

PRODUCER_THREADS = 128
PRODUCER_REGISTERS = 24
MAX_CONSUMER_REGISTERS = 240
REGISTER_UNIT = 8
INSTRUCTION_REGISTERS = 28  # what ptxas wants beside the accumulator of one wgmma
LEAST_WORKING_REGISTERS = 24
WORKING_REGISTERS = 48  # addresses, ring state and the epilogue's temporaries, beside the author's fragments
LEAST_BESIDE_HOISTED = 32  # the same beside values that are loaded ahead, whose addresses are done with by then
STATIC_SHARED_UNIT_BYTES = 1024
MAX_BLOCKS_PER_SM = 2


def widest_n(accumulator_registers: int, threads: int, target: Target) -> int:
    """The largest n of a wgmma in a kernel whose consumers hold that many accumulator registers a thread.

    The instruction's registers must fit into what a thread has at entry, before setmaxnreg gives it more, in the number of blocks
    per SM that the accumulators allow."""
    blocks = MAX_BLOCKS_PER_SM
    plan = _split(threads, True, blocks, target)
    while blocks > 1 and accumulator_registers + WORKING_REGISTERS > plan.consumer_registers:
        blocks -= 1
        plan = _split(threads, True, blocks, target)
    return 2 * (entry_registers(plan.threads, blocks, target) - INSTRUCTION_REGISTERS)


def spare_registers(kernel: Kernel, target: Target) -> int:
    """About how many registers a consumer thread has left beside the author's fragments, in as many blocks per SM as they
    allow."""
    fragments = [buffer for buffer in kernel.buffers if buffer.scope is Scope.FRAGMENT and buffer.view_of is None]
    held = sum(math.prod(sizes(buffer.shape)) * buffer.dtype.bytes / 4 / kernel.threads for buffer in fragments)
    for blocks in range(MAX_BLOCKS_PER_SM, 0, -1):
        left = _split(kernel.threads, True, blocks, target).consumer_registers - math.ceil(held)
        if left >= WORKING_REGISTERS:
            return left - LEAST_BESIDE_HOISTED
    return 0


def plan_roles(
    kernel: Kernel, loads: bool, registers: Mapping[Buffer, Registers], gemms: Mapping[Buffer, GemmPlan], shared_bytes: int,
    target: Target, consumer_groups: int = 1,
) -> tuple[RolePlan, tuple[Decision, ...]]:  # fmt: skip
    """The split for the most blocks per SM (at most two) that shared memory and registers allow.  `kernel` is the author's;
    `registers` has the fragments that were added to it, too.  Where several `consumer_groups` of the author's threads take turns
    in a block, one block is alone on an SM.  Raises ResourceExceeded (TL402) if the accumulators alone are more than a thread of
    a single block can have."""
    needed = _needed_registers(kernel, registers)
    if consumer_groups > 1:
        plan = _split(consumer_groups * kernel.threads, loads, 1, target)
        return plan, (_decision(kernel, plan, "one warpgroup works while the other waits", ()),)
    plan = _split(kernel.threads, loads, MAX_BLOCKS_PER_SM, target)
    why_not = _why_not(plan, needed, max((gemm.n for gemm in gemms.values()), default=0), shared_bytes, target)
    rejected = () if why_not is None else (why_not,)
    if rejected:
        plan = _split(kernel.threads, loads, 1, target)
        _check_accumulators(kernel, [array for buffer, array in registers.items() if buffer in gemms], plan)
    reason = "one block works while the other waits" if plan.min_blocks_per_sm > 1 else "no more of them fit"
    return plan, (_decision(kernel, plan, reason, rejected),)


def _decision(kernel: Kernel, plan: RolePlan, reason: str, rejected: tuple[Rejection, ...]) -> Decision:
    producer = f", {plan.producer_threads} producer threads" if plan.producer_threads else ""
    producer += f" with {plan.producer_registers}" if plan.producer_registers else ""
    blocks = f"{plan.min_blocks_per_sm} block{'s' * (plan.min_blocks_per_sm > 1)} per SM"
    chosen = f"{blocks}, {plan.consumer_threads} consumer threads with {plan.consumer_registers} registers{producer}"
    return Decision(kernel.span, "roles and blocks per SM", chosen, reason, rejected)


def _needed_registers(kernel: Kernel, registers: Mapping[Buffer, Registers]) -> int:
    """Of a consumer thread, with what was loaded ahead of the main loop or without it."""
    held = sum(registers_of(array) for buffer, array in registers.items() if buffer in kernel.buffers)
    return max(held + WORKING_REGISTERS, sum(registers_of(array) for array in registers.values()) + LEAST_BESIDE_HOISTED)


def _check_accumulators(kernel: Kernel, accumulators: list[Registers], plan: RolePlan) -> None:
    needed = sum(registers_of(array) for array in accumulators) + LEAST_WORKING_REGISTERS
    if needed > plan.consumer_registers:
        raise ResourceExceeded(
            f"the accumulators {', '.join(array.name for array in accumulators)} and what works with them take about {needed} "
            f"registers a thread; {plan.consumer_registers} can be had",
            code="TL402", span=kernel.span, hint="use smaller tiles or more threads",
        )  # fmt: skip


def _split(consumers: int, loads: bool, blocks: int, target: Target) -> RolePlan:
    """Registers per thread for `blocks` blocks on an SM; without loads there is no producer."""
    whole = consumers % PRODUCER_THREADS == 0  # registers move between whole warpgroups
    producers = (PRODUCER_THREADS if whole else WARP_THREADS) if loads else 0
    threads = consumers + producers
    entry = entry_registers(threads, blocks, target)
    if not producers or not whole:
        return RolePlan(consumers, producers, entry, 0, blocks)
    left = (entry * threads - PRODUCER_REGISTERS * producers) // consumers // REGISTER_UNIT * REGISTER_UNIT
    return RolePlan(consumers, producers, min(left, MAX_CONSUMER_REGISTERS), PRODUCER_REGISTERS, blocks)


def entry_registers(threads: int, blocks: int, target: Target) -> int:
    """Registers of each thread when it starts."""
    return min(target.registers_per_sm // (blocks * threads), target.registers_per_thread_max) // REGISTER_UNIT * REGISTER_UNIT


def _why_not(plan: RolePlan, needed_registers: int, n: int, shared_bytes: int, target: Target) -> Rejection | None:
    """The predicate that forbids this many blocks, if one does."""
    alternative = f"{plan.min_blocks_per_sm} blocks per SM"
    block_bytes = shared_bytes + STATIC_SHARED_UNIT_BYTES + target.shared_reserved_bytes_per_block
    if block_bytes * plan.min_blocks_per_sm > target.shared_bytes_per_sm:
        return Rejection(
            alternative, f"shared memory of the blocks <= {target.shared_bytes_per_sm} bytes",
            f"{block_bytes * plan.min_blocks_per_sm}", "fewer stages or smaller tiles",
        )  # fmt: skip
    entry = entry_registers(plan.threads, plan.min_blocks_per_sm, target)
    if n // 2 + INSTRUCTION_REGISTERS > entry:
        limit = f"a wgmma's registers <= {entry}, which a thread starts with"
        return Rejection(alternative, limit, f"n={n} takes {n // 2} and a few")
    if needed_registers > plan.consumer_registers:
        allowed = f"registers of a consumer thread <= {plan.consumer_registers}"
        return Rejection(alternative, allowed, f"about {needed_registers}", "smaller tiles")
    return None


def registers_of(registers: Registers) -> int:
    """32-bit registers of one thread."""
    elements = math.prod(registers.shape)
    per_register = 32 // registers.dtype.bits if registers.packed else 1
    return elements // per_register * max(registers.dtype.bits // 32, 1)
