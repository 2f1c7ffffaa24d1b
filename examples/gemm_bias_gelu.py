"""C = gelu(A @ B + bias): the layer of a neural network in one kernel, the activation applied while the product is in registers.

    python examples/gemm_bias_gelu.py
"""
import numpy as np
from harness import Bound, check, gpu, on_gpu, random

import tilelang
import tilelang.language as T


def gemm_bias_gelu(M, N, K, block_M=128, block_N=128, block_K=64, num_stages=3, threads=128):
    @T.prim_func
    def layer(
        A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), bias: T.Tensor((N,), "float16"),
        C: T.Tensor((M, N), "float16"),
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
                acc[i, j] += bias[bx * block_N + j]
            for i, j in T.Parallel(block_M, block_N):
                # x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))) / 2, for (1 + tanh(y)) / 2 = sigmoid(2 y)
                acc[i, j] *= T.sigmoid(acc[i, j] * (1.5957691216 + 0.0713548163 * acc[i, j] * acc[i, j]))
            T.copy(acc, C[by * block_M, bx * block_N])

    return layer


def inputs(M, N, K):
    """A, B and the bias: standard-normal numbers, B small enough for results of the order of 1."""
    return random(M, K), random(K, N, seed=1) / np.float16(K**0.5), random(N, seed=2)


def expected(A, B, bias) -> Bound:
    """The exact result; rounding may take it as far as the sums' own rounding (float32) and the result's (float16) explain.

    gelu's slope is at most 1.13, and its own arithmetic is good for 2**-19 of its argument."""
    A, B, bias = (array.astype(np.float64) for array in (A, B, bias))
    x = A @ B + bias
    gelu = x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2
    sums = (4 * (A.shape[1] / 16) ** 0.5 + 8) * 2.0**-24 * (np.abs(A) @ np.abs(B) + np.abs(bias))
    return gelu, 1.13 * sums + 2.0**-19 * np.abs(x) + 2.0**-11 * np.abs(gelu) + 2.0**-25


def main():
    kernel = tilelang.compile(gemm_bias_gelu(256, 256, 256), out_idx=[3])
    arrays = inputs(256, 256, 256)
    check("CPU: 256 x 256 x 256", kernel(*arrays), expected(*arrays))

    if gpu():
        kernel = tilelang.compile(gemm_bias_gelu(4096, 4096, 4096), out_idx=[3])
        arrays = inputs(4096, 4096, 4096)
        C, seconds = on_gpu(kernel, *arrays)
        speed = f"{seconds * 1e6:.0f} us, {2 * 4096**3 / seconds / 1e12:.0f} TFLOP/s"
        check(f"GPU: 4096 x 4096 x 4096, {speed}", C, expected(*arrays))


if __name__ == "__main__":
    main()
