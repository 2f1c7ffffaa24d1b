"""Runs one generated program by its meaning and as what it is compiled to, and says how that went.

There are two good ends, *ran* and *refused by name*.  Everything else is a fault of the compiler: results that differ, an
objection of the simulated machine, an `InternalError`, any exception that is no error of ours.
"""
from __future__ import annotations

import dataclasses
import re
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from tilelang.errors import KernelError, TileError
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Number, Var
from tilelang.ir.tile import Kernel
from tilelang.ir.verify import verify
from tilelang.passes.pipeline import compile_kernel
from tilelang.sim import machine, reference
from tilelang.target import SM_90A, Target

Arrays = dict[Buffer, np.ndarray]
Scalars = dict[Var, Number]


SMALL_CHIP = dataclasses.replace(SM_90A, multiprocessors=1, lone_warpgroup_cycles=1)
"""On which three tiles are many, so that warpgroups take them in turn."""
LIMIT_SECONDS = 120
"""For one program; a hundred times what one takes."""


class End(StrEnum):
    """How the run of one program ended."""

    RAN = "ran"
    REFUSED = "refused"
    WRONG = "wrong"
    OBJECTION = "objection"
    CRASHED = "crashed"


@dataclass(frozen=True)
class Outcome:
    """How it ended; `code` is that of a refusal or of the machine's objection, `detail` says what is wrong."""

    end: End
    code: str = ""
    detail: str = ""

    @property
    def is_fault(self) -> bool:
        return self.end not in (End.RAN, End.REFUSED)

    @property
    def kind(self) -> str:
        """What stays the same while a failing program is made smaller: not the place, not the numbers."""
        first = self.detail.splitlines()[0] if self.detail and self.end is End.CRASHED else ""
        return f"{self.end} {self.code} {re.sub(r'[0-9]+', '#', first)}".strip()

    def __str__(self) -> str:
        return f"{self.end} {self.code}\n{self.detail}".strip()


RAN = Outcome(End.RAN)


def run_program(
    build: Callable[[], Kernel], fill: Callable[[Kernel], Arrays], schedules: Sequence[str],
    scalars: Callable[[Kernel], Scalars] | None = None, limit_seconds: float = LIMIT_SECONDS, target: Target = SM_90A,
) -> Outcome:  # fmt: skip
    """Builds, compiles and runs a program under each of the schedules, on the arrays that `fill` makes for it."""
    try:
        with time_limit(limit_seconds):
            return _run(build, fill, schedules, scalars, target)
    except TooLong as error:
        return _crash(error)


def _run(
    build: Callable[[], Kernel], fill: Callable[[Kernel], Arrays], schedules: Sequence[str],
    scalars: Callable[[Kernel], Scalars] | None, target: Target,
) -> Outcome:  # fmt: skip
    try:
        kernel = build()
        verify(kernel)
        lowered = compile_kernel(kernel, target)
    except KernelError as error:
        return Outcome(End.REFUSED, error.code, str(error))
    except Exception as error:  # noqa: BLE001 - every other exception is what this looks for
        return _crash(error)
    try:
        given, values = fill(kernel), scalars(kernel) if scalars else {}
        expected = _meaning(kernel, given, values)
        for schedule in schedules:
            found = {tensor: array.copy() for tensor, array in given.items()}
            machine.run(lowered.device, found, scalars=values, schedule=schedule)
            if difference := first_difference(expected, found):
                return Outcome(End.WRONG, detail=f"under {schedule}: {difference}")
    except Exception as error:  # noqa: BLE001
        return _crash(error)
    return RAN


class TooLong(BaseException):
    """A program that takes so long that it hangs, as far as anybody can tell; no handler of Exception may hold it up."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TooLong after so many seconds, where signals can be had: in the main thread of a POSIX process."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise TooLong(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _meaning(kernel: Kernel, given: Arrays, values: Scalars) -> Arrays:
    result = {tensor: array.copy() for tensor, array in given.items()}
    reference.run(kernel, [result[param] if isinstance(param, Buffer) else values[param] for param in kernel.params])
    return result


def _crash(error: BaseException) -> Outcome:
    if isinstance(error, TileError):
        return Outcome(End.OBJECTION if error.code.startswith("TL8") else End.CRASHED, error.code, str(error))
    where = traceback.extract_tb(error.__traceback__)[-1]
    text = f"{type(error).__name__} in {where.filename.rpartition('/')[2]}, {where.name}: {error}"
    return Outcome(End.CRASHED, "", text + "\n" + "".join(traceback.format_exception(error)))


def first_difference(expected: Arrays, found: Arrays) -> str:
    """Where two results differ in any bit (NaN equals NaN); empty where they do not."""
    for tensor, array in expected.items():
        same = array.view(np.uint8) == found[tensor].view(np.uint8) if array.size else np.ones(0, bool)
        if same.all():
            continue
        a, b = array, found[tensor]
        wrong = np.argwhere(~_same(a, b))
        if len(wrong):
            at = tuple(int(index) for index in wrong[0])
            return f"{tensor.name}{list(at)} is {b[at]} and should be {a[at]}; {len(wrong)} of {a.size} elements differ"
    return ""


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Equal in every bit, or NaN both."""
    raw = np.dtype(f"u{a.dtype.itemsize}")
    equal = np.ascontiguousarray(a).view(raw) == np.ascontiguousarray(b).view(raw)
    return equal | ((a != a) & (b != b))
