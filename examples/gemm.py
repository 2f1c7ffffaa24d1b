"""C = A @ B in half precision: one block of threads computes one tile of C.

    python examples/gemm.py [M N K]

The matrices need not divide into tiles: what a tile reads outside a matrix is zero, what it writes there is dropped.
Without a GPU the program runs on the CPU, where the same kernel object takes NumPy arrays.
"""
import sys

import numpy as np
from harness import Bound, check, gpu, on_gpu, random

import tilelang
import tilelang.language as T


def gemm(M, N, K, block_M=128, block_N=128, block_K=64, num_stages=3, threads=128):
    @T.prim_func
    def matmul(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_tile = T.alloc_shared((block_M, block_K), "float16")
            B_tile = T.alloc_shared((block_K, block_N), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")  # spread over the registers of the block
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):  # loads run up to 3 tiles ahead of the products
                T.copy(A[by * block_M, k * block_K], A_tile)
                T.copy(B[k * block_K, bx * block_N], B_tile)
                T.gemm(A_tile, B_tile, acc)
            T.copy(acc, C[by * block_M, bx * block_N])

    return matmul


def inputs(M, N, K):
    """Two float16 matrices of standard-normal numbers."""
    return random(M, K), random(K, N, seed=1)


def expected(A, B) -> Bound:
    """The exact product, and how far rounding may take each element from it.

    That is c 2**-24 (|A| @ |B|) for the float32 sums, where c = 4 sqrt(K / 16) + 8 covers how they are grouped, and
    2**-11 |A @ B| for the result's rounding to float16."""
    A, B = A.astype(np.float64), B.astype(np.float64)
    exact = A @ B
    c = 4 * (A.shape[1] / 16) ** 0.5 + 8
    return exact, c * 2.0**-24 * (np.abs(A) @ np.abs(B)) + 2.0**-11 * np.abs(exact)


def main():
    M, N, K = (int(word) for word in sys.argv[1:4]) if len(sys.argv) > 3 else (256, 256, 256)
    kernel = tilelang.compile(gemm(M, N, K), out_idx=[2])  # C is allocated and returned
    A, B = inputs(M, N, K)
    check(f"CPU: {M} x {N} x {K}", kernel(A, B), expected(A, B))

    if gpu():
        M, N, K = (M, N, K) if len(sys.argv) > 3 else (4096, 4096, 4096)
        kernel = tilelang.compile(gemm(M, N, K), out_idx=[2])
        A, B = inputs(M, N, K)
        C, seconds = on_gpu(kernel, A, B)
        speed = f"{seconds * 1e6:.0f} us, {2 * M * N * K / seconds / 1e12:.0f} TFLOP/s"
        check(f"GPU: {M} x {N} x {K}, {speed}", C, expected(A, B))


if __name__ == "__main__":
    main()
