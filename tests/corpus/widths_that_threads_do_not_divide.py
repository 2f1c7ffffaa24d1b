"""Rows whose length is no power of two and no multiple of the threads: element by element, reduced, and broadcast again."""
import tilelang.language as T

CASES = [{"rows": rows, "columns": columns, "threads": threads, "dtype": dtype}
         for rows, columns in ((16, 80), (24, 100), (48, 96), (8, 229), (5, 7)) for threads in (96, 128, 160)
         for dtype in ("float32", "float16")]  # fmt: skip


def program(rows, columns, threads, dtype):
    @T.prim_func
    def kernel(A: T.Tensor((rows, columns), dtype), Out: T.Tensor((rows, columns), dtype), Out2: T.Tensor((rows,), "float32")):
        with T.Kernel(1, threads=threads) as bx:
            tile = T.alloc_fragment((rows, columns), dtype)
            largest = T.alloc_fragment((rows,), dtype)
            total = T.alloc_fragment((rows,), "float32")
            T.copy(A[bx * rows, 0], tile)
            T.reduce_max(tile, largest, dim=1)
            for i, j in T.Parallel(rows, columns):
                tile[i, j] = largest[i] - tile[i, j]
            T.reduce_sum(tile, total, dim=1)
            T.copy(tile, Out)
            T.copy(total, Out2)

    return kernel
