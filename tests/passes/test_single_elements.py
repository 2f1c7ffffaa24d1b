"""Elements that are written outside of T.Parallel from what is there: one thread reads and writes, and nobody reads beside it."""
from __future__ import annotations

import pytest

import tilelang.language as T
from tests.passes.running import check
from tilelang.ir.tile import Kernel

N = 16


@T.prim_func
def add_in_shared(H: T.Tensor((N,), "int32")):
    with T.Kernel(1, threads=64):
        h = T.alloc_shared((N,), "int32")
        T.clear(h)
        h[3] += 1
        T.copy(h, H)


@T.prim_func
def add_in_global(A: T.Tensor((N,), "int32"), H: T.Tensor((N,), "int32")):
    with T.Kernel(1, threads=64):
        T.copy(A, H)
        H[3] += 1


@T.prim_func
def decided_by_itself(H: T.Tensor((N,), "int32")):
    with T.Kernel(1, threads=64):
        h = T.alloc_shared((N,), "int32")
        T.fill(h, 3)
        if h[0] > 1:
            h[0] = h[0] - 1
        T.copy(h, H)


@T.prim_func
def histogram(A: T.Tensor((64,), "int32"), H: T.Tensor((N,), "int32")):
    with T.Kernel(1, threads=64):
        h = T.alloc_shared((N,), "int32")
        T.clear(h)
        for i in T.serial(64):
            h[T.max(A[i], 0)] += 1
        T.copy(h, H)


@T.prim_func
def prefix_sums(H: T.Tensor((N,), "float16")):
    with T.Kernel(1, threads=32):
        h = T.alloc_shared((N,), "float16")
        T.fill(h, 1.0)
        for i in T.serial(1, N):
            h[i] = h[i] + h[i - 1]
        T.copy(h, H)


KERNELS = (add_in_shared, add_in_global, decided_by_itself, histogram, prefix_sums)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_right_under_every_schedule(kernel: Kernel) -> None:
    check(kernel, ("fifo", "reverse", "eager-async", "lazy-async"))
