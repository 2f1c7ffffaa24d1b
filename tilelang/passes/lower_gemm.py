"""A gemm as wgmma instructions on whole slots of shared memory.

Matrix descriptors (PTX ISA, "Matrix descriptor format"; units of 16 bytes in the low word): a K-major operand is walked along k
within its panels, 8-row groups `8 * row_bytes` apart; an MN-major one has its panels `panel_bytes` apart along m or n and groups of
8 k rows `8 * row_bytes` apart.
"""
from __future__ import annotations

from dataclasses import dataclass

from tilelang.errors import Span
from tilelang.ir import device as d
from tilelang.ir.device import SharedAddress, i32, u32
from tilelang.ir.expr import BOOL, UINT32, UINT64, Call, Cast, Const, Expr, Var, binary, compare, is_const, unary
from tilelang.ir.tile import Gemm
from tilelang.layout.fragments import WGMMA_K_BYTES, WGMMA_M
from tilelang.layout.swizzle import PanelLayout
from tilelang.passes.lower_access import powers_of_two
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
        low = add(self.low, _times(mn_tile, self.mn_step(mn_tile_size)))
        low = add(low, _times(panel, self._panel_step()))
        low = add(low, _times(k_in_panel, self._k_step()))
        stride = u32(CORE_ROWS * self.layout.row_bytes)
        return Call("matrix_descriptor", (low, stride, u32(self.layout.swizzle_bytes)), UINT64)

    def mn_step(self, size: int) -> int:
        """Low-word step over `size` rows (or columns) of the tile."""
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


@dataclass(frozen=True, slots=True)
class RegisterOperand:
    """A 16-bit A operand in registers: m_tiles rows of k_steps times 8 elements."""

    registers: d.Registers


def lower_gemm(
    gemm: Gemm, plan: GemmPlan, a: Operand | RegisterOperand, b: Operand, accumulator: d.Registers, clear: Clear | None,
    cleared: Expr | bool, thread: Expr,
) -> d.Body:  # fmt: skip
    """Issue, commit, and wait for all of it.  The accumulator's rows are its m_tiles * n_tiles instruction tiles."""
    span = gemm.span
    fences = tuple(
        d.FenceRegisters(registers=registers, span=span)
        for registers in (accumulator, *((a.registers,) if isinstance(a, RegisterOperand) else ()))
    )
    declare, a, b = _of_warpgroup(plan, a, b, thread, span)
    return (
        *declare,
        *fences,
        d.WgmmaFence(span=span),
        *_loops(gemm, plan, a, b, accumulator, clear, cleared),
        d.WgmmaCommitGroup(span=span),
        d.WgmmaWaitGroup(pending=0, span=span),
        *fences,
    )


def _of_warpgroup(
    plan: GemmPlan, a: Operand | RegisterOperand, b: Operand, thread: Expr, span: Span | None
) -> tuple[d.Body, Operand | RegisterOperand, Operand]:
    """The operands moved to this warpgroup's part of the tile, with the variables that say where that is."""
    declare: list[d.Stmt] = []
    warpgroup = binary(">>", thread, 7)
    row = binary("//", warpgroup, plan.warpgroups_n) if plan.warpgroups_n > 1 else warpgroup
    column = binary("%", warpgroup, plan.warpgroups_n)
    if plan.warpgroups_m > 1 and isinstance(a, Operand):
        a = _moved(a, powers_of_two(row), plan.m_tiles * WGMMA_M, declare, span)
    if plan.warpgroups_n > 1:
        b = _moved(b, powers_of_two(column), plan.n_tiles * plan.n, declare, span)
    return tuple(declare), a, b


def _moved(operand: Operand, part: Expr, size: int, declare: list[d.Stmt], span: Span | None) -> Operand:
    low = Var(operand.low.name.removesuffix("_slot").removesuffix("_desc") + "_part", UINT32)
    offset = Cast(binary("*", part, operand.mn_step(size)), UINT32)
    declare.append(d.Declare(var=low, value=add(operand.low, offset), span=span))
    return Operand(low, operand.layout, operand.mn_major)


def _loops(
    gemm: Gemm, plan: GemmPlan, a: Operand | RegisterOperand, b: Operand, accumulator: d.Registers, clear: Clear | None,
    cleared: Expr | bool,
) -> d.Body:  # fmt: skip
    """Unrolled over m tiles, n tiles, k panels and the k steps in a panel, those with more than one turn."""
    per_panel = min(plan.k_steps, _steps_per_panel(a, plan), _steps_per_panel(b, plan))
    counts = (plan.m_tiles, plan.n_tiles, plan.k_steps // per_panel, per_panel)
    loops = [(Var(name), count) for name, count in zip(("i", "j", "kp", "k"), counts, strict=True)]
    i, j, panel, k = (var if count > 1 else 0 for var, count in loops)
    tile = add(_times(i, plan.n_tiles), _times(j, 1))
    # MN-major operands and registers have no k panels: their k step counts on through the panel loop.
    k_total = add(_times(panel, per_panel), _times(k, 1))
    b_descriptor = b.descriptor(j, plan.n, *((0, k_total) if b.mn_major else (panel, k)))
    common = dict(
        n=plan.n, dtype=gemm.b.buffer.dtype, accumulator=d.RegisterSlice(accumulator, (tile,)), b=b_descriptor,
        accumulate=_accumulate(clear, cleared, panel, k), b_mn_major=b.mn_major, span=gemm.span,
    )  # fmt: skip
    if isinstance(a, RegisterOperand):
        first = add(_times(i, 8 * plan.k_steps), _times(k_total, 8))
        body: d.Body = (d.WgmmaRS(a=a.registers, a_first=(first,), **common),)
    else:
        a_descriptor = a.descriptor(i, WGMMA_M, *((0, k_total) if a.mn_major else (panel, k)))
        body = (d.WgmmaSS(a=a_descriptor, a_mn_major=a.mn_major, **common),)
    for var, count in reversed(loops):
        if count > 1:
            body = (d.Unroll(var=var, count=count, body=body, span=gemm.span),)
    return body


def _steps_per_panel(operand: Operand | RegisterOperand, plan: GemmPlan) -> int:
    """k steps before a K-major operand's next panel (two K-major operands have the same); the others have no end."""
    if isinstance(operand, RegisterOperand) or operand.mn_major:
        return plan.k_steps
    return operand.layout.row_bytes // WGMMA_K_BYTES


def _times(value: Expr | int, factor: int) -> Expr:
    """`value * factor`, where `value` is an unrolled loop's variable or, for a loop of one turn, 0."""
    if isinstance(value, int) or factor == 0 or is_const(value, 0):
        return i32(0)
    return value if factor == 1 else binary("*", value, factor)


def _accumulate(clear: Clear | None, cleared: Expr | bool, panel: Expr | int, k: Expr | int) -> Expr:
    """Whether an instruction adds to the accumulator: not for the first k step after a clear."""
    first: list[Expr] = [compare("!=", step, 0) for step in (panel, k) if isinstance(step, Expr)]
    if clear is not None:
        start = [compare("!=", clear.loop.var, clear.loop.start)] if clear.loop else []
        return _any([*start, *first])
    if cleared is False:
        return Const(True, BOOL)
    return _any([unary("not", cleared), *first] if isinstance(cleared, Expr) else first)


def _any(conditions: list[Expr]) -> Expr:
    if not conditions:
        return Const(False, BOOL)
    result = conditions[0]
    for condition in conditions[1:]:
        result = binary("or", result, condition)
    return result
