"""Division and remainder in indices round down as in Python, also where what is divided is negative at times or nearly
overflows."""
import tilelang.language as T


@T.prim_func
def program(A: T.Tensor((64,), "int32"), Out: T.Tensor((4, 64), "int32"), Out2: T.Tensor((4, 64), "int32")):
    with T.Kernel(4, threads=64) as bx:
        for i in T.Parallel(64):
            Out[bx, i] = A[(i - 32 * bx) // 3 % 64] + (i - 32) // 7
            Out2[bx, i] = A[(i - 32) % 5 + bx] + (2147483000 - bx * 1000 + i) // 1000
