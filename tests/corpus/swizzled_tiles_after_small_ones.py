"""Tiles of odd sizes stand before and between the operands of a gemm, whose swizzles need bases that are multiples of 1024
bytes."""
import tilelang.language as T

CASES = [{"first": first, "between": between} for first in (1, 24, 250) for between in (3, 40)]


def program(first, between):
    @T.prim_func
    def kernel(
        D: T.Tensor((first,), "int8"), E: T.Tensor((between,), "float32"), A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 64), "float16"), Out: T.Tensor((64, 64), "float32"), Out2: T.Tensor((first,), "int8"),
        Out3: T.Tensor((between,), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128) as bx:
            d = T.alloc_shared((first,), "int8")
            a = T.alloc_shared((64, 64), "float16")
            e = T.alloc_shared((between,), "float32")
            b = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.copy(D, d)
            T.copy(E, e)
            T.copy(A[bx * 64, 0], a)
            T.copy(B, b)
            T.gemm(a, b, acc, clear_accum=True)
            T.copy(acc, Out)
            T.copy(d, Out2)
            T.copy(e, Out3)

    return kernel
