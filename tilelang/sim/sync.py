"""Synchronisation of one block: mbarriers, named barriers, bulk and wgmma groups, the register pool, and what a thread waits for.

Each object changes only through its own methods, which every instruction uses; that makes this file the one place where order
between agents comes into being.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tilelang.errors import HazardError, InternalError, Span
from tilelang.ir.device import BarrierArray

TX_LIMIT_BYTES = (1 << 20) - 1
"""Largest magnitude of an mbarrier's tx-count (PTX ISA, "mbarrier": contents of the mbarrier object)."""
ARRIVALS_LIMIT = (1 << 20) - 1
"""Largest arrival count of an mbarrier."""
REGISTER_FILE = 64 * 1024
"""32-bit registers of one SM, in four equal parts that whole warps are spread over."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What a role is blocked on: `ready` says whether it may go on, `describe` what is missing.

    `ends_turn`: even where it is ready at once, others run first.  Where threads meet, the schedule then decides who goes on
    first, not who came last."""

    ready: Callable[[], bool]
    describe: Callable[[], str]
    span: Span | None
    ends_turn: bool = False


# ---- mbarriers ----------------------------------------------------------------------------------------------------------------


class Mbarrier:
    """One mbarrier: a phase completes when no arrival is pending and the tx-count is zero; then the next one begins with all
    arrivals pending.  (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".)"""

    def __init__(self, array: BarrierArray, index: int) -> None:
        self.array, self.index = array, index
        self.arrivals = array.arrivals_of(index)
        self.initialised = False
        self.phase = 0
        self.pending = 0
        self.tx_bytes = 0
        self.completed: Callable[[Mbarrier], None] = lambda barrier: None
        """Called whenever a phase has completed."""

    @property
    def name(self) -> str:
        return f"{self.array.name}[{self.index}]"

    def init(self, span: Span | None) -> None:
        """mbarrier.init.  Raises HazardError TL804 if it already is initialised."""
        if self.initialised:
            raise HazardError(
                f"{self.name} is initialised a second time", code="TL804", span=span, hint="one thread initialises it, once"
            )
        if not 1 <= self.arrivals <= ARRIVALS_LIMIT:
            raise InternalError(
                f"{self.name} expects {self.arrivals} arrivals; 1 to {ARRIVALS_LIMIT} are possible", code="TL924"
            )
        self.initialised, self.pending = True, self.arrivals

    def require_init(self, action: str, span: Span | None) -> None:
        """Raises HazardError TL803 for an `action` on a barrier that is not initialised."""
        if not self.initialised:
            raise HazardError(
                f"{action} {self.name} before it is initialised", code="TL803", span=span,
                hint="initialise the barriers, fence, and synchronise the block before the roles part",
            )  # fmt: skip

    def arrive(self, count: int, span: Span | None) -> None:
        """`count` arrivals.  Raises HazardError TL803, TL805 (more than the phase expects)."""
        for _ in range(count):
            self.require_init("an arrival on", span)
            if self.pending == 0:
                raise HazardError(
                    f"{self.name} gets an arrival more than the {self.arrivals} its phase expects, while "
                    f"{self.tx_bytes} bytes are outstanding",
                    code="TL805", span=span,
                )  # fmt: skip
            self.pending -= 1
            self._complete_if_done(span)

    def expect_tx(self, size_bytes: int, span: Span | None) -> None:
        """`size_bytes` more to come in this phase.  Raises HazardError TL803, TL806 (tx-count out of range)."""
        self.require_init("bytes are expected on", span)
        self.tx_bytes += size_bytes
        self._check_range(span)

    def complete_tx(self, size_bytes: int, phase: int, span: Span | None) -> None:
        """A transfer issued in `phase` delivers `size_bytes`.  Raises HazardError TL806 if that phase is over, or ends with more
        bytes than it expects."""
        if phase != self.phase:
            raise HazardError(
                f"{size_bytes} bytes arrive on {self.name} after the phase that they belong to: it completed without them",
                code="TL806", span=span, hint="expect as many bytes as the copies of one phase bring",
            )  # fmt: skip
        self.tx_bytes -= size_bytes
        self._check_range(span)
        self._complete_if_done(span)

    def passed(self, parity: int) -> bool:
        """What try_wait.parity returns: whether the phase of `parity` has completed (on a fresh barrier, parity 1 has)."""
        return self.phase & 1 != parity

    def state(self) -> str:
        """The counts, for reports."""
        return (
            f"phase parity {self.phase & 1} in progress, {self.pending} of {self.arrivals} arrivals pending, "
            f"{self.tx_bytes} bytes outstanding"
        )

    def wait(self, parity: int, span: Span | None) -> Wait:
        """Blocks until the phase of `parity` has completed.  Raises HazardError TL803, TL807 (a parity other than 0 and 1)."""
        self.require_init("a wait on", span)
        if parity not in (0, 1):
            raise HazardError(f"a wait on {self.name} has parity {parity}; a parity is 0 or 1", code="TL807", span=span)
        return Wait(lambda: self.passed(parity), lambda: f"mbarrier {self.name} parity {parity} ({self.state()})", span)

    def _check_range(self, span: Span | None) -> None:
        over = self.tx_bytes < 0 and self.pending == 0
        if abs(self.tx_bytes) > TX_LIMIT_BYTES or over:
            what = "more bytes arrive than the phase expects" if over else "the tx-count leaves its range"
            raise HazardError(
                f"{self.name}: {what} (tx-count {self.tx_bytes} bytes)", code="TL806", span=span,
                hint="expect as many bytes as the copies of one phase bring",
            )  # fmt: skip

    def _complete_if_done(self, span: Span | None) -> None:
        if self.pending == 0 and self.tx_bytes == 0:
            self.phase += 1
            self.pending = self.arrivals
            self.completed(self)


# ---- named barriers -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Named:
    threads: int
    arrived: int = 0
    generation: int = 0


class NamedBarriers:
    """The sixteen hardware barriers of a block; number 0 is __syncthreads.  (PTX ISA, "bar, barrier".)"""

    def __init__(self) -> None:
        self._barriers: dict[int, _Named] = {}

    def arrive(self, number: int, threads: int, arriving: int, span: Span | None) -> Wait:
        """`arriving` threads meet at barrier `number`, which `threads` threads complete.

        Raises HazardError TL851: a bad number or count, a barrier used with two counts, or too many arrivals."""
        if threads <= 0 or threads % 32 or not 0 <= number <= 15:
            raise HazardError(
                f"barrier {number} with {threads} threads: numbers are 0 to 15 and counts multiples of 32",
                code="TL851",
                span=span,
            )
        barrier = self._barriers.setdefault(number, _Named(threads))
        if barrier.threads != threads:
            raise HazardError(
                f"barrier {number} is used with {threads} threads here and with {barrier.threads} elsewhere",
                code="TL851", span=span,
                hint="give each set of threads its own barrier number",
            )  # fmt: skip
        barrier.arrived += arriving
        if barrier.arrived > threads:
            raise HazardError(f"barrier {number} gets {barrier.arrived} threads and expects {threads}", code="TL851", span=span)
        generation = barrier.generation
        if barrier.arrived == threads:
            barrier.arrived, barrier.generation = 0, generation + 1
        return Wait(
            lambda: barrier.generation > generation,
            lambda: f"barrier {number} ({barrier.arrived} of {barrier.threads} threads have arrived)",
            span,
            ends_turn=True,
        )


# ---- asynchronous operations and their groups ---------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class AsyncOp:
    """One TMA transfer or wgmma on its way.  Those with the same `queue` take effect in the order of issue; `release` is called
    once a wait has covered the operation."""

    text: str
    effect: Callable[[], None]
    queue: object
    span: Span | None
    release: Callable[[], None] = lambda: None
    done: bool = False


class AsyncEngine:
    """The operations that are on their way, oldest first."""

    def __init__(self, at_issue: bool, newest_first: bool) -> None:
        self.at_issue = at_issue
        self.pending: list[AsyncOp] = []
        self.choose: Callable[[list[AsyncOp]], AsyncOp] = lambda heads: heads[-1 if newest_first else 0]

    def issue(self, op: AsyncOp) -> AsyncOp:
        """Starts an operation; under an eager schedule it takes effect at once."""
        self.pending.append(op)
        if self.at_issue:
            self.advance()
        return op

    def advance(self) -> bool:
        """Lets one operation take effect; False if there was none."""
        heads: dict[object, AsyncOp] = {}
        for op in self.pending:
            heads.setdefault(op.queue, op)
        if not heads:
            return False
        op = self.choose(list(heads.values()))
        self.pending.remove(op)
        op.effect()
        op.done = True
        return True


@dataclass(slots=True)
class Groups:
    """Commit groups of asynchronous operations of one thread (bulk stores) or one warpgroup (wgmma)."""

    uncommitted: list[AsyncOp] = field(default_factory=list)
    committed: list[list[AsyncOp]] = field(default_factory=list)

    def commit(self) -> None:
        """All operations since the last commit become one group, which may be empty."""
        self.committed.append(self.uncommitted)
        self.uncommitted = []

    def beyond(self, pending: int) -> list[AsyncOp]:
        """Operations of all committed groups but the newest `pending`: those a wait_group `pending` waits for."""
        count = max(len(self.committed) - pending, 0)
        return [op for group in self.committed[:count] for op in group]

    def retire(self, pending: int) -> list[AsyncOp]:
        """Forgets the groups that a wait_group `pending` waited for, and returns their operations."""
        retired = self.beyond(pending)
        self.committed = self.committed[max(len(self.committed) - pending, 0) :]
        return retired

    def unwaited(self) -> list[AsyncOp]:
        """Operations that no wait covered yet."""
        return self.beyond(0) + self.uncommitted

    def wait(self, pending: int, name: str, span: Span | None) -> Wait:
        """Blocks until at most `pending` groups are on their way."""
        ops = self.beyond(pending)
        return Wait(
            lambda: all(op.done for op in ops),
            lambda: f"{name} {pending} ({sum(not op.done for op in ops)} operations of older groups are on their way)",
            span,
        )


# ---- registers ----------------------------------------------------------------------------------------------------------------


class RegisterPool:
    """Registers that setmaxnreg moves between the warpgroups of a block.  (PTX ISA, "setmaxnreg".)

    The launch bounds cap the registers at entry, `at_entry` per thread; the compiler may take fewer, so a first increase is not
    held against that number, only against the pool."""

    def __init__(self, threads: int, min_blocks_per_sm: int) -> None:
        warps = -(-threads // 32)
        warps_per_quarter = -(-warps * min_blocks_per_sm // 4)
        at_entry = REGISTER_FILE // 4 // (32 * warps_per_quarter) // 8 * 8
        self.at_entry = min(at_entry, 256)
        self.free = 0
        self._held: dict[int, int] = {}

    def set(self, warpgroup: int, count: int, increase: bool, span: Span | None) -> Wait:
        """`warpgroup` changes to `count` registers per thread; an increase blocks until the pool has them.

        Raises HazardError TL850: a count that is none, or a change in the wrong direction."""
        if count % 8 or not 24 <= count <= 256:
            raise HazardError(f"setmaxnreg {count}: counts are multiples of 8 from 24 to 256", code="TL850", span=span)
        held = self._held.get(warpgroup, self.at_entry)
        if (warpgroup in self._held and count < held) if increase else (count > held):
            way = "increase" if increase else "decrease"
            raise HazardError(
                f"setmaxnreg is to {way} the registers of warpgroup {warpgroup} to {count}, and it has {held}",
                code="TL850",
                span=span,
            )
        if not increase:
            self._take(warpgroup, count)
            return Wait(lambda: True, lambda: "", span)
        return Wait(
            lambda: self._held.get(warpgroup) == count or self._grow(warpgroup, count),
            lambda: f"setmaxnreg {count} ({(count - held) * 128} registers wanted, {self.free} free)",
            span,
        )

    def _take(self, warpgroup: int, count: int) -> None:
        self.free -= (count - self._held.get(warpgroup, self.at_entry)) * 128
        self._held[warpgroup] = count

    def _grow(self, warpgroup: int, count: int) -> bool:
        if (count - self._held.get(warpgroup, self.at_entry)) * 128 > self.free:
            return False
        self._take(warpgroup, count)
        return True
