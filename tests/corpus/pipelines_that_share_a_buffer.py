"""Sibling pipelines go through the same shared tiles with different numbers of stages."""
import tilelang.language as T

CASES = [{"first": first, "second": second, "trips": trips}
         for first, second in ((2, 3), (3, 1), (1, 4), (0, 2)) for trips in (1, 2, 5)]  # fmt: skip


def program(first, second, trips):
    @T.prim_func
    def kernel(A: T.Tensor((64, 160), "float16"), B: T.Tensor((160, 32), "float16"), Out: T.Tensor((64, 32), "float16")):
        with T.Kernel(1, threads=128) as bx:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            acc = T.alloc_fragment((64, 32), "float32")
            T.clear(acc)
            for k in T.Pipelined(trips, num_stages=first):
                T.copy(A[bx * 64, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, acc)
            for k in T.Pipelined(2, num_stages=second):
                T.copy(A[bx * 64, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, acc)
            T.copy(acc, Out)

    return kernel
