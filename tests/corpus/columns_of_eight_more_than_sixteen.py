"""Tiles whose columns are a multiple of 8 and not of 16, in either order of the operand."""
import tilelang.language as T

REFUSED = "TL316"
CASES = [{"columns": columns, "transposed": transposed} for columns in (8, 24, 40, 72) for transposed in (False, True)]


def program(columns, transposed):
    shape = (columns, 32) if transposed else (32, columns)

    @T.prim_func
    def kernel(A: T.Tensor((64, 32), "float16"), B: T.Tensor(shape, "float16"), Out: T.Tensor((64, columns), "float16")):
        with T.Kernel(1, threads=128) as bx:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared(shape, "float16")
            acc = T.alloc_fragment((64, columns), "float32")
            T.copy(A[bx * 64, 0], a)
            T.copy(B, b)
            T.gemm(a, b, acc, transpose_B=transposed, clear_accum=True)
            T.copy(acc, Out)

    return kernel
