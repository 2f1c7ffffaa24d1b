"""C = A @ B in half precision, its pipeline written by hand: who loads, who multiplies, and how they wait for each other.

    python examples/gemm_explicit.py [M N K]

Two warpgroups of a block multiply, the third loads ahead of them into a ring of slots.  Every slot has two mbarriers: `full` says
that its tiles have landed, `empty` that they have been used.  A round waits for its slot's barrier by parity: the i-th phase of a
barrier, from 0 on, has parity i & 1, and a slot's turn comes every `stages` rounds, so round k waits for parity (k // stages) &
1. The loader waits for the phase before, which on a fresh barrier counts as completed: it fills the whole ring at once.

Without a GPU the program runs on the simulated machine, which also objects if a wait is missing: see docs/explicit.md.
"""
import sys

import numpy as np
from harness import Bound, check, gpu, on_gpu, random

import tilelang
import tilelang.language as T


def gemm_explicit(M, N, K, block_M=128, block_N=256, block_K=64, stages=3):
    @T.prim_func
    def matmul(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=384) as (bx, by):
            A_tile = T.alloc_shared((stages, block_M, block_K), "float16")
            B_tile = T.alloc_shared((stages, block_K, block_N), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            full = T.alloc_barrier([128] * stages)  # the loader's 128 threads arrive
            empty = T.alloc_barrier([256] * stages)  # the 256 threads that multiply arrive

            with T.ws(2):
                T.set_max_nreg(24, 0)
                for k in range(T.ceildiv(K, block_K)):
                    T.mbarrier_wait_parity(empty[k % stages], ((k // stages) & 1) ^ 1)
                    T.tma_copy(A[by * block_M, k * block_K], A_tile[k % stages, :, :], barrier=full[k % stages])
                    T.tma_copy(B[k * block_K, bx * block_N], B_tile[k % stages, :, :], barrier=full[k % stages])
                    T.mbarrier_arrive(full[k % stages])

            with T.ws(0, 1):
                T.set_max_nreg(240, 1)
                T.clear(acc)
                for k in range(T.ceildiv(K, block_K)):
                    T.mbarrier_wait_parity(full[k % stages], (k // stages) & 1)
                    T.gemm(A_tile[k % stages, :, :], B_tile[k % stages, :, :], acc)
                    T.mbarrier_arrive(empty[k % stages])
                T.copy(acc, C[by * block_M, bx * block_N])

    return matmul


def inputs(M, N, K):
    """Two float16 matrices of standard-normal numbers."""
    return random(M, K), random(K, N, seed=1)


def expected(A, B) -> Bound:
    """The exact product, and how far rounding may take each element from it (as in gemm.py)."""
    A, B = A.astype(np.float64), B.astype(np.float64)
    exact = A @ B
    c = 4 * (A.shape[1] / 16) ** 0.5 + 8
    return exact, c * 2.0**-24 * (np.abs(A) @ np.abs(B)) + 2.0**-11 * np.abs(exact)


def main():
    M, N, K = (int(word) for word in sys.argv[1:4]) if len(sys.argv) > 3 else (256, 256, 320)
    kernel = tilelang.compile(gemm_explicit(M, N, K), out_idx=[2])
    A, B = inputs(M, N, K)
    check(f"CPU: {M} x {N} x {K}", kernel(A, B), expected(A, B))
    print(kernel.check())  # are there a race, a deadlock, a byte too many?

    if gpu():
        M, N, K = (M, N, K) if len(sys.argv) > 3 else (4096, 4096, 4096)
        kernel = tilelang.compile(gemm_explicit(M, N, K), out_idx=[2])
        A, B = inputs(M, N, K)
        C, seconds = on_gpu(kernel, A, B)
        speed = f"{seconds * 1e6:.0f} us, {2 * M * N * K / seconds / 1e12:.0f} TFLOP/s"
        check(f"GPU: {M} x {N} x {K}, {speed}", C, expected(A, B))


if __name__ == "__main__":
    main()
