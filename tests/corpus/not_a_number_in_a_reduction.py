"""Infinities and NaN in what is reduced, with and without an old value: sums keep NaN, and so is decided what maxima do."""
import tilelang.language as T

CASES = [{"kind": kind, "clear": clear, "dtype": dtype}
         for kind in ("sum", "max", "min", "absmax") for clear in (False, True) for dtype in ("float32", "float16")]  # fmt: skip


def program(kind, clear, dtype):
    @T.prim_func
    def kernel(A: T.Tensor((32, 64), dtype), Out: T.Tensor((32,), dtype)):
        with T.Kernel(1, threads=64) as bx:
            tile = T.alloc_fragment((32, 64), dtype)
            result = T.alloc_fragment((32,), dtype)
            T.copy(A[bx * 32, 0], tile)
            for i, j in T.Parallel(32, 64):
                tile[i, j] = T.if_then_else(i % 4 == 1 and j == i, T.infinity(dtype), tile[i, j])
            for i, j in T.Parallel(32, 64):
                tile[i, j] = T.if_then_else(i % 4 == 2 and j == i, T.infinity(dtype) - T.infinity(dtype), tile[i, j])
            T.fill(result, 1)
            getattr(T, f"reduce_{kind}")(tile, result, dim=1, clear=clear)
            T.copy(result, Out)

    return kernel
