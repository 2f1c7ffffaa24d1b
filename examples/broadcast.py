"""C = A * scale + shift with a scale for each row and a shift for each column: element-wise code needs no tile at all.

    python examples/broadcast.py
"""
import numpy as np
from harness import Bound, check, gpu, on_gpu, random

import tilelang
import tilelang.language as T


def scale_and_shift(M, N, block_M=32, block_N=256, threads=128):
    @T.prim_func
    def broadcast(
        A: T.Tensor((M, N), "float16"), scale: T.Tensor((M,), "float32"), shift: T.Tensor((N,), "float32"),
        C: T.Tensor((M, N), "float16"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                row, column = by * block_M + i, bx * block_N + j
                C[row, column] = A[row, column] * scale[row] + shift[column]

    return broadcast


def inputs(M, N):
    rng = np.random.default_rng(1)
    return random(M, N), rng.standard_normal(M).astype(np.float32), rng.standard_normal(N).astype(np.float32)


def expected(A, scale, shift) -> Bound:
    """The exact result, which float32's rounding of two operations and float16's of the result may change."""
    product = A.astype(np.float64) * scale[:, None]
    exact = product + shift
    return exact, 2.0**-11 * np.abs(exact) + 2.0**-23 * (np.abs(product) + np.abs(shift)) + 2.0**-25


def main():
    kernel = tilelang.compile(scale_and_shift(100, 1000), out_idx=[3])
    arrays = inputs(100, 1000)
    check("CPU: 100 x 1000", kernel(*arrays), expected(*arrays))

    if gpu():
        M, N = 8192, 8192
        kernel = tilelang.compile(scale_and_shift(M, N), out_idx=[3])
        arrays = inputs(M, N)
        C, seconds = on_gpu(kernel, *arrays)
        check(f"GPU: {M} x {N}, {seconds * 1e6:.0f} us, {2 * C.nbytes / seconds / 1e9:.0f} GB/s", C, expected(*arrays))


if __name__ == "__main__":
    main()
