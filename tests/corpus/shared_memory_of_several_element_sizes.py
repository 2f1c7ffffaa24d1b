"""Tiles of 1, 2, 4 and 8 bytes an element whose lives do not overlap: those that share memory must not see each other."""
import tilelang.language as T


@T.prim_func
def program(
    A: T.Tensor((64, 48), "int8"), B: T.Tensor((64, 48), "float16"), D: T.Tensor((64, 48), "float32"),
    E: T.Tensor((64, 48), "int32"),
    Out1: T.Tensor((64, 48), "int8"), Out2: T.Tensor((64, 48), "float16"), Out3: T.Tensor((64, 48), "float32"),
    Out4: T.Tensor((64, 48), "int32"),
):  # fmt: skip
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_shared((64, 48), "int8")
        b = T.alloc_shared((64, 48), "float16")
        d = T.alloc_shared((64, 48), "float32")
        e = T.alloc_shared((64, 48), "int32")
        T.copy(A[bx * 64, 0], a)
        for i, j in T.Parallel(64, 48):
            Out1[i, j] = a[63 - i, j]
        T.copy(B[bx * 64, 0], b)
        for i, j in T.Parallel(64, 48):
            Out2[i, j] = b[63 - i, j]
        T.copy(D[bx * 64, 0], d)
        for i, j in T.Parallel(64, 48):
            Out3[i, j] = d[63 - i, j]
        T.copy(E[bx * 64, 0], e)
        for i, j in T.Parallel(64, 48):
            Out4[i, j] = e[63 - i, j]
