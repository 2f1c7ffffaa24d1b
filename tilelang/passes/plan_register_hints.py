"""Registers that an author asks for: by T.set_max_nreg in a kernel divided by hand, by annotations in any.

Every thread starts with the same number, which the launch bound caps; setmaxnreg moves registers between warpgroups, and an
increase waits until the block has that many to spare.  So what the warpgroups have at last must fit into what all of them had at
the start, or the block hangs.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tilelang.errors import ResourceExceeded, Span
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import Registers
from tilelang.ir.tile import RegisterHints
from tilelang.passes.plan_roles import (
    INSTRUCTION_REGISTERS,
    MAX_BLOCKS_PER_SM,
    STATIC_SHARED_UNIT_BYTES,
    WORKING_REGISTERS,
    entry_registers,
    registers_of,
)
from tilelang.passes.plans import RolePlan
from tilelang.passes.teams import Team, by_team
from tilelang.target import Target
from tilelang.trace import Decision, Rejection

# ---- kernels whose roles are planned ------------------------------------------------------------------------------------------


def apply_hints(
    kernel: tile.Kernel, roles: RolePlan, reasons: tuple[Decision, ...], target: Target
) -> tuple[RolePlan, tuple[Decision, ...]]:
    """The planned roles with the registers that the author asks for.  Raises ResourceExceeded TL405 where a block has not so
    many."""
    hints = kernel.registers
    if hints == RegisterHints():
        return roles, reasons
    subject, span = "registers that the author asks for", kernel.span
    if not roles.producer_registers:
        why = Rejection(_text(hints), "a producer warpgroup gives registers to the consumers", "there is none")
        return roles, (*reasons, Decision(span, subject, "none are moved", rejected=(why,)))
    if hints.fixed:
        entry = entry_registers(roles.threads, roles.min_blocks_per_sm, target)
        fixed = dataclasses.replace(roles, consumer_registers=entry, producer_registers=0)
        chosen = f"none are moved: {entry} for every thread"
        return fixed, (*reasons, Decision(span, subject, chosen, "T.disable_warp_group_reg_alloc"))
    producer = roles.producer_registers if hints.producer is None else hints.producer
    consumer = hints.consumer if hints.consumer is not None else roles.consumer_registers
    parts = ((roles.consumer_threads, consumer), (roles.producer_threads, producer))
    blocks = _blocks(parts, roles.min_blocks_per_sm, target, span)
    moved = dataclasses.replace(roles, consumer_registers=consumer, producer_registers=producer, min_blocks_per_sm=blocks)
    text = f"{consumer} for consumers, {producer} for producers, {blocks} block{'s' * (blocks > 1)} per SM"
    return moved, (*reasons, Decision(span, subject, text, _text(hints)))


def _text(hints: RegisterHints) -> str:
    words = ["T.disable_warp_group_reg_alloc()"] if hints.fixed else []
    words += [f"T.annotate_producer_reg_dealloc({hints.producer})"] if hints.producer is not None else []
    words += [f"T.annotate_consumer_reg_alloc({hints.consumer})"] if hints.consumer is not None else []
    return ", ".join(words)


def _blocks(parts: tuple[tuple[int, int], ...], most: int, target: Target, span: Span | None) -> int:
    """Blocks per SM, at most `most`, at which (threads, registers each) of all parts fit into what the threads had at the
    start."""
    threads, wanted = sum(count for count, _ in parts), sum(count * each for count, each in parts)
    for blocks in range(most, 0, -1):
        if wanted <= entry_registers(threads, blocks, target) * threads:
            return blocks
    entry = entry_registers(threads, 1, target)
    raise ResourceExceeded(
        f"the warpgroups ask for {' + '.join(f'{count} x {each}' for count, each in parts)} = {wanted} registers, and the "
        f"block's {threads} threads start with {entry} each, {entry * threads} together", code="TL405", span=span,
        hint="an increase would wait forever; let other warpgroups give back more, or ask for less",
    )  # fmt: skip


# ---- kernels divided by hand --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class HandedOut:
    """Registers of the roles of a kernel divided by hand: what each is set to at its start because of an annotation (0: nothing),
    and the launch."""

    at_start: Mapping[Team, int]
    launch: RolePlan
    decision: Decision


def plan_registers_by_hand(
    kernel: tile.Kernel, body: tile.Body, block: Team, widest: Mapping[Team, int],
    fragments: Mapping[Buffer, tuple[Team, Registers]], shared_bytes: int, target: Target,
) -> HandedOut:  # fmt: skip
    """Registers and blocks per SM.  `widest`: the largest n of each role's wgmmas.  Raises ResourceExceeded TL405, and TL402 for
    fragments that do not fit."""
    roles = tuple(widest)
    at_start = {role: _annotated(kernel.registers, body, block, role) for role in roles}
    settings = {role: _settings(body, block, role) for role in roles}
    changes = {role: [each.count for each in settings[role]] or [at_start[role]] * bool(at_start[role]) for role in roles}
    first = next((each.span for role in roles for each in settings[role] if each.increase), kernel.span)
    needed = {role: sum(registers_of(home) for team, home in fragments.values() if role in team) for role in roles}
    rejected: list[Rejection] = []
    blocks = MAX_BLOCKS_PER_SM
    while blocks > 1:
        why_not = _why_not(blocks, kernel.threads, widest, changes, needed, shared_bytes, target)
        if why_not is None:
            break
        rejected.append(why_not)
        blocks -= 1
    entry = entry_registers(kernel.threads, blocks, target)
    if any(changes.values()):
        _blocks(tuple((role.threads, (changes[role] or [entry])[-1]) for role in roles), 1, target, first)
    for role in roles:
        _check_fragments(role, needed[role], (changes[role] or [entry])[-1], kernel, fragments)
    text = "; ".join(f"{role}: {' then '.join(map(str, changes[role] or [entry]))} registers" for role in roles)
    decision = Decision(
        kernel.span, "warpgroups and blocks per SM", f"{blocks} block{'s' * (blocks > 1)} per SM; {text}", "divided by hand",
        tuple(rejected),
    )  # fmt: skip
    return HandedOut(at_start, RolePlan(kernel.threads, 0, entry, 0, blocks), decision)


def _settings(body: tile.Body, block: Team, role: Team) -> list[tile.SetMaxRegisters]:
    """The T.set_max_nreg that a role executes, in order."""
    return [stmt for stmt, team in by_team(body, block) if isinstance(stmt, tile.SetMaxRegisters) and role in team]


def _annotated(hints: RegisterHints, body: tile.Body, block: Team, role: Team) -> int:
    """What an annotation gives a role that has no T.set_max_nreg: as a consumer if it multiplies, as a producer if it only
    loads."""
    mine = [stmt for stmt, team in by_team(body, block) if role in team]
    if hints.fixed or role.threads % 128 or any(isinstance(stmt, tile.SetMaxRegisters) for stmt in mine):
        return 0
    if any(isinstance(stmt, tile.Gemm) for stmt in mine):
        return hints.consumer or 0
    loads = any(isinstance(stmt, tile.TmaCopy) and stmt.barriers is not None for stmt in mine)
    return (hints.producer or 0) if loads else 0


def _why_not(
    blocks: int, threads: int, widest: Mapping[Team, int], changes: Mapping[Team, list[int]], needed: Mapping[Team, int],
    shared_bytes: int, target: Target,
) -> Rejection | None:  # fmt: skip
    alternative, entry = f"{blocks} blocks per SM", entry_registers(threads, blocks, target)
    block_bytes = shared_bytes + STATIC_SHARED_UNIT_BYTES + target.shared_reserved_bytes_per_block
    if block_bytes * blocks > target.shared_bytes_per_sm:
        limit = f"shared memory of the blocks <= {target.shared_bytes_per_sm} bytes"
        return Rejection(alternative, limit, f"{block_bytes * blocks}", "fewer stages or smaller tiles")
    n = max(widest.values())
    if n // 2 + INSTRUCTION_REGISTERS > entry and n:
        limit = f"a wgmma's registers <= {entry}, which a thread starts with"
        return Rejection(alternative, limit, f"n={n} takes {n // 2} and a few")
    wanted = sum(role.threads * (changes[role] or [entry])[-1] for role in widest)
    if wanted > entry * threads:
        return Rejection(alternative, f"registers of the block <= {entry * threads}", str(wanted), "smaller T.set_max_nreg")
    for role in widest:
        have = (changes[role] or [entry])[-1]
        if needed[role] and needed[role] + WORKING_REGISTERS > have:
            about = needed[role] + WORKING_REGISTERS
            return Rejection(alternative, f"registers of a thread of {role} <= {have}", f"about {about}")
    return None


def _check_fragments(
    role: Team, needed: int, have: int, kernel: tile.Kernel, fragments: Mapping[Buffer, tuple[Team, Registers]]
) -> None:
    if needed > have:
        names = ", ".join(buffer.name for buffer, (team, _) in fragments.items() if role in team)
        raise ResourceExceeded(
            f"the fragments {names} of {role} take {needed} registers a thread; it has {have}", code="TL402", span=kernel.span,
            hint="use smaller tiles, more warpgroups, or T.set_max_nreg",
        )  # fmt: skip
