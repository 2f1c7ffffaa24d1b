"""A gemm as wgmma instructions on whole slots of shared memory.

Matrix descriptors (PTX ISA, "Matrix descriptor format"; units of 16 bytes in the low word): a K-major operand is walked along k
within its panels, 8-row groups `8 * row_bytes` apart; an MN-major one has its panels `panel_bytes` apart along m or n and groups of
8 k rows `8 * row_bytes` apart.
"""
from __future__ import annotations

from dataclasses import dataclass

from tilelang.ir import device as d
from tilelang.ir.device import SharedAddress, i32, u32
from tilelang.ir.expr import BOOL, UINT32, UINT64, Call, Const, Expr, Var, binary, compare, unary
from tilelang.ir.tile import Gemm
from tilelang.layout.fragments import WGMMA_K_BYTES, WGMMA_M
from tilelang.layout.swizzle import PanelLayout
from tilelang.passes.lower_copy import add
from tilelang.passes.plans import Clear, GemmPlan

DESCRIPTOR_UNIT_BYTES = 16
WGMMA_K = 16
CORE_ROWS = 8


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand's descriptor: the variable with its low word at the slot, and how to step it."""

    low: Var
    layout: PanelLayout
    mn_major: bool

    def descriptor(self, mn_tile: Expr | int, mn_tile_size: int, panel: Expr | int, k_in_panel: Expr | int) -> Expr:
        """The descriptor of one instruction: m or n tile `mn_tile`, and k step `k_in_panel` of k panel `panel`."""
        low = add(self.low, _times(mn_tile, self._mn_step(mn_tile_size)))
        low = add(low, _times(panel, self._panel_step()))
        low = add(low, _times(k_in_panel, self._k_step()))
        stride = u32(CORE_ROWS * self.layout.row_bytes)
        return Call("matrix_descriptor", (low, stride, u32(self.layout.swizzle_bytes)), UINT64)

    def _mn_step(self, size: int) -> int:
        if self.mn_major:
            return size // self.layout.panel_columns * self.layout.panel_bytes // DESCRIPTOR_UNIT_BYTES
        return size * self.layout.row_bytes // DESCRIPTOR_UNIT_BYTES

    def _panel_step(self) -> int:
        """Low-word step to the next k panel; an MN-major operand has only one."""
        return 0 if self.mn_major else self.layout.panel_bytes // DESCRIPTOR_UNIT_BYTES

    def _k_step(self) -> int:
        return (WGMMA_K * self.layout.row_bytes if self.mn_major else WGMMA_K_BYTES) // DESCRIPTOR_UNIT_BYTES


def leading_bytes(layout: PanelLayout, mn_major: bool) -> int:
    """The leading byte offset: the distance of panels for an MN-major operand; a swizzled K-major one ignores it."""
    return layout.panel_bytes if mn_major else DESCRIPTOR_UNIT_BYTES


def base_low(array: d.SharedArray, layout: PanelLayout, mn_major: bool) -> Expr:
    """The descriptor's low word at slot 0."""
    return Call("descriptor_low", (SharedAddress(array), u32(leading_bytes(layout, mn_major))), UINT32)


def lower_gemm(gemm: Gemm, plan: GemmPlan, a: Operand, b: Operand, accumulator: d.Registers, clear: Clear | None) -> d.Body:
    """Issue, commit, and wait for all of it.  The accumulator's rows are its m_tiles * n_tiles instruction tiles."""
    span = gemm.span
    fence = d.FenceRegisters(registers=accumulator, span=span)
    return (
        fence,
        d.WgmmaFence(span=span),
        *_loops(gemm, plan, a, b, accumulator, clear),
        d.WgmmaCommitGroup(span=span),
        d.WgmmaWaitGroup(pending=0, span=span),
        fence,
    )


def _loops(gemm: Gemm, plan: GemmPlan, a: Operand, b: Operand, accumulator: d.Registers, clear: Clear | None) -> d.Body:
    """Unrolled over m tiles, n tiles, k panels and the k steps in a panel, those with more than one turn."""
    per_panel = min(plan.k_steps, _steps_per_panel(a), _steps_per_panel(b))
    counts = (plan.m_tiles, plan.n_tiles, plan.k_steps // per_panel, per_panel)
    loops = [(Var(name), count) for name, count in zip(("i", "j", "kp", "k"), counts, strict=True)]
    i, j, panel, k = (var if count > 1 else 0 for var, count in loops)
    tile = add(_times(i, plan.n_tiles), _times(j, 1))
    # MN-major operands have no k panels: their k step counts on through the panel loop.
    k_total = add(_times(panel, per_panel), _times(k, 1))
    descriptors = []
    for operand, mn, size in ((a, i, WGMMA_M), (b, j, plan.n)):
        steps = (0, k_total) if operand.mn_major else (panel, k)
        descriptors.append(operand.descriptor(mn, size, *steps))
    body: d.Body = (
        d.WgmmaSS(
            n=plan.n, dtype=gemm.a.buffer.dtype, accumulator=d.RegisterSlice(accumulator, (tile,)), a=descriptors[0], b=descriptors[1],
            accumulate=_accumulate(gemm, clear, panel, k), a_mn_major=a.mn_major, b_mn_major=b.mn_major, span=gemm.span,
        ),
    )  # fmt: skip
    for var, count in reversed(loops):
        if count > 1:
            body = (d.Unroll(var=var, count=count, body=body, span=gemm.span),)
    return body


def _steps_per_panel(operand: Operand) -> int:
    """k steps before a K-major operand's next panel (two K-major operands have the same); an MN-major operand has no end."""
    return operand.layout.rows if operand.mn_major else operand.layout.row_bytes // WGMMA_K_BYTES


def _times(value: Expr | int, factor: int) -> Expr:
    """`value * factor`, where `value` is an unrolled loop's variable or, for a loop of one turn, 0."""
    if isinstance(value, int) or factor == 0:
        return i32(0)
    return value if factor == 1 else binary("*", value, factor)


def _accumulate(gemm: Gemm, clear: Clear | None, panel: Expr | int, k: Expr | int) -> Expr:
    """Whether an instruction adds to the accumulator: not for the first k step after a clear."""
    first: list[Expr] = [compare("!=", step, 0) for step in (panel, k) if isinstance(step, Expr)]
    if clear is not None:
        start = [compare("!=", clear.loop.var, clear.loop.start)] if clear.loop else []
        return _any([*start, *first])
    if gemm.clear_accum is False:
        return Const(True, BOOL)
    if isinstance(gemm.clear_accum, Expr):
        return _any([unary("not", gemm.clear_accum), *first])
    return _any(first)


def _any(conditions: list[Expr]) -> Expr:
    if not conditions:
        return Const(False, BOOL)
    result = conditions[0]
    for condition in conditions[1:]:
        result = binary("or", result, condition)
    return result
