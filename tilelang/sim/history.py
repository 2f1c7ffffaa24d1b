"""What happened to each cell of a memory: the last write, and the reads since, with who did them and when.

A cell is the smallest unit that the kernel's accesses have in common.  An access is in order if whoever makes it knows, by its
clocks, of the last write and (for a write) of all reads since.  Times start at 1, so a cell that nobody touched is known to all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MANY = -1
"""In place of a thread: several lanes of one warp."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """An earlier access that the later one does not know of: where in the cells that were asked for, and which it was."""

    position: int
    record: int
    wrote: bool
    component: int
    time: int
    thread: int


class History:
    """The history of `cells` cells.  Threads are stored plus 1; 0 is work that no thread does."""

    def __init__(self, cells: int) -> None:
        self.cells = cells
        self._write_time = np.zeros(cells, np.int32)
        self._write_component = np.zeros(cells, np.int32)
        self._write_thread = np.zeros(cells, np.int32)
        self._write_record = np.zeros(cells, np.int32)
        self._readers = np.zeros(0, np.int64)
        self._row = np.zeros(0, np.int64)
        self._read_time = np.zeros((0, cells), np.int32)
        self._read_thread = np.zeros((0, cells), np.int32)
        self._read_record = np.zeros((0, cells), np.int32)

    # ---- ordinary accesses ----------------------------------------------------------------------------------------------------

    def check_threads(
        self, cells: np.ndarray, agents: np.ndarray, threads: np.ndarray, known: np.ndarray, write: bool
    ) -> Conflict | None:
        """The first conflict of an access by `threads`, one for each of `cells`; `known` is (agent, component).

        What a thread did itself is in order whatever its clock says; the other lanes of its warp are known only up to the last
        time they met."""
        late = self._write_time[cells] > known[agents, self._write_component[cells]]
        if late.any():
            late &= self._write_thread[cells] != threads + 1
            if late.any():
                return self._write_conflict(cells, late)
        if not write or not self._readers.size:
            return None
        late = self._read_time[:, cells] > known[agents[None, :], self._readers[:, None]]
        if late.any():
            late &= self._read_thread[:, cells] != threads + 1
            if late.any():
                return self._read_conflict(cells, late)
        return None

    def record_write(self, cells: np.ndarray, agents: np.ndarray, threads: np.ndarray, times: np.ndarray, record: int) -> None:
        self._write_time[cells], self._write_component[cells] = times, agents
        self._write_thread[cells], self._write_record[cells] = threads + 1, record
        self._read_time[:, cells] = 0

    def record_read(
        self, cells: np.ndarray, agents: np.ndarray, threads: np.ndarray, times: np.ndarray, met: np.ndarray, record: int
    ) -> None:
        """`met`: up to when the lanes of each thread's agent know each other."""
        rows = self._rows_of(agents)
        at = (rows, cells)
        alone = (self._read_time[at] <= met) | (self._read_thread[at] == threads + 1)
        readers = np.where(alone, threads + 1, MANY)
        self._read_thread[at], self._read_time[at], self._read_record[at] = readers, times, record
        shared = self._read_thread[at] != readers  # another lane of this very access reads the same cell
        if shared.any():
            self._read_thread[rows[shared], cells[shared]] = MANY

    # ---- asynchronous accesses ------------------------------------------------------------------------------------------------

    def check_async(
        self, cells: np.ndarray, of_writes: np.ndarray, issuers: np.ndarray | int, of_reads: np.ndarray | None
    ) -> Conflict | None:
        """The first conflict of an access by no thread.  Row `issuers` (one for each cell, or for all) of `of_writes` says what
        is known of writes, by component; for a write, `of_reads` what is known of reads."""
        late = self._write_time[cells] > of_writes[issuers, self._write_component[cells]]
        if late.any():
            return self._write_conflict(cells, late)
        if of_reads is None or not self._readers.size:
            return None
        late = self._read_time[:, cells] > of_reads[self._readers][:, None]
        return self._read_conflict(cells, late) if late.any() else None

    def record_async(self, cells: np.ndarray, component: int, time: int, write: bool, record: int) -> None:
        if write:
            self._write_time[cells], self._write_component[cells] = time, component
            self._write_thread[cells], self._write_record[cells] = 0, record
            self._read_time[:, cells] = 0
            return
        row = int(self._rows_of(np.array([component]))[0])
        self._read_time[row, cells], self._read_thread[row, cells], self._read_record[row, cells] = time, 0, record

    # ---- inside ---------------------------------------------------------------------------------------------------------------

    def _rows_of(self, components: np.ndarray) -> np.ndarray:
        """The row of each component's reads, made where it has none yet."""
        highest = int(components.max(initial=-1)) + 1
        if highest > len(self._row):
            self._row = np.concatenate([self._row, np.full(highest - len(self._row), -1)])
        rows = self._row[components]
        if (rows < 0).any():
            new = np.unique(components[rows < 0])
            self._row[new] = len(self._readers) + np.arange(len(new))
            self._readers = np.concatenate([self._readers, new])
            empty = np.zeros((len(new), self.cells), np.int32)
            self._read_time = np.concatenate([self._read_time, empty])
            self._read_thread = np.concatenate([self._read_thread, empty])
            self._read_record = np.concatenate([self._read_record, empty])
            rows = self._row[components]
        return rows

    def _write_conflict(self, cells: np.ndarray, late: np.ndarray) -> Conflict:
        at = int(np.argmax(late))
        cell = cells[at]
        return Conflict(
            at, int(self._write_record[cell]), True, int(self._write_component[cell]), int(self._write_time[cell]),
            int(self._write_thread[cell]) - 1,
        )  # fmt: skip

    def _read_conflict(self, cells: np.ndarray, late: np.ndarray) -> Conflict:
        row, at = (int(index) for index in np.argwhere(late)[0])
        cell = cells[at]
        thread = int(self._read_thread[row, cell])
        return Conflict(
            at, int(self._read_record[row, cell]), False, int(self._readers[row]), int(self._read_time[row, cell]),
            thread - 1 if thread > 0 else -1,
        )  # fmt: skip
