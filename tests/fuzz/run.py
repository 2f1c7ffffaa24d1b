"""Draws random programs until the time is up, and saves a shrunk program for each new fault.

    python -m tests.fuzz.run --seconds 600 [--seed 1000000] [--programs 20000] [--jobs 2] [--save tests/corpus] [--record]

Each fault of a new kind becomes a file that the corpus test runs from then on; the same kind again is only counted.  `--record`
writes what was run, how much of it ran, and the refusals by code to benchmarks/results/fuzz.json (or into $OUT).
"""
# ruff: noqa: T201 - it talks to the person at the terminal
from __future__ import annotations

import argparse
import collections
import hashlib
import itertools
import linecache
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.pool import AsyncResult
from pathlib import Path

from benchmarks import machine
from tests.fuzz import generator, texts
from tests.fuzz.program import Program, source
from tests.fuzz.running import SMALL_CHIP, End, Outcome
from tests.fuzz.shrink import shrink
from tilelang.sim.schedule import SCHEDULES
from tilelang.target import SM_90A

ROOT = Path(__file__).resolve().parents[2]
PROGRESS_SECONDS = 15
SLICE = 16
"""How many programs a process draws before it says how they ended."""


class Runner:
    """Runs programs from a scratch file as the program of `seed` is run: under its schedule, for its chip."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.path, self.schedule = folder / "program.py", schedule_of(seed)
        self.target = SMALL_CHIP if seed % 3 == 0 else SM_90A

    def __call__(self, program: Program) -> Outcome:
        self.path.write_text(source(program))
        linecache.checkcache(str(self.path))
        return texts.run_file(self.path, (self.schedule,), target=self.target)


def schedule_of(seed: int) -> str:
    return list(SCHEDULES)[seed % len(SCHEDULES)]


def outcomes(seeds: range) -> list[tuple[int, Outcome]]:
    """How each program ended."""
    with tempfile.TemporaryDirectory() as folder:
        return [(seed, Runner(Path(folder), seed)(generator.program(seed))) for seed in seeds]


def shrunk(seed: int, kind: str, folder: Path) -> Path:
    """Makes the program of `seed` small while it goes on failing in the same way, and saves it."""
    with tempfile.TemporaryDirectory() as scratch:
        run = Runner(Path(scratch), seed)
        small = shrink(generator.program(seed), lambda candidate: run(candidate).kind == kind)
        return save(small, run(small), seed, folder)


def save(program: Program, outcome: Outcome, seed: int, folder: Path) -> Path:
    """The program as a file of the corpus; an existing one of the same text is left alone."""
    first = re.sub(r"/\S*/", "", outcome.detail.splitlines()[0] if outcome.detail else "").replace('"""', "")
    text = source(program, f"Seed {seed} under {schedule_of(seed)}, {outcome.end}: {first}"[:125])
    digest = hashlib.sha256(source(program).encode()).hexdigest()[:8]
    path = folder / f"found_{outcome.end}_{outcome.code.lower() or 'value'}_{digest}.py"
    path.write_text(text)
    return path


@dataclass(frozen=True)
class Tally:
    """What became of a run's programs."""

    ends: collections.Counter[str]
    faults: collections.Counter[str]
    programs: int
    seconds: float

    @property
    def ran_percent(self) -> float:
        return 100 * self.ends[End.RAN] / max(self.programs, 1)


def slices(first: int, programs: int, deadline: float) -> Iterator[range]:
    """The seeds, a slice at a time, until there are enough of them or the time is up."""
    for start in range(0, programs, SLICE):
        if time.monotonic() >= deadline:
            return
        yield range(first + start, first + min(start + SLICE, programs))


def batches(todo: Iterator[range], jobs: int) -> Iterator[list[tuple[int, Outcome]]]:
    """The outcomes of each slice in order, with as many slices begun ahead as keep `jobs` processes busy."""
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        begun: collections.deque[AsyncResult[list[tuple[int, Outcome]]]] = collections.deque()
        for seeds in todo:
            begun.append(pool.apply_async(outcomes, (seeds,)))
            if len(begun) >= 2 * jobs:
                yield begun.popleft().get()
        while begun:
            yield begun.popleft().get()


def fuzz(seconds: float, first: int, programs: int, jobs: int, folder: Path) -> Tally:
    """Runs the programs from seed `first` on, in `jobs` processes; shrinks and saves the first fault of each kind."""
    ends: collections.Counter[str] = collections.Counter()
    faults: collections.Counter[str] = collections.Counter()
    begin = said = time.monotonic()
    for seed, outcome in itertools.chain.from_iterable(batches(slices(first, programs, begin + seconds), jobs)):
        ends[f"{outcome.end} {outcome.code}".strip()] += 1
        if outcome.is_fault:
            faults[outcome.kind] += 1
            if faults[outcome.kind] == 1:
                print("FAULT", shrunk(seed, outcome.kind, folder), flush=True)
        if time.monotonic() - said > PROGRESS_SECONDS:
            said = time.monotonic()
            print(f"{said - begin:6.0f} s: {ends.total()} programs, {faults.total()} faults", flush=True)
    return Tally(ends, faults, ends.total(), time.monotonic() - begin)


def record(tally: Tally, first: int) -> Path:
    """Writes the run as a result of the benchmarks."""
    result = {
        "programs": tally.programs, "first_seed": first, "schedules": list(SCHEDULES), "seconds": round(tally.seconds),
        "ran_percent": round(tally.ran_percent, 2), "ends": dict(tally.ends.most_common()), "faults": dict(tally.faults),
    }  # fmt: skip
    return machine.write_result("fuzz", result, Path(os.environ["OUT"]) if os.environ.get("OUT") else None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()) * 1000, help="of the first program; the others follow")
    parser.add_argument("--programs", type=int, default=sys.maxsize, help="stop after so many")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--save", type=Path, default=ROOT / "tests" / "corpus")
    parser.add_argument("--record", action="store_true", help="write benchmarks/results/fuzz.json")
    words = parser.parse_args()
    tally = fuzz(words.seconds, words.seed, words.programs, words.jobs, words.save)
    print(f"{tally.programs} programs from seed {words.seed} in {tally.seconds:.0f} s: {tally.ran_percent:.1f} % ran")
    for end, count in tally.ends.most_common():
        print(f"  {count:6} {end}")
    print(f"{tally.faults.total()} faults of {len(tally.faults)} kinds" if tally.faults else "no fault")
    if words.record:
        print("written to", record(tally, words.seed))
    return 1 if tally.faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
