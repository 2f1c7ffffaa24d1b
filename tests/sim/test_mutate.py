"""Mutants of compiled kernels: how they are made, and a sample of how many are noticed (`benchmarks/mutation_score.py` runs
all)."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.sim.mutation_kernels import SUBJECTS, Shape
from tilelang.ir import device as d
from tilelang.ir.buffer import Buffer
from tilelang.ir.walk import walk
from tilelang.passes.pipeline import compile_kernel
from tilelang.sim.equivalence import equivalent
from tilelang.sim.mutate import Mutant, flatten, mutants
from tilelang.sim.schedule import SCHEDULES
from tilelang.sim.score import judge, outcomes, score

SAMPLE = 10
"""Mutants of each kernel and shape that are run here."""
RUNS = [(name, subject.shapes[at]) for name, subject in SUBJECTS.items() for at in (0, -3, -1)]


def compiled(name: str, shape: Shape) -> tuple[d.DeviceKernel, dict[Buffer, np.ndarray]]:
    """The device kernel, and small integers for its arrays."""
    kernel = SUBJECTS[name].make(shape)
    rng = np.random.default_rng(0)
    arrays = {t: rng.integers(-1, 2, t.shape).astype(t.dtype.numpy) for t in kernel.tensors}  # type: ignore[arg-type]
    return compile_kernel(kernel, SUBJECTS[name].target).device, arrays


@pytest.mark.parametrize(("name", "shape"), RUNS, ids=str)
def test_a_sample_is_noticed_or_equivalent(name: str, shape: Shape) -> None:
    kernel, arrays = compiled(name, shape)
    every = mutants(kernel)
    chosen = random.Random(f"{name} {shape}").sample(every, min(SAMPLE, len(every)))
    found = outcomes(kernel, SUBJECTS[name].facts(shape), arrays, chosen)
    unexplained = [f"{o.kind}: {o.mutant} {o.verdict}" for o in found if o.kind in ("survivor", "misjudged")]
    assert unexplained == []
    assert score(found) == 1


def test_the_sample_has_every_kind() -> None:
    """Mutants that are reported, that show by value alone, and that change nothing are all among those of one kernel."""
    kernel, arrays = compiled("pipelined_copies", Shape(2, 2))
    kinds = Counter(o.kind for o in outcomes(kernel, SUBJECTS["pipelined_copies"].facts(Shape(2, 2)), arrays))
    assert set(kinds) == {"reported", "wrong", "equivalent"}


def test_shapes_are_the_ones_that_matter() -> None:
    """K < S, K = S, K % S != 0, K % 2S != 0, and several tiles a block: without them whole classes of mutants are invisible."""
    shapes = {shape for subject in SUBJECTS.values() for shape in subject.shapes}
    assert any(s.trips < s.stages for s in shapes)
    assert any(s.trips == s.stages for s in shapes)
    assert any(s.trips % s.stages for s in shapes)
    assert any(s.trips % s.stages == 0 and s.trips % (2 * s.stages) for s in shapes)
    assert any(s.tiles > 1 for s in shapes)
    assert len(SUBJECTS) >= 12


# ---- how mutants are made -----------------------------------------------------------------------------------------------------


def nodes(kernel: d.DeviceKernel) -> Iterator[d.Stmt]:
    for body in (kernel.setup, *(role.body for role in kernel.roles)):
        yield from (node for node in walk(body) if isinstance(node, d.Stmt))


def test_flattening_changes_nothing_but_the_grouping() -> None:
    kernel, arrays = compiled("gemm", Shape(2, 3))
    flat = flatten(kernel)
    assert not any(isinstance(node, d.TileOp) for node in nodes(flat))
    before = Counter(type(node) for node in nodes(kernel) if not isinstance(node, d.TileOp))
    assert Counter(type(node) for node in nodes(flat)) == before
    assert len({id(node) for node in nodes(flat)}) == sum(before.values()), "each statement is a node of its own"
    expected = {tensor: array.copy() for tensor, array in arrays.items()}
    assert judge(kernel, arrays, expected).code == "wrong"  # nothing computes what it started with
    from tilelang.sim.machine import run

    run(kernel, expected)
    assert judge(flat, arrays, expected).code == ""


def test_every_mutant_differs_in_one_place() -> None:
    kernel, _ = compiled("elementwise", Shape(2, 3))
    flat = flatten(kernel)
    original = [describe(node) for node in nodes(flat)]
    for mutant in mutants(kernel):
        changed = [describe(node) for node in nodes(mutant.kernel)]
        removed, added = Counter(original) - Counter(changed), Counter(changed) - Counter(original)
        if mutant.action in ("earlier", "later"):
            assert changed != original, mutant
            assert sorted(changed) == sorted(original), mutant
        elif mutant.action == "delete":
            assert sum(removed.values()) == 1, mutant
            assert not added, mutant
        elif mutant.action.startswith("arrivals"):
            assert mutant.kernel.barriers != flat.barriers
        else:
            assert sum(removed.values()) == sum(added.values()) == 1, mutant


def describe(stmt: d.Stmt) -> str:
    """A statement without what is inside it."""
    fields = [name for name in stmt.__dataclass_fields__ if name not in ("body", "then", "otherwise", "span")]
    return f"{type(stmt).__name__} {[str(getattr(stmt, name)) for name in fields]}"


def actions(found: list[Mutant], kind: type[d.Stmt]) -> set[str]:
    return {mutant.action for mutant in found if mutant.kind is kind}


def test_each_kind_of_statement_is_spoiled_in_its_own_ways() -> None:
    found = mutants(compiled("gemm", Shape(3, 4))[0])
    moved = {"earlier", "later"}
    assert actions(found, d.MbarrierWait) - moved == {"delete", "stage+1", "stage-1", "parity"}
    assert actions(found, d.MbarrierArrive) - moved == {"delete", "stage+1", "stage-1"}
    assert actions(found, d.MbarrierExpectTx) - moved == {"delete", "stage+1", "stage-1", "tx+16", "tx-16"}
    assert actions(found, d.MbarrierInit) - moved == {"delete", "arrivals+1", "arrivals-1"}
    assert actions(found, d.WgmmaWaitGroup) - moved == actions(found, d.BulkWaitGroupRead) - moved == {"delete", "pending+1"}
    assert actions(found, d.NamedBarrierSync) - moved == {"delete", "threads+32", "threads-32"}
    assert actions(found, d.RingAdvance) - moved == {"delete", "slots+1"}
    for kind in (d.FenceProxyAsync, d.WgmmaFence, d.WgmmaCommitGroup, d.BulkCommitGroup, d.SyncThreads, d.RingAdvance):
        assert "delete" in actions(found, kind), kind
    assert moved <= actions(found, d.FenceProxyAsync) | actions(found, d.WgmmaWaitGroup)
    assert actions(found, d.Declare) == {"phase start", "stage start"}


def test_positions_are_spoiled_where_warpgroups_take_turns() -> None:
    """Whose turn it is, the slot to release, and how many slots are passed over."""
    found = [m for m in mutants(compiled("ping_pong", Shape(2, 3, 4))[0]) if m.role.startswith("consumer")]
    of = {(m.action, m.kind, m.target) for m in found}
    assert {("delete", d.Assign, "turn_phase"), ("delete", d.Assign, "behind"), ("later", d.Assign, "behind")} <= of
    assert {("phase start", d.Declare, "turn_phase"), ("stage start", d.Declare, "stage")} <= of
    assert {("stage+1", d.MbarrierWait, "turn"), ("stage+1", d.MbarrierArrive, "turn")} <= of
    assert {("slots+1", d.RingAdvance, "phase"), ("slots-1", d.RingAdvance, "phase"), ("always", d.If, "")} <= of


def codes_without_turns(shape: Shape) -> set[str]:
    """What is reported of warpgroups that do not wait for their turns, under each schedule."""
    kernel, arrays = compiled("ping_pong", shape)
    for _ in range(2):
        of_turns = (m for m in mutants(kernel) if m.action == "delete" and m.kind is d.MbarrierWait and m.target == "turn")
        kernel = next(of_turns).kernel
    assert not any(isinstance(node, d.MbarrierWait) and node.barrier.array.name == "turn" for node in nodes(kernel))
    return {judge(kernel, arrays, {}, (schedule,)).code for schedule in SCHEDULES}


@pytest.mark.parametrize("shape", SUBJECTS["ping_pong"].shapes, ids=str)
def test_turns_are_needed(shape: Shape) -> None:
    """Whatever the order of events: without a wait nothing keeps an arrival for the next turn out of this one."""
    assert codes_without_turns(shape) <= {"TL808", "TL809", "TL815"}


@pytest.mark.parametrize("trips", [3, 4, 5])
def test_turns_keep_phases_apart(trips: int) -> None:
    """In slots that both use, a wait for a parity can take a phase for the one two before, or miss its own."""
    assert "TL808" in codes_without_turns(Shape(2, trips, 4))


def test_a_start_is_another_one() -> None:
    """A position that starts at 1 is spoiled, too."""
    kernel, _ = compiled("ping_pong", Shape(2, 5, 3))
    for mutant in mutants(kernel):
        if mutant.action.endswith("start"):
            texts = [[describe(node) for node in nodes(known)] for known in (flatten(kernel), mutant.kernel)]
            assert texts[0] != texts[1], mutant


def test_rules_of_equivalence_speak_of_the_shape() -> None:
    """The release of a slot is needed once a slot is filled again."""
    for shape, harmless in ((Shape(3, 2), True), (Shape(3, 3), True), (Shape(3, 4), False)):
        kernel, _ = compiled("gemm", shape)
        facts = SUBJECTS["gemm"].facts(shape)
        release = [m for m in mutants(kernel) if m.action == "delete" and m.kind is d.MbarrierArrive]
        assert release
        assert all(equivalent(mutant, facts) is harmless for mutant in release), shape


def test_the_recorded_run_leaves_nothing_unexplained() -> None:
    """`benchmarks/results/mutation_score.json` is of these kernels, and survivors.md names each survivor in it."""
    record = json.loads((ROOT / "benchmarks" / "results" / "mutation_score.json").read_text())
    assert [entry["kernel"] for entry in record["kernels"]] == list(SUBJECTS)
    assert record["score"] >= 0.99
    kinds, page = record["kinds"], (ROOT / "docs" / "checking.md").read_text()
    assert f"Of {record['mutants']} such mutants {kinds['reported']} are reported" in page
    assert f"{kinds['wrong']} give a wrong value; {kinds['equivalent']} change nothing" in page
    explained = (ROOT / "tests" / "sim" / "survivors.md").read_text()
    assert [row for row in record["survivors"] if row["mutant"].partition(" at ")[0] not in explained] == []


def test_facts_agree_with_the_compiled_kernel() -> None:
    """Each ring has as many slots as the compiler made."""
    for name, shape in RUNS:
        kernel, _ = compiled(name, shape)
        facts = SUBJECTS[name].facts(shape)
        counts = {array.name: array.count for array in kernel.barriers if array.name != "turn"}
        assert counts == {f"{prefix}{end}": ring.slots for prefix, ring in facts.rings.items() for end in ("full", "empty")}, name
