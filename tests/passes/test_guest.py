"""A tile that an epilogue reads comes into the tile from which the result is stored."""
from __future__ import annotations

import pytest

import tilelang.language as T
from tests.passes.ping_pong_programs import EVERY, Gemm, chip, multiply, planned, same
from tests.passes.running import assert_same_bits, integers, meaning, on_the_machine
from tilelang.ir.tile import Kernel
from tilelang.passes.pipeline import Lowered, compile_kernel
from tilelang.passes.settle import with_body


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


def padded(pitch: int, stages: int = 2) -> Kernel:
    """A residual whose rows are `pitch` elements apart."""

    @T.prim_func
    def kernel(
        A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float16"), R: T.Tensor((256, pitch), "float16"),
        C: T.Tensor((256, 64), "float16"),
    ):  # fmt: skip
        with T.Kernel(4, threads=128) as by:
            acc = T.alloc_fragment((64, 64), "float32")
            multiply(A, B, acc, by, stages)
            for i, j in T.Parallel(64, 64):
                acc[i, j] += T.cast(R[by * 64 + i, j], "float32")
            T.copy(acc, C[by * 64, 0])

    return kernel


def test_an_index_that_may_wrap_is_no_box() -> None:
    """R[by * 64 + i, T.cast(j + 250, "uint8")] goes on at 0 behind 255."""

    @T.prim_func
    def kernel(
        A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float16"), R: T.Tensor((256, 512), "float16"),
        C: T.Tensor((256, 64), "float16"),
    ):  # fmt: skip
        with T.Kernel(4, threads=128) as by:
            acc = T.alloc_fragment((64, 64), "float32")
            multiply(A, B, acc, by)
            for i, j in T.Parallel(64, 64):
                acc[i, j] += T.cast(R[by * 64 + i, T.cast(j + 250, "uint8")], "float32")
            T.copy(acc, C[by * 64, 0])

    assert not is_guest(same(kernel), "R")


def said_of(lowered: Lowered, name: str) -> list[str]:
    """What is said of the load, and why it is no guest."""
    mine = [each for each in lowered.decisions if each.subject == f"load of {name}"]
    return [text for each in mine for text in (each.chosen, *(rejection.predicate for rejection in each.rejected))]


def test_why_a_tile_is_loaded_in_place_is_said() -> None:
    in_place = "where it is used, by the threads that use it"
    assert said_of(planned(padded(68)), "R") == [in_place, "TMA can load it, and it fits there"]
    assert said_of(compile_kernel(padded(64), chip(4)), "R") == [in_place, "two warpgroups take tiles in turn"]
    assert said_of(planned(padded(64)), "R") == ["by TMA, into the tile that C is stored from"]


def is_guest(lowered: Lowered, name: str) -> bool:
    assert lowered.plans.ping_pong is not None
    loaded = name in [each.tensor.name for each in lowered.device.tensor_maps]
    assert loaded != (name in [pointer.name for pointer in lowered.device.pointers])
    return loaded


def test_a_tile_that_tma_cannot_load_is_read_in_place() -> None:
    assert is_guest(same(padded(72)), "R")
    assert not is_guest(same(padded(68)), "R")


def test_a_tile_at_an_odd_address_is_read_in_place() -> None:
    """With so many stages that there is no room for it elsewhere."""
    kernel = padded(64, stages=30)
    assert is_guest(compile_kernel(kernel, chip(1)), "R")
    assert not is_guest(compile_kernel(kernel, chip(1), alignments={kernel.tensors[2]: 8}), "R")


def test_a_tile_larger_than_the_one_to_store_from_is_read_in_place() -> None:
    assert not is_guest(same(Gemm(residual_dtype="float32").build()), "residual")


@pytest.mark.parametrize("where", ["in a loop", "under a condition", "in front"])
def test_another_store_has_its_tile_there_too(where: str) -> None:
    """So the memory is not idle, and the residual is read in place."""

    @T.prim_func
    def kernel(
        A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float16"), R: T.Tensor((256, 64), "float16"),
        C: T.Tensor((256, 64), "float16"), D: T.Tensor((256, 64), "float16"),
    ):  # fmt: skip
        with T.Kernel(4, threads=128) as by:
            A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            if where == "in front":
                T.copy(acc, D[by * 64, 0])
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[by * 64, k * 32], A_s)
                T.copy(B[k * 32, 0], B_s)
                T.gemm(A_s, B_s, acc)
            if where == "in a loop":
                for _ in T.serial(1):
                    T.copy(acc, D[by * 64, 0])
            if where == "under a condition" and by > 0:
                T.copy(acc, D[by * 64, 0])
            for i, j in T.Parallel(64, 64):
                acc[i, j] += T.cast(R[by * 64 + i, j], "float32")
            T.copy(acc, C[by * 64, 0])

    assert not is_guest(same(kernel, schedules=EVERY), "R")


def test_a_tile_of_a_wider_swizzle_than_its_host_is_read_in_place() -> None:
    """The host may begin where the guest cannot."""

    @T.prim_func
    def kernel(
        A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 16), "float16"), W: T.Tensor((64, 8), "float16"),
        R: T.Tensor((64, 64), "float16"), D: T.Tensor((64, 8), "float16"), E: T.Tensor((64, 64), "float16"),
        C: T.Tensor((256, 16), "float16"),
    ):  # fmt: skip
        with T.Kernel(4, threads=128) as by:
            A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 16), "float16")
            acc, W_s = T.alloc_fragment((64, 16), "float32"), T.alloc_shared((16, 8), "float16")
            T.copy(W[by * 16, 0], W_s)
            T.clear(acc)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[by * 64, k * 32], A_s)
                T.copy(B[k * 32, 0], B_s)
                T.gemm(A_s, B_s, acc)
            for i, j in T.Parallel(16, 8):
                D[by * 16 + i, j] = W_s[i, j]
            for i, j in T.Parallel(16, 64):
                E[by * 16 + i, j] = R[by * 16 + i, j]
            T.copy(acc, C[by * 64, 0])

    assert not is_guest(same(kernel, schedules=EVERY), "R")


def test_a_tile_that_the_kernel_writes_is_no_guest() -> None:
    @T.prim_func
    def added(A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((256, 64), "float16")):
        with T.Kernel(4, threads=128) as by:
            acc = T.alloc_fragment((64, 64), "float32")
            multiply(A, B, acc, by)
            for i, j in T.Parallel(64, 64):
                acc[i, j] += T.cast(C[by * 64 + i, j], "float32")
            T.copy(acc, C[by * 64, 0])

    arrays = integers(added, seed=0)
    arrays[added.tensors[2]][:] = 1
    lowered = planned(added)
    assert "C" in [pointer.name for pointer in lowered.device.pointers]
    assert_same_bits(meaning(added, arrays), on_the_machine(lowered, arrays, "lazy-async"), "lazy-async")


