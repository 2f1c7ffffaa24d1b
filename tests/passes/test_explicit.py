"""Kernels divided and synchronised by hand, on the simulated machine: right as written; wrong ones are named with their lines."""
# ruff: noqa: F841 - kernels are written as their authors would
from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tests.conftest import ROOT
from tests.passes.explicit_programs import (
    EMPTY_WAIT,
    FULL_WAIT,
    MISTAKES,
    PROGRAMS,
    Arrays,
    Program,
    alone,
    changed,
    module_at,
    named_meeting,
    ordinary_loads,
    passed_on,
    small,
)
from tests.passes.running import check
from tilelang.codegen.cuda import emit
from tilelang.errors import HazardError, ResourceExceeded, Unsupported
from tilelang.ir import device as d
from tilelang.ir import tile
from tilelang.ir.tile import Kernel
from tilelang.ir.verify import verify
from tilelang.ir.walk import walk
from tilelang.passes.pipeline import Lowered, compile_kernel
from tilelang.sim import machine, reference
from tilelang.sim.schedule import SCHEDULES
from tilelang.target import SM_90A


def compiled(kernel: Kernel) -> Lowered:
    verify(kernel)
    return compile_kernel(kernel, SM_90A)


def run(kernel: Kernel, inputs: Arrays, schedule: str, hazards: bool = True, lowered: Lowered | None = None) -> Arrays:
    """The outputs, whose memory held NaN."""
    written = kernel.tensors[len(inputs) :]
    outputs = tuple(np.full(out.shape, np.nan, out.dtype.numpy) for out in written)  # type: ignore[arg-type]
    arrays = dict(zip(kernel.params, (*inputs, *outputs), strict=True))
    machine.run((lowered or compiled(kernel)).device, arrays, schedule=schedule, hazards=hazards)  # type: ignore[arg-type]
    return outputs


def nodes(lowered: Lowered, kind: type) -> list[Any]:
    return [node for role in lowered.device.roles for node in walk(role.body) if isinstance(node, kind)]


# ---- right --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_exact_under_every_schedule(name: str) -> None:
    program: Program = PROGRAMS[name]
    kernel = program.build()
    lowered, inputs = compiled(kernel), program.inputs(np.random.default_rng(0))
    for schedule in (*SCHEDULES, "random:1"):
        found = run(kernel, inputs, schedule, lowered=lowered)
        assert all(np.array_equal(a, b) for a, b in zip(found, program.expected(*inputs), strict=True)), schedule


@pytest.mark.parametrize("name", ["ring of 3, k=160", "row parts", "column parts", "passed on", "attention", "stored by TMA"])
def test_compiles_without_spills(name: str) -> None:
    """Every remark that is not on the list of allowed ones is an InternalError."""
    used = tilelang.compile(PROGRAMS[name].build(), target="sm_90a").resources
    assert (used.spill_store_bytes, used.spill_load_bytes, used.stack_bytes) == (0, 0, 0), used


def test_the_text_says_who_does_what() -> None:
    text = emit(compiled(PROGRAMS["ring of 3, k=160"].build()).device)
    order = [
        "__launch_bounds__(384,", "3 slots of 128 x 32, 64-byte swizzle", "uint64_t full[3];  // 128 arrivals each",
        "uint64_t empty[3];  // 256 arrivals each", "tl::mbarrier_init(empty[2], 256);", "if (warp < 8) {  // warpgroups 0 and 1",
        "tl::warpgroup_reg_alloc<240>();", "while (!tl::mbarrier_try_wait(full[k % 3], static_cast<uint32_t>((k / 3) & 1))) {}",
        "tl::wgmma_ss<", "tl::mbarrier_arrive(empty[k % 3]);", "} else {  // warpgroup 2", "tl::warpgroup_reg_dealloc<24>();",
        "if (warp == 8 && tl::elect_one()) {", "tl::mbarrier_expect_tx(full[k % 3], 8192);", "tl::tma_load(A_desc, full[k % 3],",
        "tl::mbarrier_expect_tx(full[k % 3], 4096);", "tl::tma_load(B_desc, full[k % 3],", "tl::mbarrier_arrive(full[k % 3]);",
    ]  # fmt: skip
    at = 0
    for line in order:
        assert line in text[at:], line
        at = text.index(line, at) + 1
    assert text.count("tl::elect_one()") == 3, "the barriers' initialisation, one thread that loads both tiles, one that stores"


def test_nothing_is_planned_that_the_author_did_not_write() -> None:
    lowered = compiled(PROGRAMS["ring of 3, k=160"].build())
    assert lowered.plans.channels == ()
    assert len(nodes(lowered, d.MbarrierWait)) == len(nodes(lowered, d.MbarrierArrive)) == 2
    assert nodes(lowered, d.FenceProxyAsync) == [nodes(lowered, d.FenceProxyAsync)[0]], "the epilogue's"
    assert any(decision.chosen == "as the author orders them" for decision in lowered.decisions)


def test_every_barrier_has_its_own_arrivals() -> None:
    lowered = compiled(PROGRAMS["row parts"].build())
    (bars,) = lowered.device.barriers
    assert [bars.arrivals_of(i) for i in range(4)] == [128, 128, 256, 256]
    assert "tl::mbarrier_init(bars[1], 128);\n    tl::mbarrier_init(bars[2], 256);" in emit(lowered.device)


# ---- barriers and fences of the compiler --------------------------------------------------------------------------------------


def test_threads_meet_before_a_tile_they_read_is_loaded_again() -> None:
    body = emit(compiled(alone()).device)
    assert body.index("for (int k") < body.index("__syncthreads();", body.index("for (int k")) < body.index("tl::tma_load(A_desc")


def test_an_arrival_is_fenced_after_ordinary_stores_that_wgmma_reads() -> None:
    lowered = compiled(ordinary_loads())
    producer = lowered.device.roles[0]
    kinds = [type(node) for node in walk(producer.body)]
    assert kinds.index(d.StoreShared) < kinds.index(d.FenceProxyAsync) < kinds.index(d.MbarrierArrive)
    without = _without(lowered.device, d.FenceProxyAsync)
    inputs = PROGRAMS["ordinary loads"].inputs(np.random.default_rng(0))
    arrays = dict(zip(lowered.kernel.params, (*inputs, np.zeros((64, 64), np.float16)), strict=True))
    with pytest.raises(HazardError) as caught:
        machine.run(without, arrays)  # type: ignore[arg-type]
    assert caught.value.code == "TL816"


def test_the_authors_own_fence_and_barrier_are_enough() -> None:
    """One fence is his, one the compiler's: in front of the other warpgroup's meeting, for what that wrote; then its store's."""
    lowered = compiled(named_meeting())
    assert [len(nodes_of(role, d.FenceProxyAsync)) for role in lowered.device.roles] == [1, 2]
    assert [sync.id for sync in nodes_of(lowered.device.roles[0], d.NamedBarrierSync)] == [3]


def nodes_of(role: d.Role, kind: type) -> list[Any]:
    return [node for node in walk(role.body) if isinstance(node, kind)]


def test_the_whole_block_meets_before_a_part_of_it_goes_on_with_what_all_wrote() -> None:
    lowered = compiled(passed_on())
    assert [len(nodes_of(role, d.SyncThreads)) for role in lowered.device.roles] == [2, 2]
    for lost in ("the first", "the second"):
        kept = iter((lost == "the second", lost == "the first") * 2)
        device = _without(lowered.device, d.SyncThreads, lambda _, kept=kept: next(kept))
        program = PROGRAMS["passed on"]
        inputs = program.inputs(np.random.default_rng(0))
        arrays = dict(zip(lowered.kernel.params, (*inputs, np.zeros((24, 256), np.float32)), strict=True))
        with pytest.raises(HazardError) as caught:
            machine.run(device, arrays)  # type: ignore[arg-type]
        assert caught.value.code in ("TL815", "TL816", "TL810"), lost


def _without(device: d.DeviceKernel, kind: type, keep: Callable[[Any], bool] = lambda node: False) -> d.DeviceKernel:
    """The kernel without the statements of a kind, but those that are kept."""

    def pruned(body: d.Body) -> d.Body:
        found = []
        for stmt in body:
            if isinstance(stmt, kind) and not keep(stmt):
                continue
            parts = {name: pruned(getattr(stmt, name)) for name in ("body", "then", "otherwise") if hasattr(stmt, name)}
            found.append(dataclasses.replace(stmt, **parts) if parts else stmt)
        return tuple(found)

    return dataclasses.replace(device, roles=tuple(dataclasses.replace(role, body=pruned(role.body)) for role in device.roles))


# ---- wrong --------------------------------------------------------------------------------------------------------------------


def example(folder: Path, old: str = "", new: str = "pass") -> Any:
    """The example's module, with one piece of its text replaced."""
    path = folder / "gemm_wrong.py"
    path.write_text(changed(old, new))
    return module_at(path)


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_machine_names_the_line(name: str, schedule: str, tmp_path: Path) -> None:
    old, new, codes, line = MISTAKES[name]
    kernel = example(tmp_path, old, new).gemm_explicit(128, 64, 160, 128, 64, 32, 3)
    rng = np.random.default_rng(0)
    with pytest.raises(HazardError) as caught:
        run(kernel, (small(rng, 128, 160), small(rng, 160, 64)), schedule)
    assert caught.value.code in codes
    assert caught.value.span is not None
    source = caught.value.span.source_line()
    assert any(part in source for part in line.split("|")), source
    if caught.value.code in ("TL801", "TL815"):
        assert re.search(r"gemm_wrong\.py:\d+", "".join(caught.value.notes)), "who waits for what; the other access of a race"


@pytest.mark.parametrize(
    ("old", "schedule"), [(FULL_WAIT, "lazy-async"), (EMPTY_WAIT, "eager-async"), (EMPTY_WAIT, "lazy-async")]
)
def test_a_missing_wait_is_seen_by_value_alone(old: str, schedule: str, tmp_path: Path) -> None:
    """Without vector clocks: a wrong result, bytes that were never written, or threads that wait forever."""
    kernel = example(tmp_path, old).gemm_explicit(128, 64, 160, 128, 64, 32, 3)
    rng = np.random.default_rng(0)
    inputs = (small(rng, 128, 160), small(rng, 160, 64))
    try:
        (found,) = run(kernel, inputs, schedule, hazards=False)
    except HazardError:
        return
    assert not np.array_equal(found, PROGRAMS["ring of 3, k=160"].expected(*inputs)[0])


# ---- on the CPU ---------------------------------------------------------------------------------------------------------------


def test_a_call_with_arrays_on_the_cpu_runs_the_machine(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilelang.runtime.call._said_cpu", set())
    program = PROGRAMS["ring, ragged"]
    kernel = tilelang.compile(program.build(), out_idx=[2], target="sm_90a")
    inputs = program.inputs(np.random.default_rng(0))
    assert np.array_equal(kernel(*inputs), program.expected(*inputs)[0])
    kernel(*inputs)
    assert caplog.text.count("it is synchronised by hand, so its threads are simulated") == 1


def test_a_wrong_kernel_called_on_the_cpu_says_why(tmp_path: Path) -> None:
    wrong = example(tmp_path, FULL_WAIT).gemm_explicit(128, 64, 96, 128, 64, 32, 2)
    kernel = tilelang.compile(wrong, out_idx=[2], target="sm_90a")
    rng = np.random.default_rng(0)
    with pytest.raises(HazardError, match="no wait for mbarrier full"):
        kernel(small(rng, 128, 96), small(rng, 96, 64))


def test_kernel_check(tmp_path: Path) -> None:
    report = tilelang.compile(example(tmp_path).gemm_explicit(256, 128, 96, 128, 64, 32, 2), target="sm_90a").check()
    assert report.proved
    wrong = example(tmp_path, EMPTY_WAIT).gemm_explicit(256, 128, 160, 128, 64, 32, 2)
    with pytest.raises(HazardError):
        tilelang.compile(wrong, target="sm_90a").check()


def test_the_reference_refuses() -> None:
    with pytest.raises(Unsupported) as caught:
        reference.run(alone(), [])
    assert caught.value.code == "TL374"


# ---- registers ----------------------------------------------------------------------------------------------------------------


def planned(hint: Callable[[], None], threads: int = 128) -> Kernel:
    """A kernel whose roles the compiler plans, with a hint about registers."""

    @T.prim_func
    def matmul(A: T.Tensor((128, 96), "float16"), B: T.Tensor((96, 64), "float16"), C: T.Tensor((128, 64), "float16")):
        with T.Kernel(1, threads=threads) as bx:
            a = T.alloc_shared((128, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((128, 64), "float32")
            hint()
            T.clear(acc)
            for k in T.Pipelined(3, num_stages=2):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, acc)
            T.copy(acc, C)

    return matmul


def test_annotated_registers() -> None:
    def hint() -> None:
        T.annotate_producer_reg_dealloc(40)
        T.annotate_consumer_reg_alloc(208)

    lowered = compiled(planned(hint))
    assert {(node.count, node.increase) for node in nodes(lowered, d.SetMaxRegisters)} == {(40, False), (208, True)}
    check(planned(hint), ("fifo",))


def test_defaults_of_annotations_leave_room_for_one_block() -> None:
    def hint() -> None:
        T.annotate_producer_reg_dealloc()
        T.annotate_consumer_reg_alloc()

    lowered = compiled(planned(hint))
    assert lowered.device.min_blocks_per_sm == 1
    assert {node.count for node in nodes(lowered, d.SetMaxRegisters)} == {24, 240}


@pytest.mark.parametrize("hint", [T.disable_warp_group_reg_alloc, T.no_set_max_nreg])
def test_registers_that_stay_where_they_are(hint: Callable[[], None]) -> None:
    assert nodes(compiled(planned(hint)), d.SetMaxRegisters) == []
    check(planned(hint), ("fifo",))


def test_more_registers_than_a_block_has() -> None:
    with pytest.raises(ResourceExceeded) as caught:
        compiled(planned(lambda: T.annotate_consumer_reg_alloc(240), threads=512))
    assert caught.value.code == "TL405"


def by_hand(first: int, others: int, threads: int = 384) -> Kernel:
    @T.prim_func
    def registers(X: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=threads) as bx:
            with T.ws(0):
                T.set_max_nreg(first, 0)
            with T.ws(*list(range(1, threads // 128))):
                T.set_max_nreg(others, 1)
            for i in T.Parallel(128):
                X[i] = 1

    return registers


def test_blocks_per_sm_leave_the_registers_asked_for() -> None:
    assert compiled(by_hand(24, 104)).device.min_blocks_per_sm == 2
    assert compiled(by_hand(24, 240)).device.min_blocks_per_sm == 1
    with pytest.raises(ResourceExceeded) as caught:
        compiled(by_hand(40, 240))
    assert caught.value.code == "TL405"
    assert caught.value.span is not None


def test_annotations_of_a_kernel_divided_by_hand() -> None:
    """A warpgroup that loads and one that multiplies get what is asked for, unless they set it themselves."""
    kernel = ordinary_loads()
    hints = tile.RegisterHints(producer=40, consumer=232)
    assert nodes(compiled(dataclasses.replace(kernel, registers=hints)), d.SetMaxRegisters)[0].count == 232
    ring = dataclasses.replace(PROGRAMS["ring of 2, k=64"].build(), registers=hints)
    assert {node.count for node in nodes(compiled(ring), d.SetMaxRegisters)} == {24, 240}


# ---- words that any kernel may use --------------------------------------------------------------------------------------------


def test_a_barrier_and_a_fence_in_a_kernel_that_is_planned() -> None:
    def both() -> None:
        T.sync_threads()
        T.fence_proxy_async()

    kernel = planned(both)
    assert not kernel.is_explicit
    check(kernel, ("fifo", "reverse"))
    lowered = compiled(kernel)
    assert len(nodes(lowered, d.FenceProxyAsync)) == len(nodes(compiled(planned(lambda: None)), d.FenceProxyAsync)) + 1


def test_a_tma_store_in_a_kernel_that_is_planned() -> None:
    @T.prim_func
    def stored(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1) as bx:
            a = T.alloc_shared((64, 64), "float16")
            T.copy(A, a)
            T.tma_copy(a, C)

    check(stored, ("fifo",))


def test_a_schedule_by_hand_is_a_decision() -> None:
    def build(**schedule: Any) -> Kernel:
        @T.prim_func
        def matmul(A: T.Tensor((128, 96), "float16"), B: T.Tensor((96, 64), "float16"), C: T.Tensor((128, 64), "float16")):
            with T.Kernel(1, threads=128) as bx:
                a = T.alloc_shared((128, 32), "float16")
                b = T.alloc_shared((32, 64), "float16")
                acc = T.alloc_fragment((128, 64), "float32")
                T.clear(acc)
                for k in T.Pipelined(3, **schedule):
                    start = k * 32
                    T.copy(A[0, start], a)
                    T.copy(B[start, 0], b)
                    T.gemm(a, b, acc)
                T.copy(acc, C)

        return matmul

    plain, scheduled = compiled(build(num_stages=2)), compiled(build(order=[0, 1, 2], stage=[0, 0, 1]))
    assert emit(plain.device).splitlines()[10:] == emit(scheduled.device).splitlines()[10:]
    (decision,) = [each for each in scheduled.decisions if each.subject == "schedule of T.Pipelined by hand"]
    assert decision.chosen.startswith("num_stages=2")
    grouped = build(order=[-1, 0], stage=[-1, 2], group=[[0, 1], [2]])
    assert next(stmt for stmt in grouped.body if isinstance(stmt, tile.For)).num_stages == 3


# ---- the documentation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["no wait for full", "no arrival on full"])
def test_the_story_shows_what_the_machine_says(name: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "explicit.md").read_text()
    shown = re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    old, new, codes, _ = MISTAKES[name]
    rng = np.random.default_rng(0)
    kernel = example(tmp_path, old, new).gemm_explicit(128, 256, 320)
    with pytest.raises(HazardError) as caught:
        run(kernel, (small(rng, 128, 320), small(rng, 320, 256)), "fifo")
    said = str(caught.value).replace(str(tmp_path / "gemm_wrong.py"), "gemm_wrong.py") + "\n"
    assert said in shown
    assert all(code in page for code in codes)


def test_the_story_quotes_the_example() -> None:
    page = (ROOT / "docs" / "explicit.md").read_text()
    (quoted,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    program = [line.strip() for line in (ROOT / "examples" / "gemm_explicit.py").read_text().splitlines()]
    assert [line.strip() for line in quoted.splitlines() if line.strip() and line.strip() not in program] == []
