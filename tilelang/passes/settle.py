"""Statements and layouts brought in step: what a pass plans for a loop can change the loops there are.

A fragment that one loop needs in another layout than it has passes through shared memory there; that makes new loops, whose
layouts are to be inferred in turn.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from tilelang.errors import LayoutConflict
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Load
from tilelang.ir.tile import Body, Copy, Kernel, Stmt, Store
from tilelang.ir.types import Scope
from tilelang.ir.walk import walk
from tilelang.layout.swizzle import PanelLayout
from tilelang.passes.fragment_access import RelayoutWanted
from tilelang.passes.infer_layouts import Inference
from tilelang.passes.plan_copy import default_layout
from tilelang.passes.plans import Clear, CopyKind, CopyPlan
from tilelang.passes.transform_relayout import transform_relayout
from tilelang.trace import Decision

MAX_PASSAGES = 64
"""Of fragments through shared memory in one kernel: more than anybody writes, and soon reached where one leads to the next."""


def settle_layouts(
    kernel: Kernel, body: Body, infer: Callable[[Body], Inference]
) -> tuple[Kernel, Inference, tuple[Decision, ...]]:
    """The kernel with `body`, in which fragments pass through shared memory where they must; the layouts that `infer` finds for
    it; and a decision for each passage.  Raises what `infer` raises, and LayoutConflict TL701 where passages lead to ever more of
    them."""
    decisions: list[Decision] = []
    while True:
        try:
            layouts = infer(body)
            return with_body(kernel, body), layouts, tuple(decisions)
        except RelayoutWanted as wanted:
            if len(decisions) >= MAX_PASSAGES:
                raise LayoutConflict(
                    f"{wanted.buffer.name} still does not fit here after {len(decisions)} fragments passed through shared memory",
                    code="TL701", span=wanted.loop.span, hint=f"copy {wanted.buffer.name} to a shared buffer, and use that here",
                ) from wanted  # fmt: skip
            body = transform_relayout(body, wanted.loop, wanted.buffer)
            decisions.append(wanted.decision)


def with_body(kernel: Kernel, body: Body) -> Kernel:
    """The kernel with another body, and the buffers that are new in it declared, in the order of their first use."""
    used = (node.buffer for node in walk(body) if isinstance(node, (Load, Store, Region)))
    every = dict.fromkeys(buffer for found in used for buffer in (found.storage, found))
    known = {*kernel.buffers, *kernel.tensors}
    return dataclasses.replace(kernel, body=body, buffers=(*kernel.buffers, *(buffer for buffer in every if buffer not in known)))


def whole_statements(copies: Mapping[Copy, CopyPlan], clears: Iterable[Clear]) -> set[Stmt]:
    """The copies and fills that stay what they are: an instruction does them as a whole, or nobody needs to."""
    kept: set[Stmt] = {copy for copy, found in copies.items() if found.kind is not CopyKind.ELEMENTWISE}
    return kept | {clear.fill for clear in clears}


def layouts_of_shared(kernel: Kernel, known: Mapping[Buffer, PanelLayout]) -> dict[Buffer, PanelLayout]:
    """A layout for every shared buffer that is no view: the known one, or the default."""
    stored = (buffer for buffer in kernel.buffers if buffer.scope is Scope.SHARED and buffer.view_of is None)
    return {buffer: known.get(buffer) or default_layout(buffer) for buffer in stored}
