"""The machine crashed once: floats converted to integers in the registers of many threads at once."""
import tilelang.language as T

CASES = [{"source": source, "target": target} for source in ("float32", "float16", "bfloat16") for target in ("int8", "int32")]


def program(source, target):
    @T.prim_func
    def kernel(A: T.Tensor((48, 32), source), Out: T.Tensor((48, 32), target)):
        with T.Kernel(1, threads=32) as bx:
            tile = T.alloc_fragment((48, 32), source)
            whole = T.alloc_fragment((48, 32), target)
            T.copy(A[bx * 48, 0], tile)
            for i, j in T.Parallel(48, 32):
                whole[i, j] = tile[i, j] * 1.5
            T.copy(whole, Out)

    return kernel
