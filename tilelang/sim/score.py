"""The mutation score: of the mutants that are not equivalent, how many the machine notices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tilelang.errors import HazardError
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import DeviceKernel
from tilelang.sim.equivalence import Facts, equivalent
from tilelang.sim.machine import run
from tilelang.sim.mutate import Mutant, mutants
from tilelang.sim.schedule import SCHEDULES

STEP_LIMIT = 100_000
"""Statements that a mutant of a small kernel may run."""
Arrays = Mapping[Buffer, np.ndarray]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the machine says of a kernel: the code of a hazard, "wrong" (values differ), or "" (nothing); and under which
    schedule."""

    code: str
    schedule: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One mutant: "reported", "wrong" by value, "equivalent", a "survivor", or "misjudged": said to be equivalent, and
    noticed."""

    mutant: Mutant
    kind: str
    verdict: Verdict


def judge(kernel: DeviceKernel, arrays: Arrays, expected: Arrays, schedules: Iterable[str] = tuple(SCHEDULES)) -> Verdict:
    """Runs a kernel on copies of `arrays` until a schedule shows something; `expected` is what every array holds afterwards."""
    for schedule in schedules:
        found = {buffer: array.copy() for buffer, array in arrays.items()}
        try:
            run(kernel, found, schedule=schedule, step_limit=STEP_LIMIT)
        except HazardError as error:
            return Verdict(error.code, schedule, error.message)
        if any(found[buffer].tobytes() != array.tobytes() for buffer, array in expected.items()):
            return Verdict("wrong", schedule)
    return Verdict("")


def outcomes(kernel: DeviceKernel, facts: Facts, arrays: Arrays, chosen: Iterable[Mutant] | None = None) -> list[Outcome]:
    """Every mutant of a kernel, or the `chosen` ones, run and classified."""
    expected = {buffer: array.copy() for buffer, array in arrays.items()}
    run(kernel, expected)
    found = []
    for mutant in mutants(kernel) if chosen is None else chosen:
        verdict = judge(mutant.kernel, arrays, expected)
        found.append(Outcome(mutant, _kind(verdict, equivalent(mutant, facts)), verdict))
    return found


def _kind(verdict: Verdict, harmless: bool) -> str:
    if harmless:
        return "misjudged" if verdict.code else "equivalent"
    return {"": "survivor", "wrong": "wrong"}.get(verdict.code, "reported")


def score(found: Iterable[Outcome]) -> float:
    """The share of noticed mutants among those that are not equivalent; 1 where there are none."""
    kinds = [outcome.kind for outcome in found]
    counted = len(kinds) - kinds.count("equivalent")
    return 1 - kinds.count("survivor") / counted if counted else 1.0
