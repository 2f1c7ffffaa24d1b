"""Which conditions, bounds and addresses of a device kernel depend on what it loads, or on which block it is.

Flow is followed through variables and register arrays, each as a whole and whatever the order of statements: everything that may
depend is found, and now and then something that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tilelang.errors import Span
from tilelang.ir import device as d
from tilelang.ir.expr import Expr, Var
from tilelang.ir.walk import children, walk

Carrier = Var | d.Registers
_BODIES = ("body", "then", "otherwise")


@dataclass(frozen=True, slots=True)
class Dependence:
    """Something that must not depend on data for one run to speak for all, and does."""

    what: str
    span: Span | None


def data_dependences(kernel: d.DeviceKernel) -> tuple[Dependence, ...]:
    """Control flow, addresses, predicates of accesses and synchronisation that depend on values loaded from memory."""
    flow = _Flow(lambda stmt: isinstance(stmt, (d.LoadGlobal, d.LoadShared, d.WgmmaSS, d.WgmmaRS)))
    return tuple(flow.run(kernel))


def control_axes(kernel: d.DeviceKernel) -> frozenset[int]:
    """The axes of the grid (0 to 2) on which control flow depends: bounds of loops, uniform conditions, phases of barriers."""
    axes = set()
    for axis, index in enumerate(d.BLOCK_IDX):
        found = _Flow(lambda stmt: False, {index}).run(kernel)
        if any(dependence.what.startswith(("the bounds", "a condition", "a barrier")) for dependence in found):
            axes.add(axis)
    return frozenset(axes)


@dataclass(slots=True)
class _Flow:
    """`loads` says which statements bring something in; `carriers` is what holds it so far."""

    loads: Callable[[d.Stmt], bool]
    carriers: set[Carrier] = field(default_factory=set)

    def run(self, kernel: d.DeviceKernel) -> list[Dependence]:
        bodies = (kernel.setup, *(role.body for role in kernel.roles))
        before = -1
        while before != len(self.carriers):
            before = len(self.carriers)
            for body in bodies:
                self._spread(body, False)
        return [found for body in bodies for found in self._sinks(body)]

    def _holds(self, *exprs: Expr | None) -> bool:
        return any(
            node in self.carriers or (isinstance(node, d.RegisterLoad) and node.registers in self.carriers)
            for expr in exprs if expr is not None for node in walk(expr) if isinstance(node, (Var, d.RegisterLoad))
        )  # fmt: skip

    # ---- what spreads ---------------------------------------------------------------------------------------------------------

    def _spread(self, body: d.Body, under: bool) -> None:
        """`under`: inside a condition that depends, so that what is assigned does, too."""
        for stmt in body:
            target = _target(stmt)
            if target is not None and (under or self.loads(stmt) or self._holds(*_values(stmt))):
                self.carriers.add(target)
            inner = under
            if isinstance(stmt, (d.If, d.While)):
                inner = under or self._holds(stmt.condition)
            elif isinstance(stmt, d.For):
                inner = under or self._holds(stmt.start, stmt.stop)
                if inner:
                    self.carriers.add(stmt.var)
            for part in _bodies(stmt):
                self._spread(part, inner)

    # ---- where it must not arrive ---------------------------------------------------------------------------------------------

    def _sinks(self, body: d.Body) -> Iterator[Dependence]:
        for stmt in body:
            for what, exprs in _judged(stmt):
                if self._holds(*exprs):
                    yield Dependence(what, stmt.span)
            if self._holds(*_register_indices(stmt)):
                yield Dependence("the place of an access to a thread's own array", stmt.span)
            for part in _bodies(stmt):
                yield from self._sinks(part)


def _bodies(stmt: d.Stmt) -> Iterator[d.Body]:
    for name in _BODIES:
        if hasattr(stmt, name):
            yield getattr(stmt, name)


def _register_indices(stmt: d.Stmt) -> Iterator[Expr]:
    """The indices with which a statement names elements of register arrays, statements inside it not counted."""
    if isinstance(stmt, (d.RegisterStore, d.RegisterStoreWord)):
        yield from stmt.indices
    inside = tuple(child for child in children(stmt) if not isinstance(child, d.Stmt))
    for node in walk(inside):
        if isinstance(node, d.RegisterLoad):
            yield from node.indices


def _target(stmt: d.Stmt) -> Carrier | None:
    """What a statement gives a value."""
    match stmt:
        case d.Declare() | d.Assign() | d.ShuffleXor():
            return stmt.var
        case d.RegisterStore() | d.RegisterStoreWord():
            return stmt.registers
        case d.LoadGlobal() | d.LoadShared():
            return stmt.target
        case d.WgmmaSS() | d.WgmmaRS():
            return stmt.accumulator.registers
    return None


def _values(stmt: d.Stmt) -> tuple[Expr, ...]:
    """What that value is made of."""
    match stmt:
        case d.Declare() | d.Assign() | d.ShuffleXor() | d.RegisterStore():
            return (stmt.value,)
        case d.RegisterStoreWord():
            return stmt.values
    return ()


_QUIET = (
    d.Declare, d.Assign, d.DeclareRegisters, d.RegisterStore, d.RegisterStoreWord, d.FenceRegisters, d.Unroll, d.If, d.TileOp,
)  # fmt: skip
"""Statements that touch nothing but variables and registers: whether they run matters to values alone."""


def _judged(stmt: d.Stmt) -> Iterator[tuple[str, tuple[Expr | None, ...]]]:
    """The expressions of a statement that decide what happens, and in words what they are."""
    found = _DECIDES.get(type(stmt))
    quiet = isinstance(stmt, d.If) and _is_quiet((*stmt.then, *stmt.otherwise))
    if found is not None and not quiet:
        what, exprs = found
        yield what, exprs(stmt)


def _is_quiet(body: d.Body) -> bool:
    return all(isinstance(node, _QUIET) for node in walk(body) if isinstance(node, d.Stmt))


_GLOBAL, _SHARED = "the place of an access to global memory", "the place of an access to shared memory"
_DECIDES: dict[type[d.Stmt], tuple[str, Callable[[Any], tuple[Expr | None, ...]]]] = {
    d.For: ("the bounds of a loop", lambda stmt: (stmt.start, stmt.stop)),
    d.While: ("a condition", lambda stmt: (stmt.condition,)),
    d.If: ("a condition", lambda stmt: (stmt.condition,)),
    d.MbarrierWait: ("a barrier's phase", lambda stmt: (stmt.parity, stmt.barrier.index)),
    d.MbarrierArrive: ("a barrier's number", lambda stmt: (stmt.barrier.index,)),
    d.MbarrierExpectTx: ("a barrier's number", lambda stmt: (stmt.barrier.index,)),
    d.MbarrierAddTx: ("a barrier's number", lambda stmt: (stmt.barrier.index,)),
    d.MbarrierInit: ("a barrier's number", lambda stmt: (stmt.barrier.index,)),
    d.TmaLoad: ("the place of a copy", lambda stmt: (stmt.address, stmt.barrier.index, *stmt.coordinates)),
    d.TmaStore: ("the place of a copy", lambda stmt: (stmt.address, *stmt.coordinates)),
    d.LoadGlobal: (_GLOBAL, lambda stmt: (stmt.offset, stmt.predicate)),
    d.StoreGlobal: (_GLOBAL, lambda stmt: (stmt.offset, stmt.predicate)),
    d.LoadShared: (_SHARED, lambda stmt: (stmt.address, stmt.predicate)),
    d.StoreShared: (_SHARED, lambda stmt: (stmt.address, stmt.predicate)),
    d.StoreMatrix: (_SHARED, lambda stmt: (stmt.address,)),
    d.WgmmaSS: ("the place of a wgmma operand", lambda stmt: (stmt.a, stmt.b)),
    d.WgmmaRS: ("the place of a wgmma operand", lambda stmt: (stmt.b,)),
}
