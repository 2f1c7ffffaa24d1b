"""A gemm as wgmma instructions on whole slots of shared memory.

Matrix descriptors (PTX ISA, "Matrix descriptor format"; units of 16 bytes in the low word): a K-major operand is walked along k
within its panels, 8-row groups `8 * row_bytes` apart; an MN-major one has its panels `panel_bytes` apart along m or n and groups
of 8 k rows `8 * row_bytes` apart.
"""
from __future__ import annotations

from dataclasses import dataclass

from tilelang.errors import Span
from tilelang.ir import device as d
from tilelang.ir.device import SharedAddress, i32, u32
from tilelang.ir.expr import BOOL, UINT32, UINT64, Call, Const, Expr, Var, compare, is_const, unary
from tilelang.ir.tile import Gemm
from tilelang.layout.fragments import WARPGROUP_THREADS, WGMMA_K_BYTES, WGMMA_M
from tilelang.layout.swizzle import PanelLayout
from tilelang.passes.lower_arith import add, any_of, quotient, remainder, times, unsigned
from tilelang.passes.lower_loops import unrolled
from tilelang.passes.plans import Clear, GemmPlan

DESCRIPTOR_UNIT_BYTES = 16
WGMMA_K = 16
CORE_ROWS = 8
A_ELEMENTS = 8  # of a 64 x 16 operand in registers, in each thread


@dataclass(frozen=True, slots=True)
class _Turn:
    """One instruction by the variables of the unrolled loops, 0 for a loop of one turn: m tile, n tile, k panel, k step in it."""

    m: Expr
    n: Expr
    panel: Expr
    k: Expr
    steps_per_panel: int

    @property
    def step(self) -> Expr:
        """The k step, counted on through all panels."""
        return add(times(self.panel, self.steps_per_panel), self.k)


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand's descriptor: the variable with its low word at the slot, and how to step it."""

    low: Var
    layout: PanelLayout
    mn_major: bool

    def descriptor(self, mn_tile: Expr, mn_tile_size: int, turn: _Turn) -> Expr:
        """The descriptor of one instruction, which is about the `mn_tile`-th `mn_tile_size` rows (or columns) of the operand."""
        low = add(self.low, times(mn_tile, self.mn_step(mn_tile_size)))
        if self.mn_major:  # it has one k panel
            low = add(low, times(turn.step, WGMMA_K * self.layout.row_bytes // DESCRIPTOR_UNIT_BYTES))
        else:
            low = add(low, times(turn.panel, self.layout.panel_bytes // DESCRIPTOR_UNIT_BYTES))
            low = add(low, times(turn.k, WGMMA_K_BYTES // DESCRIPTOR_UNIT_BYTES))
        stride = u32(CORE_ROWS * self.layout.row_bytes)
        return Call("matrix_descriptor", (low, stride, u32(self.layout.swizzle_bytes)), UINT64)

    def mn_step(self, size: int) -> int:
        """Low-word step over `size` rows (or columns) of the tile."""
        if self.mn_major:
            return size // self.layout.panel_columns * self.layout.panel_bytes // DESCRIPTOR_UNIT_BYTES
        return size * self.layout.row_bytes // DESCRIPTOR_UNIT_BYTES


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
    cleared: Expr | bool, thread: Expr, pending: int = 0,
) -> d.Body:  # fmt: skip
    """Issue, commit, and wait until at most `pending` such groups run.  The accumulator's rows are its m_tiles * n_tiles
    instruction tiles; `cleared` is the gemm's `clear_accum` as a device expression, `thread` the number of the thread among those
    of the gemm."""
    span = gemm.span
    registers = (accumulator, a.registers) if isinstance(a, RegisterOperand) else (accumulator,)
    fences = tuple(d.FenceRegisters(registers=each, span=span) for each in registers)
    declare, a, b = _of_warpgroup(plan, a, b, thread, span)
    return (
        *declare,
        *fences,
        d.WgmmaFence(span=span),
        *_loops(gemm, plan, a, b, accumulator, _Accumulate(clear, cleared)),
        d.WgmmaCommitGroup(span=span),
        d.WgmmaWaitGroup(pending=pending, span=span),
        *fences,
    )


def _of_warpgroup(
    plan: GemmPlan, a: Operand | RegisterOperand, b: Operand, thread: Expr, span: Span | None
) -> tuple[d.Body, Operand | RegisterOperand, Operand]:
    """The operands moved to this warpgroup's part of the tile, with the variables that say where that is."""
    declare: list[d.Stmt] = []
    warpgroup = quotient(thread, WARPGROUP_THREADS)
    if plan.warpgroups_m > 1 and isinstance(a, Operand):
        a = _moved(a, quotient(warpgroup, plan.warpgroups_n), plan.m_tiles * WGMMA_M, declare, span)
    if plan.warpgroups_n > 1:
        b = _moved(b, remainder(warpgroup, plan.warpgroups_n), plan.n_tiles * plan.n, declare, span)
    return tuple(declare), a, b


def _moved(operand: Operand, part: Expr, size: int, declare: list[d.Stmt], span: Span | None) -> Operand:
    """The operand from its `part`-th `size` rows (or columns) on."""
    low = Var(operand.low.name.removesuffix("_slot").removesuffix("_desc") + "_part", UINT32)
    offset = unsigned(times(part, operand.mn_step(size)))
    declare.append(d.Declare(var=low, value=add(operand.low, offset), span=span))
    return Operand(low, operand.layout, operand.mn_major)


def _loops(
    gemm: Gemm, plan: GemmPlan, a: Operand | RegisterOperand, b: Operand, accumulator: d.Registers, accumulate: _Accumulate
) -> d.Body:
    """Unrolled over m tiles, n tiles, k panels and the k steps in a panel."""
    per_panel = min(plan.k_steps, _steps_per_panel(a, plan), _steps_per_panel(b, plan))
    counts = (plan.m_tiles, plan.n_tiles, plan.k_steps // per_panel, per_panel)
    loops = [(Var(name), count) for name, count in zip(("i", "j", "kp", "k"), counts, strict=True)]
    turn = _Turn(*(var if count > 1 else i32(0) for var, count in loops), steps_per_panel=per_panel)
    part = d.RegisterSlice(accumulator, (add(times(turn.m, plan.n_tiles), turn.n),))
    body = (_instruction(gemm, plan, a, b, part, turn, accumulate.at(turn)),)
    return unrolled(body, loops, gemm.span)


def _instruction(
    gemm: Gemm, plan: GemmPlan, a: Operand | RegisterOperand, b: Operand, accumulator: d.RegisterSlice, turn: _Turn,
    accumulate: Expr,
) -> d.Stmt:  # fmt: skip
    dtype, b_descriptor = gemm.b.buffer.dtype, b.descriptor(turn.n, plan.n, turn)
    if isinstance(a, RegisterOperand):
        first = add(times(turn.m, A_ELEMENTS * plan.k_steps), times(turn.step, A_ELEMENTS))
        return d.WgmmaRS(
            n=plan.n, dtype=dtype, accumulator=accumulator, a=a.registers, a_first=(first,), b=b_descriptor,
            accumulate=accumulate, b_mn_major=b.mn_major, span=gemm.span,
        )  # fmt: skip
    return d.WgmmaSS(
        n=plan.n, dtype=dtype, accumulator=accumulator, a=a.descriptor(turn.m, WGMMA_M, turn), b=b_descriptor,
        accumulate=accumulate, a_mn_major=a.mn_major, b_mn_major=b.mn_major, span=gemm.span,
    )  # fmt: skip


def _steps_per_panel(operand: Operand | RegisterOperand, plan: GemmPlan) -> int:
    """k steps before a K-major operand's next panel (two K-major operands have the same); the others have no end."""
    if isinstance(operand, RegisterOperand) or operand.mn_major:
        return plan.k_steps
    return operand.layout.row_bytes // WGMMA_K_BYTES


@dataclass(frozen=True, slots=True)
class _Accumulate:
    """Which instructions add to the accumulator: all but those of the first k step after a clear, be it one that the gemm takes
    over (`clear`) or the gemm's own (`cleared`)."""

    clear: Clear | None
    cleared: Expr | bool

    def at(self, turn: _Turn) -> Expr:
        later: list[Expr] = [compare("!=", step, 0) for step in (turn.panel, turn.k) if not is_const(step)]
        if self.clear is not None:
            loop = self.clear.loop
            return any_of([*([compare("!=", loop.var, loop.start)] if loop else []), *later])
        if isinstance(self.cleared, Expr):
            return any_of([unary("not", self.cleared), *later])
        return any_of(later) if self.cleared else Const(True, BOOL)
