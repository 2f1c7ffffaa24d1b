"""The simulated machine: runs device IR on a CPU, block by block, and objects to what the hardware would not survive.

Roles are generators that yield what they wait for; TMA transfers and wgmma are operations on their way that take effect when the
schedule says so.  Shared memory is bytes (`memory`), barriers count as in the ISA (`sync`), layouts are the hardware's (`tma`,
`wgmma`, `instructions`).  Vector clocks (`hazards`) judge the order of accesses whatever the schedule.  Reported as HazardError,
with a span:

    TL801 deadlock  TL802 too many statements
    TL803 mbarrier not initialised  TL804 twice  TL805 an arrival too many  TL806 byte count  TL807 parity
    TL808 a wait that can miss its phase  TL809 an arrival that can fall into another phase
    TL810 bytes never written  TL811 out of bounds  TL812 misaligned  TL813 conflicting stores  TL814 undefined register
    TL815 race on shared memory  TL816 proxy fence missing  TL817 race on global memory
    TL820 accumulator in flight  TL821 not a whole warp, warpgroup or role  TL822 matrix descriptor  TL823 several threads
    TL824 wgmma.fence missing
    TL830 asynchronous work left at the end  TL831 initialisation of an mbarrier not visible
    TL840 integer overflow  TL841 division by zero, shift count  TL842 threads disagree  TL843 divergent synchronisation
    TL850 setmaxnreg  TL851 named barriers
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from tilelang.errors import ArgumentError, HazardError, InternalError, Span
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import BLOCK_IDX, BarrierArray, DeviceKernel, Registers, SharedArray
from tilelang.ir.expr import Number, Var
from tilelang.sim import reference_values
from tilelang.sim.banks import BankCounter
from tilelang.sim.hazards import Hazards
from tilelang.sim.memory import SharedMemory
from tilelang.sim.registers import RegisterFile
from tilelang.sim.schedule import DEMOTION, Schedule
from tilelang.sim.schedule import schedule as schedule_of
from tilelang.sim.steps import run_strand
from tilelang.sim.strand import Steps, Strand, make_strands
from tilelang.sim.sync import AsyncEngine, Groups, Mbarrier, NamedBarriers, RegisterPool
from tilelang.sim.tma import GlobalMemory
from tilelang.sim.values import Value, evaluate, scalar
from tilelang.sim.watch import Launch, Watch, launch_of, registers_of_wgmma

RACES = ("TL815", "TL816", "TL817")
STEP_LIMIT = 5_000_000
"""Statements that the strands of one block may run."""


def run(
    kernel: DeviceKernel,
    arrays: Mapping[Buffer, np.ndarray],
    *,
    scalars: Mapping[Var, Number] | None = None,
    blocks: Iterable[tuple[int, int, int]] | None = None,
    schedule: str = "fifo",
    step_limit: int = STEP_LIMIT,
    hazards: bool = True,
    strict_war: bool = False,
    banks: BankCounter | None = None,
) -> None:
    """Runs every block of the grid, or those of `blocks` (indices x, y, z), one after the other.

    `arrays` gives each tensor of the kernel's maps and pointers its array (the buffer's dtype and shape), written in place.
    `schedule` is "fifo", "reverse", "eager-async", "lazy-async" or "random:SEED".  Without `hazards` the order of accesses is
    not judged, and what shows by value alone is reported: quicker where a pipeline is known to be sound.  `strict_war` demands a
    proxy fence between ordinary reads and an asynchronous write, too, which common practice leaves to the mbarrier between them.
    `banks` counts bank conflicts.

    Raises HazardError TL801 to TL851 (see the module), ArgumentError TL510 to TL513 for arrays, schedule, scalars or blocks that
    do not fit, InternalError for device IR that means nothing."""
    order = schedule_of(schedule)
    tensors = GlobalMemory(arrays, kernel.tensor_maps, kernel.pointers)
    given = _scalars(kernel, scalars or {})
    grid = grid_of(kernel, given)
    launch = launch_of(kernel, strict_war) if hazards else None
    with np.errstate(all="ignore"):
        for index in _blocks(grid, blocks):
            Block(kernel, tensors, given, index, order, step_limit, launch, banks).run()


def _scalars(kernel: DeviceKernel, scalars: Mapping[Var, Number]) -> dict[Var, Value]:
    missing = [var.name for var in kernel.scalars if var not in scalars]
    if missing:
        raise ArgumentError(f"no value came for {', '.join(missing)}", code="TL512")
    return {var: reference_values.constant(value, var.dtype) if var.dtype.is_float else value for var, value in scalars.items()}


def grid_of(kernel: DeviceKernel, scalars: Mapping[Var, Value]) -> tuple[int, int, int]:
    """The extents of the grid for these values of the scalar parameters."""
    host = _HostLanes("the grid", dict(scalars), kernel.span)
    extents = [extent if isinstance(extent, int) else scalar(evaluate(extent, host), host, "an extent") for extent in kernel.grid]
    x, y, z = (*extents, 1, 1, 1)[:3]
    return x, y, z


def _blocks(grid: tuple[int, int, int], blocks: Iterable[tuple[int, int, int]] | None) -> list[tuple[int, int, int]]:
    if blocks is None:
        return [(x, y, z) for z, y, x in product(*(range(extent) for extent in grid[::-1]))]
    chosen = list(blocks)
    for index in chosen:
        if len(index) != 3 or not all(0 <= at < extent for at, extent in zip(index, grid, strict=True)):
            raise ArgumentError(f"there is no block {index} in a grid of {grid}", code="TL513")
    return chosen


@dataclass
class _HostLanes:
    """Evaluation outside any block, for the grid."""

    name: str
    env: dict[Var, Value]
    span: Span | None
    mask: np.ndarray | None = None

    def load_register(self, registers: Registers, indices: tuple[Value, ...]) -> Value:
        raise InternalError("the grid reads a register", code="TL930", span=self.span)

    def shared_address(self, array: SharedArray) -> int:
        raise InternalError("the grid reads a shared address", code="TL930", span=self.span)


@dataclass
class Block:
    """One block: its memory, barriers and registers, and the strands that run on them."""

    kernel: DeviceKernel
    tensors: GlobalMemory
    scalars: dict[Var, Value]
    index: tuple[int, int, int]
    schedule: Schedule
    step_limit: int
    launch: Launch | None = None
    banks: BankCounter | None = None
    steps: int = 0
    bulk: defaultdict[int, Groups] = field(default_factory=lambda: defaultdict(Groups))
    wgmma_groups: defaultdict[int, Groups] = field(default_factory=lambda: defaultdict(Groups))
    named: NamedBarriers = field(default_factory=NamedBarriers)

    def __post_init__(self) -> None:
        kernel = self.kernel
        self.shared = SharedMemory(kernel.shared, kernel.shared_bytes)
        self.registers = RegisterFile(kernel.threads, registers_of_wgmma(kernel) if self.launch is not None else frozenset())
        self.register_pool = RegisterPool(kernel.threads, kernel.min_blocks_per_sm)
        self.engine = AsyncEngine(self.schedule.at_issue, self.schedule.newest_first)
        self._mbarriers = {array: [Mbarrier(array, i) for i in range(array.count)] for array in kernel.barriers}
        self.watch: Watch = Hazards(self, self.launch) if self.launch is not None else Watch()
        self.strands = make_strands(self, kernel)
        for strand in self.strands:
            strand.env.update(self.scalars)
            strand.env.update(zip(BLOCK_IDX, self.index, strict=True))

    def mbarriers(self) -> list[Mbarrier]:
        """All mbarriers of the block."""
        return [barrier for barriers in self._mbarriers.values() for barrier in barriers]

    def mbarrier(self, array: BarrierArray, index: int, span: Span | None) -> Mbarrier:
        """One barrier.  Raises HazardError TL811 for an index outside the array."""
        if array not in self._mbarriers:
            raise InternalError(f"{array.name} is not among the barriers of the kernel", code="TL931", span=span)
        if not 0 <= index < array.count:
            raise HazardError(f"{array.name}[{index}] is outside its {array.count} barriers", code="TL811", span=span)
        return self._mbarriers[array][index]

    def count_step(self, strand: Strand) -> None:
        """Raises HazardError TL802 after too many statements."""
        self.steps += 1
        if self.steps > self.step_limit:
            raise HazardError(
                f"block {self.index} has run {self.step_limit} statements and has not ended; {strand.name} is here", code="TL802",
                span=strand.span,
            )  # fmt: skip

    # ---- the scheduler --------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs the block to its end.  Raises HazardError TL801 where nothing can go on, TL830 for work left at the end.

        A read of bytes that were never written speaks for itself only if no race explains it, and then before what came of it."""
        self.shared.defers = self.launch is not None
        try:
            self._run_strands()
        except HazardError as error:
            if self.shared.deferred is None or error.code in RACES:
                raise
        if self.shared.deferred is not None:
            raise self.shared.deferred

    def _run_strands(self) -> None:
        turns = [(strand, run_strand(strand)) for strand in self.strands]
        if self.schedule.seed is None:
            self._in_turns(turns)
        else:
            self._by_priority(turns, random.Random(self.schedule.seed))
        self._check_end()
        self.watch.ends()
        if self.banks is not None:
            self.banks.end_block()

    def _in_turns(self, turns: list[tuple[Strand, Steps]]) -> None:
        """Every strand in its turn, until it waits for something that has not happened."""
        if self.schedule.roles_reversed:
            turns.reverse()
        while turns:
            progress = False
            for strand, steps in turns:
                progress |= _take_turn(strand, steps)
                if not self.schedule.when_stuck:
                    progress |= self.engine.advance()
            turns = [(strand, steps) for strand, steps in turns if not strand.finished]
            if not progress and not self.engine.advance():
                raise self._deadlock([strand for strand, _ in turns])

    def _by_priority(self, turns: list[tuple[Strand, Steps]], rng: random.Random) -> None:
        """One step at a time, of whoever can go on and has the highest priority; asynchronous work is one more that can."""
        self.engine.choose = rng.choice
        priority: dict[Strand | AsyncEngine, float] = {strand: rng.random() for strand, _ in turns}
        priority[self.engine] = rng.random()
        steps = dict(turns)
        while steps:
            ready: list[Strand | AsyncEngine] = [strand for strand in steps if strand.waiting is None or strand.waiting.ready()]
            ready += [self.engine] if self.engine.pending else []
            if not ready:
                raise self._deadlock(list(steps))
            chosen = max(ready, key=priority.__getitem__)
            if isinstance(chosen, AsyncEngine):
                chosen.advance()
            else:
                chosen.waiting = next(steps[chosen], None)
                if chosen.waiting is None:
                    chosen.finished = True
                    del steps[chosen]
            if rng.random() < DEMOTION:
                priority[chosen] = min(priority.values()) - 1

    def _deadlock(self, strands: list[Strand]) -> HazardError:
        notes = {}
        for strand in strands:
            wait = strand.waiting
            assert wait is not None
            where = f" at {wait.span}" if wait.span else ""
            notes[f"{strand.name} waits for {wait.describe()}{where}"] = wait.span
        roles = ", ".join(dict.fromkeys(strand.role.name for strand in strands))
        return HazardError(
            f"Deadlock in block {self.index}: nothing can go on, and these have not finished: {roles}", code="TL801",
            span=next((span for span in notes.values() if span is not None), self.kernel.span), notes=tuple(notes),
            hint="find the arrival, the copy or the wait that the barrier named above still needs",
        )  # fmt: skip

    def _check_end(self) -> None:
        """Raises HazardError TL830 for asynchronous work that the end of the block does not wait for."""
        for warpgroup, groups in self.wgmma_groups.items():
            for op in groups.unwaited():
                raise _left(
                    f"warpgroup {warpgroup} ends with a {op.text} that nothing waited for",
                    op.span,
                    "commit it and wait for its group",
                )
        for thread, groups in self.bulk.items():
            for op in groups.unwaited():
                hint = "commit it and wait for its group to have read shared memory"
                raise _left(f"thread {thread} ends while a {op.text} may still read shared memory", op.span, hint)
        for op in self.engine.pending:
            raise _left(f"the block ends while a {op.text} is on its way", op.span, "wait for its barrier")
        for barriers in self._mbarriers.values():
            for barrier in barriers:
                if barrier.tx_bytes:
                    raise _left(
                        f"the block ends with {barrier.tx_bytes} bytes outstanding on {barrier.name}", self.kernel.span, ""
                    )


def _take_turn(strand: Strand, steps: object) -> bool:
    """Runs a strand until it waits for something that has not happened, or meets others; whether it got anywhere."""
    progress = False
    while not strand.finished and (strand.waiting is None or strand.waiting.ready()):
        strand.waiting = next(steps, None)  # type: ignore[call-overload]
        strand.finished = strand.waiting is None
        progress = True
        if strand.waiting is not None and strand.waiting.ends_turn:
            break
    return progress


def _left(message: str, span: Span | None, hint: str) -> HazardError:
    return HazardError(message, code="TL830", span=span, hint=hint)
