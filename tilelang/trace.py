"""What the compiler decided and why, and what each pass did.  Passed along, never global."""
from __future__ import annotations

from dataclasses import dataclass, field

from tilelang.errors import Span


@dataclass(frozen=True, slots=True)
class Rejection:
    """One alternative that was not taken: the predicate that failed, the value it had, and the edit that would satisfy it."""

    alternative: str
    predicate: str
    value: str
    edit: str = ""


ONLY_CHOICE = "the only choice"
"""The reason of a decision that was none."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One choice of the compiler: where, about what, what was chosen, why, and what was rejected."""

    span: Span | None
    subject: str
    chosen: str
    reason: str = ""
    rejected: tuple[Rejection, ...] = ()


@dataclass(slots=True)
class Trace:
    """Collects (pass name, text after it) pairs when `texts` is on; costs nothing otherwise."""

    texts: bool = False
    steps: list[tuple[str, str]] = field(default_factory=list)
