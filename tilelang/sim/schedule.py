"""In which order roles run and when asynchronous operations take effect: one legal behaviour of the hardware per schedule."""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Schedule:
    """`roles_reversed`: the last role gets its turn first.  Operations on their way take effect at issue (`at_issue`), one by one
    as roles take turns, or only when no role can go on (`when_stuck`); the newest first or the oldest first.  With a `seed`
    priorities decide, drawn at random and now and then lowered (S. Burckhardt et al., "A randomized scheduler with probabilistic
    guarantees of finding bugs")."""

    roles_reversed: bool = False
    at_issue: bool = False
    when_stuck: bool = False
    newest_first: bool = False
    seed: int | None = None


SCHEDULES: dict[str, Schedule] = {
    "fifo": Schedule(),
    "reverse": Schedule(roles_reversed=True, newest_first=True),
    "eager-async": Schedule(at_issue=True),
    "lazy-async": Schedule(when_stuck=True, newest_first=True),
}
"""Eager operations expose data overwritten too early, lazy ones a missing wait."""
RANDOM = "random:"
DEMOTION = 0.05
"""How often, per step of a random schedule, whoever has just run falls to the lowest priority."""


def schedule(name: str) -> Schedule:
    """The schedule of that name; "random:7" is the one of seed 7.  Raises ArgumentError TL511."""
    if name.startswith(RANDOM) and name.removeprefix(RANDOM).isdecimal():
        return Schedule(seed=int(name.removeprefix(RANDOM)))
    if name not in SCHEDULES:
        raise ArgumentError(f"there is no schedule {name!r}; there are {', '.join(SCHEDULES)} and {RANDOM}SEED", code="TL511")
    return SCHEDULES[name]


def random_schedules(count: int, seed: int = 0) -> list[str]:
    """The names of `count` schedules by seed."""
    return [f"{RANDOM}{seed + i}" for i in range(count)]
