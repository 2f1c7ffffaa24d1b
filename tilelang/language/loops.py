"""Loops of the kernel, for the head of a `for` statement."""

from __future__ import annotations

from tilelang.errors import Unsupported
from tilelang.frontend.specs import LoopSpec, ParallelSpec, loop_spec, parallel_spec
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


def vectorized(start: object, stop: object = None, *, annotations: object = None) -> LoopSpec:
    """A loop meant to become one vector access."""
    return loop_spec(LoopKind.VECTORIZED, start, stop)


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

    Raises TypeProblem TL214 for a num_stages that is no int of at least 0 and Unsupported TL302 for a schedule by hand."""
    for name, value in {"order": order, "stage": stage, "sync": sync, "group": group}.items():
        if value is not None:
            raise Unsupported(
                f"T.Pipelined(..., {name}=...) is not there yet; the schedule is planned", code="TL302", hint=f"leave {name} out"
            )
    return loop_spec(LoopKind.PIPELINED, start, stop, None, num_stages)


def Parallel(
    *extents: object, coalesced_width: int | None = None, loop_layout: object = None, prefer_async: bool | None = None
) -> ParallelSpec:
    """`for i, j in T.Parallel(rows, columns)`: every point of a box in no order, spread over threads.  The options are hints."""
    return parallel_spec(extents)


__all__ = ["Parallel", "Pipelined", "Serial", "serial", "unroll", "vectorized"]
