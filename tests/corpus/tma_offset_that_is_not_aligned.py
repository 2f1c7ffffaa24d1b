"""A tile whose first column is no multiple of 16 bytes from the tensor's: loads and stores at every such offset."""
import tilelang.language as T

CASES = [{"offset": offset, "dtype": dtype} for offset in (1, 2, 4, 7, 8) for dtype in ("float16", "float32", "int8")]


def program(offset, dtype):
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), dtype), Out: T.Tensor((64, 64), dtype)):
        with T.Kernel(2, threads=128) as bx:
            tile = T.alloc_shared((32, 32), dtype)
            T.copy(A[bx * 32, offset], tile)
            T.copy(tile, Out[bx * 32, 16 - offset])

    return kernel
