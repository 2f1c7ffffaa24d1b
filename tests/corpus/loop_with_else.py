"""`for ... else` has no meaning in a kernel; dropping the else would be wrong."""
import tilelang.language as T

REFUSED = "TL101"


@T.prim_func
def program(A: T.Tensor((64,), "float32"), Out: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64) as bx:
        tile = T.alloc_fragment((64,), "float32")
        for _ in T.serial(3):
            T.copy(A[bx * 64], tile)
        else:  # noqa: PLW0120 - that is the point
            T.clear(tile)
        T.copy(tile, Out)
