"""In which order roles run and when asynchronous operations take effect: one legal behaviour of the hardware per schedule."""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Schedule:
    """`roles_reversed`: the last role gets its turn first.  Operations on their way take effect at issue (`at_issue`), one by one
    as roles take turns, or only when no role can go on (`when_stuck`); the newest first or the oldest first."""

    roles_reversed: bool = False
    at_issue: bool = False
    when_stuck: bool = False
    newest_first: bool = False


SCHEDULES: dict[str, Schedule] = {
    "fifo": Schedule(),
    "reverse": Schedule(roles_reversed=True, newest_first=True),
    "eager-async": Schedule(at_issue=True),
    "lazy-async": Schedule(when_stuck=True, newest_first=True),
}
"""Eager operations expose data overwritten too early, lazy ones a missing wait."""


def schedule(name: str) -> Schedule:
    """The schedule of that name.  Raises ArgumentError TL511."""
    if name not in SCHEDULES:
        raise ArgumentError(f"there is no schedule {name!r}; there are {', '.join(SCHEDULES)}", code="TL511")
    return SCHEDULES[name]
