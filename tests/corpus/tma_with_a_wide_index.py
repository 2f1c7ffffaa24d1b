"""Wrong number: an index of 64 bits became a coordinate of TMA, which has 32, so that 2**32 + 64 was row 64."""
import tilelang.language as T

SCALARS = {"first": 2**32 + 64}


@T.prim_func
def program(A: T.Tensor((128, 64), "float16"), Out: T.Tensor((64, 64), "float32"), first: T.int64):
    with T.Kernel(1, threads=128) as bx:
        tile = T.alloc_shared((64, 64), "float16")
        T.copy(A[first, bx * 64], tile)
        for i, j in T.Parallel(64, 64):
            Out[i, j] = T.cast(tile[i, j], "float32")
