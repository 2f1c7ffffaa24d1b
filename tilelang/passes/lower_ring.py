"""The two ends of a channel in device IR: barriers, ring positions, waits and releases.

Phases (PTX ISA, "mbarrier"): a wait for parity p returns once the phase of parity p has completed, and on a fresh barrier parity
1 counts as completed.  So both ends start at stage 0, phase 0; the consumer waits for `phase` on full, the producer for
`phase ^ 1` on empty, which lets it through the first lap; both flip their phase when the ring wraps.
"""
from __future__ import annotations

from dataclasses import dataclass

from tilelang.errors import Span
from tilelang.ir import device as d
from tilelang.ir.device import u32
from tilelang.ir.expr import UINT32, Expr, Var, binary
from tilelang.layout.digits import WARP_THREADS
from tilelang.passes.lower_arith import times
from tilelang.passes.plans import Channel


@dataclass(frozen=True, slots=True)
class Barriers:
    """The mbarriers of a channel: `full` completes when the slot's bytes have landed, `empty` when every consumer warp has
    arrived."""

    full: d.BarrierArray
    empty: d.BarrierArray


def make_barriers(channel: Channel, consumer_threads: int) -> Barriers:
    """One full and one empty mbarrier per slot."""
    prefix = f"{channel.name}_" if channel.name else ""
    return Barriers(
        d.BarrierArray(name=f"{prefix}full", count=channel.stages, arrivals=1, text="the slot's bytes have landed"),
        d.BarrierArray(
            name=f"{prefix}empty", count=channel.stages, arrivals=consumer_threads // WARP_THREADS,
            text="every consumer warp is done with the slot",
        ),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ring:
    """One role's position in a channel: the slot (None where there is only one) and the phase."""

    channel: Channel
    barriers: Barriers
    stage: Var | None
    phase: Var

    @staticmethod
    def start(channel: Channel, barriers: Barriers) -> Ring:
        prefix = f"{channel.name}_" if channel.name else ""
        stage = Var(f"{prefix}stage", UINT32) if channel.stages > 1 else None
        return Ring(channel, barriers, stage, Var(f"{prefix}phase", UINT32))

    def declare(self, fill: int = 0) -> tuple[d.Stmt, ...]:
        """The variables, at the slot and in the lap of the `fill`-th fill."""
        lap, slot = divmod(fill, self.channel.stages)
        stage = (d.Declare(var=self.stage, value=u32(slot), mutable=True),) if self.stage is not None else ()
        return (*stage, d.Declare(var=self.phase, value=u32(lap % 2), mutable=True))

    @property
    def slot(self) -> Expr:
        return u32(0) if self.stage is None else self.stage

    def offset(self, unit: int) -> Expr:
        """`slot * unit` as uint32; `unit` in bytes, or in whatever is counted."""
        return times(self.slot, unit)

    def wait_full(self, span: Span | None) -> d.Stmt:
        return d.MbarrierWait(barrier=d.BarrierRef(self.barriers.full, self.slot), parity=self.phase, span=span)

    def wait_empty(self, span: Span | None) -> d.Stmt:
        return d.MbarrierWait(
            barrier=d.BarrierRef(self.barriers.empty, self.slot), parity=binary("^", self.phase, u32(1)), span=span
        )

    def expect(self, span: Span | None) -> d.Stmt:
        full = d.BarrierRef(self.barriers.full, self.slot)
        return d.MbarrierExpectTx(barrier=full, bytes=self.channel.bytes_per_stage, span=span)

    def release(self, span: Span | None, slot: Expr | None = None) -> d.Stmt:
        """One arrival for each consumer warp, for the current slot or another."""
        barrier = d.BarrierRef(self.barriers.empty, self.slot if slot is None else slot)
        return d.Elected(warp=None, body=(d.MbarrierArrive(barrier=barrier, span=span),), span=span)

    def advance(self, span: Span | None, slots: int = 1) -> d.Stmt:
        return d.RingAdvance(stage=self.stage, phase=self.phase, stages=self.channel.stages, slots=slots, span=span)
