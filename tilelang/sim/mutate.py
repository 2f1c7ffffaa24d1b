"""Mutants of a device kernel, each with one piece of synchronisation left out or spoiled, to measure how much the machine
notices.

A mutant is a whole kernel that differs in one place.  Tile ops are dissolved first, so that statements can be moved past each
other.  What is not synchronisation (arithmetic, addresses, data) stays as it is.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from tilelang.errors import Span
from tilelang.ir import device as d
from tilelang.ir.device import u32
from tilelang.ir.expr import BOOL, UINT32, Binary, Cast, Const, Expr, Var
from tilelang.ir.walk import rewrite, walk

Replacement = tuple[d.Stmt, ...]

_DELETED = (
    d.MbarrierInit, d.FenceMbarrierInit, d.MbarrierExpectTx, d.MbarrierAddTx, d.MbarrierArrive, d.MbarrierWait, d.SyncThreads,
    d.SyncWarp, d.NamedBarrierSync, d.BulkCommitGroup, d.BulkWaitGroupRead, d.BulkWaitGroup, d.FenceProxyAsync, d.WgmmaFence,
    d.WgmmaCommitGroup, d.WgmmaWaitGroup, d.RingAdvance, d.SetMaxRegisters,
)  # fmt: skip
_MOVED = tuple(kind for kind in _DELETED if kind is not d.SetMaxRegisters)
_INERT = (d.Declare, d.DeclareRegisters, d.Assign, d.RegisterStore, d.RegisterStoreWord, d.FenceRegisters, d.ShuffleXor, d.Unroll)
"""Statements that synchronisation has nothing to do with, Unroll if all inside it is such: a move goes past them.  An Assign to a
variable that says which barrier, or which parity, is none of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Mutant:
    """One spoiled kernel: what was done (`action`: delete, stage+1, parity, tx+16, arrivals-1, earlier, ...) to which
    statement."""

    action: str
    kind: type[d.Stmt]
    target: str
    role: str
    span: Span | None
    kernel: d.DeviceKernel
    passed: str = ""
    """For a move: the kind of statement it went past."""
    passed_target: str = ""
    near: str = ""
    """The mbarrier that is used next after the statement, in the same body."""
    index: int = 0
    """Which one this is among those that are otherwise alike."""

    def __str__(self) -> str:
        past = f" past {self.passed} {self.passed_target}".rstrip() if self.passed else ""
        where = f" at {self.span}" if self.span else ""
        return f"{self.action} {self.kind.__name__} {self.target}{past} of {self.role}{where}".replace("  ", " ")


def flatten(kernel: d.DeviceKernel) -> d.DeviceKernel:
    """The kernel with tile ops dissolved into their statements, which keep their place in the source, each a node of its own."""
    roles = tuple(dataclasses.replace(role, body=_flat(role.body, None)) for role in kernel.roles)
    return dataclasses.replace(kernel, setup=_flat(kernel.setup, None), roles=roles)


def mutants(kernel: d.DeviceKernel) -> list[Mutant]:
    """Every mutant of a kernel, in the order of its statements."""
    flat = flatten(kernel)
    found: list[Mutant] = []
    for name, body in (("setup", flat.setup), *((role.name, role.body) for role in flat.roles)):
        positions = _positions(body)
        for inner in _bodies(body):
            for at, unit in enumerate(inner):
                found += _of_statement(flat, name, unit, positions, _near(inner, at))
        found += _moves(flat, name, body, positions)
    return _numbered(found + _arrival_counts(flat) + _starts(flat))


def _numbered(found: list[Mutant]) -> list[Mutant]:
    seen: Counter[tuple[str, ...]] = Counter()
    numbered = []
    for mutant in found:
        key = (mutant.action, mutant.kind.__name__, mutant.target, mutant.role, mutant.passed, mutant.passed_target)
        numbered.append(dataclasses.replace(mutant, index=seen[key]))
        seen[key] += 1
    return numbered


# ---- single statements --------------------------------------------------------------------------------------------------------


def _positions(body: d.Body) -> frozenset[Var]:
    """The mutable variables that say where a role is: which slot, which barrier, which parity."""
    mutable = {stmt.var for stmt in _statements(body) if isinstance(stmt, d.Declare) and stmt.mutable}
    rings = (node for node in walk(body) if isinstance(node, d.RingAdvance))
    advanced = {var for ring in rings for var in (ring.phase, ring.stage if ring.stages > 1 else None)}
    refs = [node.index for node in walk(body) if isinstance(node, d.BarrierRef)]
    parities = [node.parity for node in walk(body) if isinstance(node, d.MbarrierWait)]
    named = {node for expr in (*refs, *parities) for node in walk(expr) if isinstance(node, Var)}
    return frozenset(mutable & (advanced | named))


def _of_statement(
    kernel: d.DeviceKernel, role: str, stmt: d.Stmt, positions: frozenset[Var], near: str
) -> Iterator[Mutant]:
    if isinstance(stmt, _DELETED) or _moves_on(stmt, positions):
        yield _mutant(kernel, role, "delete", stmt, (), near)
    for action, change in _changes(stmt):
        yield _mutant(kernel, role, action, stmt, (change,), near)


def _moves_on(stmt: d.Stmt, positions: frozenset[Var]) -> bool:
    return isinstance(stmt, d.Assign) and stmt.var in positions


def _near(body: d.Body, at: int) -> str:
    """The first mbarrier from a statement on."""
    refs = (node.array.name for stmt in body[at:] for node in walk(stmt) if isinstance(node, d.BarrierRef))
    return next(refs, "")


def _changes(stmt: d.Stmt) -> Iterator[tuple[str, d.Stmt]]:
    """Other forms of a statement, each with one number of its synchronisation off."""
    yield from _other_barriers(stmt)
    if isinstance(stmt, d.MbarrierWait):
        yield "parity", dataclasses.replace(stmt, parity=Binary("^", stmt.parity, u32(1)))
    if isinstance(stmt, (d.MbarrierExpectTx, d.MbarrierAddTx)):
        yield "tx+16", dataclasses.replace(stmt, bytes=stmt.bytes + 16)
        yield "tx-16", dataclasses.replace(stmt, bytes=stmt.bytes - 16)
    if isinstance(stmt, (d.WgmmaWaitGroup, d.BulkWaitGroupRead, d.BulkWaitGroup)):
        yield "pending+1", dataclasses.replace(stmt, pending=stmt.pending + 1)
    if isinstance(stmt, d.NamedBarrierSync):
        yield "threads+32", dataclasses.replace(stmt, threads=stmt.threads + 32)
        yield "threads-32", dataclasses.replace(stmt, threads=stmt.threads - 32)
    if isinstance(stmt, d.RingAdvance):
        yield from _other_advances(stmt)
    if isinstance(stmt, d.If) and any(isinstance(node, _DELETED) for node in walk(stmt.then)):
        yield "always", dataclasses.replace(stmt, condition=Const(True, BOOL))


def _other_barriers(stmt: d.Stmt) -> Iterator[tuple[str, d.Stmt]]:
    """The statement with the next mbarrier of its array, and with the one before."""
    if isinstance(stmt, (d.MbarrierWait, d.MbarrierArrive, d.MbarrierExpectTx, d.MbarrierAddTx, d.TmaLoad)):
        count = stmt.barrier.array.count
        for step in dict.fromkeys((1 % count, (count - 1) % count)):
            if step:
                sign = "stage+1" if step == 1 else "stage-1"
                yield sign, dataclasses.replace(stmt, barrier=_shifted(stmt.barrier, step))


def _other_advances(ring: d.RingAdvance) -> Iterator[tuple[str, d.Stmt]]:
    """One slot too far, one too few; none at all is the deletion."""
    yield "slots+1", dataclasses.replace(ring, slots=ring.slots + 1)
    if ring.slots > 1:
        yield "slots-1", dataclasses.replace(ring, slots=ring.slots - 1)


def _shifted(barrier: d.BarrierRef, step: int) -> d.BarrierRef:
    index: Expr = barrier.index if barrier.index.dtype == UINT32 else Cast(barrier.index, UINT32)
    return d.BarrierRef(barrier.array, Binary("%", index + step, u32(barrier.array.count)))


def _arrival_counts(kernel: d.DeviceKernel) -> list[Mutant]:
    """Each array of mbarriers initialised with a count that is one off."""
    found = []
    for array in kernel.barriers:
        for step in (1, -1):
            if min(array.each, default=array.arrivals) + step < 1:
                continue
            each = tuple(count + step for count in array.each)
            other = dataclasses.replace(array, arrivals=array.arrivals + step, each=each)
            changed = _rewritten(kernel, partial(_with_array, array=array, other=other))
            barriers = tuple(other if known is array else known for known in kernel.barriers)
            changed = dataclasses.replace(changed, barriers=barriers)
            found.append(Mutant(f"arrivals{step:+d}", d.MbarrierInit, array.name, "setup", kernel.span, changed))
    return found


def _with_array(node: object, array: d.BarrierArray, other: d.BarrierArray) -> object:
    return d.BarrierRef(other, node.index) if isinstance(node, d.BarrierRef) and node.array is array else node


def _starts(kernel: d.DeviceKernel) -> list[Mutant]:
    """Each position of each role started at the wrong phase, or one slot on."""
    found = []
    for role in kernel.roles:
        positions = _positions(role.body)
        slots = {ring.stage: ring.stages for ring in walk(role.body) if isinstance(ring, d.RingAdvance)}
        for stmt in _statements(role.body):
            if isinstance(stmt, d.Declare) and stmt.var in positions and isinstance(stmt.value, Const):
                action = "stage start" if stmt.var in slots else "phase start"
                other = u32((int(stmt.value.value) + 1) % slots.get(stmt.var, 2))
                found.append(_mutant(kernel, role.name, action, stmt, (dataclasses.replace(stmt, value=other),)))
    return found


# ---- moves --------------------------------------------------------------------------------------------------------------------


def _moves(kernel: d.DeviceKernel, role: str, body: d.Body, positions: frozenset[Var]) -> Iterator[Mutant]:
    """Each synchronising statement exchanged with the statement before or after it, every pair once."""
    seen: set[tuple[int, int, int]] = set()
    for inner in _bodies(body):
        for at, unit in enumerate(inner):
            stmt = _core(unit)
            if not isinstance(stmt, _MOVED) and not _moves_on(stmt, positions):
                continue
            for action, step in (("earlier", -1), ("later", 1)):
                other = _neighbour(inner, at, step, positions)
                if other is None or (id(inner), min(at, other), max(at, other)) in seen:
                    continue
                if _declares(inner[other:at], unit):
                    continue  # which would be no program
                seen.add((id(inner), min(at, other), max(at, other)))
                passed = _core(inner[other])
                changed = _replaced_body(kernel, inner, _exchanged(inner, at, other))
                near = _near(inner, min(at, other))
                what = (type(passed).__name__, _target(passed))
                yield Mutant(action, type(stmt), _target(stmt), role, stmt.span, changed, *what, near)


def _core(unit: d.Stmt) -> d.Stmt:
    """The one statement of an elected body, as in `if (elect_one()) arrive`; else the statement itself."""
    return unit.body[0] if isinstance(unit, d.Elected) and len(unit.body) == 1 else unit


def _neighbour(body: d.Body, at: int, step: int, positions: frozenset[Var]) -> int | None:
    other = at + step
    while 0 <= other < len(body) and _is_inert(body[other], positions):
        other += step
    return other if 0 <= other < len(body) else None


def _is_inert(stmt: d.Stmt, positions: frozenset[Var]) -> bool:
    return all(
        isinstance(node, _INERT) and not _moves_on(node, positions) for node in walk(stmt) if isinstance(node, d.Stmt)
    )


def _declares(body: d.Body, unit: d.Stmt) -> bool:
    """Whether some of these statements declare what `unit` uses."""
    used = {node for node in walk(unit) if isinstance(node, Var)}
    return any(isinstance(stmt, d.Declare) and stmt.var in used for stmt in body)


def _exchanged(body: d.Body, at: int, other: int) -> d.Body:
    """`body` with the statement at `at` moved to the other side of the one at `other`."""
    rest = [stmt for i, stmt in enumerate(body) if i != at]
    rest.insert(other, body[at])
    return tuple(rest)


# ---- trees --------------------------------------------------------------------------------------------------------------------


def _mutant(kernel: d.DeviceKernel, role: str, action: str, stmt: d.Stmt, by: Replacement, near: str = "") -> Mutant:
    changed = _edited(kernel, lambda body: _spliced(body, stmt, by))
    return Mutant(action, type(stmt), _target(stmt), role, stmt.span, changed, near=near)


def _target(stmt: d.Stmt) -> str:
    """What the statement is about: the name of its barrier, variable or tensor."""
    if isinstance(stmt, d.MbarrierInit):
        index = stmt.barrier.index
        return f"{stmt.barrier.array.name}[{index.value}]" if isinstance(index, Const) else stmt.barrier.array.name
    if isinstance(stmt, (d.MbarrierWait, d.MbarrierArrive, d.MbarrierExpectTx, d.MbarrierAddTx, d.TmaLoad)):
        return stmt.barrier.array.name
    if isinstance(stmt, d.RingAdvance):
        return stmt.phase.name
    return stmt.var.name if isinstance(stmt, (d.Declare, d.Assign)) else ""


def _spliced(body: d.Body, target: d.Stmt, by: Replacement) -> d.Body:
    return tuple(new for stmt in body for new in (by if stmt is target else (stmt,)))


def _replaced_body(kernel: d.DeviceKernel, body: d.Body, by: d.Body) -> d.DeviceKernel:
    return _edited(kernel, lambda found: by if found is body else found)


def _edited(kernel: d.DeviceKernel, change: Callable[[d.Body], d.Body]) -> d.DeviceKernel:
    """The kernel with `change` made to its statement lists; what it leaves alone stays the same object."""
    roles = tuple(dataclasses.replace(role, body=_edit(role.body, change)) for role in kernel.roles)
    return dataclasses.replace(kernel, setup=_edit(kernel.setup, change), roles=roles)


def _edit(body: d.Body, change: Callable[[d.Body], d.Body]) -> d.Body:
    changed = change(body)
    if changed is not body and (len(changed) != len(body) or any(a is not b for a, b in zip(changed, body, strict=True))):
        return changed
    inner = tuple(_edit_inside(stmt, change) for stmt in body)
    return body if all(a is b for a, b in zip(inner, body, strict=True)) else inner


def _edit_inside(stmt: d.Stmt, change: Callable[[d.Body], d.Body]) -> d.Stmt:
    parts = {name: getattr(stmt, name) for name in ("body", "then", "otherwise") if hasattr(stmt, name)}
    new = {name: _edit(part, change) for name, part in parts.items()}
    return dataclasses.replace(stmt, **new) if any(new[name] is not parts[name] for name in parts) else stmt


def _rewritten(kernel: d.DeviceKernel, change: Callable[[object], object]) -> d.DeviceKernel:
    roles = tuple(dataclasses.replace(role, body=rewrite(role.body, change)) for role in kernel.roles)
    return dataclasses.replace(kernel, setup=rewrite(kernel.setup, change), roles=roles)  # type: ignore[arg-type]


def _bodies(body: d.Body) -> Iterator[d.Body]:
    """A statement list and all those inside it."""
    yield body
    for stmt in body:
        for name in ("body", "then", "otherwise"):
            if hasattr(stmt, name):
                yield from _bodies(getattr(stmt, name))


def _statements(body: d.Body) -> Iterator[d.Stmt]:
    for inner in _bodies(body):
        yield from inner


def _flat(body: d.Body, span: Span | None) -> d.Body:
    flat: list[d.Stmt] = []
    for stmt in body:
        if isinstance(stmt, d.TileOp):
            flat += _flat(stmt.body, stmt.span or span)
            continue
        here = stmt.span or span
        parts = {name: _flat(getattr(stmt, name), here) for name in ("body", "then", "otherwise") if hasattr(stmt, name)}
        flat.append(dataclasses.replace(stmt, span=here, **parts))
    return tuple(flat)
