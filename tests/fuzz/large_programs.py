"""Programs on tensors of more than 2**31 elements: what lies at their end."""
from __future__ import annotations

import tilelang.language as T
from tilelang.ir.tile import Kernel

VECTOR = 2**31 + 2**16 + 3
ROWS = 2**25 + 133


def vector() -> Kernel:
    """C = A + 1, with an index that leaves 32 bits itself."""

    @T.prim_func
    def kernel(A: T.Tensor((VECTOR,), "int8"), C: T.Tensor((VECTOR,), "int8")):
        with T.Kernel(T.ceildiv(VECTOR, 4096), threads=128) as bx:
            for i in T.Parallel(4096):
                C[bx * 4096 + i] = A[bx * 4096 + i] + 1

    return kernel


def rows(columns: int) -> Kernel:
    """C = A by way of a tile; each index fits 32 bits, their combination does not."""

    @T.prim_func
    def kernel(A: T.Tensor((ROWS, columns), "int8"), C: T.Tensor((ROWS, columns), "int8")):
        with T.Kernel(T.ceildiv(ROWS, 128), threads=128) as bx:
            tile = T.alloc_shared((128, 64), "int8")
            T.copy(A[bx * 128, 0], tile)
            T.copy(tile, C[bx * 128, 0])

    return kernel


def constant_row() -> Kernel:
    """A row far down, by a constant index."""

    @T.prim_func
    def kernel(A: T.Tensor((ROWS, 65), "int8"), C: T.Tensor((ROWS, 65), "int8")):
        with T.Kernel(1, threads=64) as bx:
            for j in T.Parallel(65):
                C[ROWS - 1, j] = A[ROWS - 2, j] + bx

    return kernel
