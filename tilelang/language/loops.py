"""Loops of the kernel, for the head of a `for` statement."""

from __future__ import annotations

from dataclasses import replace

from tilelang.frontend.schedules import schedule
from tilelang.frontend.specs import GridSpec, LoopSpec, ParallelSpec, grid_spec, loop_spec, parallel_spec
from tilelang.ir.types import LoopKind


def serial(start: object, stop: object = None, step: object = None, *, annotations: object = None) -> LoopSpec:
    """`for i in T.serial(stop)`, `(start, stop)` or `(start, stop, step)`: one round after the other; `range` means the same."""
    return loop_spec(LoopKind.SERIAL, start, stop, step)


Serial = serial


def unroll(
    start: object,
    stop: object = None,
    step: object = None,
    *,
    explicit: bool = False,
    unroll_factor: int | None = None,
    annotations: object = None,
) -> LoopSpec:
    """As `serial`, with the rounds laid out one after the other in the generated code.  The options are hints."""
    return loop_spec(LoopKind.UNROLL, start, stop, step)


Unroll = unroll


def vectorized(start: object, stop: object = None, *, annotations: object = None) -> LoopSpec:
    """A loop meant to become one vector access."""
    return loop_spec(LoopKind.VECTORIZED, start, stop)


Vectorized = vectorized


def Pipelined(
    start: object,
    stop: object = None,
    num_stages: int = 0,
    order: object = None,
    stage: object = None,
    sync: object = None,
    group: object = None,
) -> LoopSpec:
    """A serial loop whose copies run ahead of its arithmetic, `num_stages` tiles deep; 0 asks for no pipeline.

    `order` and `stage` have an entry for each statement of the body (each list of `group`): where it stands in the overlapped
    loop and how many rounds late.  They say the depth where num_stages does not; the schedule itself is planned, so they, like
    `sync`, change nothing else, and the kernel's decisions say so.  Raises TypeProblem TL214 for a num_stages that is no int of
    at least 0 and TL216 for lists that do not fit the body."""
    given = schedule(order, stage, group)
    if given is not None and num_stages == 0:
        num_stages = given.num_stages
    spec = loop_spec(LoopKind.PIPELINED, start, stop, None, num_stages)
    return replace(spec, schedule=given) if given is not None else spec


def Parallel(
    *extents: object, coalesced_width: int | None = None, loop_layout: object = None, prefer_async: bool | None = None
) -> ParallelSpec:
    """`for i, j in T.Parallel(rows, columns)`: every point of a box in no order, spread over threads.  The options are hints."""
    return parallel_spec(extents)


def grid(*extents: object) -> GridSpec:
    """`for i, j in T.grid(rows, columns)`: serial loops inside each other, the last one innermost."""
    return grid_spec(extents)


__all__ = ["Parallel", "Pipelined", "Serial", "Unroll", "Vectorized", "grid", "serial", "unroll", "vectorized"]
