"""A condition inside a pipelined loop that is a function of values, not a plain comparison of two of them."""
import tilelang.language as T


@T.prim_func
def program(A: T.Tensor((64, 160), "float16"), B: T.Tensor((160, 32), "float16"), Out: T.Tensor((128, 32), "float16")):
    with T.Kernel(2, threads=128) as bx:
        a = T.alloc_shared((64, 32), "float16")
        b = T.alloc_shared((32, 32), "float16")
        acc = T.alloc_fragment((64, 32), "float32")
        T.clear(acc)
        for k in T.Pipelined(5, num_stages=2):
            if T.abs(k - 2 * bx) > T.min(k, 1) and T.max(k, bx) < 4:
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, acc)
        T.copy(acc, Out[bx * 64, 0])
