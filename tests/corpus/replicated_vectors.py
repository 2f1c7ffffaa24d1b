"""A vector that many threads hold copies of is written, changed and stored once, and read by tiles along both of their
dimensions."""
import tilelang.language as T

CASES = [{"threads": threads, "count": count} for threads in (32, 128, 256) for count in (16, 32, 64)]


def program(threads, count):
    @T.prim_func
    def kernel(A: T.Tensor((count,), "float32"), Out: T.Tensor((count,), "float32"), Out2: T.Tensor((count, count), "float32")):
        with T.Kernel(1, threads=threads) as bx:
            row = T.alloc_fragment((count,), "float32")
            column = T.alloc_fragment((count,), "float32")
            tile = T.alloc_fragment((count, count), "float32")
            T.copy(A[bx * count], row)
            T.copy(A[bx * count], column)
            for i, j in T.Parallel(count, count):
                tile[i, j] = column[i] * 8 + row[j]
            for i in T.Parallel(count):
                row[i] = row[i] + 1
            T.copy(row, Out)
            T.copy(tile, Out2)

    return kernel
