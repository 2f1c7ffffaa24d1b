"""One-dimensional tiles of which the last is only partly there, through shared memory and through fragments."""
import tilelang.language as T

CASES = [{"size": size, "scope": scope, "dtype": dtype}
         for size in (1, 99, 250, 256) for scope in ("shared", "fragment")
         for dtype in ("float16", "float32", "int8")]  # fmt: skip


def program(size, scope, dtype):
    allocate = T.alloc_shared if scope == "shared" else T.alloc_fragment

    @T.prim_func
    def kernel(A: T.Tensor((size,), dtype), Out: T.Tensor((size,), dtype)):
        with T.Kernel(T.ceildiv(size, 100), threads=64) as bx:
            tile = allocate((100,), dtype)
            T.copy(A[bx * 100], tile)
            T.copy(tile, Out[bx * 100])

    return kernel
