"""What stands behind a kernel's main loop, and which of its loads could be done earlier, by others, or in another way."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Load, Var
from tilelang.ir.types import Scope
from tilelang.ir.walk import substitute, walk
from tilelang.passes.access import statements, writes


@dataclass(frozen=True, slots=True)
class Epilogue:
    """The statements of a kernel's body behind position `loop`, where its last loop around a gemm stands.  `written`: tensors
    that the kernel writes.  `known`: variables whose values are known from the start of the block; `lets`: what those of the
    author among them stand for."""

    loop: int
    body: tile.Body
    written: frozenset[Buffer]
    known: frozenset[Var]
    lets: Mapping[Var, Expr]

    @staticmethod
    def of(kernel: tile.Kernel) -> Epilogue | None:
        """None for a kernel without such a loop."""
        body = kernel.body
        loops = (i for i, stmt in enumerate(body) if isinstance(stmt, tile.For))
        loop = max((i for i in loops if any(isinstance(inner, tile.Gemm) for inner in statements((body[i],)))), default=None)
        if loop is None:
            return None
        written = frozenset(buffer for stmt in statements(body) for buffer in writes(stmt))
        known = {axis.var for axis in kernel.grid} | {param for param in kernel.params if isinstance(param, Var)}
        lets: dict[Var, Expr] = {}
        for stmt in body:
            if isinstance(stmt, tile.Let) and _is_known((stmt.value,), known):
                known.add(stmt.var)
                lets[stmt.var] = substitute(stmt.value, lets)  # type: ignore[assignment]
        return Epilogue(loop, body[loop + 1 :], written, frozenset(known), lets)

    def loads(self, stmt: tile.Stmt) -> list[Load]:
        """The distinct loads of a loop over points from tensors that nothing writes, at indices made of the loop's variables and
        what is known from the start; none of a statement that does more than to store."""
        if not isinstance(stmt, tile.Parallel) or not all(isinstance(inner, tile.Store) for inner in stmt.body):
            return []
        found = dict.fromkeys(node for node in walk(stmt) if isinstance(node, Load) and node.buffer.scope is Scope.GLOBAL)
        known = self.known | set(stmt.vars)
        return [load for load in found if load.buffer.storage not in self.written and _is_known(load.indices, known)]

    def expanded(self, load: Load) -> Load:
        """The load without the author's variables, so that it means the same at the start of the block."""
        return substitute(load, self.lets)  # type: ignore[return-value]


def _is_known(values: tuple[Expr, ...], known: set[Var] | frozenset[Var]) -> bool:
    nodes = [node for value in values for node in walk(value)]
    return not any(isinstance(node, Load) or (isinstance(node, Var) and node not in known) for node in nodes)


def moving_dims(loop: tile.Parallel, load: Load) -> list[int]:
    """The loop's dimensions that the load's indices move along: all of them for a tile, fewer for a row or column that many
    points read."""
    used = {node for index in load.indices for node in walk(index) if isinstance(node, Var)}
    return [dim for dim, var in enumerate(loop.vars) if var in used]
