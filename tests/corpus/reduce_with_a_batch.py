"""`batch=` of a reduction is a hint on how to exchange between threads; the result does not depend on it."""
import tilelang.language as T

CASES = [{"batch": batch, "dim": dim, "clear": clear} for batch in (1, 2, 4) for dim in (0, 1) for clear in (False, True)]


def program(batch, dim, clear):
    @T.prim_func
    def kernel(A: T.Tensor((32, 64), "float32"), Out: T.Tensor((64 if dim == 0 else 32,), "float32")):
        with T.Kernel(1, threads=128) as bx:
            tile = T.alloc_fragment((32, 64), "float32")
            total = T.alloc_fragment((64 if dim == 0 else 32,), "float32")
            T.copy(A[bx * 32, 0], tile)
            T.fill(total, 5)
            T.reduce_sum(tile, total, dim=dim, clear=clear, batch=batch)
            T.copy(total, Out)

    return kernel
