"""Kernels whose warpgroups take tiles in turn on a chip that is small enough, and running them both ways."""
from __future__ import annotations

import dataclasses
from typing import Any

import tilelang.language as T
from tests.passes.running import assert_same_bits, integers, meaning, on_the_machine
from tilelang.ir.tile import Kernel
from tilelang.passes.pipeline import Lowered, compile_kernel
from tilelang.sim.schedule import SCHEDULES
from tilelang.target import SM_90A, Target

EVERY = (*SCHEDULES, "random:1", "random:2")
FEW = ("reverse", "lazy-async")
SUBJECT = "tiles and warpgroups"


def chip(multiprocessors: int) -> Target:
    """A chip so small that few tiles are many for it, and small ones large."""
    return dataclasses.replace(SM_90A, multiprocessors=multiprocessors, lone_warpgroup_cycles=1)


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


@T.macro
def multiply(A: Any, B: Any, acc: Any, by: Any, stages: int = 2) -> None:
    """acc = 64 rows of A, of which there are 64 columns, from the `by`-th 64 on, times B, in two turns."""
    A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
    T.clear(acc)
    for k in T.Pipelined(2, num_stages=stages):
        T.copy(A[by * 64, k * 32], A_s)
        T.copy(B[k * 32, 0], B_s)
        T.gemm(A_s, B_s, acc)


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
