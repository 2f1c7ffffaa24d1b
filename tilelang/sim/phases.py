"""Order through mbarriers: what a phase passes on, which phase a wait or an arrival is for, and who may use a barrier at all.

A wait knows a phase by its parity alone.  Here it is judged by what the waiting agent knows: of the phases it knows to be over,
the last has this parity, and the wait is for nothing new; or the wait is for the one after.  Whatever the schedule made of it,
that is all the wait teaches.  In return nothing may let the barrier get further than that before the wait is over.  (PTX ISA,
"mbarrier".)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tilelang.errors import HazardError, Span
from tilelang.sim.clocks import GENERIC, IN_TIME, Clocks
from tilelang.sim.sync import Mbarrier

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tilelang.sim.strand import Strand


@dataclass(frozen=True, slots=True)
class _Waited:
    """A wait that the phase after the one it is for must not overtake: `target` phases are completed once it returns."""

    agent: int
    time: int
    target: int
    span: Span | None
    who: str


@dataclass(slots=True)
class _Phases:
    """What passes through one mbarrier: all that was published to it, and a copy for each phase that completed.  `initialised`
    and `fenced` are (agent, time); `load` the phases completed once the last transfer is done, and its record."""

    component: int
    view: np.ndarray
    completed: list[np.ndarray] = field(default_factory=list)
    initialised: tuple[int, int] | None = None
    fenced: tuple[int, int] | None = None
    load: tuple[int, int] = (0, 0)
    waits: list[_Waited] = field(default_factory=list)


class Phases:
    """The mbarriers of one block."""

    def __init__(self, clocks: Clocks, barriers: Iterable[Mbarrier]) -> None:
        self._clocks = clocks
        shape = clocks.known.shape[::2]
        self._of = {b: _Phases(clocks.components.mbarrier(i), np.zeros(shape, np.int32)) for i, b in enumerate(barriers)}
        self.last_wait: dict[int, str] = {}
        """By agent, for reports."""
        for barrier in self._of:
            barrier.completed = self._completed

    def component(self, barrier: Mbarrier) -> int:
        return self._of[barrier].component

    # ---- initialisation -------------------------------------------------------------------------------------------------------

    def init(self, barrier: Mbarrier, agent: int) -> None:
        self._of[barrier].initialised = (agent, int(self._clocks.time[agent]))

    def fence(self, agents: np.ndarray) -> None:
        """fence.mbarrier_init: of all initialisations that these agents know."""
        for phases in self._of.values():
            if phases.initialised is not None and self._knows(agents, *phases.initialised):
                phases.fenced = (int(agents[0]), int(self._clocks.time[agents[0]]))
        self._clocks.time[agents] += 1

    # ---- arrivals and transfers -----------------------------------------------------------------------------------------------

    def arrives(self, strand: Strand, barrier: Mbarrier, agents: np.ndarray, count: int) -> None:
        """`count` threads are about to arrive.  Raises HazardError TL831, TL809."""
        phases = self._of[barrier]
        self._require_visible(phases, barrier, agents, strand)
        self._require_phase(barrier, agents, strand, "an arrival counts for")
        if count > barrier.pending > 0:
            raise HazardError(
                f"{strand.name}: {count} arrivals come where phase {barrier.phase} of {barrier.name} expects {barrier.pending} "
                "more, and the rest count for the next phase", code="TL809", span=strand.span, notes=strand.iteration(),
                hint=f"initialise {barrier.name} with as many arrivals as a phase gets",
            )  # fmt: skip
        np.maximum(phases.view, self._clocks.publish(agents), out=phases.view)

    def arrived(self, barrier: Mbarrier, agents: np.ndarray) -> None:
        """They have.  The only arrival of a phase tells its thread that the phase is complete, if no bytes are to come."""
        if barrier.arrivals == 1 and not barrier.tx_bytes and barrier.phase:
            self._clocks.learn_of(agents, self._of[barrier].component, barrier.phase)

    def before_load(self, strand: Strand, barrier: Mbarrier, agents: np.ndarray) -> None:
        """Raises HazardError TL831, TL809 for a transfer that is to complete on a barrier."""
        self._require_visible(self._of[barrier], barrier, agents, strand, asynchronous=True)
        self._require_phase(barrier, agents, strand, "the bytes of a TMA load count for")

    def load(self, barrier: Mbarrier, agent: int, record: int) -> None:
        """An agent has issued a transfer: the phase completes after all that came before."""
        phases = self._of[barrier]
        phases.load = (barrier.phase + 1, record)
        np.maximum(phases.view[IN_TIME], self._clocks.issue(agent), out=phases.view[IN_TIME])

    def unwaited_load(self) -> tuple[Mbarrier, int] | None:
        """A barrier for whose last transfer no thread has waited, and the record of the transfer."""
        for barrier, phases in self._of.items():
            time, record = phases.load
            if time > int(self._clocks.known[GENERIC, :, phases.component].max()):
                return barrier, record
        return None

    # ---- waits ----------------------------------------------------------------------------------------------------------------

    def waits(self, strand: Strand, barrier: Mbarrier, agents: np.ndarray, parity: int) -> None:
        """The strand begins to wait, or still does.  Raises HazardError TL831, TL808."""
        phases = self._of[barrier]
        self._require_visible(phases, barrier, agents, strand)
        if barrier.phase > int(self._targets(phases, agents, parity).max()):
            raise _slips(barrier, strand.span, strand.iteration(), (
                f"{strand.name} waits for parity {parity} of {barrier.name} and can miss the phase it is for: {barrier.phase} "
                f"phases have completed, and it knows of {self._least(phases, agents)}"
            ))  # fmt: skip

    def passed(self, strand: Strand, barrier: Mbarrier, agents: np.ndarray, parity: int) -> None:
        """The wait is over."""
        phases = self._of[barrier]
        targets = self._targets(phases, agents, parity)
        for target in np.unique(targets).tolist():
            learners = agents[targets == target]
            if target > 0:
                self._clocks.learn(learners, phases.completed[target - 1])
            for agent in learners[learners % 2 == 0].tolist():  # lane 0 speaks for its warp
                phases.waits.append(_Waited(agent, int(self._clocks.time[agent]), target, strand.span, strand.name))
        first = int(targets[0])
        what = f"phase {first - 1}" if first else "its first lap, which waits for nothing"
        self.last_wait.update(dict.fromkeys(agents.tolist(), f"{barrier.name} ({what})"))

    def _completed(self, barrier: Mbarrier) -> None:
        """A phase is complete.  Raises HazardError TL808 where a wait for the phase before may come too late."""
        phases = self._of[barrier]
        phases.view[:, phases.component] = barrier.phase
        for wait in phases.waits:
            if wait.target == barrier.phase - 1 and phases.view[IN_TIME, wait.agent] < wait.time:
                raise _slips(barrier, wait.span, (), (
                    f"nothing keeps phase {barrier.phase - 1} of {barrier.name} from completing before {wait.who} has waited for "
                    f"phase {wait.target - 1}, and that wait then misses its phase"
                ))  # fmt: skip
        phases.waits = [wait for wait in phases.waits if wait.target >= barrier.phase]
        phases.completed.append(phases.view.copy())

    # ---- inside ---------------------------------------------------------------------------------------------------------------

    def _targets(self, phases: _Phases, agents: np.ndarray, parity: int) -> np.ndarray:
        """How many phases each agent needs to have completed for its wait to return, going by what it knows."""
        known = self._clocks.known[IN_TIME, agents, phases.component]
        return known + ((known & 1) == parity)

    def _least(self, phases: _Phases, agents: np.ndarray) -> int:
        return int(self._clocks.known[IN_TIME, agents, phases.component].min())

    def _knows(self, agents: np.ndarray, agent: int, time: int) -> bool:
        """Whether each of `agents` knows what `agent` did at `time`, or is it."""
        return bool(((self._clocks.known[GENERIC, agents, agent] >= time) | (agents == agent)).all())

    def _require_phase(self, barrier: Mbarrier, agents: np.ndarray, strand: Strand, what: str) -> None:
        known = self._least(self._of[barrier], agents)
        if known < barrier.phase:
            raise HazardError(
                f"{strand.name}: {what} phase {barrier.phase} of {barrier.name} here, and under another order of events for an "
                f"earlier one: it knows of {known} completed phases", code="TL809", span=strand.span, notes=strand.iteration(),
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


def _slips(barrier: Mbarrier, span: Span | None, notes: tuple[str, ...], message: str) -> HazardError:
    return HazardError(
        message, code="TL808", span=span, notes=notes,
        hint=f"whoever completes the next phase of {barrier.name} must first learn, by another barrier, that this wait is over",
    )  # fmt: skip
