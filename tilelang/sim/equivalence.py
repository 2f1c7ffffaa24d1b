"""Mutants that change nothing: for each, the condition on the shape under which the spoiled synchronisation was not needed.

A *ring* is a channel of `slots` slots, each with a full and an empty mbarrier, filled `uses` times in all.  Fill j goes to slot
j % slots.  It must wait for the slot if j >= slots, and the release of consumption j is needed if j + slots < uses, because a
later fill waits for it.  A rule holds if and only if the mutant is equivalent; both directions are tested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tilelang.ir import device as d
from tilelang.sim.mutate import Mutant


@dataclass(frozen=True, slots=True)
class Ring:
    """`share`: the fills that a mutant's statement takes part in, where that is not all of them: several statements fill the ring
    one after the other, or several roles empty it in turn."""

    slots: int
    uses: int
    share: Callable[[Mutant], Sequence[int]] | None = None

    def fills(self, mutant: Mutant) -> Sequence[int]:
        """The fills that a mutant's statement takes part in."""
        return self.share(mutant) if self.share is not None else range(self.uses)

    def reused(self, fills: Iterable[int]) -> bool:
        """Whether one of these slots is filled again."""
        return any(j + self.slots < self.uses for j in fills)

    def must_wait(self, fills: Iterable[int]) -> bool:
        """Whether one of these fills finds its slot used."""
        return any(j >= self.slots for j in fills)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the conditions are about: the rings of a kernel, by the prefix of their barriers' names, and rules of its own."""

    rings: Mapping[str, Ring]
    own: tuple[tuple[Callable[[Mutant], bool], bool], ...] = field(default=())
    """(which mutants, whether they are equivalent): looked at first."""

    def ring(self, name: str) -> Ring:
        """The ring of a barrier, stage or phase by its name, or of the next barrier."""
        name = name.partition("[")[0]
        for end in ("full", "empty", "phase", "stage"):
            if name.endswith(end) and name.removesuffix(end) in self.rings:
                return self.rings[name.removesuffix(end)]
        raise KeyError(f"{name} belongs to none of the rings {', '.join(map(repr, self.rings))}")


def equivalent(mutant: Mutant, facts: Facts) -> bool:
    """Whether the mutant does what the kernel does, whatever the order of events."""
    for matches, answer in facts.own:
        if matches(mutant):
            return answer
    if mutant.action in ("earlier", "later"):
        rule = _MOVES.get((mutant.kind, mutant.passed))
    else:
        rule = _CHANGES.get((mutant.action, mutant.kind))
    return rule is not None and rule(mutant, facts)


# ---- conditions ---------------------------------------------------------------------------------------------------------------


def _always(mutant: Mutant, facts: Facts) -> bool:
    return True


def _slot_unused(mutant: Mutant, facts: Facts) -> bool:
    """mbarrier.init of a slot that no fill reaches."""
    return int(mutant.target.partition("[")[2].rstrip("]")) >= facts.ring(mutant.target).uses


def _not_reused(mutant: Mutant, facts: Facts) -> bool:
    """What releases a slot, where no later fill waits for it."""
    ring = facts.ring(mutant.target if mutant.target.endswith("empty") else mutant.near)
    return not ring.reused(ring.fills(mutant))


def _never_full(mutant: Mutant, facts: Facts) -> bool:
    """What waits for a free slot, where every slot is fresh."""
    ring = facts.ring(mutant.target)
    return mutant.target.endswith("empty") and not ring.must_wait(ring.fills(mutant))


def _count_of_empty(mutant: Mutant, facts: Facts) -> bool:
    """The arrival count of `empty`, where nothing waits for a phase of it; a phase of `full` is always waited for."""
    ring = facts.ring(mutant.target)
    return mutant.target.endswith("empty") and not ring.reused(range(ring.uses))


def _arrives_at(step: int) -> Callable[[Mutant, Facts], bool]:
    """A release that goes to the slot `step` further on: harmless if none is needed and that slot's first fill has already gone
    by (its wait would otherwise be for a phase that is over), or never comes, and no other release lands there."""

    def rule(mutant: Mutant, facts: Facts) -> bool:
        ring = facts.ring(mutant.target)
        fills = ring.fills(mutant)
        others = {j % ring.slots for j in range(ring.uses) if j not in fills}
        return not ring.reused(fills) and all(
            (there := (j + step) % ring.slots) not in others and (there >= ring.uses or there <= j) for j in fills
        )

    return rule


def _waits_at(step: int) -> Callable[[Mutant, Facts], bool]:
    """A wait for the slot `step` further on: harmless in the first lap for a slot that is not filled before this fill."""

    def rule(mutant: Mutant, facts: Facts) -> bool:
        ring = facts.ring(mutant.target)
        if mutant.target.endswith("full"):
            return False
        return all(j < ring.slots and (j + step) % ring.slots >= j for j in ring.fills(mutant))

    return rule


def _expects_elsewhere(mutant: Mutant, facts: Facts) -> bool:
    """Bytes expected on another slot's barrier: harmless if the first lap is filled exactly, so that each barrier still gets
    one."""
    ring = facts.ring(mutant.target)
    return [*ring.fills(mutant)] == [*range(ring.slots)]


def _last_turn(mutant: Mutant, facts: Facts) -> bool:
    """The ring's position is not used again."""
    ring = facts.ring(mutant.target)
    return all(j == ring.uses - 1 for j in ring.fills(mutant))


def _one_slot(mutant: Mutant, facts: Facts) -> bool:
    """Neither a load nor an arrival depends on the phase, only on the slot."""
    return facts.ring(mutant.target).slots == 1


def _arrival_past_advance(mutant: Mutant, facts: Facts) -> bool:
    return _one_slot(mutant, facts) or _arrives_at(1)(mutant, facts)


def _another_ring(mutant: Mutant, facts: Facts) -> bool:
    """A position that moves on before or after something is done with another ring."""
    return facts.ring(mutant.target) is not facts.ring(mutant.passed_target)


def _of_empty(mutant: Mutant, facts: Facts) -> bool:
    """No copy completes on `empty`, so the asynchronous proxy need not see its initialisation."""
    return facts.ring(mutant.target) is not None and "empty" in mutant.target


def _of_consumer(mutant: Mutant, facts: Facts) -> bool:
    """More registers than needed are no synchronisation; fewer for the producer are what the consumers wait for."""
    return mutant.role.startswith("consumer")


_CHANGES: dict[tuple[str, type[d.Stmt]], Callable[[Mutant, Facts], bool]] = {
    ("delete", d.MbarrierInit): _slot_unused,
    ("delete", d.SetMaxRegisters): _of_consumer,
    ("delete", d.RingAdvance): _last_turn,
    ("slots+1", d.RingAdvance): _last_turn,
    ("slots-1", d.RingAdvance): _last_turn,
    ("delete", d.MbarrierArrive): _not_reused,
    ("stage+1", d.MbarrierArrive): _arrives_at(1),
    ("stage-1", d.MbarrierArrive): _arrives_at(-1),
    ("delete", d.MbarrierWait): _never_full,
    ("stage+1", d.MbarrierWait): _waits_at(1),
    ("stage-1", d.MbarrierWait): _waits_at(-1),
    ("stage+1", d.MbarrierExpectTx): _expects_elsewhere,
    ("stage-1", d.MbarrierExpectTx): _expects_elsewhere,
    ("arrivals+1", d.MbarrierInit): _count_of_empty,
    ("delete", d.SyncWarp): _not_reused,
}

_MOVES: dict[tuple[type[d.Stmt], str], Callable[[Mutant, Facts], bool]] = {
    (d.MbarrierInit, "MbarrierInit"): _always,
    (d.MbarrierInit, "FenceMbarrierInit"): _of_empty,
    # A barrier that orders can be met before the fence as well as after it: whoever issues the copy has then seen the stores.
    (d.FenceProxyAsync, "NamedBarrierSync"): _always,
    (d.FenceProxyAsync, "SyncThreads"): _always,
    (d.MbarrierWait, "WgmmaFence"): _always,
    (d.MbarrierWait, "MbarrierWait"): _always,
    (d.NamedBarrierSync, "MbarrierWait"): _always,
    (d.MbarrierWait, "MbarrierExpectTx"): _never_full,
    # The arrival that comes with the expected bytes keeps the phase open, so the bytes may come first.
    (d.MbarrierExpectTx, "TmaLoad"): _always,
    (d.RingAdvance, "TmaLoad"): _one_slot,
    (d.MbarrierArrive, "RingAdvance"): _arrival_past_advance,
    (d.MbarrierArrive, "Elected"): _not_reused,
    (d.MbarrierArrive, "For"): _not_reused,
    (d.RingAdvance, "MbarrierWait"): _another_ring,
    (d.RingAdvance, "MbarrierArrive"): _another_ring,
    (d.RingAdvance, "NamedBarrierSync"): _always,
    (d.RingAdvance, "For"): _always,
    (d.SyncWarp, "For"): _always,
    (d.SyncWarp, "StoreGlobal"): _always,
    (d.SyncWarp, "Elected"): _always,
    (d.SyncWarp, "MbarrierArrive"): _not_reused,
    (d.WgmmaWaitGroup, "MbarrierArrive"): _not_reused,
}
