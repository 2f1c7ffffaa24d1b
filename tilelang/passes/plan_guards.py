"""Tensors whose accesses by the block's threads must be ordered by barriers, as those of shared memory are.

A tensor that is only read, or that one statement writes once, needs none.  Nor does one that a loop writes tile by tile, since no
two turns write the same element; nor one that it writes at the same place in every turn, since the same threads do so again.
"""
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilelang.ir import tile
from tilelang.ir.arith import linear_form
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Const, Expr, Load, Var
from tilelang.ir.types import Scope
from tilelang.ir.walk import substitute, walk
from tilelang.passes.access import reads, statements, sub_bodies, trip_count, writes

Loops = tuple[tile.For | tile.While, ...]


def guarded_tensors(body: tile.Body) -> frozenset[Buffer]:
    """Tensors that are read and written, written by several statements, or by a loop whose turns may write the same elements by
    different threads.  The points of a T.Parallel are one statement."""
    every = tuple(statements(body))
    written = Counter(b for stmt, _ in _units(body, ()) for b in _written(stmt))
    found = {b for stmt in every for b in reads(stmt) if b in written}
    found |= {buffer for buffer, count in written.items() if count > 1}
    lets: dict[Var, Expr] = {stmt.var: stmt.value for stmt in every if isinstance(stmt, tile.Let)}
    for stmt, loops in _units(body, ()):
        if loops and isinstance(stmt, tile.Parallel):
            found |= {b for b in _written(stmt) if not _Turns.of(stmt, loops, lets).are_apart(b, stmt)}
    return frozenset(found)


def _units(body: tile.Body, loops: Loops) -> Iterator[tuple[tile.Stmt, Loops]]:
    """Every statement that is done as one, with the loops around it."""
    for stmt in body:
        if isinstance(stmt, (tile.For, tile.While)):
            yield from _units(stmt.body, (*loops, stmt))
        elif isinstance(stmt, tile.Parallel):
            yield stmt, loops
        else:
            yield stmt, loops
            for inner in sub_bodies(stmt):
                yield from _units(inner, loops)


def _written(stmt: tile.Stmt) -> set[Buffer]:
    """Tensors that a unit writes."""
    inner = statements((stmt,)) if isinstance(stmt, tile.Parallel) else (stmt,)
    return {buffer for each in inner for buffer in writes(each) if buffer.scope is Scope.GLOBAL}


@dataclass(frozen=True, slots=True)
class _Turns:
    """How the indices in a T.Parallel move: `counts` holds how many values each of its variables and of the loops' takes
    (infinity where that is not known), `steps` the steps of the loops' variables, `lets` what names stand for."""

    counts: Mapping[Var, float]
    steps: Mapping[Var, int]
    lets: Mapping[Var, Expr]

    @staticmethod
    def of(parallel: tile.Parallel, loops: Loops, lets: Mapping[Var, Expr]) -> _Turns:
        inner = [stmt for stmt in statements(parallel.body) if isinstance(stmt, tile.For)]
        outer = [loop for loop in loops if isinstance(loop, tile.For)]
        counts: dict[Var, float] = {}
        for var, extent in zip(parallel.vars, parallel.extents, strict=True):
            counts[var] = int(extent.value) if isinstance(extent, Const) else math.inf
        for loop in (*inner, *outer):
            trips = trip_count(loop)
            counts[loop.var] = math.inf if trips is None else trips
        return _Turns(counts, {loop.var: loop.step for loop in outer}, lets)

    def are_apart(self, buffer: Buffer, parallel: tile.Parallel) -> bool:
        """Whether each store to `buffer` writes other elements in every turn of the loops, or the same ones by the same
        threads."""
        stores = [stmt for stmt in statements(parallel.body) if isinstance(stmt, tile.Store) and stmt.buffer.storage is buffer]
        return len(stores) == 1 and self._is_apart(stores[0].indices)

    def _is_apart(self, indices: tuple[Expr, ...]) -> bool:
        expanded = [self._expanded(index) for index in indices]
        moving = {node for index in expanded for node in walk(index) if isinstance(node, Var) and node in self.steps}
        if any(isinstance(node, Load) for index in expanded for node in walk(index)):
            return False
        told: set[Var] = set()
        for index in expanded:
            told |= self._told_apart(index)
        return moving <= told

    def _expanded(self, index: Expr) -> Expr:
        """The index without names: a let's value has only names of earlier ones."""
        for var, value in reversed(list(self.lets.items())):
            index = substitute(index, {var: value})  # type: ignore[assignment]
        return index

    def _told_apart(self, index: Expr) -> set[Var]:
        """The loops' variables that an index has a value of its own for, whatever the others are: its terms are digits of a
        number."""
        _, terms = linear_form(index)
        weights: dict[Var, int] = {}
        for atom, coefficient in terms.items():
            if isinstance(atom, Var) and atom in self.counts:
                weights[atom] = abs(coefficient * self.steps.get(atom, 1))
            elif any(node in self.counts for node in walk(atom) if isinstance(node, Var)):
                return set()
        reach: float = 0
        for var, weight in sorted(weights.items(), key=lambda item: item[1]):
            if weight <= reach:
                return set()
            reach += weight * (self.counts[var] - 1)
        return {var for var in weights if var in self.steps}
