"""200 random programs, always the same: the compiled kernel on the simulated machine against the program's meaning, bit for bit.

`make fuzz SECONDS=600` draws others for as long as it is told.
"""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz import generator, texts
from tests.fuzz.program import Gemm, If, Loop, Program, Reduce, is_valid, source, statements
from tests.fuzz.running import End
from tests.fuzz.shrink import candidates, shrink
from tilelang.sim.schedule import SCHEDULES

SAMPLES = 200
MOST_REFUSALS = SAMPLES // 10

_refused: dict[int, str] = {}


@pytest.mark.parametrize("seed", range(SAMPLES))
def test_right_or_refused_by_name(seed: int, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    path = tmp_path / f"program_{seed}.py"
    path.write_text(source(generator.program(seed), f"Seed {seed}."))
    found = texts.run_file(path, (list(SCHEDULES)[seed % len(SCHEDULES)],))
    assert not found.is_fault, f"{path.read_text()}\n{found}"
    record_property("random programs", found.code or "ran")
    if found.end is End.REFUSED:
        _refused[seed] = found.code


def test_nine_of_ten_run() -> None:
    """Of those that this process has seen."""
    assert len(_refused) <= MOST_REFUSALS, _refused


def test_the_same_seed_draws_the_same_program() -> None:
    assert [source(generator.program(seed)) for seed in range(20)] == [source(generator.program(seed)) for seed in range(20)]
    assert len({source(generator.program(seed)) for seed in range(50)}) == 50


def test_every_kind_of_statement_is_drawn() -> None:
    drawn = [generator.program(seed) for seed in range(SAMPLES)]
    kinds: dict[str, int] = {}
    for program in drawn:
        for stmt in {type(stmt) for stmt in statements(program.body)}:
            kinds[stmt.__name__] = kinds.get(stmt.__name__, 0) + 1
    assert set(kinds) == {"Load", "Store", "Move", "Fill", "Elementwise", "Gather", "Reduce", "Gemm", "Assign", "Loop", "If"}
    assert min(kinds.values()) >= SAMPLES // 25, kinds
    loops = [stmt for program in drawn for stmt in statements(program.body) if isinstance(stmt, Loop)]
    assert {loop.kind for loop in loops} == {"serial", "Pipelined", "while", "unroll"}
    assert {loop.stages for loop in loops} == set(range(6))
    assert {0, 1} <= {loop.trips for loop in loops}
    assert any(isinstance(loop.trips, str) for loop in loops)


def contains(kind: type) -> Callable[[Program], bool]:
    return lambda program: any(isinstance(stmt, kind) for stmt in statements(program.body))


@pytest.mark.parametrize("kind", [Gemm, Reduce, If])
def test_shrinking_keeps_only_what_the_fault_needs(kind: type) -> None:
    """A "fault" that is there as long as a statement of one kind is: little else remains, and it is still a valid program."""
    start = next(program for seed in range(100) if contains(kind)(program := generator.program(seed)))
    small = shrink(start, contains(kind))
    assert is_valid(small)
    assert contains(kind)(small)
    count = len(list(statements(small.body)))
    assert count <= min(4, len(list(statements(start.body)))), source(small)
    assert small.grid in ((1,), (1, 1))


def test_every_step_of_shrinking_can_be_written_down() -> None:
    for seed in range(10):
        for candidate in candidates(generator.program(seed)):
            if is_valid(candidate):
                compile(source(candidate), "program.py", "exec")
