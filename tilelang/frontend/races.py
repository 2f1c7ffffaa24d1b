"""Points of a T.Parallel that meet for certain, whatever the data: found while the kernel is built.

Two mistakes show in the indices alone.  Every point along an axis writes one element, each another value or one made from the old
(`total[0] += x[i]`); or a point reads the element that a neighbour writes (`x[i] = x[i - 1] + 1`).  Only what no condition can
avoid is reported; what depends on data is seen when the kernel runs on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tilelang.errors import KernelError, Span
from tilelang.frontend.describe import expr_text
from tilelang.frontend.facts import Facts
from tilelang.ir import tile
from tilelang.ir.arith import add_forms
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from tilelang.ir.types import Scope
from tilelang.ir.walk import children, walk

_OF_A_THREAD = (Scope.LOCAL, Scope.VAR)
_FOLDS = {"+": "T.reduce_sum", "max": "T.reduce_max", "min": "T.reduce_min"}


def check_races(loop: tile.Parallel, facts: Facts) -> None:
    """KernelError TL220 at the first statement where points meet for certain."""
    pairs = zip(loop.vars, loop.extents, strict=True)
    extents = {var: int(extent.value) for var, extent in pairs if isinstance(extent, Const) and extent.value > 1}
    for var, extent in extents.items():
        known = _sure(loop, {var}, facts)
        for store in known.stores:
            _check_one_element(store, var, extent, known)
    known = _sure(loop, set(loop.vars), facts)
    for store in known.stores:
        _check_neighbours(store, known, extents)


@dataclass(slots=True)
class _Known:
    """The assignments of a body that surely run at every point, and what may and what surely does differ between points."""

    facts: Facts
    may_differ: set[Var]
    own: set[Buffer]  # arrays of each thread that the loop stores to
    differs: set[Var | Buffer] = field(default_factory=set)
    found: list[tile.Let | tile.Store] = field(default_factory=list)

    @property
    def stores(self) -> list[tile.Store]:
        """The stores to what all threads share."""
        return [stmt for stmt in self.found if isinstance(stmt, tile.Store) and stmt.buffer.scope not in _OF_A_THREAD]

    def may(self, value: Expr) -> bool:
        """Whether `value` may differ between points."""
        return any(
            node in self.may_differ if isinstance(node, Var) else isinstance(node, Load) and node.buffer in self.own
            for node in walk(value)
        )

    def surely(self, value: Expr) -> bool:
        """Whether points surely see different numbers or read different elements: a variable in a sum, under no division."""
        if isinstance(value, Var):
            return value in self.differs
        if value.dtype.is_int:
            terms = self.facts.form(value)[1]
            if self.differs & terms.keys() and not any(self.may(atom) for atom in terms if not isinstance(atom, Var)):
                return True
        match value:
            case Load(buffer=buffer, indices=indices):
                return buffer in self.differs or any(self.surely(index) for index in indices)
            case Unary() | Cast() | Call() | Select():
                return any(self.surely(child) for child in children(value) if isinstance(child, Expr))
            case Binary(op="+" | "-" | "*" | "/" | "min" | "max", a=a, b=b):
                return self.surely(a) or self.surely(b)
        return False

    def add(self, body: tile.Body) -> None:
        """The assignments of `body`, without those that a condition or an empty loop may skip at some points only."""
        for stmt in body:
            match stmt:
                case tile.Let(var=var, value=value):
                    self.found.append(stmt)
                    self.may_differ |= {var} if self.may(value) else set()
                    self.differs |= {var} if self.surely(value) else set()
                case tile.Store(buffer=buffer, value=value):
                    self.found.append(stmt)
                    if buffer in self.own:
                        (self.differs.add if self.surely(value) else self.differs.discard)(buffer)
                case tile.If(condition=condition, then=then, otherwise=otherwise) if not self.may(condition):
                    self.add(then + otherwise)
                case tile.For(start=start, stop=stop, body=inner) if not (self.may(start) or self.may(stop) or _jumps(inner)):
                    self.add(inner)
                case tile.Parallel(extents=extents, body=inner) if not any(map(self.may, extents)):
                    self.add(inner)


def _sure(loop: tile.Parallel, variables: set[Var], facts: Facts) -> _Known:
    """What is known of the body where only `variables` tell points apart."""
    own = {node.buffer for node in walk(loop.body) if isinstance(node, tile.Store) and node.buffer.scope in _OF_A_THREAD}
    known = _Known(facts, set(variables), own, set(variables))
    known.add(loop.body)
    return known


def _jumps(body: tile.Body) -> bool:
    return any(isinstance(node, (tile.Break, tile.Continue)) for node in walk(body))


# ---- one element for all ------------------------------------------------------------------------------------------------------


def _check_one_element(store: tile.Store, var: Var, extent: int, known: _Known) -> None:
    if any(known.may(atom) for index in store.indices for atom in known.facts.form(index)[1]):
        return
    element = Load(store.buffer, store.indices)
    folds = any(node == element for node in walk(store.value))
    if not folds and not known.surely(store.value):
        return
    if folds:
        op = store.value.op if isinstance(store.value, Binary) else ""
        fold = _FOLDS.get(op, "T.reduce_sum, T.reduce_max or T.reduce_min")
        hint = f"fold a whole tile by {fold}, or loop over {var.name} by T.serial"
    else:
        hint = f"index {store.buffer.name} by {var.name} as well, or let one point write: if {var.name} == 0:"
    raise KernelError(
        f"all {extent} points of T.Parallel along {var.name} write {expr_text(element)}, "
        f"{'made from its old value' if folds else 'each with a value of its own'}, and they have no order",
        code="TL220", span=store.span, hint=hint,
    )  # fmt: skip


# ---- a neighbour's element ----------------------------------------------------------------------------------------------------


def _check_neighbours(store: tile.Store, known: _Known, extents: dict[Var, int]) -> None:
    for load, span in _loads(known.found, store.buffer):
        steps = _steps(store.indices, load.indices, extents, known)
        if steps is not None and any(steps.values()):
            written = expr_text(Load(store.buffer, store.indices))
            raise KernelError(
                f"a point of T.Parallel reads {expr_text(load)}, which another point writes as {written}, and they have no order",
                code="TL220", span=span or store.span,
                hint=f"read from a copy of {store.buffer.name}, or use T.serial where one point builds on the one before",
            )  # fmt: skip


def _loads(statements: list[tile.Let | tile.Store], buffer: Buffer) -> Iterator[tuple[Load, Span | None]]:
    """The reads of a buffer that the statements make whatever happens: not those on one side of a conditional value."""
    for stmt in statements:
        for child in children(stmt):
            yield from ((load, stmt.span) for load in _evaluated(child) if load.buffer is buffer)


def _evaluated(node: object) -> Iterator[Load]:
    if isinstance(node, Load):
        yield node
    lazy = isinstance(node, Select) or (isinstance(node, Binary) and node.op in ("and", "or"))
    for at, child in enumerate(children(node)):
        if at == 0 or not lazy:
            yield from _evaluated(child)


def _steps(written: tuple[Expr, ...], read: tuple[Expr, ...], extents: dict[Var, int], known: _Known) -> dict[Var, int] | None:
    """How far, along each variable, the point that writes an element is from one that reads it; None where not certain."""
    steps: dict[Var, int] = {}
    for mine, other in zip(written, read, strict=True):
        form = known.facts.form(mine)
        distance, rest = add_forms(form, known.facts.form(other), -1)
        moving = [atom for atom in form[1] if known.may(atom)]
        if rest or len(moving) > 1 or (distance and not moving):
            return None
        if moving:
            var = moving[0]
            if not isinstance(var, Var) or var not in extents:
                return None
            step, left = divmod(-distance, form[1][var])
            if left or abs(step) >= extents[var] or steps.setdefault(var, step) != step:
                return None
    return steps
