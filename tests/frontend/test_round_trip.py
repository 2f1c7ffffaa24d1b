"""The text of a kernel, read by the front end again, is that kernel."""
from __future__ import annotations

import runpy
import warnings
from pathlib import Path
from typing import Any

import pytest

import tilelang.language as T
from tilelang.ir.text import render
from tilelang.ir.tile import Kernel


def rebuilt(kernel: Kernel, folder: Path) -> Kernel:
    path = folder / "kernel.py"
    path.write_text(f"import tilelang.language as T\n\n\n{render(kernel)}")
    return runpy.run_path(str(path))[kernel.name]


def gemm() -> Kernel:
    @T.prim_func
    def kernel(A: T.Tensor((256, 320), "float16"), B: T.Tensor((192, 320), "float16"), C: T.Tensor((256, 192), "float32")):
        with T.Kernel(T.ceildiv(192, 64), T.ceildiv(256, 128), threads=256) as (bx, by):
            T.use_swizzle(4)
            a = T.alloc_shared((128, 32), "float16")
            b = T.alloc_shared((64, 32), "float16")
            acc = T.alloc_fragment((128, 64), "float32")
            for k in T.Pipelined(10, num_stages=3):
                T.copy(A[by * 128, k * 32], a)
                T.copy(B[bx * 64, k * 32], b)
                T.gemm(a, b, acc, transpose_B=True, policy=T.GemmWarpPolicy.FullRow, clear_accum=k == 0)
            T.copy(acc, C[by * 128, bx * 64])

    return kernel


def attention() -> Kernel:
    @T.prim_func
    def kernel(Q: T.Tensor((1, 256, 8, 64), "float16"), Out: T.Tensor((1, 256, 8, 64), "float16")):
        with T.Kernel(4, 8, 1) as (bx, by, bz):
            q = T.alloc_shared((64, 64), "float16")
            scores = T.alloc_fragment((64, 64), "float32")
            top = T.alloc_fragment((64,), "float32")
            T.copy(Q[bz, bx * 64, by, 0], q)
            T.fill(top, -T.infinity("float32"))
            last = T.ceildiv((bx + 1) * 64, 64)
            for k in T.serial(last):
                T.gemm(q, q, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(64, 64):
                    scores[i, j] = T.if_then_else(bx * 64 + i >= k * 64 + j, scores[i, j] * 0.125, -T.infinity("float32"))
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(64):
                    top[i] = T.exp2(top[i] - T.max(top[i], 0))
            T.copy(scores, Out[bz, bx * 64, by, 0])

    return kernel


def control() -> Kernel:
    @T.prim_func
    def kernel(A: T.Tensor((64, 8), "int32"), n: T.int32, s: T.float32, wide: T.int64):
        with T.Kernel(8) as bx:
            table = T.alloc_local((8,), "int32")
            real = T.alloc_local((1,), "float32")
            T.clear(table)
            T.clear(real)
            while table[0] < n and table[0] != 7:
                table[0] += 1
                if table[0] % 2 == 0:
                    continue
                if table[0] > 100:
                    break
                real[0] = real[0] * s + T.cast(table[0], "float32")
            for i in range(0, 8, 2):
                x = A[bx, i] // 3 % 5
                table[i] = x << 2 | ~x & 7
                A[bx * 8 + i, 0] = -x if x > 2 else T.min(x, 1)
            for i in T.unroll(8):
                A[bx, i] = T.reinterpret(s, "int32") + T.cast(wide, "int32") + table[i]

    return kernel


def views() -> Kernel:
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float32"), B: T.Tensor((32, 128), "float32")):
        with T.Kernel(4) as bx:
            part = T.alloc_fragment((16, 64), "float32")
            rows = T.view(A, (4, 16, 64))
            wide = T.reshape(part, [8, 128])
            T.copy(rows[bx, 0, 0], part)
            T.copy(T.view(wide), B[bx * 8, 0])

    return kernel


@pytest.mark.parametrize("make", [gemm, attention, control, views])
def test_text_builds_the_kernel_again(make: Any, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel = make()
        again = rebuilt(kernel, tmp_path)
    assert render(again) == render(kernel)
    assert [buffer.name for buffer in again.buffers] == [buffer.name for buffer in kernel.buffers]
    assert (again.threads, again.swizzle_panel) == (kernel.threads, kernel.swizzle_panel)
