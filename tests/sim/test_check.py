"""What `check` runs and what it claims; schedules by seed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tests.conftest import OTHERS_PROGRAMS, slowness
from tests.sim.machine_kernels import raises
from tests.sim.ring_gemm import RingGemm, exact_inputs
from tilelang.errors import ArgumentError, HazardError
from tilelang.ir.device import DeviceKernel
from tilelang.passes.pipeline import compile_kernel
from tilelang.runtime.kernel import JITKernel
from tilelang.sim.check import RANDOM_SCHEDULES, CheckReport, check
from tilelang.sim.machine import run
from tilelang.sim.schedule import SCHEDULES, random_schedules, schedule

TARGET = "sm_90a"


def gemm(m: int = 256, n: int = 192, k: int = 64) -> JITKernel:
    @T.prim_func
    def product(A: T.Tensor((m, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float16")):
        with T.Kernel(n // 64, m // 64, threads=128) as (bx, by):
            A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for ko in T.Pipelined(k // 32, num_stages=2):
                T.copy(A[by * 64, ko * 32], A_s)
                T.copy(B[ko * 32, bx * 64], B_s)
                T.gemm(A_s, B_s, acc)
            T.copy(acc, C[by * 64, bx * 64])

    return tilelang.compile(product, out_idx=[2], target=TARGET)


def triangular(blocks: int = 6) -> JITKernel:
    """Block x adds up x + 1 tiles: control flow depends on the block."""

    @T.prim_func
    def sums(A: T.Tensor((blocks * 16, 64), "float16"), B: T.Tensor((blocks, 16, 64), "float32")):
        with T.Kernel(blocks, 2, threads=128) as (bx, by):
            tile, total = T.alloc_shared((16, 64), "float16"), T.alloc_fragment((16, 64), "float32")
            T.clear(total)
            for k in T.Pipelined(bx + 1, num_stages=2):
                T.copy(A[k * 16, 0], tile)
                for i, j in T.Parallel(16, 64):
                    total[i, j] = total[i, j] + T.cast(tile[i, j], "float32")
            if by == 0:
                for i, j in T.Parallel(16, 64):
                    B[bx, i, j] = total[i, j]

    return tilelang.compile(sums, out_idx=[1], target=TARGET)


def gather(rows: int = 40) -> JITKernel:
    @T.prim_func
    def pick(table: T.Tensor((rows, 64), "float32"), index: T.Tensor((32,), "int32"), out: T.Tensor((32, 64), "float32")):
        with T.Kernel(2, threads=128) as bx:
            for i, j in T.Parallel(16, 64):
                out[bx * 16 + i, j] = table[index[bx * 16 + i], j]

    return tilelang.compile(pick, out_idx=[2], target=TARGET)


@pytest.fixture(scope="module")
def product() -> JITKernel:
    return gemm()


# ---- which blocks -------------------------------------------------------------------------------------------------------------


def test_a_few_blocks_by_default(product: JITKernel) -> None:
    report = product.check()
    beside = (1, 0, 0), (0, 1, 0), (1, 3, 0), (2, 2, 0)
    assert (report.grid, report.blocks) == ((3, 4, 1), ((0, 0, 0), *beside, (2, 3, 0)))
    assert report.extent == "6 of 12 blocks"
    first, *others = str(report).splitlines()
    assert first == "product_kernel: proved for this shape (6 of 12 blocks)"
    assert others == ["  what the other blocks write was not compared with these; grid='full' runs all"]


def test_blocks_that_write_what_their_neighbours_write() -> None:
    """Along any axis, at the beginning of the grid or at its end."""

    def kernel(rows: int, first: int, last: int) -> JITKernel:
        @T.prim_func
        def writes(A: T.Tensor((4, 3, 5, 32), "float32")):
            with T.Kernel(5, 3, 4, threads=32) as (bx, by, bz):
                for i in T.Parallel(32):
                    A[T.min(bz, 3 - last), by // rows, T.max(bx, first), i] = 1

        return tilelang.compile(writes, target=TARGET)

    kernel(1, 0, 0).check()
    for wrong in (kernel(2, 0, 0), kernel(1, 1, 0), kernel(1, 0, 1)):
        with raises("TL817"):
            wrong.check()


def test_the_whole_grid_on_request(product: JITKernel) -> None:
    report = product.check(grid="full")
    assert len(set(report.blocks)) == 12
    assert report.extent == "all 12 blocks"


@pytest.mark.parametrize(("grid", "count"), [((2,), 8), ((2, 2), 4), ((1, 1, 1), 1), ((9, 9), 12)])
def test_extents_shrink_the_grid(product: JITKernel, grid: tuple[int, ...], count: int) -> None:
    assert len(product.check(grid=grid).blocks) == count


@pytest.mark.parametrize("grid", ["half", (), (0,), (2, -1), (1, 1, 1, 1), (1.5,)])
def test_grids_that_mean_nothing(product: JITKernel, grid: object) -> None:
    with raises("TL513", ArgumentError):
        product.check(grid=grid)  # type: ignore[arg-type]


def test_blocks_whose_control_flow_differs() -> None:
    """One trip, two, half of the most, the most, on the axes that trips and conditions depend on."""
    report = triangular().check()
    assert set(report.blocks) == {(0, 0, 0), (1, 0, 0), (3, 0, 0), (0, 1, 0), (4, 1, 0), (5, 0, 0), (5, 1, 0)}
    assert report.proved


# ---- which schedules, and what they show --------------------------------------------------------------------------------------


def test_independence_of_data_is_a_proof(product: JITKernel) -> None:
    report = product.check()
    assert report.proved
    assert report.claim == "proved for this shape"
    assert report.schedules == tuple(SCHEDULES)
    assert report.dependences == ()


def test_dependence_on_data_is_tested_under_many_schedules() -> None:
    report = gather().check()
    assert not report.proved
    assert report.claim == f"tested under {4 + RANDOM_SCHEDULES} schedules"
    assert [dependence.what for dependence in report.dependences] == ["the place of an access to global memory"]
    assert "depends on data: the place of an access to global memory" in str(report)
    fewer = gather().check(schedules=3, seed=10)
    assert fewer.claim == "tested under 7 schedules"
    assert fewer.schedules[4:] == ("random:10", "random:11", "random:12")


def test_the_data_of_a_call_is_what_is_checked() -> None:
    """Rows that two blocks write, or that only one does."""

    @T.prim_func
    def scatter(source: T.Tensor((32, 64), "float32"), index: T.Tensor((32,), "int32"), out: T.Tensor((40, 64), "float32")):
        with T.Kernel(2, threads=128) as bx:
            for i, j in T.Parallel(16, 64):
                out[index[bx * 16 + i], j] = source[bx * 16 + i, j]

    kernel = tilelang.compile(scatter, out_idx=[2], target=TARGET)
    source, apart = np.zeros((32, 64), np.float32), np.arange(32, dtype=np.int32)
    kernel.check(source, apart, schedules=0)
    with raises("TL817") as caught:
        kernel.check(source, apart % 20, schedules=0)
    assert "race between blocks" in caught.value.message
    assert "]: block (1, 0, 0) writes it and block (0, 0, 0) writes it" in caught.value.message


def test_arguments_are_those_of_a_call(product: JITKernel) -> None:
    a, b = np.ones((256, 64), np.float16), np.ones((64, 192), np.float16)
    assert product.check(a, b).proved
    assert (a == 1).all()
    with raises("TL501", ArgumentError):
        product.check(a)
    with raises("TL503", ArgumentError):
        product.check(a, b.astype(np.float32))


def test_scalars_have_a_value_of_their_own() -> None:
    @T.prim_func
    def scaled(A: T.Tensor((128,), "float32"), factor: T.float32, B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[i] * factor

    kernel = tilelang.compile(scaled, out_idx=[2], target=TARGET)
    assert kernel.check().proved
    assert kernel.check(np.ones(128, np.float32), 2.5).proved


def test_a_hazard_is_raised() -> None:
    """The hand-written ring, one fault at a time."""
    kernel, buffers = RingGemm(64, 64, 5 * 64, stages=2).build()
    a, b, _ = exact_inputs(64, 64, 5 * 64)
    given = {buffers["A"]: a, buffers["B"]: b}
    assert check(kernel, given).proved
    assert check(kernel).proved  # on data of its own making
    for fault in ("no_full_wait", "no_empty_arrive", "early_release"):
        faulty, buffers = RingGemm(64, 64, 5 * 64, stages=2, fault=fault).build()
        with pytest.raises(HazardError):
            check(faulty)


@pytest.mark.parametrize("threads", [32, 64])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_lanes_that_nothing_but_their_warp_keeps_in_step(threads: int, stages: int) -> None:
    """Lane 0 waits, stores and hands slots back; the other lanes of its warp only wait.  It elects itself together with them, and
    so cannot get ahead of them."""

    @T.prim_func
    def copies(A: T.Tensor((96, 64), "float16"), B: T.Tensor((96, 64), "float16")):
        with T.Kernel(1, threads=threads) as bx:
            tile = T.alloc_shared((16, 64), "float16")
            for k in T.Pipelined(6, num_stages=stages):
                T.copy(A[k * 16, bx * 64], tile)
                T.copy(tile, B[k * 16, 0])

    assert tilelang.compile(copies, out_idx=[1], target=TARGET).check(schedules=4).proved


def test_bank_conflicts_are_counted_and_do_not_fail() -> None:
    @T.prim_func
    def turned(A: T.Tensor((32, 32), "float32"), B: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128) as bx:
            tile = T.alloc_shared((32, 32), "float32")
            for i, j in T.Parallel(32, 32):
                tile[i, j] = A[bx * 32 + i, j]
            for i, j in T.Parallel(32, 32):
                B[bx * 32 + i, j] = tile[j, i]

    report = tilelang.compile(turned, out_idx=[1], target=TARGET).check()
    counted = sum(count.wavefronts for count in report.banks.counts.values())
    assert counted >= sum(count.fewest for count in report.banks.counts.values()) > 0
    assert ("bank conflicts" in str(report)) == (report.banks.extra > 0)


@pytest.mark.parametrize(("file", "block", "limit"), [("tl_matmul.py", (0, 0, 0), 3.0), ("tl_flash.py", (15, 0, 0), 4.0)])
def test_a_block_with_all_checks_is_quick(
    file: str, block: tuple[int, int, int], limit: float, load_program: Callable[[Path], dict[str, Any]]
) -> None:
    """Programs written by others: 16 steps of a 128 x 128 x 64 GEMM, measured 0.3 s; attention over 1024 keys, measured 0.9 s."""
    kernel: JITKernel = load_program(OTHERS_PROGRAMS / file)["jit_kernel"]
    arrays = {tensor: np.ones(tensor.shape, np.float16) for tensor in kernel.prim_func.tensors}  # type: ignore[arg-type]
    start = time.perf_counter()
    run(device_of(kernel), arrays, blocks=[block])
    assert time.perf_counter() - start < limit * slowness()


def device_of(kernel: JITKernel) -> DeviceKernel:
    return compile_kernel(kernel.prim_func, kernel.target).device


def test_claims_in_words() -> None:
    report = CheckReport("k", (2, 1, 1), ((0, 0, 0), (1, 0, 0)), ("fifo",))
    assert (report.claim, report.extent) == ("proved for this shape", "all 2 blocks")


# ---- schedules by seed --------------------------------------------------------------------------------------------------------


def test_schedules_by_seed() -> None:
    assert random_schedules(3, 5) == ["random:5", "random:6", "random:7"]
    assert schedule("random:12").seed == 12
    for name in ("random:", "random:x", "random", "random:-1"):
        with raises("TL511", ArgumentError):
            schedule(name)


@pytest.mark.parametrize("name", random_schedules(12))
def test_a_sound_pipeline_is_right_under_every_schedule(name: str) -> None:
    a, b, expected = exact_inputs(64, 128, 5 * 64)
    assert np.array_equal(RingGemm(64, 128, 5 * 64, stages=2).run(a, b, name), expected)


def outcomes_by_value(fault: str, seeds: int) -> set[str]:
    a, b, expected = exact_inputs(64, 64, 5 * 64)
    found = set()
    for name in random_schedules(seeds):
        try:
            right = np.array_equal(RingGemm(64, 64, 5 * 64, stages=2, fault=fault).run(a, b, name, hazards=False), expected)
        except HazardError as error:
            found.add(error.code)
        else:
            found.add("right" if right else "wrong")
    return found


def test_schedules_differ() -> None:
    """Without vector clocks a slot that is released too early shows under some schedules and not under others."""
    assert len(outcomes_by_value("early_release", 24)) > 1


def test_a_seed_is_repeatable() -> None:
    once: Callable[[], set[str]] = lambda: outcomes_by_value("no_full_wait", 3)  # noqa: E731
    assert once() == once()


def test_deadlocks_are_found_under_every_schedule() -> None:
    a, b, _ = exact_inputs(64, 64, 5 * 64)
    for name in random_schedules(6):
        with raises("TL801"):
            RingGemm(64, 64, 5 * 64, stages=2, fault="no_empty_arrive").run(a, b, name)
