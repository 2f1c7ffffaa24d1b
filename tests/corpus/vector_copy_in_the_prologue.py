"""A one-dimensional copy to shared memory before a warp-specialised loop, read after it."""
import tilelang.language as T

CASES = [{"columns": columns, "dtype": dtype} for columns in (32, 48, 80) for dtype in ("float16", "float32")]


def program(columns, dtype):
    @T.prim_func
    def kernel(
        bias: T.Tensor((columns,), dtype), A: T.Tensor((64, 96), "float16"), B: T.Tensor((96, columns), "float16"),
        Out: T.Tensor((64, columns), "float16"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128) as bx:
            row = T.alloc_shared((columns,), dtype)
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, columns), "float16")
            acc = T.alloc_fragment((64, columns), "float32")
            T.copy(bias[bx * columns], row)
            T.clear(acc)
            for k in T.Pipelined(3, num_stages=2):
                T.copy(A[bx * 64, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, acc)
            for i, j in T.Parallel(64, columns):
                acc[i, j] += row[j]
            T.copy(acc, Out)

    return kernel
