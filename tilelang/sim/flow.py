"""Which conditions, bounds and addresses of a device kernel depend on what it loads, or on which block it is.

Flow is followed through variables and register arrays, each as a whole and whatever the order of statements: everything that may
depend is found, and now and then something that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tilelang.errors import Span
from tilelang.ir import device as d
from tilelang.ir.expr import Expr, Var
from tilelang.ir.walk import walk

Carrier = Var | d.Registers


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

    # ---- what spreads -------------------------------------------------------------------------------------------------------------

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

    # ---- where it must not arrive ---------------------------------------------------------------------------------------------------

    def _sinks(self, body: d.Body) -> Iterator[Dependence]:
        for stmt in body:
            for what, exprs in _judged(stmt):
                if self._holds(*exprs):
                    yield Dependence(what, stmt.span)
            for part in _bodies(stmt):
                yield from self._sinks(part)


def _bodies(stmt: d.Stmt) -> Iterator[d.Body]:
    for name in ("body", "then", "otherwise"):
        if hasattr(stmt, name):
            yield getattr(stmt, name)


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


_QUIET = (d.Declare, d.Assign, d.RegisterStore, d.RegisterStoreWord, d.Unroll, d.If, d.TileOp, d.DeclareRegisters, d.FenceRegisters)
"""Statements that touch nothing but variables and registers: whether they run matters to values alone."""


def _judged(stmt: d.Stmt) -> Iterator[tuple[str, tuple[Expr | None, ...]]]:
    """The expressions of a statement that decide what happens, and in words what they are."""
    match stmt:
        case d.For():
            yield "the bounds of a loop", (stmt.start, stmt.stop)
        case d.While():
            yield "a condition", (stmt.condition,)
        case d.If():
            if not all(isinstance(node, _QUIET) for node in walk((*stmt.then, *stmt.otherwise)) if isinstance(node, d.Stmt)):
                yield "a condition", (stmt.condition,)
        case d.MbarrierWait():
            yield "a barrier's phase", (stmt.parity, stmt.barrier.index)
        case d.MbarrierArrive() | d.MbarrierExpectTx() | d.MbarrierInit():
            yield "a barrier's number", (stmt.barrier.index,)
        case d.TmaLoad() | d.TmaStore():
            yield "the place of a copy", (stmt.address, *stmt.coordinates)
        case d.LoadGlobal() | d.StoreGlobal():
            yield "the place of an access to global memory", (stmt.offset, stmt.predicate)
        case d.LoadShared() | d.StoreShared():
            yield "the place of an access to shared memory", (stmt.address, stmt.predicate)
        case d.StoreMatrix():
            yield "the place of an access to shared memory", (stmt.address,)
        case d.WgmmaSS():
            yield "the place of a wgmma operand", (stmt.a, stmt.b)
        case d.WgmmaRS():
            yield "the place of a wgmma operand", (stmt.b,)
