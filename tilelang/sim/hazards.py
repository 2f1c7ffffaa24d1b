"""Races, missing fences and phases that slip: what the vector clocks of a block say about every access and every barrier.

The rules (PTX ISA, "Memory Consistency Model", "Async proxy", "mbarrier"):

    TL815  two accesses, one of them a write, that nothing orders
    TL816  ordered, but without the fence.proxy.async that an asynchronous access needs after ordinary stores
    TL817  the same of global memory, also between blocks, which nothing orders
    TL830  a transfer that nobody waited for at the end
    TL808, TL809, TL831  order through mbarriers, see `phases`
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tilelang.errors import HazardError
from tilelang.ir.buffer import Buffer
from tilelang.sim.clocks import ASYNC_GLOBAL, ASYNC_SHARED, GENERIC, Clocks, Components, agents_of
from tilelang.sim.edges import Record, describe, report
from tilelang.sim.history import Conflict, History
from tilelang.sim.memory import CHUNK_BYTES, WINDOW_BASE, Access
from tilelang.sim.phases import Phases
from tilelang.sim.sync import Mbarrier
from tilelang.sim.watch import Launch, Watch, cell_bytes

if TYPE_CHECKING:
    from tilelang.sim.machine import Block
    from tilelang.sim.strand import Strand


@dataclass(slots=True)
class _Meeting:
    view: np.ndarray
    threads: int = 0
    agents: list[np.ndarray] = field(default_factory=list)


class Hazards(Watch):
    """Objects to what one block does."""

    def __init__(self, block: Block, launch: Launch) -> None:
        self.block, self.launch = block, launch
        kernel = block.kernel
        barriers = block.mbarriers()
        self.components = Components(-(-kernel.threads // 32), len(barriers))
        self.clocks = Clocks(self.components)
        self.cell_bytes = cell_bytes(kernel)
        self.memory = History(-(-kernel.shared_bytes // CHUNK_BYTES) * CHUNK_BYTES // self.cell_bytes)
        self.tensors: dict[Buffer, History] = {}
        self.records: list[Record] = []
        self.committed = {"wgmma": np.zeros(-(-self.components.warps // 4), int), "bulk": np.zeros(self.components.agents, int)}
        self.meetings: dict[int, _Meeting] = {}
        self.phases = Phases(self.clocks, barriers)
        self._chunk = np.arange(CHUNK_BYTES // self.cell_bytes)
        launch.blocks += 1

    # ---- accesses of threads --------------------------------------------------------------------------------------------------

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
        self._between_blocks(strand, tensor, cells.reshape(-1), write)
        if conflict is not None:
            element = int(cells.reshape(-1)[conflict.position])
            raise self._race(
                conflict, _element(tensor, element), int(threads[conflict.position // cells.shape[1]]), code="TL817"
            )

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

    # ---- asynchronous accesses ------------------------------------------------------------------------------------------------

    def tma_load(self, strand: Strand, starts: np.ndarray, barrier: Mbarrier, access: Access) -> None:
        agents = self._agents(strand)
        self.phases.before_load(strand, barrier, agents)
        record = self._record(strand, access, "tma_load", agents, barrier)
        known = self.clocks.known[:, int(agents[0])]
        of_reads = known[ASYNC_SHARED if self.launch.strict_war else GENERIC]
        self._async(starts, known[ASYNC_SHARED], of_reads, self.phases.component(barrier), barrier.phase + 1, record)
        self.phases.load(barrier, int(agents[0]), record)

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
        """The cells of 16-byte chunks; None where some are out of bounds, which the memory reports once the operation takes
        effect."""
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
        self._between_blocks(strand, tensor, cells, write)
        if conflict is not None:
            raise self._race(conflict, _element(tensor, int(cells[conflict.position])), code="TL817")
        if barrier is None:
            history.record_async(cells, self.components.bulk_writes(agent), self._next("bulk", agent), True, record)
        else:
            history.record_async(cells, self.phases.component(barrier), barrier.phase + 1, False, record)

    # ---- groups and fences ----------------------------------------------------------------------------------------------------

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
        self.phases.fence(self._agents(strand))

    # ---- barriers that meet ---------------------------------------------------------------------------------------------------

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

    # ---- mbarriers ------------------------------------------------------------------------------------------------------------

    def init(self, strand: Strand, barrier: Mbarrier) -> None:
        self.phases.init(barrier, int(self._agents(strand)[0]))

    def arrives(self, strand: Strand, barrier: Mbarrier, count: int) -> None:
        self.phases.arrives(strand, barrier, self._agents(strand), count)

    def arrived(self, strand: Strand, barrier: Mbarrier) -> None:
        self.phases.arrived(barrier, self._agents(strand))

    def waits(self, strand: Strand, barrier: Mbarrier, parity: int) -> None:
        self.phases.waits(strand, barrier, self._agents(strand), parity)

    def passed(self, strand: Strand, barrier: Mbarrier, parity: int) -> None:
        self.phases.passed(strand, barrier, self._agents(strand), parity)

    def ends(self) -> None:
        """Raises HazardError TL830 for a transfer whose completion no thread waited for."""
        found = self.phases.unwaited_load()
        if found is not None:
            barrier, load = found[0], self.records[found[1]]
            raise HazardError(
                f"the block ends, no thread has waited for {load.barrier}, and the {load.access.action} may still be on its way",
                code="TL830", span=load.access.span, notes=load.iteration, hint=f"wait for {barrier.name} before the end",
            )  # fmt: skip

    # ---- inside ---------------------------------------------------------------------------------------------------------------

    def _agents(self, strand: Strand) -> np.ndarray:
        """The agents of a strand's active threads, each once."""
        if strand.mask is None:
            if strand.agents is None:
                strand.agents = np.unique(agents_of(strand.threads))
            return strand.agents
        return np.unique(agents_of(strand.active()))

    def _warpgroup(self, warpgroup: int) -> np.ndarray:
        return np.arange(8 * warpgroup, 8 * warpgroup + 8)

    def _next(self, groups: str, index: int) -> int:
        """The number of the group that is being filled."""
        return int(self.committed[groups][index]) + 1

    def _history(self, tensor: Buffer) -> History:
        if tensor not in self.tensors:
            self.tensors[tensor] = History(self.block.tensors.size(tensor))
        return self.tensors[tensor]

    def _record(self, strand: Strand, access: Access, kind: str, agents: np.ndarray, barrier: Mbarrier | None = None) -> int:
        waited = self.phases.last_wait.get(int(agents[0]), "") if len(agents) else ""
        name = f"{barrier.name} (phase {barrier.phase}, parity {barrier.phase & 1})" if barrier is not None else ""
        self.records.append(Record(kind, access, strand.iteration(), name, waited, tuple(dict.fromkeys(agents.tolist()))))
        return len(self.records) - 1

    def _race(self, conflict: Conflict, place: str, thread: int = -1, code: str = "TL815") -> HazardError:
        """The later access is the newest record."""
        return report(self, conflict, self.records[conflict.record], self.records[-1], place, thread, code)

    def _between_blocks(self, strand: Strand, tensor: Buffer, cells: np.ndarray, write: bool) -> None:
        """Raises HazardError TL817 for an element that another block of the author's writes, or reads where this one writes
        it."""
        owner, me = self._owner(strand)
        self.launch.names[owner] = me
        found = self.launch.foreign(tensor, self.block.tensors.size(tensor), cells, write, owner)
        if found is not None:
            (element, verb, other), now = found, self.records[-1]
            mine = "writes" if write else "reads"
            raise HazardError(
                f"race between blocks on {_element(tensor, element)}: {me} {mine} it and {self.launch.names[other]} {verb} it; "
                "nothing orders blocks", code="TL817", span=now.access.span, notes=(f"here: {describe(now)}",),
                hint="let each block write elements of its own, and read none that others write",
            )  # fmt: skip

    def _owner(self, strand: Strand) -> tuple[int, str]:
        """The number, from 1 on, and the name of the author's block that a strand does the work of: where a block of the launch
        does several, they are told apart by their tiles."""
        walk = self.block.kernel.walk
        if walk is None or walk.tile not in strand.env:
            return self.launch.blocks, f"block {self.block.index}"
        number = int(strand.env[walk.tile])  # type: ignore[arg-type]
        if not all(axis in strand.env for axis in walk.axes):  # the code does not need them all
            return number + 1, f"block (tile {number})"
        return number + 1, f"block ({', '.join(f'{axis.name} = {strand.env[axis]}' for axis in walk.axes)})"


def _element(tensor: Buffer, element: int) -> str:
    at = np.unravel_index(element, tuple(int(extent) for extent in tensor.shape))  # type: ignore[arg-type]
    return f"{tensor.name}[{', '.join(str(index) for index in at)}]"
