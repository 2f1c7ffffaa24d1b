"""Element-wise loops over parts of a tensor that begin at odd columns, or whose rows do: as wide as can be proved."""
import tilelang.language as T

CASES = [{"offset": offset, "columns": columns, "dtype": dtype}
         for offset in (0, 1, 2, 3, 4) for columns in (64, 66, 67, 68) for dtype in ("float16", "float32", "int8")]  # fmt: skip


def program(offset, columns, dtype):
    width = 60

    @T.prim_func
    def kernel(A: T.Tensor((16, columns), dtype), Out: T.Tensor((16, columns), dtype)):
        with T.Kernel(1, threads=64) as bx:
            for i, j in T.Parallel(16, width):
                Out[bx + i, j + offset] = A[bx + i, j + offset]

    return kernel
