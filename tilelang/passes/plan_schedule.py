"""What overlaps with what, and which work need not be done at all.

An accumulator that is cleared right before its gemms need not be written with zeros: the first wgmma can ignore its old contents
(scale-d = 0).  That is so if nothing else touches it in between and the gemm surely runs.
"""
from __future__ import annotations

from collections.abc import Mapping

from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Const
from tilelang.ir.tile import Copy, Fill, For, Gemm, Kernel, Stmt, While
from tilelang.ir.types import Scope
from tilelang.passes.access import contexts, leaves, touches_inside, trip_count
from tilelang.passes.plans import Clear, CopyKind, CopyPlan
from tilelang.trace import Decision, Rejection

ALTERNATIVE = "scale-d = 0"


def plan_clears(kernel: Kernel) -> tuple[tuple[Clear, ...], tuple[Decision, ...]]:
    """The clears that a gemm takes over."""
    clears: list[Clear] = []
    decisions: list[Decision] = []
    for context in contexts(kernel.body):
        for position, stmt in enumerate(context.body):
            if isinstance(stmt, Fill) and _is_zero_accumulator(stmt):
                clear, why_not = _taken_over(stmt, context.body[position + 1 :])
                if clear:
                    clears.append(clear)
                decisions.append(_decision(stmt, clear, why_not))
    return tuple(clears), tuple(decisions)


def _is_zero_accumulator(fill: Fill) -> bool:
    whole = fill.dst.extents == fill.dst.buffer.shape
    return whole and fill.dst.buffer.scope is Scope.FRAGMENT and isinstance(fill.value, Const) and fill.value.value == 0


def _taken_over(fill: Fill, rest: tile.Body) -> tuple[Clear | None, Rejection | None]:
    """The clear as the first gemm's business, or the predicate that failed."""
    user, left = _first_use(rest, fill.dst.buffer)
    loop, gemm = None, user
    if isinstance(user, For):
        trips = trip_count(user)
        if not trips:
            value = "its trip count is not constant" if trips is None else "it does not run at all"
            return None, Rejection(ALTERNATIVE, "the loop surely runs", value)
        loop = user
        gemm, left_inside = _first_use(user.body, fill.dst.buffer)
        left = left or left_inside
    if not isinstance(gemm, Gemm) or gemm.c.buffer is not fill.dst.buffer:
        if loop:
            return None, Rejection(ALTERNATIVE, "the loop's first use of the accumulator is a gemm", "it is not")
        return None, Rejection(ALTERNATIVE, "the next use is a gemm, or a loop around one", type(user).__name__)
    if left:
        return None, Rejection(ALTERNATIVE, "no break or continue stands between the clear and the gemm", "one does")
    if gemm.clear_accum is not False:
        return None, Rejection(ALTERNATIVE, "the gemm has no clear_accum of its own", "it has")
    return Clear(fill, gemm, loop), None


def _first_use(body: tile.Body, buffer: Buffer) -> tuple[Stmt | None, bool]:
    """The first statement of a list that reads or writes a buffer, and whether one in front of it may leave the list."""
    left = False
    for stmt in body:
        if touches_inside(stmt, buffer):
            return stmt, left
        left = left or leaves(stmt)
    return None, left


def _decision(fill: Fill, clear: Clear | None, why_not: Rejection | None) -> Decision:
    chosen = "none written: the first wgmma does not read the accumulator" if clear else "zeros are written to registers"
    return Decision(fill.span, f"zeros for {fill.dst.buffer.name}", chosen, rejected=(why_not,) if why_not else ())


def plan_ordered_stores(kernel: Kernel, copies: Mapping[Copy, CopyPlan]) -> frozenset[Copy]:
    """TMA stores that may write what an earlier one of the same block wrote: those in a loop, and those to a tensor that has
    several. Bulk stores are unordered among themselves, so each of these waits for the ones before it to be complete."""
    stores = [
        (copy, context)
        for context in contexts(kernel.body)
        for copy in context.body
        if isinstance(copy, Copy) and copies[copy].kind in (CopyKind.TMA_STORE, CopyKind.FRAGMENT_TO_GLOBAL)
    ]  # fmt: skip
    tensors = [copy.dst.buffer for copy, _ in stores]
    return frozenset(
        copy
        for copy, context in stores
        if tensors.count(copy.dst.buffer) > 1 or any(isinstance(stmt, (For, While)) for stmt in context.around)
    )
