"""`T.Pipelined(..., order=, stage=)`: the schedule an author writes, checked and kept as a decision.

An entry belongs to a statement of the body, immutable scalars not counted, or to one of the groups that `group` lists: its place
in the order of the overlapped loop, and its stage, which is how many rounds it comes after the statements of stage 0; -1 leaves
either open. The loop's meaning is the serial loop's whatever they say, and the overlap is planned here, so only the depth is
taken from them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.errors import Span, TypeProblem
from tilelang.ir import tile
from tilelang.ir.expr import Const, Expr
from tilelang.trace import Decision, Rejection

HINT = "give order and stage one int for each statement of the loop's body, such as order=[0, 1, 2], stage=[0, 0, 1]"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The lists as they came, and how many groups of statements they are about (None: single statements)."""

    order: tuple[int, ...]
    stage: tuple[int, ...]
    groups: int | None = None

    @property
    def num_stages(self) -> int:
        """Slots that the stages need: as many rounds as are under way at once."""
        return max(self.stage, default=0) + 1


def schedule(order: object, stage: object, group: object) -> Schedule | None:
    """The schedule of a loop; None where none is given.  Raises TypeProblem TL216 for lists that are none, or do not fit
    together."""
    if order is None and stage is None:
        return None
    orders, stages = _ints(order, "order"), _ints(stage, "stage")
    if len(orders) != len(stages):
        raise TypeProblem(
            f"order of T.Pipelined has {len(orders)} entries and stage has {len(stages)}", code="TL216", hint=HINT
        )
    placed = [place for place in orders if place >= 0]
    if len(set(placed)) < len(placed):
        twice = next(place for place in placed if placed.count(place) > 1)
        raise TypeProblem(f"order of T.Pipelined has place {twice} twice", code="TL216", hint="each place is taken once")
    return Schedule(orders, stages, None if group is None else _groups(group, len(orders)))


def _ints(value: object, name: str) -> tuple[int, ...]:
    items = [item.value if isinstance(item, Const) else item for item in value] if isinstance(value, (list, tuple)) else [None]
    if any(isinstance(item, bool) or not isinstance(item, int) or item < -1 for item in items):
        shown = "an expression" if isinstance(value, Expr) else repr(value)
        raise TypeProblem(f"{name}={shown} of T.Pipelined; it must be a list of ints of at least -1", code="TL216", hint=HINT)
    return tuple(items)  # type: ignore[arg-type]


def _groups(value: object, entries: int) -> int:
    if not isinstance(value, (list, tuple)) or not all(isinstance(part, (list, tuple)) for part in value):
        message = f"group={value!r} of T.Pipelined; it must be a list of lists of statement numbers"
        raise TypeProblem(message, code="TL216", hint=HINT)
    if len(value) != entries:
        raise TypeProblem(f"order of T.Pipelined has {entries} entries and group has {len(value)}", code="TL216", hint=HINT)
    return len(value)


def decide(given: Schedule, body: tile.Body, num_stages: int, span: Span | None) -> Decision:
    """What becomes of a schedule.  Raises TypeProblem TL216 where the body has another number of statements than entries."""
    count = sum(not isinstance(stmt, tile.Let) for stmt in body)
    if given.groups is None and len(given.order) != count:
        raise TypeProblem(
            f"order and stage of T.Pipelined have {len(given.order)} entries, and the loop's body has {count} statements",
            code="TL216",
            span=span,
            hint="one entry for each statement; names given to immutable scalars do not count",
        )
    return Decision(
        span, "schedule of T.Pipelined by hand", f"num_stages={num_stages}; which statements overlap is planned here",
        "the loop means the same in any order that keeps its dependences",
        (Rejection(f"order={list(given.order)}, stage={list(given.stage)}", "the planner takes an order", "it makes its own"),),
    )  # fmt: skip
