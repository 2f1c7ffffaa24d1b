"""Draws random programs until the time is up, and saves a shrunk program for each new fault.

    python -m tests.fuzz.run --seconds 600 [--seed 1000000] [--save tests/corpus]

Each fault of a new kind becomes a file that the corpus test runs from then on; the same kind again is only counted.
"""
# ruff: noqa: T201 - it talks to the person at the terminal
from __future__ import annotations

import argparse
import collections
import hashlib
import linecache
import re
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz import generator, texts
from tests.fuzz.program import Program, source
from tests.fuzz.running import Outcome
from tests.fuzz.shrink import shrink
from tilelang.sim.schedule import SCHEDULES

ROOT = Path(__file__).resolve().parents[2]


class Runner:
    """Runs programs from a scratch file under one schedule."""

    def __init__(self, folder: Path, schedule: str) -> None:
        self.path, self.schedule = folder / "program.py", schedule

    def __call__(self, program: Program) -> Outcome:
        self.path.write_text(source(program))
        linecache.checkcache(str(self.path))
        return texts.run_file(self.path, (self.schedule,))


def save(program: Program, outcome: Outcome, schedule: str, seed: int, folder: Path) -> Path:
    """The shrunk program as a file of the corpus; an existing one of the same text is left alone."""
    first = re.sub(r"/\S*/", "", outcome.detail.splitlines()[0] if outcome.detail else "").replace('"""', "")
    text = source(program, f"Seed {seed} under {schedule}, {outcome.end}: {first}"[:125])
    digest = hashlib.sha256(source(program).encode()).hexdigest()[:8]
    path = folder / f"found_{outcome.end}_{outcome.code.lower() or 'value'}_{digest}.py"
    path.write_text(text)
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()) * 1000, help="of the first program; the others follow")
    parser.add_argument("--programs", type=int, default=sys.maxsize, help="stop after so many")
    parser.add_argument("--save", type=Path, default=ROOT / "tests" / "corpus")
    words = parser.parse_args()
    ends: collections.Counter[str] = collections.Counter()
    kinds: collections.Counter[str] = collections.Counter()
    begin, seed = time.monotonic(), words.seed
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() - begin < words.seconds and seed - words.seed < words.programs:
            schedule = list(SCHEDULES)[seed % len(SCHEDULES)]
            run, program = Runner(Path(folder), schedule), generator.program(seed)
            outcome = run(program)
            ends[f"{outcome.end} {outcome.code}".strip()] += 1
            if outcome.is_fault:
                kinds[outcome.kind] += 1
                if kinds[outcome.kind] == 1:
                    small = shrink(program, lambda candidate, kind=outcome.kind, run=run: run(candidate).kind == kind)
                    print("FAULT", save(small, run(small), schedule, seed, words.save), flush=True)
            seed += 1
    total = max(ends.total(), 1)
    print(f"{total} programs from seed {words.seed} in {time.monotonic() - begin:.0f} s: {100 * ends['ran'] / total:.1f} % ran")
    for end, count in ends.most_common():
        print(f"  {count:6} {end}")
    return 1 if kinds else 0


if __name__ == "__main__":
    raise SystemExit(main())
