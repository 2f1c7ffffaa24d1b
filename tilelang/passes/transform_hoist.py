"""What an epilogue loads for whole rows or columns is loaded ahead of the main loop, so that its latency hides behind it.

    for k in T.Pipelined(...): ...gemm into acc         for j in T.Parallel(128): ahead[j] = bias[x + j]
    for i, j in T.Parallel(128, 128):             ->    for k in T.Pipelined(...): ...gemm into acc
        acc[i, j] = acc[i, j] + bias[x + j]             for i, j in T.Parallel(128, 128): acc[i, j] = acc[i, j] + ahead[j]

It costs registers for the length of the loop, so it is done within a budget of them, and only for tensors that nothing writes, at
indices that are known from the start.  Whole tiles are left where they are: ahead of the loop they would stand in memory's queue
before the loop's own first tiles, which costs more than it saves (a GEMM with a residual: 0.88 of the plain one's speed instead
of 0.93, on an H200).
"""
from __future__ import annotations

import dataclasses
import math

from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Const, Expr, Load, Var
from tilelang.ir.types import Scope
from tilelang.ir.walk import rewrite
from tilelang.passes.epilogue import Epilogue, moving_dims
from tilelang.trace import Decision


def transform_hoist(kernel: tile.Kernel, budget_registers: int) -> tuple[tile.Body, tuple[Decision, ...]]:
    """The body with such loads in front of the last loop around a gemm.  `budget_registers`: of each thread, for all of them."""
    epilogue = Epilogue.of(kernel)
    if epilogue is None:
        return kernel.body, ()
    ahead: list[tile.Stmt] = []
    rest: list[tile.Stmt] = []
    decisions: list[Decision] = []
    for stmt in epilogue.body:
        loop = stmt
        for load in epilogue.loads(stmt):
            if not isinstance(loop, tile.Parallel) or len(moving_dims(loop, load)) == len(loop.vars):
                continue
            cost = _registers(loop, load)
            if cost <= budget_registers:
                budget_registers -= cost
                loop, copy = _hoisted(loop, load, epilogue)
                ahead.append(copy)
                where, why = "ahead of the main loop, into registers", "its latency hides behind the loop"
                decisions.append(Decision(stmt.span, f"load of {load.buffer.name}", where, why))
        rest.append(loop)
    before, main = kernel.body[: epilogue.loop], kernel.body[epilogue.loop]
    return (*before, *ahead, main, *rest), tuple(decisions)


def _registers(loop: tile.Parallel, load: Load) -> int:
    """About how many registers of a thread the values take: a quarter of a row's, a thirty-second of a column's, as in an
    accumulator."""
    dims = moving_dims(loop, load)
    extents = [int(extent.value) if isinstance(extent, Const) else 1 << 30 for extent in loop.extents]
    elements = math.prod(extents[dim] for dim in dims)
    share = elements / (4 if len(loop.vars) - 1 in dims else 32)
    return math.ceil(share * min(load.buffer.dtype.bytes, 4) / 4)


def _hoisted(loop: tile.Parallel, load: Load, epilogue: Epilogue) -> tuple[tile.Parallel, tile.Parallel]:
    """The loop with a fragment's elements in place of the load, and the loop that fills the fragment."""
    dims = moving_dims(loop, load)
    shape = tuple(int(loop.extents[dim].value) for dim in dims)  # type: ignore[attr-defined]
    fragment = Buffer(f"{load.buffer.name}_ahead", shape, load.dtype, Scope.FRAGMENT, load.buffer.span)
    element = Load(fragment, tuple(loop.vars[dim] for dim in dims))
    changed = dataclasses.replace(loop, body=rewrite(loop.body, lambda node: element if node == load else node))
    variables = tuple(Var(loop.vars[dim].name) for dim in dims)
    names: dict[Var, Expr] = {loop.vars[dim]: var for dim, var in zip(dims, variables, strict=True)}
    value = rewrite(epilogue.expanded(load), lambda node: names.get(node, node) if isinstance(node, Var) else node)
    store = tile.Store(buffer=fragment, indices=variables, value=value, span=loop.span)  # type: ignore[arg-type]
    copy = tile.Parallel(vars=variables, extents=tuple(loop.extents[dim] for dim in dims), body=(store,), span=loop.span)
    return changed, copy
