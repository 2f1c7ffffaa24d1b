"""Which wgmma instructions a gemm becomes, and the layouts they ask of its operands.

Operands of 16 bits come from shared memory in either major, A also from registers; the accumulator is float32 in registers.
Every warpgroup gets a part of the tile; the widest instruction that divides the part is taken, since a wider n reads A fewer
times. The author's warp policy is a preference: a grid of warpgroups that the tile does not allow, or that would split the k of a
gemm whose A is in registers, gives way to one that works.
"""
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tilelang.errors import ResourceExceeded, Unsupported
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.tile import Gemm, Kernel
from tilelang.ir.types import Scope, WarpPolicy
from tilelang.layout.fragments import WARPGROUP_THREADS, WGMMA_K_BYTES, WGMMA_M, wgmma_accumulator, wgmma_operand_a
from tilelang.layout.swizzle import PanelLayout, widest_swizzle
from tilelang.passes.access import statements
from tilelang.passes.extents import sizes
from tilelang.passes.infer_layouts import Demand
from tilelang.passes.plan_roles import INSTRUCTION_REGISTERS, entry_registers, widest_n
from tilelang.passes.plans import GemmPlan
from tilelang.passes.slots import corner, is_in_slot, slots_of, tile_of
from tilelang.target import Target
from tilelang.trace import Decision, Rejection

MAX_N = 256
OPERAND_DTYPES = ("float16", "bfloat16")
CORE_ROWS = 8  # rows of a matrix descriptor's groups
# 255 registers a thread is the architecture's limit; the addresses, the ring and the epilogue need about 40 of them.
MAX_ACCUMULATOR_REGISTERS = 208


@dataclass(slots=True)
class GemmPlans:
    """Plans of all gemms, the shared layouts of their operands, the register layouts of accumulators and A operands."""

    gemms: dict[Gemm, GemmPlan] = field(default_factory=dict)
    shared: dict[Buffer, PanelLayout] = field(default_factory=dict)
    fragments: dict[Buffer, Demand] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)

    @property
    def accumulators(self) -> Mapping[Buffer, GemmPlan]:
        return {gemm.c.buffer: plan for gemm, plan in self.gemms.items()}


def plan_gemms(kernel: Kernel, target: Target, block_threads: int = 0) -> GemmPlans:
    """Plans every gemm.  `block_threads`, not 0: the kernel is what some warpgroups of a block of so many threads do, divided by
    hand; operands may be tiles of larger shared buffers, and parts of them along M or N.  Raises Unsupported or ResourceExceeded
    for what wgmma or this compiler cannot do."""
    plans = GemmPlans()
    gemms = [stmt for stmt in statements(kernel.body) if isinstance(stmt, Gemm)]
    rows_only = any(gemm.a.buffer.scope is Scope.FRAGMENT for gemm in gemms)
    accumulators = {gemm.c.buffer for gemm in gemms}
    registers = sum(math.prod(sizes(c.shape)) for c in accumulators) // kernel.threads
    for gemm in gemms:
        _check_operands(gemm, kernel, in_slots=block_threads > 0)
        entry = entry_registers(block_threads, 1, target) if block_threads else 0
        widest = min(2 * (entry - INSTRUCTION_REGISTERS) if entry else widest_n(registers, kernel.threads, target), MAX_N)
        plan, rejected = _tile(gemm, kernel.threads // WARPGROUP_THREADS, rows_only, widest)
        plans.gemms[gemm] = plan
        _prescribe(plans, gemm, plan)
        plans.decisions.append(_decision(gemm, plan, rejected))
    return plans


def _prescribe(plans: GemmPlans, gemm: Gemm, plan: GemmPlan) -> None:
    accumulator = wgmma_accumulator(plan.m_tiles, plan.n_tiles, plan.n, plan.warpgroups_m, plan.warpgroups_n)
    _fragment(plans, gemm, gemm.c.buffer, Demand(accumulator, "T.gemm accumulates into it", gemm.span))
    _shared(plans, gemm, gemm.b, plan.n if plan.b_mn_major else 0)
    if plan.a_in_registers:
        k = plan.k_steps * WGMMA_K_BYTES // gemm.a.buffer.dtype.bytes
        layout = wgmma_operand_a(plan.m_tiles, k, plan.warpgroups_m, plan.warpgroups_n)
        _fragment(plans, gemm, gemm.a.buffer, Demand(layout, "T.gemm reads it as operand A", gemm.span))
    else:
        _shared(plans, gemm, gemm.a, WGMMA_M if plan.a_mn_major else 0)


def _fragment(plans: GemmPlans, gemm: Gemm, buffer: Buffer, demand: Demand) -> None:
    if plans.fragments.setdefault(buffer, demand).layout != demand.layout:
        raise Unsupported(
            f"gemms need {buffer.name} in registers in different layouts", code="TL311", span=gemm.span,
            hint=f"give them the same shapes and policy, or copy {buffer.name} through a shared buffer between them",
        )  # fmt: skip


def _shared(plans: GemmPlans, gemm: Gemm, operand: Region, instruction_columns: int) -> None:
    layout = _operand_layout(operand, instruction_columns, gemm)
    if plans.shared.setdefault(operand.buffer, layout) != layout:
        raise Unsupported(
            f"gemms read {operand.buffer.name} in different layouts", code="TL318", span=gemm.span,
            hint="copy it to a buffer for each of them",
        )  # fmt: skip


def _check_operands(gemm: Gemm, kernel: Kernel, in_slots: bool) -> None:
    if kernel.threads % WARPGROUP_THREADS:
        raise Unsupported(
            f"T.gemm with threads={kernel.threads}: wgmma is issued by whole warpgroups of {WARPGROUP_THREADS} threads",
            code="TL331", span=gemm.span,
            hint="write threads=128, 256, 384 or 512; the block's producer warpgroup comes on top",
        )  # fmt: skip
    _check_operand(gemm.a.buffer, "A", (Scope.SHARED, Scope.FRAGMENT), gemm)
    _check_operand(gemm.b.buffer, "B", (Scope.SHARED,), gemm)
    a, c = gemm.a.buffer, gemm.c.buffer
    if a.scope is Scope.FRAGMENT and gemm.transpose_a:
        raise Unsupported(
            f"T.gemm with transpose_A and {a.name} in registers", code="TL319", span=gemm.span,
            hint=f"copy {a.name} to a shared buffer, or write its transpose",
        )  # fmt: skip
    if c.dtype != "float32":
        raise Unsupported(
            f"a {c.dtype} accumulator ({c.name}) runs on the CPU only so far; sm_90a takes float32",
            code="TL314", span=gemm.span, hint=f'allocate {c.name} with dtype "float32"',
        )  # fmt: skip
    for region, k_dim in ((gemm.a, 0 if gemm.transpose_a else 1), (gemm.b, 1 if gemm.transpose_b else 0), (gemm.c, 0)):
        if in_slots and region.buffer.scope is Scope.SHARED and is_in_slot(region):
            _check_part(region, k_dim, gemm)
        else:
            _check_whole(region, gemm)


def _check_operand(operand: Buffer, what: str, scopes: tuple[Scope, ...], gemm: Gemm) -> None:
    if operand.scope not in scopes:
        raise Unsupported(
            f"operand {what} of T.gemm, {operand.name}, is in {operand.scope} memory", code="TL312", span=gemm.span,
            hint=f"allocate {operand.name} with T.alloc_shared",
        )  # fmt: skip
    if operand.dtype not in OPERAND_DTYPES:
        raise Unsupported(
            f"T.gemm on {operand.dtype} operands ({operand.name}) runs on the CPU only so far; sm_90a takes float16 and bfloat16",
            code="TL313", span=gemm.span, hint=f"copy {operand.name} to a tile of float16 or bfloat16, and multiply that",
        )  # fmt: skip


def _check_part(region: Region, k_dim: int, gemm: Gemm) -> None:
    """A part of a tile has all of its K, and begins where a descriptor can: at a group of 8 rows, or at a panel of columns."""
    start, tile = corner(region)[1 - k_dim], tile_of(region.buffer)
    element = region.buffer.dtype.bytes
    unit = CORE_ROWS if k_dim == 1 else (widest_swizzle(tile[1] * element) or CORE_ROWS * element) // element
    if (1, *region.extents)[-2:][k_dim] != tile[k_dim] or start % unit:
        raise Unsupported(
            f"operand {region.buffer.name} of T.gemm begins at {corner(region)} and is {region.extents[-2:]} of a {tile[0]} x "
            f"{tile[1]} tile; a part has all of K, and begins at a multiple of {unit} along M or N", code="TL315", span=gemm.span,
            hint=f"give T.gemm whole tiles: {region.buffer.name}[stage, :, :]",
        )  # fmt: skip


def _check_whole(region: Region, gemm: Gemm) -> None:
    shape = tuple(extent for extent in region.buffer.shape if extent != 1)
    if region.buffer.view_of:
        raise Unsupported(
            f"operand {region.buffer.name} of T.gemm is a reshaped view of {region.buffer.view_of.name}", code="TL315",
            span=gemm.span, hint="copy it to a buffer of that shape first",
        )  # fmt: skip
    if region.tile_shape != shape or len(shape) != 2:
        raise Unsupported(
            f"T.gemm takes whole 2-D buffers so far; {region.buffer.name} is {region.buffer.shape}, the operand {region.extents}",
            code="TL315", span=gemm.span, hint=f"copy the part of {region.buffer.name} to a buffer of its size",
        )  # fmt: skip


# ---- tiling ------------------------------------------------------------------------------------------------------------------


def _tile(gemm: Gemm, warpgroups: int, rows_only: bool, widest: int) -> tuple[GemmPlan, tuple[Rejection, ...]]:
    m, n = sizes(gemm.c.tile_shape)
    k = sizes(gemm.a.tile_shape)[0 if gemm.transpose_a else 1]
    k_step = WGMMA_K_BYTES // gemm.a.buffer.dtype.bytes
    for name, value, unit in (("M", m, WGMMA_M), ("K", k, k_step), ("N", n, 16)):
        if value % unit:
            raise Unsupported(
                f"T.gemm with {name}={value}: wgmma takes multiples of {unit} so far", code="TL316", span=gemm.span,
                hint=f"choose a tile whose {name} is a multiple of {unit}",
            )  # fmt: skip
    rows, columns, rejected = _grid(gemm, m, n, warpgroups, rows_only)
    part_n = n // columns
    n_tiles = next(count for count in range(1, part_n // 8 + 1) if part_n % (count * 16) == 0 and part_n // count <= widest)
    registers = m * n // (WARPGROUP_THREADS * warpgroups)
    if registers > MAX_ACCUMULATOR_REGISTERS:
        raise ResourceExceeded(
            f"the {m} x {n} float32 accumulator {gemm.c.buffer.name} takes {registers} registers a thread, of which "
            f"{MAX_ACCUMULATOR_REGISTERS} can be had",
            code="TL402", span=gemm.span, hint="use smaller tiles or more threads",
        )  # fmt: skip
    plan = GemmPlan(
        part_n // n_tiles, m // rows // WGMMA_M, n_tiles, k // k_step, gemm.transpose_a, not gemm.transpose_b, rows, columns,
        gemm.a.buffer.scope is Scope.FRAGMENT,
    )  # fmt: skip
    return plan, rejected


def _grid(gemm: Gemm, m: int, n: int, warpgroups: int, rows_only: bool) -> tuple[int, int, tuple[Rejection, ...]]:
    """Warpgroups along m and n: by the policy if the tile allows it, else the split with the fewest columns of warpgroups."""
    splits = [(rows, warpgroups // rows) for rows in range(warpgroups, 0, -1) if warpgroups % rows == 0]
    legal = [(rows, columns) for rows, columns in splits if m % (rows * WGMMA_M) == 0 and n % (columns * 16) == 0]
    if not legal:
        raise Unsupported(
            f"a {m} x {n} tile cannot be split over {warpgroups} warpgroups: parts are multiples of 64 rows and 16 columns",
            code="TL310", span=gemm.span, hint="use a larger tile or fewer threads",
        )  # fmt: skip
    if gemm.policy is WarpPolicy.FULL_COL and not rows_only and (1, warpgroups) in legal:
        return 1, warpgroups, ()
    rows, columns = legal[0]
    rejected: tuple[Rejection, ...] = ()
    if gemm.policy is WarpPolicy.FULL_COL and warpgroups > 1:
        why = "no gemm of the kernel has A in registers" if rows_only else f"n is a multiple of {16 * warpgroups}"
        rejected = (Rejection("policy FullCol", why, "one has" if rows_only else str(n)),)
    return rows, columns, rejected


def _operand_layout(operand: Region, instruction_columns: int, gemm: Gemm) -> PanelLayout:
    """Panels as wide as the row allows; for an MN-major operand also whole panels for each instruction."""
    whole = len(operand.tile_shape) == 2 and math.prod(sizes(operand.buffer.shape)) == math.prod(sizes(operand.extents))
    rows, columns = sizes(operand.tile_shape) if whole else tile_of(operand.buffer)
    element = operand.buffer.dtype.bytes
    swizzle = widest_swizzle(math.gcd(instruction_columns or columns, columns) * element)
    if not swizzle:
        raise Unsupported(
            f"{operand.buffer.name} has rows of {columns * element} bytes; wgmma operands come in multiples of 32 bytes",
            code="TL317", span=gemm.span, hint=f"make the last dimension a multiple of {32 // element}",
        )  # fmt: skip
    return PanelLayout(rows, columns, element, swizzle, 1 if whole else slots_of(operand.buffer))


def _decision(gemm: Gemm, plan: GemmPlan, rejected: tuple[Rejection, ...]) -> Decision:
    if plan.n_tiles > 1:
        n = plan.n * plan.n_tiles
        rejected += (Rejection(f"n={n}", f"n <= {MAX_N}, and its registers fit into what a thread starts with", f"{n}"),)
    a = "registers" if plan.a_in_registers else "shared memory"
    return Decision(
        gemm.span, f"T.gemm into {gemm.c.buffer.name}",
        f"wgmma m64n{plan.n}k16 with A from {a}, {plan.warpgroups_m} x {plan.warpgroups_n} warpgroups, {plan.m_tiles} x "
        f"{plan.n_tiles} instructions each for each of {plan.k_steps} k steps",
        "the widest n that divides a warpgroup's part of the tile", rejected,
    )  # fmt: skip
