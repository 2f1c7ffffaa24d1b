"""Y = X / rms(X) * weight, row by row: each row is read once, kept in registers, and written once.

    python examples/rms_norm.py
"""
import numpy as np
from harness import Bound, check, gpu, on_gpu, random

import tilelang
import tilelang.language as T


def rms_norm(M, N, eps=1e-6, block_M=1, threads=128):
    @T.prim_func
    def norm(X: T.Tensor((M, N), "float16"), weight: T.Tensor((N,), "float16"), Y: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            square = T.alloc_fragment((block_M, N), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M, 0], x)
            for i, j in T.Parallel(block_M, N):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, total, dim=1)
            for i in T.Parallel(block_M):
                total[i] = T.rsqrt(total[i] / N + eps)
            for i, j in T.Parallel(block_M, N):
                x[i, j] *= total[i] * weight[j]
            T.copy(x, Y[bx * block_M, 0])

    return norm


def inputs(M, N):
    return random(M, N), random(N, seed=1)


def expected(X, weight, eps=1e-6) -> Bound:
    """The exact result, which float32's rounding of the sum and float16's of the result may change."""
    X, weight = X.astype(np.float64), weight.astype(np.float64)
    exact = X / np.sqrt((X**2).mean(axis=1, keepdims=True) + eps) * weight
    return exact, np.abs(exact) * (2.0**-11 + 2.0**-19) + 2.0**-25


def main():
    kernel = tilelang.compile(rms_norm(64, 4096), out_idx=[2])
    arrays = inputs(64, 4096)
    check("CPU: 64 x 4096", kernel(*arrays), expected(*arrays))

    if gpu():
        M, N = 16384, 4096
        kernel = tilelang.compile(rms_norm(M, N), out_idx=[2])
        arrays = inputs(M, N)
        Y, seconds = on_gpu(kernel, *arrays)
        check(f"GPU: {M} x {N}, {seconds * 1e6:.0f} us, {2 * Y.nbytes / seconds / 1e9:.0f} GB/s", Y, expected(*arrays))


if __name__ == "__main__":
    main()
