"""Wrong once: a reduction over rows whose results share a register read the other half of it before anything was there."""
import tilelang.language as T

CASES = [{"kind": kind, "dtype": dtype} for kind in ("max", "absmax", "min") for dtype in ("float16", "bfloat16")]


def program(kind, dtype):
    @T.prim_func
    def kernel(A: T.Tensor((64, 32), dtype), Out: T.Tensor((32,), dtype)):
        with T.Kernel(1, threads=64) as bx:
            tile = T.alloc_shared((64, 32), dtype)
            best = T.alloc_fragment((32,), dtype)
            T.copy(A[bx * 64, 0], tile)
            getattr(T, f"reduce_{kind}")(tile, best, dim=0)
            T.copy(best, Out[bx * 32])

    return kernel
