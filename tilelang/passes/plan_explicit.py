"""Plans of a kernel that its author divides and synchronises by hand.

No roles, no rings, no producer: every statement is done by the team that its place says, in the order of the program.  What is
planned is how: the same plans as for any kernel, made for each team's statements and its threads.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from tilelang.errors import ResourceExceeded, Span, Unsupported
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer, Mbarriers
from tilelang.ir.tile import Body, Kernel, Stmt
from tilelang.passes.allocate_shared import STATIC_SHARED_BYTES, allocate_shared
from tilelang.passes.infer_layouts import Inference, infer_layouts
from tilelang.passes.options import Options
from tilelang.passes.plan_copy import plan_copies
from tilelang.passes.plan_gemm import GemmPlans, plan_gemms
from tilelang.passes.plan_order import plan_order
from tilelang.passes.plan_register_hints import plan_registers_by_hand
from tilelang.passes.plan_registers import plan_registers
from tilelang.passes.plan_schedule import plan_clears, plan_ordered_stores
from tilelang.passes.plan_sync_by_hand import plan_sync_by_hand
from tilelang.passes.plans import Plans
from tilelang.passes.settle import layouts_of_shared, settle_layouts, whole_statements
from tilelang.passes.teams import Team, by_team, roles_of, whole_block
from tilelang.passes.transform_elementwise import transform_elementwise
from tilelang.passes.transform_teams import transform_teams
from tilelang.target import Target
from tilelang.trace import Decision, Rejection

MAX_NAMED_BARRIER = 15
MBARRIER_BYTES = 8


@dataclass(frozen=True, slots=True)
class ExplicitPlans:
    """The plans; the block and its roles; each team's named barrier; registers that a role is set to at its start (0: none)."""

    plans: Plans
    block: Team
    roles: tuple[Team, ...]
    fragments: Mapping[Buffer, Team]
    barriers: Mapping[Team, int]
    registers_at_start: Mapping[Team, int]


def plan_explicit(
    kernel: Kernel, target: Target, options: Options, alignments: Mapping[Buffer, int]
) -> tuple[ExplicitPlans, tuple[Decision, ...]]:
    """All plans, and the decisions behind them.  Raises what the plans of an ordinary kernel raise, and Unsupported TL351 and
    TL352."""
    _check_barriers(kernel)
    block = whole_block(kernel)
    body, owners = transform_teams(kernel.body, block)
    kernel = dataclasses.replace(kernel, body=body)
    gemms = _plan_gemms(kernel, block, target)
    copied = plan_copies(kernel, gemms.shared, gemms.accumulators, alignments, options)
    clears, clear_reasons = plan_clears(kernel)
    loops = transform_elementwise(body, whole_statements(copied.copies, clears))
    shaped, layouts, relayouts = settle_layouts(kernel, loops, lambda body: _infer(kernel, body, block, gemms))
    fragments = {buffer: demand.layout for buffer, demand in layouts.fragments.items()}
    shared_layouts = layouts_of_shared(shaped, copied.shared_layouts)
    registers = plan_registers(shaped.body, fragments, layouts.loops, gemms.accumulators)
    shared, shared_reasons = allocate_shared(shaped, shared_layouts, (), copied.copies, fragments, target)
    roles = roles_of(shaped.body, block)
    teams = _fragment_teams(shaped.body, block, owners)
    homes = {buffer: (teams[buffer], home) for buffer, home in registers.items() if buffer in teams}
    widest = {role: _widest(shaped.body, block, role, gemms) for role in roles}
    handed_out = plan_registers_by_hand(shaped, shaped.body, block, widest, homes, shared.bytes, target)
    order, order_reasons = plan_order(shaped)
    plans = Plans(
        shaped.body, shared_layouts, fragments, layouts.loops, copied.copies, gemms.gemms, clears, (), handed_out.launch, shared,
        plan_sync_by_hand(shaped.body, block, copied.copies, shared.arrays), alignments, registers, (), order,
        plan_ordered_stores(shaped, copied.copies),
    )  # fmt: skip
    explicit = ExplicitPlans(plans, block, roles, teams, _named_barriers(shaped.body, block), handed_out.at_start)
    by_hand = Decision(
        kernel.span, "loads ahead of their use", "as the author orders them",
        rejected=(Rejection("rings and a producer", "the kernel has no mbarriers and no T.ws of its own", "it has"),),
    )  # fmt: skip
    reasons = (
        gemms.decisions, copied.decisions.values(), (by_hand,), relayouts, layouts.decisions(), clear_reasons, shared_reasons,
        (handed_out.decision,), order_reasons,
    )  # fmt: skip
    return explicit, tuple(decision for group in reasons for decision in group)


def _check_barriers(kernel: Kernel) -> None:
    count = sum(len(buffer.arrivals) for buffer in kernel.buffers if isinstance(buffer, Mbarriers))
    room = STATIC_SHARED_BYTES // MBARRIER_BYTES
    if count > room:
        raise ResourceExceeded(
            f"{kernel.name} has {count} mbarriers, and {room} fit into the shared memory that is set aside for them",
            code="TL401",
            span=kernel.span,
            hint="use a barrier for several rounds: its parity tells them apart",
        )


def _teams(body: Body, block: Team) -> list[Team]:
    """Every team that executes anything, the whole block first."""
    return list(dict.fromkeys([block, *(team for _, team in by_team(body, block))]))


def _of_team(body: Body, block: Team, wanted: Team, kinds: tuple[type[Stmt], ...]) -> Body:
    """The statements of these kinds that a team executes, in a row."""
    return tuple(stmt for stmt, team in by_team(body, block) if team == wanted and isinstance(stmt, kinds))


# ---- gemms --------------------------------------------------------------------------------------------------------------------


def _plan_gemms(kernel: Kernel, block: Team, target: Target) -> GemmPlans:
    """The gemms of all teams, each tiled for its own warpgroups."""
    found = GemmPlans()
    for team in _teams(kernel.body, block):
        gemms = _of_team(kernel.body, block, team, (tile.Gemm,))
        mine = plan_gemms(dataclasses.replace(kernel, body=gemms, threads=team.threads), target, block.threads)
        found.gemms.update(mine.gemms)
        found.fragments.update(mine.fragments)
        found.decisions += mine.decisions
        for buffer, layout in mine.shared.items():
            if found.shared.setdefault(buffer, layout) != layout:
                span = next(gemm.span for gemm in gemms if buffer in (gemm.a.buffer, gemm.b.buffer))  # type: ignore[attr-defined]
                raise Unsupported(
                    f"{team} and others read {buffer.name} in different layouts", code="TL318", span=span,
                    hint="give their T.gemm the same shapes and transposes, or each its own buffer",
                )  # fmt: skip
    return found


def _widest(body: Body, block: Team, role: Team, gemms: GemmPlans) -> int:
    """The largest n of a wgmma that a role executes, 0 if it executes none."""
    mine = (stmt for stmt, team in by_team(body, block) if isinstance(stmt, tile.Gemm) and role in team)
    return max((gemms.gemms[gemm].n for gemm in mine), default=0)


# ---- layouts ------------------------------------------------------------------------------------------------------------------


def _infer(kernel: Kernel, body: Body, block: Team, gemms: GemmPlans) -> Inference:
    """The layouts of every team's loops and fragments."""
    found = Inference(kernel.threads)
    for team in _teams(body, block):
        mine = _of_team(body, block, team, (tile.Parallel, tile.Reduce))
        multiplied = [gemm for gemm in _of_team(body, block, team, (tile.Gemm,)) if isinstance(gemm, tile.Gemm)]
        operands = {buffer for gemm in multiplied for buffer in (gemm.a.buffer, gemm.c.buffer)}
        prescribed = {buffer: demand for buffer, demand in gemms.fragments.items() if buffer in operands}
        inferred = infer_layouts(mine, prescribed, team.threads)
        found.fragments.update(inferred.fragments)
        found.loops.update(inferred.loops)
    return found


def _fragment_teams(body: Body, block: Team, owners: Mapping[Buffer, Team]) -> dict[Buffer, Team]:
    """Who has each fragment, those made on the way included."""
    _, found = transform_teams(body, block)
    return {**owners, **found}


# ---- named barriers -----------------------------------------------------------------------------------------------------------


def _named_barriers(body: Body, block: Team) -> dict[Team, int]:
    """A barrier number for every team but the whole block, which has number 0; the author's own are left to him."""
    taken = {stmt.barrier_id for stmt, _ in by_team(body, block) if isinstance(stmt, tile.SyncThreads)}
    free = iter(number for number in range(1, MAX_NAMED_BARRIER + 1) if number not in taken)
    found = {block: 0}
    for team in sorted(_teams(body, block)[1:], key=lambda team: team.groups):
        number = next(free, None)
        if number is None:
            raise Unsupported(
                f"the teams of T.ws and T.sync_threads need more than {MAX_NAMED_BARRIER} named barriers", code="TL352",
                span=_first_span(body, block, team), hint="use fewer different T.ws, or fewer barrier_id",
            )  # fmt: skip
        found[team] = number
    return found


def _first_span(body: Body, block: Team, wanted: Team) -> Span | None:
    return next((stmt.span for stmt, team in by_team(body, block) if team == wanted), None)
