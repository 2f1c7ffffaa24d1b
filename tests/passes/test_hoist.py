"""Loads ahead of the main loop: which, within what budget, and that they mean the same."""
from __future__ import annotations

import pytest

import tilelang.language as T
from tests.passes.running import check, compiled
from tilelang.ir.tile import Kernel

M, N, K = 128, 128, 64


def epilogue(bias_dtype: str = "float16", block_m: int = 64, in_place: bool = False, by_value: bool = False) -> Kernel:
    """A GEMM that adds a residual, a bias and, with `by_value`, the element that an index tensor names."""

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), bias: T.Tensor((N,), bias_dtype),
        R: T.Tensor((M, N), "float16"), where: T.Tensor((N,), "int32"), C: T.Tensor((M, N), "float16"),
    ):  # fmt: skip
        with T.Kernel(M // block_m, threads=128) as bx:
            A_s, B_s = T.alloc_shared((block_m, 32), "float16"), T.alloc_shared((32, N), "float16")
            acc = T.alloc_fragment((block_m, N), "float32")
            T.clear(acc)
            for k in T.Pipelined(K // 32, num_stages=2):
                T.copy(A[bx * block_m, k * 32], A_s)
                T.copy(B[k * 32, 0], B_s)
                T.gemm(A_s, B_s, acc)
            if in_place:
                for i, j in T.Parallel(block_m, N):
                    R[bx * block_m + i, j] = R[bx * block_m + i, j] + T.cast(1, "float16")
                for j in T.Parallel(N):
                    bias[j] = T.cast(1, bias_dtype)
            for i, j in T.Parallel(block_m, N):
                acc[i, j] = acc[i, j] + T.cast(R[bx * block_m + i, j], "float32") + T.cast(bias[j], "float32")
            if by_value:
                for i, j in T.Parallel(block_m, N):
                    acc[i, j] = acc[i, j] + T.cast(bias[where[j]], "float32")
            T.copy(acc, C[bx * block_m, 0])

    return kernel


def hoisted(kernel: Kernel) -> list[str]:
    return [each.subject for each in compiled(kernel).decisions if "ahead of the main loop" in each.chosen]


def test_rows_that_nothing_writes_are_loaded_ahead() -> None:
    assert hoisted(epilogue()) == ["load of bias"]


def test_names_of_positions_are_followed() -> None:
    """`column = bx * 64` behind the loop, where people write it."""

    @T.prim_func
    def kernel(
        A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 128), "float16"), bias: T.Tensor((128,), "float32"),
        C: T.Tensor((64, 128), "float16"),
    ):  # fmt: skip
        with T.Kernel(2, threads=128) as bx:
            A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 32], A_s)
                T.copy(B[k * 32, bx * 64], B_s)
                T.gemm(A_s, B_s, acc)
            column = bx * 64
            next_to = column + 0
            for i, j in T.Parallel(64, 64):
                acc[i, j] += bias[next_to + j]
            T.copy(acc, C[0, column])

    assert hoisted(kernel) == ["load of bias"]
    check(kernel, ("fifo", "lazy-async"))


def test_what_the_kernel_writes_is_not() -> None:
    assert hoisted(epilogue(in_place=True)) == []


def test_what_is_found_through_a_load_is_not() -> None:
    assert hoisted(epilogue(by_value=True)) == ["load of bias", "load of where"]


def test_clearing_the_accumulator_stays_free() -> None:
    lowered = compiled(epilogue())
    assert lowered.plans.clears


def test_it_takes_no_block_from_the_sm() -> None:
    assert compiled(epilogue(block_m=128)).plans.roles.min_blocks_per_sm == 2


@pytest.mark.parametrize("options", [{}, {"in_place": True, "block_m": M}, {"bias_dtype": "float32"}, {"block_m": 128}])
def test_the_meaning_stays(options: dict[str, object]) -> None:
    check(epilogue(**options), ("fifo", "reverse", "lazy-async"))  # type: ignore[arg-type]


def test_indices_from_memory_mean_the_same() -> None:
    check(epilogue(by_value=True), ("fifo",))
