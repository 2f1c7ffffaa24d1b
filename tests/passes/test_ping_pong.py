"""Two consumer warpgroups that take tiles in turn: when that is planned, and that it means the same under every schedule."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import tilelang.language as T
from tests.passes.running import assert_same_bits, integers, meaning, on_the_machine
from tilelang.codegen.cuda import emit
from tilelang.errors import HazardError
from tilelang.ir import device as d
from tilelang.ir.tile import Kernel
from tilelang.ir.walk import rewrite, walk
from tilelang.passes.pipeline import Lowered, compile_kernel
from tilelang.passes.settle import with_body
from tilelang.sim.check import check
from tilelang.sim.schedule import SCHEDULES
from tilelang.target import SM_90A, Target

EVERY = (*SCHEDULES, "random:1", "random:2")
FEW = ("reverse", "lazy-async")
SUBJECT = "consumer warpgroups and tiles"


def chip(multiprocessors: int) -> Target:
    """A chip so small that few tiles are many for it."""
    return dataclasses.replace(SM_90A, multiprocessors=multiprocessors)


@dataclasses.dataclass(frozen=True)
class Gemm:
    """A GEMM with an epilogue, in as many tiles as the shape has."""

    shape: tuple[int, int, int] = (256, 64, 160)
    tile: tuple[int, int, int] = (64, 64, 32)
    stages: int = 2
    threads: int = 128
    out_dtype: str = "float16"
    swizzle: int = 0
    residual_dtype: str = "float16"

    def build(self, epilogue: str = "residual") -> Kernel:
        (M, N, K), (block_M, block_N, block_K) = self.shape, self.tile
        columns = T.ceildiv(N, block_N)

        @T.prim_func
        def gemm(
            A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), scale: T.Tensor((M,), "float32"),
            residual: T.Tensor((M, N), self.residual_dtype), C: T.Tensor((M, N), self.out_dtype),
        ):  # fmt: skip
            with T.Kernel(columns, T.ceildiv(M, block_M), threads=self.threads) as (bx, by):
                A_s, B_s = T.alloc_shared((block_M, block_K), "float16"), T.alloc_shared((block_K, block_N), "float16")
                acc = T.alloc_fragment((block_M, block_N), "float32")
                if self.swizzle:
                    T.use_swizzle(self.swizzle)
                T.clear(acc)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=self.stages):
                    T.copy(A[by * block_M, k * block_K], A_s)
                    T.copy(B[k * block_K, bx * block_N], B_s)
                    T.gemm(A_s, B_s, acc)
                if epilogue in ("scale", "residual"):
                    for i, j in T.Parallel(block_M, block_N):
                        acc[i, j] = acc[i, j] * scale[by * block_M + i]
                if epilogue == "residual":
                    for i, j in T.Parallel(block_M, block_N):
                        acc[i, j] += T.cast(residual[by * block_M + i, bx * block_N + j], "float32")
                if epilogue == "elements":
                    for i, j in T.Parallel(block_M, block_N):
                        C[by * block_M + i, bx * block_N + j] = acc[i, j]
                else:
                    T.copy(acc, C[by * block_M, bx * block_N])

        return gemm


def planned(kernel: Kernel, multiprocessors: int = 1) -> Lowered:
    lowered = compile_kernel(kernel, chip(multiprocessors))
    assert lowered.plans.ping_pong is not None, refusal(lowered)
    return lowered


def refusal(lowered: Lowered) -> str:
    """The predicate that did not hold."""
    return next((r.predicate for each in lowered.decisions if each.subject == SUBJECT for r in each.rejected), "")


def same(kernel: Kernel, multiprocessors: int = 1, schedules: tuple[str, ...] = FEW) -> Lowered:
    lowered = planned(kernel, multiprocessors)
    arrays = integers(kernel, seed=0)
    expected = meaning(kernel, arrays)
    for schedule in schedules:
        assert_same_bits(expected, on_the_machine(lowered, arrays, schedule), schedule)
    return lowered


# ---- the same meaning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epilogue", ["none", "scale", "residual", "elements"])
def test_every_epilogue(epilogue: str) -> None:
    same(Gemm().build(epilogue), schedules=EVERY)


@pytest.mark.parametrize(
    "gemm",
    [
        Gemm(shape=(192, 64, 32)),  # three tiles, one turn
        Gemm(shape=(256, 64, 96)),  # fewer turns than slots
        Gemm(shape=(320, 64, 128)),  # as many
        Gemm(shape=(320, 64, 160)),  # one more
        Gemm(shape=(192, 128, 288)),  # more than twice as many
        Gemm(shape=(200, 136, 72)),  # ragged on every side
        Gemm(shape=(320, 64, 64), tile=(64, 64, 16), stages=5),
        Gemm(shape=(256, 256, 64), tile=(128, 64, 32), stages=3),
        Gemm(shape=(192, 96, 64), tile=(64, 32, 32), swizzle=2),
        Gemm(shape=(192, 192, 64), out_dtype="float32"),
        Gemm(shape=(192, 192, 64), out_dtype="float32", residual_dtype="float32"),
    ],
    ids=str,
)
def test_shapes(gemm: Gemm) -> None:
    same(gemm.build())


@pytest.mark.parametrize("multiprocessors", [1, 2, 3, 4])
def test_blocks_that_have_as_many_tiles_and_one_less(multiprocessors: int) -> None:
    """9 tiles for 1 to 4 blocks: odd and even numbers of tiles, and warpgroups that have one less than the other."""
    lowered = same(Gemm(shape=(192, 192, 64)).build(), multiprocessors, ("fifo",))
    assert lowered.device.grid == (multiprocessors,)


def test_one_axis_and_three() -> None:
    @T.prim_func
    def batched(A: T.Tensor((2, 128, 64), "float16"), B: T.Tensor((64, 128), "float16"), C: T.Tensor((2, 128, 128), "float16")):
        with T.Kernel(2, 2, 2, threads=128) as (bx, by, bz):
            A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[bz, by * 64, k * 32], A_s)
                T.copy(B[k * 32, bx * 64], B_s)
                T.gemm(A_s, B_s, acc)
            T.copy(acc, C[bz, by * 64, bx * 64])

    same(batched)

    @T.prim_func
    def tall(A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((256, 64), "float16")):
        with T.Kernel(4, threads=128) as by:
            A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[by * 64, k * 32], A_s)
                T.copy(B[k * 32, 0], B_s)
                T.gemm(A_s, B_s, acc)
            T.copy(acc, C[by * 64, 0])

    same(tall)


def test_a_scalar_of_the_authors_begins_afresh_for_each_tile() -> None:
    @T.prim_func
    def counted(A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((256, 64), "float16")):
        with T.Kernel(4, threads=128) as by:
            A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            acc, count = T.alloc_fragment((64, 64), "float32"), T.alloc_var("int32", init=3)
            T.clear(acc)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[by * 64, k * 32], A_s)
                T.copy(B[k * 32, 0], B_s)
                T.gemm(A_s, B_s, acc)
            count = count + by
            for i, j in T.Parallel(64, 64):
                acc[i, j] += T.cast(count, "float32")
            T.copy(acc, C[by * 64, 0])

    same(counted)


def test_a_load_of_the_authors_for_the_whole_tile() -> None:
    """What stands outside of the main loop fills a slot for each warpgroup."""

    @T.prim_func
    def biased(
        A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float16"), R: T.Tensor((256, 64), "float16"),
        C: T.Tensor((256, 64), "float16"),
    ):  # fmt: skip
        with T.Kernel(4, threads=128) as by:
            A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            R_s, acc = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            T.copy(R[by * 64, 0], R_s)
            for i, j in T.Parallel(64, 64):
                acc[i, j] = T.cast(R_s[i, j], "float32")
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[by * 64, k * 32], A_s)
                T.copy(B[k * 32, 0], B_s)
                T.gemm(A_s, B_s, acc)
            T.copy(acc, C[by * 64, 0])

    lowered = same(biased)
    assert [channel.stages for channel in lowered.plans.channels] == [2, 4]


# ---- what is chosen -----------------------------------------------------------------------------------------------------------


def test_few_tiles_have_a_block_each() -> None:
    lowered = compile_kernel(Gemm(shape=(128, 64, 64)).build(), chip(1))
    assert lowered.plans.ping_pong is None
    assert refusal(lowered) == "more tiles than two for each of the 1 SMs"


@pytest.mark.parametrize(
    ("gemm", "predicate"),
    [
        (Gemm(threads=256, tile=(128, 64, 32)), "the kernel has 128 threads"),
        (Gemm(stages=1), "a ring of 4 slots or more fits, of twice num_stages"),
        (Gemm(shape=(192, 192, 0)), "the loop's trip count is a constant, and not 0"),
    ],
)
def test_what_forbids_it_is_said(gemm: Gemm, predicate: str) -> None:
    lowered = compile_kernel(gemm.build(), chip(1))
    assert lowered.plans.ping_pong is None
    assert refusal(lowered) == predicate


def test_other_work_in_the_loop_forbids_it() -> None:
    @T.prim_func
    def scaled(A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((256, 64), "float16")):
        with T.Kernel(4, threads=128) as by:
            A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[by * 64, k * 32], A_s)
                T.copy(B[k * 32, 0], B_s)
                T.gemm(A_s, B_s, acc)
                for i, j in T.Parallel(64, 64):
                    acc[i, j] = acc[i, j] * 2
            T.copy(acc, C[by * 64, 0])

    lowered = compile_kernel(scaled, chip(1))
    assert lowered.plans.ping_pong is None
    assert refusal(lowered) == "the loop holds its loads and the kernel's one gemm, nothing else"


def test_the_ring_is_as_deep_as_those_of_two_blocks_or_what_fits() -> None:
    assert planned(Gemm(stages=3).build()).plans.channels[-1].stages == 6
    deep = planned(Gemm(shape=(512, 512, 512), tile=(128, 128, 64), stages=4).build("scale"))
    assert deep.plans.channels[-1].stages == 5
    assert deep.plans.shared.bytes <= SM_90A.shared_bytes_per_block - 1024


# ---- the guest ----------------------------------------------------------------------------------------------------------------


def test_a_tile_read_behind_the_loop_comes_into_the_tile_to_store_from() -> None:
    lowered = planned(Gemm().build())
    arrays = {array.name: array for array in lowered.plans.shared.arrays.values()}
    assert arrays["residual_tile"].offset_bytes == arrays["C_tile"].offset_bytes
    assert [each.tensor.name for each in lowered.device.tensor_maps] == ["A", "B", "residual", "C"]
    assert "by TMA, into the tile that C is stored from" in [each.chosen for each in lowered.decisions]


def test_the_kernel_with_a_guest_means_the_same() -> None:
    kernel = Gemm().build()
    arrays = integers(kernel, seed=0)
    changed = with_body(kernel, planned(kernel).plans.body)
    assert len(changed.buffers) > len(kernel.buffers)
    assert_same_bits(meaning(kernel, arrays), meaning(changed, arrays), "with a guest")


@pytest.mark.parametrize(
    "gemm",
    [
        Gemm(residual_dtype="float32"),  # twice as large as the tile of C
        Gemm(shape=(256, 60, 160)),  # a row pitch that TMA cannot take
    ],
    ids=str,
)
def test_a_tile_that_does_not_fit_is_loaded_in_place(gemm: Gemm) -> None:
    lowered = compile_kernel(gemm.build(), chip(1))
    assert "residual" in [pointer.name for pointer in lowered.device.pointers]


def test_a_tile_that_the_kernel_writes_is_no_guest() -> None:
    @T.prim_func
    def added(A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((256, 64), "float16")):
        with T.Kernel(4, threads=128) as by:
            A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[by * 64, k * 32], A_s)
                T.copy(B[k * 32, 0], B_s)
                T.gemm(A_s, B_s, acc)
            for i, j in T.Parallel(64, 64):
                acc[i, j] += T.cast(C[by * 64 + i, j], "float32")
            T.copy(acc, C[by * 64, 0])

    arrays = integers(added, seed=0)
    arrays[added.tensors[2]][:] = 1
    lowered = planned(added)
    assert "C" in [pointer.name for pointer in lowered.device.pointers]
    assert_same_bits(meaning(added, arrays), on_the_machine(lowered, arrays, "lazy-async"), "lazy-async")


# ---- what the synchronisation is for ------------------------------------------------------------------------------------------


def without(lowered: Lowered, gone: Callable[[Any], bool]) -> d.DeviceKernel:
    """The device kernel with some statements replaced by nothing."""
    found = sum(gone(node) for role in lowered.device.roles for node in walk(role.body))
    assert found
    empty = d.Unroll(var=lowered.plans.ping_pong.loop.var, count=0, body=())  # type: ignore[union-attr]
    roles = tuple(
        dataclasses.replace(role, body=rewrite(role.body, lambda node: empty if gone(node) else node))
        for role in lowered.device.roles
    )
    return dataclasses.replace(lowered.device, roles=roles)


def waits_for(node: object, name: str) -> bool:
    return isinstance(node, d.MbarrierWait) and node.barrier.array.name == name


def test_without_turns_a_wait_can_miss_its_phase() -> None:
    lowered = planned(Gemm(shape=(256, 64, 160)).build("scale"))
    check(lowered.device)
    with pytest.raises(HazardError) as caught:
        check(without(lowered, lambda node: waits_for(node, "turn")))
    assert caught.value.code in ("TL808", "TL809", "TL815")


def test_a_guest_is_not_loaded_before_the_store_has_read_the_tile() -> None:
    lowered = planned(Gemm(shape=(256, 64, 64)).build("residual"))
    check(lowered.device)
    with pytest.raises(HazardError) as caught:
        check(without(lowered, lambda node: waits_for(node, "residual_tile_empty")))
    assert caught.value.code in ("TL809", "TL815")


# ---- the text -----------------------------------------------------------------------------------------------------------------


def test_the_text_says_who_does_what() -> None:
    text = emit(planned(Gemm().build()).device)
    assert "grid 1 x 4, walked by 1 blocks of 256 consumer + 128 producer threads" in text
    assert "consumers of every second tile, from the first on" in text
    assert "consumers of every other tile, from the second on" in text
    assert "tl::wgmma_wait_group<1>();" in text
    assert text.count("tl::named_barrier_sync<1, 128>") == text.count("tl::named_barrier_sync<2, 128>") > 0
