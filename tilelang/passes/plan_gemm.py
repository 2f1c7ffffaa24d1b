"""Which wgmma instructions a gemm becomes, and the layouts they ask of its operands.

Operands of 16 bits come from shared memory in either major; the accumulator is float32 in registers.  The widest instruction
that divides the tile is taken: a wider n reads A fewer times.
"""
from __future__ import annotations

from tilelang.errors import ResourceExceeded, Unsupported
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.tile import Gemm, Kernel
from tilelang.ir.types import Scope
from tilelang.layout.digits import Layout
from tilelang.layout.fragments import WGMMA_K_BYTES, WGMMA_M, wgmma_accumulator
from tilelang.layout.swizzle import PanelLayout, widest_swizzle
from tilelang.passes.access import statements
from tilelang.passes.plans import GemmPlan
from tilelang.trace import Decision, Rejection

MAX_N = 256
# 255 registers a thread is the architecture's limit; the addresses, the ring and the epilogue need about 40 of them.
MAX_ACCUMULATOR_REGISTERS = 208


def plan_gemms(
    kernel: Kernel,
) -> tuple[dict[Gemm, GemmPlan], dict[Buffer, PanelLayout], dict[Buffer, Layout], tuple[Decision, ...]]:
    """Plans of every gemm, the shared layouts of operands, the register layouts of accumulators."""
    plans: dict[Gemm, GemmPlan] = {}
    shared: dict[Buffer, PanelLayout] = {}
    fragments: dict[Buffer, Layout] = {}
    decisions: list[Decision] = []
    for gemm in statements(kernel.body):
        if not isinstance(gemm, Gemm):
            continue
        _check_operands(gemm)
        plan = plans[gemm] = _tile(gemm)
        for operand, mn_major, instruction in ((gemm.a, plan.a_mn_major, WGMMA_M), (gemm.b, plan.b_mn_major, plan.n)):
            layout = _operand_layout(operand, instruction if mn_major else 0, gemm)
            if shared.setdefault(operand.buffer, layout) != layout:
                raise Unsupported(f"gemms read {operand.buffer.name} in different layouts", code="TL318", span=gemm.span)
        accumulator = wgmma_accumulator(plan.m_tiles, plan.n_tiles, plan.n)
        if fragments.setdefault(gemm.c.buffer, accumulator) != accumulator:
            raise Unsupported(f"{gemm.c.buffer.name} is the accumulator of gemms of different shapes", code="TL311", span=gemm.span)
        decisions.append(_decision(gemm, plan))
    return plans, shared, fragments, tuple(decisions)


def _check_operands(gemm: Gemm) -> None:
    a, b, c = gemm.a.buffer, gemm.b.buffer, gemm.c.buffer
    for operand, what in ((a, "A"), (b, "B")):
        if operand.scope is not Scope.SHARED:
            raise Unsupported(
                f"operand {what} of T.gemm, {operand.name}, is in {operand.scope} memory; shared memory is what there is so far",
                code="TL312", span=gemm.span, hint=f"allocate {operand.name} with T.alloc_shared",
            )  # fmt: skip
        if operand.dtype not in ("float16", "bfloat16"):
            raise Unsupported(
                f"T.gemm on {operand.dtype} operands ({operand.name}) runs on the CPU only so far; sm_90a takes float16 and bfloat16",
                code="TL313", span=gemm.span,
            )  # fmt: skip
    if c.dtype != "float32":
        raise Unsupported(
            f"a {c.dtype} accumulator ({c.name}) runs on the CPU only so far; sm_90a takes float32",
            code="TL314", span=gemm.span, hint=f'allocate {c.name} with dtype "float"',
        )  # fmt: skip
    for region in (gemm.a, gemm.b, gemm.c):
        _check_whole(region, gemm)


def _check_whole(region: Region, gemm: Gemm) -> None:
    shape = tuple(extent for extent in region.buffer.shape if extent != 1)
    if region.tile_shape != shape or len(shape) != 2:
        raise Unsupported(
            f"T.gemm takes whole 2-D buffers so far; {region.buffer.name} is {region.buffer.shape}, the operand {region.extents}",
            code="TL315", span=gemm.span,
        )  # fmt: skip


def _tile(gemm: Gemm) -> GemmPlan:
    m, n = (int(extent) for extent in gemm.c.tile_shape)  # type: ignore[arg-type]
    k = int(gemm.a.tile_shape[0 if gemm.transpose_a else 1])  # type: ignore[arg-type]
    k_step = WGMMA_K_BYTES // gemm.a.buffer.dtype.bytes
    for name, value, unit in (("M", m, WGMMA_M), ("K", k, k_step), ("N", n, 16)):
        if value % unit:
            raise Unsupported(
                f"T.gemm with {name}={value}: wgmma takes multiples of {unit} so far", code="TL316", span=gemm.span,
                hint=f"choose a tile whose {name} is a multiple of {unit}",
            )  # fmt: skip
    n_tiles = next(count for count in range(1, n // 8 + 1) if n % (count * 16) == 0 and n // count <= MAX_N)
    if m * n // 128 > MAX_ACCUMULATOR_REGISTERS:
        raise ResourceExceeded(
            f"the {m} x {n} float32 accumulator {gemm.c.buffer.name} takes {m * n // 128} registers a thread, of which "
            f"{MAX_ACCUMULATOR_REGISTERS} can be had with one consumer warpgroup",
            code="TL402", span=gemm.span, hint="use smaller tiles",
        )  # fmt: skip
    return GemmPlan(n // n_tiles, m // WGMMA_M, n_tiles, k // k_step, gemm.transpose_a, not gemm.transpose_b)


def _operand_layout(operand: Region, instruction_columns: int, gemm: Gemm) -> PanelLayout:
    """Panels as wide as the row allows; for an MN-major operand also whole panels for each instruction."""
    rows, columns = (int(extent) for extent in operand.tile_shape)  # type: ignore[arg-type]
    element = operand.buffer.dtype.bytes
    swizzle = widest_swizzle((instruction_columns or columns) * element)
    if not swizzle:
        raise Unsupported(
            f"{operand.buffer.name} has rows of {columns * element} bytes; wgmma operands come in multiples of 32 bytes",
            code="TL317", span=gemm.span, hint=f"make the last dimension a multiple of {32 // element}",
        )  # fmt: skip
    return PanelLayout(rows, columns, element, swizzle)


def _decision(gemm: Gemm, plan: GemmPlan) -> Decision:
    wider = ()
    if plan.n_tiles > 1:
        wider = (Rejection(f"n={plan.n * plan.n_tiles}", "n <= 256", str(plan.n * plan.n_tiles)),)
    return Decision(
        gemm.span, f"T.gemm into {gemm.c.buffer.name}",
        f"wgmma m64n{plan.n}k16 from shared memory, {plan.m_tiles} x {plan.n_tiles} instructions for each of {plan.k_steps} k steps",
        "the widest n that divides the tile", wider,
    )  # fmt: skip
