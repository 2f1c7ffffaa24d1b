"""B = A.T through shared memory, so that both the reads and the writes of global memory run along rows.

    python examples/transpose.py
"""
import numpy as np
from harness import Bound, check, gpu, on_gpu, random

import tilelang
import tilelang.language as T


def transpose(M, N, block=64, threads=128):
    @T.prim_func
    def transposed(A: T.Tensor((M, N), "float16"), B: T.Tensor((N, M), "float16")):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=threads) as (bx, by):
            tile = T.alloc_shared((block, block), "float16")
            turned = T.alloc_shared((block, block), "float16")
            T.copy(A[by * block, bx * block], tile)
            for i, j in T.Parallel(block, block):
                turned[i, j] = tile[j, i]
            T.copy(turned, B[bx * block, by * block])

    return transposed


def expected(A) -> Bound:
    """The exact result, which nothing may change."""
    return A.T.astype(np.float64), np.full(A.T.shape, 1e-300)


def main():
    kernel = tilelang.compile(transpose(256, 384), out_idx=[1])
    A = random(256, 384)
    check("CPU: 256 x 384", kernel(A), expected(A))

    if gpu():
        M, N = 8192, 8192
        kernel = tilelang.compile(transpose(M, N), out_idx=[1])
        A = random(M, N)
        B, seconds = on_gpu(kernel, A)
        check(f"GPU: {M} x {N}, {seconds * 1e6:.0f} us, {2 * A.nbytes / seconds / 1e9:.0f} GB/s", B, expected(A))


if __name__ == "__main__":
    main()
