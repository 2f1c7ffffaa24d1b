"""A plain name that is bound anew in a branch of the running kernel would keep its old value; T.alloc_var is what can change."""
import tilelang.language as T

REFUSED = "TL104"


@T.prim_func
def program(A: T.Tensor((128,), "float32"), Out: T.Tensor((128,), "float32")):
    with T.Kernel(2, threads=64) as bx:
        tile = T.alloc_fragment((64,), "float32")
        start = bx * 64
        if bx > 0:
            start = 0
        T.copy(A[start], tile)
        T.copy(tile, Out[bx * 64])
