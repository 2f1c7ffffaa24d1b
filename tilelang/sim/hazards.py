"""Races, missing fences and phases that slip: what the vector clocks of a block say about every access and every barrier.

`Watch` is told of each access and each synchronisation and does nothing; `Hazards` is one that objects.  The rules (PTX ISA, "Memory
Consistency Model", "Async proxy", "mbarrier", "wgmma.fence"):

    TL815  two accesses, one of them a write, that nothing orders
    TL816  ordered, but without the fence.proxy.async that an asynchronous access needs after ordinary stores
    TL817  the same of global memory, also between blocks, which nothing orders
    TL808  a wait that can miss the phase it is for
    TL809  an arrival or a transfer that can fall into another phase than it is for
    TL831  an mbarrier used by others before they can know that it is initialised
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tilelang.errors import HazardError, Span
from tilelang.ir import device
from tilelang.ir.buffer import Buffer
from tilelang.ir.walk import walk
from tilelang.sim.clocks import ASYNC_GLOBAL, ASYNC_SHARED, GENERIC, IN_TIME, Clocks, Components, agents_of
from tilelang.sim.edges import Record, describe, report
from tilelang.sim.history import Conflict, History
from tilelang.sim.memory import CHUNK_BYTES, WINDOW_BASE, Access
from tilelang.sim.sync import Mbarrier

if TYPE_CHECKING:
    from tilelang.sim.machine import Block
    from tilelang.sim.strand import Strand


class Watch:
    """What the machine tells of; this one does nothing with it."""

    def shared(self, strand: Strand, threads: np.ndarray, starts: np.ndarray, width: int, access: Access, write: bool) -> None:
        """`threads` read or write `width` bytes each from byte addresses `starts` on."""

    def tensor(self, strand: Strand, threads: np.ndarray, tensor: Buffer, cells: np.ndarray, access: Access, write: bool) -> None:
        """`threads` read or write elements `cells` (threads, count) of a tensor."""

    def tma_load(self, strand: Strand, starts: np.ndarray, barrier: Mbarrier, access: Access) -> None:
        """A thread issues a load of 16-byte chunks to `starts`, completing on `barrier`."""

    def tma_store(self, strand: Strand, starts: np.ndarray, access: Access) -> None:
        """A thread issues a store of 16-byte chunks from `starts`."""

    def box(self, strand: Strand, tensor: Buffer, cells: np.ndarray, access: Access, barrier: Mbarrier | None) -> None:
        """The elements of a tensor that a load (which completes on `barrier`) reads, or a store writes."""

    def wants(self, tensor: Buffer) -> bool:
        """Whether accesses to a tensor matter at all."""
        return False

    def wgmma(self, strand: Strand, warpgroup: int, starts: np.ndarray, warps: np.ndarray | None, access: Access) -> None:
        """A warpgroup issues a read of chunks at `starts`: each by one of its `warps` (0 to 3), or by all of them."""

    def wgmma_committed(self, warpgroup: int) -> None: ...
    def wgmma_waited(self, warpgroup: int, pending: int) -> None: ...
    def bulk_committed(self, thread: int) -> None: ...
    def bulk_waited(self, thread: int, pending: int) -> None: ...
    def bulk_completed(self, thread: int, pending: int) -> None: ...
    def fence_async(self, strand: Strand) -> None: ...
    def fence_mbarrier_init(self, strand: Strand) -> None: ...
    def sync_warps(self, threads: np.ndarray) -> None: ...

    def named(self, strand: Strand, number: int, threads: int) -> None:
        """The threads of the strand meet at a named barrier that `threads` threads complete."""

    def init(self, strand: Strand, barrier: Mbarrier) -> None: ...

    def arrives(self, strand: Strand, barrier: Mbarrier, count: int) -> None:
        """The active threads, `count` of them, are about to arrive."""

    def arrived(self, strand: Strand, barrier: Mbarrier) -> None:
        """They have."""

    def waits(self, strand: Strand, barrier: Mbarrier, parity: int) -> None:
        """The threads of the strand begin to wait, or still do."""

    def passed(self, strand: Strand, barrier: Mbarrier, parity: int) -> None:
        """The wait is over."""

    def ends(self) -> None:
        """All strands have finished."""


@dataclass(slots=True)
class _Phases:
    """What passes through one mbarrier: all that was published to it, and a copy for each phase that completed."""

    component: int
    view: np.ndarray
    completed: list[np.ndarray] = field(default_factory=list)
    initialised: tuple[int, int] | None = None
    fenced: tuple[int, int] | None = None
    loaded: tuple[int, int] = (0, 0)
    """Of the last transfer: phases completed once it is done, and its record."""
    waits: list[tuple[int, int, int, Span | None, str]] = field(default_factory=list)
    """Waits that the phase after the one they are for must not overtake: agent, its time, phases completed, span, who."""


@dataclass(slots=True)
class _Meeting:
    view: np.ndarray
    threads: int = 0
    agents: list[np.ndarray] = field(default_factory=list)


@dataclass(slots=True)
class Launch:
    """What blocks must not do to each other: for each tensor that the kernel writes, which block wrote and read each element."""

    written: frozenset[Buffer]
    writers: dict[Buffer, np.ndarray] = field(default_factory=dict)
    readers: dict[Buffer, np.ndarray] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)


def launch_of(kernel: device.DeviceKernel) -> Launch:
    """The bookkeeping of one launch of a kernel."""
    nodes = list(_nodes(kernel))
    stores = {node.tensor for node in nodes if isinstance(node, device.StoreGlobal)}
    stores |= {node.map.tensor for node in nodes if isinstance(node, device.TmaStore)}
    return Launch(frozenset(stores))


class Hazards(Watch):
    """Objects to what one block does.  `strict_war` also demands a proxy fence between ordinary reads and an asynchronous write."""

    def __init__(self, block: Block, launch: Launch, strict_war: bool = False) -> None:
        self.block, self.launch, self.strict_war = block, launch, strict_war
        kernel = block.kernel
        barriers = block.mbarriers()
        self.components = Components(-(-kernel.threads // 32), len(barriers))
        self.clocks = Clocks(self.components)
        self.cell_bytes = _cell_bytes(kernel)
        self.memory = History(-(-kernel.shared_bytes // CHUNK_BYTES) * CHUNK_BYTES // self.cell_bytes)
        self.tensors: dict[Buffer, History] = {}
        self.records: list[Record] = []
        self.committed = {"wgmma": np.zeros(-(-self.components.warps // 4), int), "bulk": np.zeros(self.components.agents, int)}
        self.meetings: dict[int, _Meeting] = {}
        shape = self.clocks.known.shape[::2]
        self.phases = {b: _Phases(self.components.mbarrier(i), np.zeros(shape, np.int32)) for i, b in enumerate(barriers)}
        for barrier in barriers:
            barrier.completed = self._completed
        self._chunk = np.arange(CHUNK_BYTES // self.cell_bytes)
        self.last_wait: dict[int, str] = {}
        self.number = len(launch.records) + 1

    # ---- accesses of threads ------------------------------------------------------------------------------------------------------

    def shared(self, strand: Strand, threads: np.ndarray, starts: np.ndarray, width: int, access: Access, write: bool) -> None:
        per_thread = width // self.cell_bytes
        cells = ((starts - WINDOW_BASE) // self.cell_bytes)[:, None] + np.arange(per_thread)
        conflict = self._threads(self.memory, cells, threads, strand, access, write)
        if conflict is not None:
            address = int(cells.reshape(-1)[conflict.position]) * self.cell_bytes + WINDOW_BASE
            raise self._race(conflict, self.block.shared.locate(address), int(threads[conflict.position // per_thread]))

    def tensor(self, strand: Strand, threads: np.ndarray, tensor: Buffer, cells: np.ndarray, access: Access, write: bool) -> None:
        if not self.wants(tensor):
            return
        conflict = self._threads(self._history(tensor), cells, threads, strand, access, write)
        if conflict is not None:
            element = int(cells.reshape(-1)[conflict.position])
            raise self._race(
                conflict, _element(tensor, element), int(threads[conflict.position // cells.shape[1]]), code="TL817"
            )
        self._between_blocks(tensor, cells.reshape(-1), write)

    def _threads(
        self, history: History, cells: np.ndarray, threads: np.ndarray, strand: Strand, access: Access, write: bool
    ) -> Conflict | None:
        threads = np.repeat(threads, cells.shape[1])
        cells, agents = cells.reshape(-1), agents_of(threads)
        known = self.clocks.known[GENERIC]
        record = self._record(strand, access, "store" if write else "load", agents)
        conflict = history.check_threads(cells, agents, threads, known, write)
        if conflict is None:
            times = self.clocks.time[agents]
            if write:
                history.record_write(cells, agents, threads, times, record)
            else:
                history.record_read(cells, agents, threads, times, known[agents, agents], record)
        return conflict

    # ---- asynchronous accesses ------------------------------------------------------------------------------------------------------

    def tma_load(self, strand: Strand, starts: np.ndarray, barrier: Mbarrier, access: Access) -> None:
        agents = self._agents(strand)
        phases = self.phases[barrier]
        self._require_visible(phases, barrier, agents, strand, asynchronous=True)
        self._require_phase(barrier, agents, strand, "the bytes of a TMA load count for")
        record = self._record(strand, access, "tma_load", agents, barrier)
        known = self.clocks.known[:, int(agents[0])]
        of_reads = known[ASYNC_SHARED if self.strict_war else GENERIC]
        self._async(starts, known[ASYNC_SHARED], of_reads, phases.component, barrier.phase + 1, record)
        phases.loaded = (barrier.phase + 1, record)
        np.maximum(phases.view[IN_TIME], self.clocks.issue(int(agents[0])), out=phases.view[IN_TIME])

    def tma_store(self, strand: Strand, starts: np.ndarray, access: Access) -> None:
        agents = self._agents(strand)
        agent = int(agents[0])
        record = self._record(strand, access, "tma_store", agents)
        known = self.clocks.known[ASYNC_SHARED, agent]
        self._async(starts, known, None, self.components.bulk_reads(agent), self._next("bulk", agent), record)

    def wgmma(self, strand: Strand, warpgroup: int, starts: np.ndarray, warps: np.ndarray | None, access: Access) -> None:
        agents = self._warpgroup(warpgroup)
        record = self._record(strand, access, "wgmma", agents)
        known = self.clocks.known[ASYNC_SHARED, agents].reshape(4, 2, -1).min(axis=1)
        cells, time = self._chunks(starts), self._next("wgmma", warpgroup)
        if cells is None:
            return
        issuers = np.repeat(warps, len(self._chunk)) if warps is not None else 0
        self._check(cells, known if warps is not None else known.min(axis=0)[None], issuers, None)
        for warp in range(4):
            part = cells[issuers == warp] if warps is not None else cells
            self.memory.record_async(part, self.components.wgmma(4 * warpgroup + warp), time, False, record)

    def _async(
        self, starts: np.ndarray, of_writes: np.ndarray, of_reads: np.ndarray | None, component: int, time: int, record: int
    ) -> None:
        """Checks and records an asynchronous access of 16-byte chunks of shared memory; a write where `of_reads` is given."""
        cells = self._chunks(starts)
        if cells is not None:
            self._check(cells, of_writes[None], 0, of_reads)
            self.memory.record_async(cells, component, time, of_reads is not None, record)

    def _chunks(self, starts: np.ndarray) -> np.ndarray | None:
        """The cells of 16-byte chunks; None where some are out of bounds, which the memory reports once the operation takes effect."""
        first = (starts.reshape(-1) - WINDOW_BASE) // self.cell_bytes
        cells = (first[:, None] + self._chunk).reshape(-1) if len(self._chunk) > 1 else first
        outside = cells.min(initial=0) < 0 or cells.max(initial=0) >= self.memory.cells
        return None if outside else cells

    def _check(self, cells: np.ndarray, of_writes: np.ndarray, issuers: np.ndarray | int, of_reads: np.ndarray | None) -> None:
        conflict = self.memory.check_async(cells, of_writes, issuers, of_reads)
        if conflict is not None:
            raise self._race(conflict, self.block.shared.locate(int(cells[conflict.position]) * self.cell_bytes + WINDOW_BASE))

    def wants(self, tensor: Buffer) -> bool:
        return tensor in self.launch.written

    def box(self, strand: Strand, tensor: Buffer, cells: np.ndarray, access: Access, barrier: Mbarrier | None) -> None:
        agents, write = self._agents(strand), barrier is None
        agent, history = int(agents[0]), self._history(tensor)
        record = self._record(strand, access, "tma_store" if write else "tma_load", agents, barrier)
        known = self.clocks.known[:, agent]
        conflict = history.check_async(cells, known[None, ASYNC_GLOBAL], 0, known[GENERIC] if write else None)
        if conflict is not None:
            raise self._race(conflict, _element(tensor, int(cells[conflict.position])), code="TL817")
        if barrier is None:
            history.record_async(cells, self.components.bulk_writes(agent), self._next("bulk", agent), True, record)
        else:
            history.record_async(cells, self.phases[barrier].component, barrier.phase + 1, False, record)
        self._between_blocks(tensor, cells, write)

    # ---- groups and fences ---------------------------------------------------------------------------------------------------------

    def wgmma_committed(self, warpgroup: int) -> None:
        self.committed["wgmma"][warpgroup] += 1

    def wgmma_waited(self, warpgroup: int, pending: int) -> None:
        done = int(self.committed["wgmma"][warpgroup]) - pending
        for warp in range(4 * warpgroup, 4 * warpgroup + 4):
            self.clocks.learn_of(np.array([2 * warp, 2 * warp + 1]), self.components.wgmma(warp), done)

    def bulk_committed(self, thread: int) -> None:
        self.committed["bulk"][agents_of(np.array([thread]))] += 1

    def bulk_waited(self, thread: int, pending: int) -> None:
        agents = agents_of(np.array([thread]))
        agent = int(agents[0])
        self.clocks.learn_of(agents, self.components.bulk_reads(agent), int(self.committed["bulk"][agent]) - pending)

    def bulk_completed(self, thread: int, pending: int) -> None:
        agents = agents_of(np.array([thread]))
        agent = int(agents[0])
        self.clocks.learn_of(agents, self.components.bulk_writes(agent), int(self.committed["bulk"][agent]) - pending)

    def fence_async(self, strand: Strand) -> None:
        self.clocks.fence_async(self._agents(strand))

    def fence_mbarrier_init(self, strand: Strand) -> None:
        agents = self._agents(strand)
        for phases in self.phases.values():
            if phases.initialised is not None and self._knows(agents, *phases.initialised):
                phases.fenced = (int(agents[0]), int(self.clocks.time[agents[0]]))
        self.clocks.time[agents] += 1

    # ---- barriers that meet --------------------------------------------------------------------------------------------------------

    def sync_warps(self, threads: np.ndarray) -> None:
        self.clocks.sync_warps(np.unique(threads // 32))

    def named(self, strand: Strand, number: int, threads: int) -> None:
        meeting = self.meetings.setdefault(number, _Meeting(np.zeros(self.clocks.known.shape[::2], np.int32)))
        agents = self._agents(strand)
        np.maximum(meeting.view, self.clocks.publish(agents), out=meeting.view)
        meeting.threads += len(strand.threads)
        meeting.agents.append(agents)
        if meeting.threads >= threads:
            self.clocks.learn(np.unique(np.concatenate(meeting.agents)), meeting.view)
            del self.meetings[number]

    # ---- mbarriers -------------------------------------------------------------------------------------------------------------------

    def init(self, strand: Strand, barrier: Mbarrier) -> None:
        agent = int(self._agents(strand)[0])
        self.phases[barrier].initialised = (agent, int(self.clocks.time[agent]))

    def arrives(self, strand: Strand, barrier: Mbarrier, count: int) -> None:
        phases, agents = self.phases[barrier], self._agents(strand)
        self._require_visible(phases, barrier, agents, strand)
        self._require_phase(barrier, agents, strand, "an arrival counts for")
        if count > barrier.pending > 0:
            raise HazardError(
                f"{strand.name}: {count} arrivals come where phase {barrier.phase} of {barrier.name} expects {barrier.pending} more, "
                "and the rest count for the next phase", code="TL809", span=strand.span, notes=strand.iteration(),
                hint=f"initialise {barrier.name} with as many arrivals as a phase gets",
            )  # fmt: skip
        np.maximum(phases.view, self.clocks.publish(agents), out=phases.view)

    def arrived(self, strand: Strand, barrier: Mbarrier) -> None:
        if barrier.arrivals == 1 and not barrier.tx_bytes and barrier.phase:
            phases = self.phases[barrier]
            self.clocks.learn_of(self._agents(strand), phases.component, barrier.phase)

    def _completed(self, barrier: Mbarrier) -> None:
        phases = self.phases[barrier]
        phases.view[:, phases.component] = barrier.phase
        for agent, time, target, span, who in phases.waits:
            if target == barrier.phase - 1 and phases.view[IN_TIME, agent] < time:
                raise _slips(barrier, span, f"nothing keeps phase {barrier.phase - 1} of {barrier.name} from completing before {who} "
                             f"has waited for phase {target - 1}, and that wait then misses its phase")  # fmt: skip
        phases.waits = [wait for wait in phases.waits if wait[2] >= barrier.phase]
        phases.completed.append(phases.view.copy())

    def waits(self, strand: Strand, barrier: Mbarrier, parity: int) -> None:
        phases, agents = self.phases[barrier], self._agents(strand)
        self._require_visible(phases, barrier, agents, strand)
        if barrier.phase > int(self._targets(phases, agents, parity).max()):
            raise _slips(barrier, strand.span, f"{strand.name} waits for parity {parity} of {barrier.name} and can miss the phase it is "
                         f"for: {barrier.phase} phases have completed, and it knows of {self._least(phases, agents)}")  # fmt: skip

    def passed(self, strand: Strand, barrier: Mbarrier, parity: int) -> None:
        """What the wait teaches is what it would at the earliest: where the phase before the present one has this parity it waits for
        nothing."""
        phases, agents = self.phases[barrier], self._agents(strand)
        targets = self._targets(phases, agents, parity)
        for target in np.unique(targets).tolist():
            learners = agents[targets == target]
            if target > 0:
                self.clocks.learn(learners, phases.completed[target - 1])
            for agent in learners[learners % 2 == 0].tolist():
                phases.waits.append((agent, int(self.clocks.time[agent]), target, strand.span, strand.name))
        text = f"{barrier.name} (phase {int(targets[0]) - 1})" if targets[0] else f"{barrier.name} (its first lap, which waits for nothing)"
        self.last_wait.update(dict.fromkeys(agents.tolist(), text))

    def ends(self) -> None:
        """Raises HazardError TL830 for a transfer whose completion no thread waited for."""
        for barrier, phases in self.phases.items():
            time, record = phases.loaded
            if time > int(self.clocks.known[GENERIC, :, phases.component].max()):
                load = self.records[record]
                raise HazardError(
                    f"the block ends and no thread has waited for {load.barrier}, so the {load.access.action} may still be on its way",
                    code="TL830", span=load.access.span, notes=load.iteration, hint=f"wait for {barrier.name} before the end",
                )  # fmt: skip

    def _targets(self, phases: _Phases, agents: np.ndarray, parity: int) -> np.ndarray:
        """How many phases each agent needs to have completed for its wait to return, going by what it knows."""
        known = self.clocks.known[IN_TIME, agents, phases.component]
        return known + ((known & 1) == parity)

    def _least(self, phases: _Phases, agents: np.ndarray) -> int:
        return int(self.clocks.known[IN_TIME, agents, phases.component].min())

    def _require_phase(self, barrier: Mbarrier, agents: np.ndarray, strand: Strand, what: str) -> None:
        known = self._least(self.phases[barrier], agents)
        if known < barrier.phase:
            raise HazardError(
                f"{strand.name}: {what} phase {barrier.phase} of {barrier.name} here, and under another order of events for an earlier "
                f"one: it knows of {known} completed phases", code="TL809", span=strand.span, notes=strand.iteration(),
                hint=f"wait for {barrier.name}, or for something that happens after its phase {barrier.phase - 1}, before this",
            )  # fmt: skip

    def _require_visible(
        self, phases: _Phases, barrier: Mbarrier, agents: np.ndarray, strand: Strand, asynchronous: bool = False
    ) -> None:
        if phases.initialised is None:
            return  # which the barrier itself reports
        if not self._knows(agents, *phases.initialised):
            raise HazardError(
                f"{strand.name} uses {barrier.name}, and nothing orders that after its initialisation", code="TL831",
                span=strand.span, hint="synchronise the block between mbarrier.init and the first use",
            )  # fmt: skip
        if asynchronous and (phases.fenced is None or not self._knows(agents, *phases.fenced)):
            raise HazardError(
                f"a TMA load completes on {barrier.name}, whose initialisation the asynchronous proxy may not see", code="TL831",
                span=strand.span, hint="fence.mbarrier_init after mbarrier.init, before the barrier that synchronises the block",
            )  # fmt: skip

    # ---- inside ----------------------------------------------------------------------------------------------------------------------

    def _agents(self, strand: Strand) -> np.ndarray:
        """The agents of a strand's active threads, each once."""
        if strand.mask is None:
            if strand.agents is None:
                strand.agents = np.unique(agents_of(strand.threads))
            return strand.agents
        return np.unique(agents_of(strand.active()))

    def _warpgroup(self, warpgroup: int) -> np.ndarray:
        return np.arange(8 * warpgroup, 8 * warpgroup + 8)

    def _knows(self, agents: np.ndarray, agent: int, time: int) -> bool:
        """Whether each of `agents` knows what `agent` did at `time`, or is it."""
        return bool(((self.clocks.known[GENERIC, agents, agent] >= time) | (agents == agent)).all())

    def _next(self, groups: str, index: int) -> int:
        """The number of the group that is being filled."""
        return int(self.committed[groups][index]) + 1

    def _history(self, tensor: Buffer) -> History:
        if tensor not in self.tensors:
            self.tensors[tensor] = History(self.block.tensors.size(tensor))
        return self.tensors[tensor]

    def _record(self, strand: Strand, access: Access, kind: str, agents: np.ndarray, barrier: Mbarrier | None = None) -> int:
        waited = self.last_wait.get(int(agents[0]), "") if len(agents) else ""
        name = f"{barrier.name} (phase {barrier.phase}, parity {barrier.phase & 1})" if barrier is not None else ""
        self.records.append(Record(kind, access, strand.iteration(), name, waited, tuple(dict.fromkeys(agents.tolist()))))
        return len(self.records) - 1

    def _race(self, conflict: Conflict, place: str, thread: int = -1, code: str = "TL815") -> HazardError:
        """The later access is the newest record."""
        return report(self, conflict, self.records[conflict.record], self.records[-1], place, thread, code)

    def _between_blocks(self, tensor: Buffer, cells: np.ndarray, write: bool) -> None:
        """Raises HazardError TL817 for an element that another block writes, or reads where this one writes it."""
        launch, me = self.launch, self.number
        while len(launch.records) < me:
            launch.records.append(self.records[-1])
        size = self.block.tensors.size(tensor)
        writers = launch.writers.setdefault(tensor, np.zeros(size, np.int32))
        readers = launch.readers.setdefault(tensor, np.zeros(size, np.int32))
        for others, verb in ((writers, "writes"), (readers, "reads")) if write else ((writers, "writes"),):
            found = others[cells]
            bad = (found != 0) & (found != me)
            if bad.any():
                self._raise_between_blocks(tensor, int(cells[int(np.argmax(bad))]), verb, write)
        (writers if write else readers)[cells] = me

    def _raise_between_blocks(self, tensor: Buffer, element: int, verb: str, write: bool) -> None:
        now = self.records[-1]
        raise HazardError(
            f"race between blocks on {_element(tensor, element)}: block {self.block.index} {'writes' if write else 'reads'} it and "
            f"another block {verb} it; nothing orders blocks", code="TL817", span=now.access.span,
            notes=(f"here: {describe(now)}",), hint="let each block write elements of its own, and read none that others write",
        )  # fmt: skip


def _slips(barrier: Mbarrier, span: Span | None, message: str) -> HazardError:
    return HazardError(
        message, code="TL808", span=span,
        hint=f"whoever completes the next phase of {barrier.name} must first learn, through another barrier, that this wait is over",
    )  # fmt: skip


def _element(tensor: Buffer, element: int) -> str:
    return f"element {element} of {tensor.name}"


def _cell_bytes(kernel: device.DeviceKernel) -> int:
    """The smallest access to shared memory that the kernel has, in bytes."""
    sizes = [CHUNK_BYTES]
    for node in _nodes(kernel):
        if isinstance(node, device.LoadShared):
            sizes.append(node.count * node.target.dtype.bytes)
        elif isinstance(node, device.StoreShared):
            sizes.append(sum(value.dtype.bytes for value in node.values))
    return max(min(sizes), 1)


def registers_of_wgmma(kernel: device.DeviceKernel) -> frozenset[device.Registers]:
    """The register arrays that some wgmma accumulates in or takes A from."""
    found = [node for node in _nodes(kernel) if isinstance(node, (device.WgmmaSS, device.WgmmaRS))]
    operands = {node.a for node in found if isinstance(node, device.WgmmaRS)}
    return frozenset(operands | {node.accumulator.registers for node in found})


def _nodes(kernel: device.DeviceKernel) -> Iterable[object]:
    for body in (kernel.setup, *(role.body for role in kernel.roles)):
        yield from walk(body)
