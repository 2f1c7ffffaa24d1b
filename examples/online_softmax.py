"""Softmax over rows too long for the registers of a block: one pass finds each row's maximum and sum of exponentials together.

    python examples/online_softmax.py

Whenever a tile raises the maximum, the sum so far is scaled down to the new one: sum * 2**(old - new).  The second pass divides.
"""
import numpy as np
from harness import Bound, check, gpu, on_gpu, random

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634


def softmax(M, N, block_M=4, block_N=1024, threads=128):
    @T.prim_func
    def online_softmax(X: T.Tensor((M, N), "float16"), Y: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
            x = T.alloc_fragment((block_M, block_N), "float32")  # in units of log2: exp(a) is 2**(a * LOG2_E)
            highest = T.alloc_fragment((block_M,), "float32")
            before = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            of_tile = T.alloc_fragment((block_M,), "float32")
            T.fill(highest, -T.infinity("float32"))
            T.clear(total)
            for k in T.serial(T.ceildiv(N, block_N)):
                for i, j in T.Parallel(block_M, block_N):
                    column = k * block_N + j
                    x[i, j] = T.if_then_else(column < N, X[bx * block_M + i, column] * T.float32(LOG2_E), -T.infinity("float32"))
                T.copy(highest, before)
                T.reduce_max(x, highest, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_N):
                    x[i, j] = T.exp2(x[i, j] - highest[i])
                T.reduce_sum(x, of_tile, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * T.exp2(before[i] - highest[i]) + of_tile[i]
            for k in T.serial(T.ceildiv(N, block_N)):
                for i, j in T.Parallel(block_M, block_N):
                    x[i, j] = X[bx * block_M + i, k * block_N + j]
                for i, j in T.Parallel(block_M, block_N):
                    Y[bx * block_M + i, k * block_N + j] = T.exp2(x[i, j] * LOG2_E - highest[i]) / total[i]

    return online_softmax


def expected(X) -> Bound:
    """The exact result; the exponents are rounded to float32 (2**-24 of at most their size), the sums and the result, too."""
    X = X.astype(np.float64)
    exact = np.exp(X - X.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    exponent = 4 * np.abs(X).max(axis=1, keepdims=True) * LOG2_E * 2.0**-24
    return exact, exact * (2.0**-11 + 2.0**-19 + exponent) + 2.0**-25


def main():
    kernel = tilelang.compile(softmax(64, 5000), out_idx=[1])
    X = random(64, 5000)
    check("CPU: 64 x 5000", kernel(X), expected(X))

    if gpu():
        M, N = 8192, 8192
        kernel = tilelang.compile(softmax(M, N), out_idx=[1])
        X = random(M, N)
        Y, seconds = on_gpu(kernel, X)
        check(f"GPU: {M} x {N}, {seconds * 1e6:.0f} us, {2 * X.nbytes / seconds / 1e9:.0f} GB/s", Y, expected(X))


if __name__ == "__main__":
    main()
