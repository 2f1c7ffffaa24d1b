"""Y = (X - mean(X)) / std(X) * weight + bias, row by row: each row is read once and stays in registers for both of its passes.

    python examples/layer_norm.py

The variance is that of the centred row, not mean(X**2) - mean(X)**2, which loses its digits where the mean is large.
"""
import numpy as np
from harness import Bound, check, gpu, on_gpu, random

import tilelang
import tilelang.language as T


def layer_norm(M, N, eps=1e-5, block_M=1, threads=128):
    @T.prim_func
    def norm(
        X: T.Tensor((M, N), "float16"), weight: T.Tensor((N,), "float16"), bias: T.Tensor((N,), "float16"),
        Y: T.Tensor((M, N), "float16"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            square = T.alloc_fragment((block_M, N), "float32")
            mean = T.alloc_fragment((block_M,), "float32")
            variance = T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] -= mean[i] / N
            for i, j in T.Parallel(block_M, N):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, variance, dim=1)
            for i in T.Parallel(block_M):
                variance[i] = T.rsqrt(variance[i] / N + eps)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] * variance[i] * weight[j] + bias[j]
            T.copy(x, Y[bx * block_M, 0])

    return norm


def inputs(M, N):
    """Rows around a mean of 2."""
    return random(M, N) + np.float16(2), random(N, seed=1), random(N, seed=2)


def expected(X, weight, bias, eps=1e-5) -> Bound:
    """The exact result, which float32's rounding of the sums and float16's of the result may change."""
    X, weight, bias = (array.astype(np.float64) for array in (X, weight, bias))
    centred = X - X.mean(axis=1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + eps)
    exact = centred / deviation * weight + bias
    terms = (np.abs(X) + np.abs(X).mean(axis=1, keepdims=True)) / deviation * np.abs(weight) + np.abs(bias)
    return exact, 2.0**-11 * np.abs(exact) + 2.0**-20 * terms + 2.0**-25


def main():
    kernel = tilelang.compile(layer_norm(64, 4096), out_idx=[3])
    arrays = inputs(64, 4096)
    check("CPU: 64 x 4096", kernel(*arrays), expected(*arrays))

    if gpu():
        M, N = 16384, 4096
        kernel = tilelang.compile(layer_norm(M, N), out_idx=[3])
        arrays = inputs(M, N)
        Y, seconds = on_gpu(kernel, *arrays)
        check(f"GPU: {M} x {N}, {seconds * 1e6:.0f} us, {2 * Y.nbytes / seconds / 1e9:.0f} GB/s", Y, expected(*arrays))


if __name__ == "__main__":
    main()
