"""The mutation score: every kernel of tests/sim/mutation_kernels.py with one piece of synchronisation spoiled at a time, all of
it on the simulated machine.  A mutant is noticed (reported, or wrong by value), equivalent (by a condition on the shape that
holds if and only if), or a survivor.

    python benchmarks/mutation_score.py [KERNEL ...] [--workers N]

Takes some minutes; needs no GPU.  Run over all kernels, writes benchmarks/results/mutation_score.json.  Exit status 1 if a
survivor is not explained in tests/sim/survivors.md, or a condition of equivalence is wrong.
"""
from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.machine import write_result  # noqa: E402
from tests.sim.mutation_kernels import SUBJECTS, Shape  # noqa: E402
from tilelang.passes.pipeline import compile_kernel  # noqa: E402
from tilelang.sim.score import outcomes, score  # noqa: E402

GOAL = 0.99
SURVIVORS = ROOT / "tests" / "sim" / "survivors.md"


@dataclass(frozen=True)
class Row:
    """One mutant: its kernel and shape, what was done, what became of it, and how it was noticed."""

    kernel: str
    shape: str
    mutant: str
    kind: str
    code: str
    schedule: str


def run(job: tuple[str, Shape]) -> list[Row]:
    """All mutants of one kernel of one shape."""
    name, shape = job
    subject = SUBJECTS[name]
    kernel = subject.make(shape)
    rng = np.random.default_rng(0)
    arrays = {tensor: rng.integers(-1, 2, tensor.shape).astype(tensor.dtype.numpy) for tensor in kernel.tensors}
    found = outcomes(compile_kernel(kernel, subject.target).device, subject.facts(shape), arrays)
    return [Row(name, str(shape), label(str(o.mutant)), o.kind, o.verdict.code, o.verdict.schedule) for o in found]


def label(mutant: str) -> str:
    """A mutant in words, without the path of the checkout."""
    return mutant.replace(f"{ROOT}{os.sep}", "")


def by_kernel(rows: list[Row]) -> list[dict[str, object]]:
    """For each kernel: its shapes, its mutants, and what became of them."""
    table = []
    for name in dict.fromkeys(row.kernel for row in rows):
        mine = [row for row in rows if row.kernel == name]
        kinds = Counter(row.kind for row in mine)
        shapes = list(dict.fromkeys(row.shape for row in mine))
        table.append({"kernel": name, "shapes": shapes, "mutants": len(mine), **kinds, "score": rounded(mine)})
    return table


def rounded(rows: list[Row]) -> float:
    return round(score(rows), 5)  # type: ignore[arg-type]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="*", choices=[*SUBJECTS, []], help="by default all")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    jobs = [(name, shape) for name in options.kernels or SUBJECTS for shape in SUBJECTS[name].shapes]
    start = time.perf_counter()
    with ProcessPoolExecutor(options.workers) as pool:
        rows = [row for found in pool.map(run, jobs) for row in found]
    seconds = time.perf_counter() - start
    table = by_kernel(rows)
    for entry in table:
        print(", ".join(f"{key} {value}" for key, value in entry.items() if key != "shapes"))
    survivors = [row for row in rows if row.kind == "survivor"]
    misjudged = [row for row in rows if row.kind == "misjudged"]
    explained = SURVIVORS.read_text()
    unexplained = [row for row in survivors if row.mutant.partition(" at ")[0] not in explained]
    for row in misjudged + unexplained:
        print(f"{row.kind}: {row.kernel} {row.shape}: {row.mutant} {row.code}")
    first = sum(row.schedule == "fifo" for row in rows if row.code)
    noticed = sum(bool(row.code) for row in rows)
    print(f"score {rounded(rows):.4f} over {len(rows)} mutants, {seconds:.0f} s")
    print(f"{first} of the {noticed} noticed ones under the first schedule")
    if not options.kernels:
        result = {
            "score": rounded(rows), "mutants": len(rows), "kinds": dict(Counter(row.kind for row in rows)),
            "codes": dict(Counter(row.code for row in rows if row.code)), "noticed_under_the_first_schedule": first,
            "seconds": round(seconds, 1), "kernels": table, "survivors": [vars(row) for row in survivors],
        }  # fmt: skip
        print(f"wrote {write_result('mutation_score', result)}")
    return 1 if misjudged or unexplained or score(rows) < GOAL else 0  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main())
