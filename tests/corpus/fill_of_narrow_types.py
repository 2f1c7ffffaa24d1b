"""T.fill and T.clear of types of 1 and 2 bytes, on shared tiles and fragments, with values of either sign."""
import tilelang.language as T

CASES = [{"dtype": dtype, "value": value, "scope": scope}
         for dtype in ("int8", "float16", "bfloat16", "float8_e4m3fn") for value in (0, 3, -2)
         for scope in ("shared", "fragment")]  # fmt: skip


def program(dtype, value, scope):
    allocate = T.alloc_shared if scope == "shared" else T.alloc_fragment

    @T.prim_func
    def kernel(Out: T.Tensor((24, 40), dtype)):
        with T.Kernel(1, threads=64) as bx:
            tile = allocate((24, 40), dtype)
            T.fill(tile, value)
            T.copy(tile, Out[bx * 24, 0])

    return kernel
