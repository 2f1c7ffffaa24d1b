"""Fragments in element-wise loops and reductions: which of their dimensions goes along which dimension of the loop."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilelang.errors import ShapeProblem, Span, Unsupported
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Const, Expr, Load, Var
from tilelang.ir.types import Scope
from tilelang.ir.walk import walk
from tilelang.passes.access import statements
from tilelang.passes.extents import size
from tilelang.trace import Decision, Rejection


class RelayoutWanted(Exception):
    """A loop or reduction needs a fragment in another layout than it has, or indexes it in a way that no layout serves; through
    shared memory it can be had.  `decision` says why."""

    def __init__(self, loop: tile.Parallel | tile.Reduce, buffer: Buffer, decision: Decision) -> None:
        super().__init__(buffer.name)
        self.loop, self.buffer, self.decision = loop, buffer, decision


def relayout(loop: tile.Parallel | tile.Reduce, buffer: Buffer, predicate: str, value: str) -> RelayoutWanted:
    """What is raised where a predicate fails that would let the loop have the fragment in registers."""
    why = Rejection("in registers", predicate, value)
    return RelayoutWanted(loop, buffer, Decision(loop.span, f"{buffer.name} here", "through shared memory", rejected=(why,)))


@dataclass(frozen=True, slots=True)
class Access:
    """A fragment touched in a loop: for each of its dimensions the loop's dimension, None where the index is constant."""

    buffer: Buffer
    dims: tuple[int | None, ...]


def loop_accesses(loop: tile.Parallel) -> tuple[Access, ...]:
    """Every fragment access in a loop.  Raises RelayoutWanted for one whose indices are not variables of the loop."""
    found = []
    for buffer, indices, _ in element_accesses(loop):
        if buffer.scope is Scope.FRAGMENT:
            dims = tuple(_dim(index, loop, buffer) for index in indices)
            named = [dim for dim in dims if dim is not None]
            if len(set(named)) < len(named):
                raise relayout(loop, buffer, "each of the loop's variables is one of its indices", "one is two")
            found.append(Access(buffer, dims))
    return tuple(dict.fromkeys(found))


def element_accesses(loop: tile.Parallel) -> Iterator[tuple[Buffer, tuple[Expr, ...], Span | None]]:
    """(buffer, indices, span) of every element loaded or stored in a loop."""
    for stmt in statements(loop.body):
        if isinstance(stmt, tile.Store):
            yield stmt.buffer, stmt.indices, stmt.span
        for node in walk(stmt):
            if isinstance(node, Load):
                yield node.buffer, node.indices, stmt.span


def _dim(index: Expr, loop: tile.Parallel, buffer: Buffer) -> int | None:
    if isinstance(index, Var) and index in loop.vars:
        return loop.vars.index(index)
    if isinstance(index, Const) and index.value == 0:
        return None
    raise relayout(loop, buffer, "its indices are the loop's variables", "one is an expression")


def kept_dims(reduce: tile.Reduce) -> tuple[int | None, ...]:
    """For each dimension of the result the source's dimension; None for the reduced one where it is kept with extent 1."""
    rank = reduce.src.buffer.rank
    if reduce.dst.buffer.rank == rank:
        return tuple(None if dim == reduce.dim else dim for dim in range(rank))
    return tuple(dim for dim in range(rank) if dim != reduce.dim) or (None,)


def check_extents(loop: tile.Parallel, accesses: tuple[Access, ...]) -> None:
    """Raises ShapeProblem (TL227) for a loop that goes beyond a fragment it touches."""
    extents = loop_extents(loop)
    for access in accesses:
        for dim, extent in zip(access.dims, access.buffer.shape, strict=True):
            if dim is not None and extents[dim] > size(extent):
                raise ShapeProblem(
                    f"this loop runs over {extents[dim]} elements of {access.buffer.name}, which has {extent}", code="TL227",
                    span=loop.span, hint=f"make the extent at most {extent}",
                )  # fmt: skip


def loop_extents(loop: tile.Parallel) -> tuple[int, ...]:
    """The extents as numbers.  Raises Unsupported (TL343) where they are known only at run time."""
    if not all(isinstance(extent, Const) for extent in loop.extents):
        raise Unsupported(
            "T.Parallel with run-time extents runs on the CPU only so far", code="TL343", span=loop.span,
            hint="let it run over the whole tile, with an if inside that compares the index with the extent",
        )  # fmt: skip
    return tuple(size(extent) for extent in loop.extents)
