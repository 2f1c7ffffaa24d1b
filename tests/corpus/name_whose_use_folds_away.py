"""Deadlock: the only use of a name was folded to a constant, and with the name its slot's wait and release were dropped."""
import tilelang.language as T

GROUPS = 1


@T.prim_func
def program(A: T.Tensor((64, 64), "float16"), W: T.Tensor((64, 64), "int32"), Out: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128) as bx:
        A_s, W_s = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "int32")
        T.copy(W[bx, 0], W_s)
        T.copy(A[bx, 0], A_s)
        v = W_s[0, 0]
        for i, j in T.Parallel(64, 64):
            Out[i + v % GROUPS, j] = T.cast(A_s[i, j], "float32")
