"""Tiles whose columns the warps cannot share evenly under the policy that was asked for."""
import tilelang.language as T

REFUSED = "TL310"
CASES = [{"rows": rows, "columns": columns, "threads": threads, "policy": policy}
         for rows, columns, threads in ((128, 48, 256), (64, 48, 256), (192, 80, 384), (128, 16, 256), (64, 96, 384))
         for policy in ("Square", "FullRow", "FullCol")]  # fmt: skip


def program(rows, columns, threads, policy):
    @T.prim_func
    def kernel(
        A: T.Tensor((rows, 64), "float16"), B: T.Tensor((64, columns), "float16"), Out: T.Tensor((rows, columns), "float16"),
    ):  # fmt: skip
        with T.Kernel(1, threads=threads) as bx:
            a = T.alloc_shared((rows, 32), "float16")
            b = T.alloc_shared((32, columns), "float16")
            acc = T.alloc_fragment((rows, columns), "float32")
            T.clear(acc)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[bx * rows, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, acc, policy=getattr(T.GemmWarpPolicy, policy))
            T.copy(acc, Out)

    return kernel
