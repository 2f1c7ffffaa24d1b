"""Out = (A @ B) * scale + residual: each row of the product scaled by a number of its own, and added to what was there before.

    python examples/gemm_scale_residual.py
"""
import numpy as np
from harness import Bound, check, gpu, on_gpu, random

import tilelang
import tilelang.language as T


def gemm_scale_residual(M, N, K, block_M=128, block_N=128, block_K=64, num_stages=3, threads=128):
    @T.prim_func
    def layer(
        A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), scale: T.Tensor((M,), "float32"),
        residual: T.Tensor((M, N), "float16"), Out: T.Tensor((M, N), "float16"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_tile = T.alloc_shared((block_M, block_K), "float16")
            B_tile = T.alloc_shared((block_K, block_N), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_tile)
                T.copy(B[k * block_K, bx * block_N], B_tile)
                T.gemm(A_tile, B_tile, acc)
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] = acc[i, j] * scale[by * block_M + i] + residual[by * block_M + i, bx * block_N + j]
            T.copy(acc, Out[by * block_M, bx * block_N])

    return layer


def inputs(M, N, K):
    """A, B, the rows' scales and the residual: standard-normal numbers, scales around 1 / sqrt(K)."""
    scale = np.random.default_rng(2).uniform(0.5, 1.5, M).astype(np.float32) / np.float32(K**0.5)
    return random(M, K), random(K, N, seed=1), scale, random(M, N, seed=3)


def expected(A, B, scale, residual) -> Bound:
    """The exact result; rounding may take it as far as the sums' own rounding (float32) and the result's (float16) explain."""
    A, B, scale, residual = (array.astype(np.float64) for array in (A, B, scale, residual))
    exact = A @ B * scale[:, None] + residual
    terms = np.abs(A) @ np.abs(B) * scale[:, None] + np.abs(residual)
    return exact, (4 * (A.shape[1] / 16) ** 0.5 + 8) * 2.0**-24 * terms + 2.0**-11 * np.abs(exact) + 2.0**-25


def main():
    kernel = tilelang.compile(gemm_scale_residual(256, 256, 256), out_idx=[4])
    arrays = inputs(256, 256, 256)
    check("CPU: 256 x 256 x 256", kernel(*arrays), expected(*arrays))

    if gpu():
        kernel = tilelang.compile(gemm_scale_residual(4096, 4096, 4096), out_idx=[4])
        arrays = inputs(4096, 4096, 4096)
        out, seconds = on_gpu(kernel, *arrays)
        speed = f"{seconds * 1e6:.0f} us, {2 * 4096**3 / seconds / 1e12:.0f} TFLOP/s"
        check(f"GPU: 4096 x 4096 x 4096, {speed}", out, expected(*arrays))


if __name__ == "__main__":
    main()
