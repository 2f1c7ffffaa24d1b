"""A tile with fewer elements than there are threads, and not a multiple of a warp of them, goes through shared memory."""
import tilelang.language as T

CASES = [{"count": count, "threads": threads} for count in (8, 24, 40, 72, 100) for threads in (32, 64, 96, 128, 160)]


def program(count, threads):
    @T.prim_func
    def kernel(A: T.Tensor((2 * count,), "float32"), Out: T.Tensor((2 * count,), "float32")):
        with T.Kernel(2, threads=threads) as bx:
            tile = T.alloc_shared((count,), "float32")
            for i in T.Parallel(count):
                tile[i] = A[bx * count + i] * 2
            for i in T.Parallel(count):
                Out[bx * count + i] = tile[count - 1 - i]

    return kernel
