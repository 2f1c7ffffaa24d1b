"""Strands: the threads of a role that march together, and how they meet for instructions that a whole role issues as one.

A thread that an `Elected` body picks is a strand of its own, so that it can wait while the rest of its role goes on, as on the
hardware.  All other threads of a role form one strand.  Setup is run by every strand before its role's body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang.errors import HazardError
from tilelang.ir import device
from tilelang.ir.expr import Expr, Var
from tilelang.ir.walk import walk
from tilelang.sim.memory import Access
from tilelang.sim.sync import Wait
from tilelang.sim.values import Value, evaluate, scalar

if TYPE_CHECKING:
    from tilelang.sim.machine import Block

Steps = Iterator[Wait]


@dataclass(eq=False, slots=True)
class Group:
    """The threads that run one body: a role, or the whole block in setup.

    `claims` holds, per uniform statement, what the strands found its condition or bounds to be, in order."""

    name: str
    first_thread: int
    threads: int
    strands: list[Strand] = field(default_factory=list)
    meeting: Meeting | None = None
    claims: dict[device.Stmt, list[tuple[int, ...]]] = field(default_factory=dict)

    def warpgroups(self) -> tuple[int, ...]:
        """The aligned warpgroups of the block that lie in this group; empty if its threads are not whole warpgroups."""
        if self.first_thread % 128 or self.threads % 128:
            return ()
        return tuple(range(self.first_thread // 128, (self.first_thread + self.threads) // 128))

    def all_threads(self) -> np.ndarray:
        """Ids of the group's threads."""
        return np.arange(self.first_thread, self.first_thread + self.threads)

    def split_warps(self) -> np.ndarray:
        """Warps of the group, counted within it, whose threads are in several strands."""
        whole = [warp for strand in self.strands for warp in strand.whole_warps().tolist()]
        return np.setdiff1d(np.arange(self.threads // 32), whole)


@dataclass(eq=False, slots=True)
class Meeting:
    """One instruction that all strands of a group issue together: who came so far, with which operands."""

    stmt: device.Stmt
    arrived: list[tuple[Strand, tuple[Value, ...]]] = field(default_factory=list)
    done: bool = False
    result: Any = None


@dataclass(eq=False)
class Strand:
    """Threads of one role that march together, with their variables.  `mask` is None where all of them are active."""

    block: Block
    threads: np.ndarray
    group: Group
    role: Group
    role_body: device.Body
    env: dict[Var, Value] = field(default_factory=dict)
    mutable: set[Var] = field(default_factory=set)
    mask: np.ndarray | None = None
    span: Any = None
    divergence: int = 0
    elected: bool = False
    waiting: Wait | None = None
    finished: bool = False
    loops: list[tuple[str, int]] = field(default_factory=list)
    """Variables of the loops around the present statement, and their values."""
    agents: np.ndarray | None = None
    """What the vector clocks call the threads of this strand."""
    rounds: dict[device.Stmt, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        first, count = int(self.threads[0]), len(self.threads)
        contiguous = int(self.threads[-1]) - first == count - 1
        self.columns = first if count == 1 else slice(first, first + count) if contiguous else self.threads
        self.warpgroups = tuple(sorted({int(thread) // 128 for thread in self.threads}))
        self.env[device.THREAD] = first if count == 1 else self.threads.astype(np.int32)
        self.name = f"{self.role.name} thread {first}" if count == 1 else self.role.name

    def whole_warps(self) -> np.ndarray:
        """Warps, counted within the group, all of whose threads are in this strand."""
        return np.flatnonzero(np.bincount((self.threads - self.group.first_thread) // 32) == 32)

    # ---- what expressions need ------------------------------------------------------------------------------------------------

    def load_register(self, registers: device.Registers, indices: tuple[Value, ...]) -> Value:
        """One element in each active thread.  Raises HazardError TL842 as `_places` does, and what the register file raises."""
        found: Value | None = None
        for place, mask in self._places(registers, indices):
            value = self.block.registers.load(registers, place, self.columns, mask, self.warpgroups, self.span)
            found = value if found is None else np.where(mask, value, found)  # type: ignore[arg-type]
        assert found is not None
        return found

    def store_register(self, registers: device.Registers, indices: tuple[Value, ...], value: Value) -> None:
        """Writes one element in the active threads: `value` is uniform or has one element for each thread."""
        if isinstance(self.columns, int) and isinstance(value, np.ndarray):
            value = value.reshape(())
        for place, mask in self._places(registers, indices):
            self.block.registers.store(registers, place, self.columns, mask, self.warpgroups, value, self.span)

    def _places(
        self, registers: device.Registers, indices: tuple[Value, ...]
    ) -> list[tuple[tuple[int, ...], np.ndarray | None]]:
        """The elements that the active threads name, each with the threads that name it: one, unless the array is indexed at run
        time, as CUDA does in memory of the thread's own.  Raises HazardError TL842 for the registers of a wgmma, which have no
        address."""
        if not any(isinstance(index, np.ndarray) for index in indices):
            return [(tuple(int(index) for index in indices), self.mask)]
        each = np.stack([np.broadcast_to(np.asarray(index, np.int64), len(self.threads)) for index in indices], 1)
        distinct = np.unique(each if self.mask is None else each[self.mask], axis=0)
        places = [tuple(int(index) for index in place) for place in distinct]
        if len(places) == 1:
            return [(places[0], self.mask)]
        if registers in self.block.registers.of_wgmma:
            raise HazardError(
                f"{self.name}: an index of {registers.name}, which wgmma uses, must be the same in all threads, and is "
                f"{places[0]} in one and {places[1]} in another",
                code="TL842", span=self.span,
            )  # fmt: skip
        active = np.ones(len(self.threads), bool) if self.mask is None else self.mask
        return [(place, active & (each == place).all(axis=1)) for place in places]

    def shared_address(self, array: device.SharedArray) -> int:
        return self.block.shared.address(array)

    # ---- operands of instructions ---------------------------------------------------------------------------------------------

    def value(self, expr: Expr) -> Value:
        return evaluate(expr, self)

    def per_thread(self, expr: Expr, dtype: type[np.generic]) -> np.ndarray:
        """The value of every thread, as an array."""
        return np.broadcast_to(np.asarray(evaluate(expr, self), dtype), len(self.threads))

    def own(self, value: np.ndarray) -> Value:
        """This strand's part of a value of all threads of the group."""
        part = value[self.threads - self.group.first_thread]
        return part if len(part) > 1 else part[0] if part.dtype.kind in "fV" else part[0].item()

    def uniform(self, expr: Expr, what: str) -> int:
        """An integer that all active threads agree on."""
        return scalar(evaluate(expr, self), self, what)

    def active(self) -> np.ndarray:
        """Ids of the active threads."""
        return self.threads if self.mask is None else self.threads[self.mask]

    def only_thread(self, action: str) -> int:
        """The one active thread.  Raises HazardError TL823 where several would issue `action`."""
        active = self.active()
        whole_group = not self.elected and not self.divergence
        count = self.group.threads if whole_group else len(active)
        if count != 1:
            raise HazardError(
                f"{self.name}: {count} threads issue {action}, each of them a whole one", code="TL823", span=self.span,
                hint="let one elected thread issue it",
            )  # fmt: skip
        return int(active[0])

    def access(self, action: str, asynchronous: bool = False) -> Access:
        return Access(self.name, action, self.span, asynchronous)

    def iteration(self) -> tuple[str, ...]:
        """The loops around the present statement, as a note."""
        return ("iteration " + ", ".join(f"{name} = {value}" for name, value in self.loops),) if self.loops else ()

    def require_converged(self, what: str, elected: bool = False) -> None:
        """Raises HazardError TL843 for an instruction under a per-thread condition, or in an `Elected` body unless `elected`."""
        if self.divergence or (self.elected and not elected):
            where = "under a condition that differs between threads" if self.divergence else "by one elected thread"
            raise HazardError(f"{self.name}: {what} {where}", code="TL843", span=self.span)

    # ---- agreement ------------------------------------------------------------------------------------------------------------

    def claim(self, stmt: device.Stmt, found: tuple[int, ...]) -> None:
        """Records what a uniform statement found; all strands of the group must find the same each time they come by.

        Raises HazardError TL842."""
        if self.elected or self.divergence or len(self.group.strands) == 1:
            return
        turn = self.rounds.get(stmt, 0)
        self.rounds[stmt] = turn + 1
        seen = self.group.claims.setdefault(stmt, [])
        if turn == len(seen):
            seen.append(found)
        elif seen[turn] != found:
            raise HazardError(
                f"{self.name}: a condition or bound that all threads of {self.group.name} must agree on is {found} here and "
                f"{seen[turn]} in others",
                code="TL842", span=self.span,
            )  # fmt: skip

    def meet(self, stmt: device.Stmt, operands: tuple[Expr, ...], action: Callable[[Group, list[Value]], Any]) -> Iterator[Wait]:
        """Waits for the other strands of the group at `stmt`; the last one performs `action` with the operands of all threads.
        The generator returns what `action` returned.  Raises HazardError TL821 where strands are at different instructions."""
        name = type(stmt).__name__
        self.require_converged(f"{name} is issued")
        values = tuple(evaluate(operand, self) for operand in operands)
        meeting = self.group.meeting or Meeting(stmt)
        if meeting.stmt is not stmt:
            raise HazardError(
                f"{self.name} is at {name} while other threads of its role are at {type(meeting.stmt).__name__}", code="TL821",
                span=self.span,
            )  # fmt: skip
        meeting.arrived.append((self, values))
        if len(meeting.arrived) == len(self.group.strands):
            self.group.meeting = None
            meeting.result = action(self.group, _merged(self.group, meeting, operands))
            meeting.done = True
        else:
            self.group.meeting = meeting
        if len(self.group.strands) > 1:
            yield Wait(lambda: meeting.done, lambda: f"the other threads of its role at {name}", self.span, ends_turn=True)
        return meeting.result


def _merged(group: Group, meeting: Meeting, operands: tuple[Expr, ...]) -> list[Value]:
    """The operands over all threads of the group: uniform where all strands agree, else one element for each thread."""
    merged = []
    for position, operand in enumerate(operands):
        values = [(strand, values[position]) for strand, values in meeting.arrived]
        first = values[0][1]
        if not any(isinstance(value, np.ndarray) for _, value in values) and all(value == first for _, value in values):
            merged.append(first)
            continue
        whole = np.empty(group.threads, operand.dtype.numpy)
        for strand, value in values:
            whole[strand.threads - group.first_thread] = value
        merged.append(whole)
    return merged


def make_strands(block: Block, kernel: device.DeviceKernel) -> list[Strand]:
    """Every thread of the block in exactly one strand, in the order of the roles; threads without a role come last."""
    setup = Group("setup", 0, kernel.threads)
    everywhere = _elected(kernel.setup, 0)
    taken: set[int] = set()
    strands: list[Strand] = []
    for role in kernel.roles:
        threads = range(role.first_thread, role.first_thread + role.threads)
        taken.update(threads)
        group = Group(role.name, role.first_thread, role.threads)
        strands += _split(block, setup, group, role.body, threads, everywhere | _elected(role.body, role.first_thread))
    rest = [thread for thread in range(kernel.threads) if thread not in taken]
    strands += _split(block, setup, Group("threads without a role", 0, 0), (), rest, everywhere)
    setup.strands = strands
    return strands


def _split(block: Block, setup: Group, role: Group, body: device.Body, threads: Any, elected: set[int]) -> list[Strand]:
    sets = [[thread] for thread in threads if thread in elected]
    sets.append([thread for thread in threads if thread not in elected])
    role.strands = [Strand(block, np.array(one), setup, role, body) for one in sets if one]
    return role.strands


def _elected(body: device.Body, first_thread: int) -> set[int]:
    """Threads that `Elected` statements of a body pick alone."""
    picked = (node.warp for node in walk(body) if isinstance(node, device.Elected))
    return {first_thread + 32 * warp for warp in picked if warp is not None}
