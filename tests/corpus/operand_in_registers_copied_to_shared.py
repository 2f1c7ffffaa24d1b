"""The register operand of one gemm is also copied to shared memory, as the operand of another, and to a tensor."""
import tilelang.language as T

CASES = [{"threads": threads, "dtype": dtype} for threads in (128, 256) for dtype in ("float16", "bfloat16")]


def program(threads, dtype):
    rows = threads // 2

    @T.prim_func
    def kernel(
        A: T.Tensor((rows, 32), dtype), B: T.Tensor((32, 32), dtype), Out: T.Tensor((rows, 32), "float32"),
        Out2: T.Tensor((rows, 32), dtype), Out3: T.Tensor((rows, 32), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=threads) as bx:
            operand = T.alloc_fragment((rows, 32), dtype)
            shared = T.alloc_shared((rows, 32), dtype)
            b = T.alloc_shared((32, 32), dtype)
            acc = T.alloc_fragment((rows, 32), "float32")
            again = T.alloc_fragment((rows, 32), "float32")
            T.copy(A[bx * rows, 0], operand)
            T.copy(B, b)
            T.gemm(operand, b, acc, clear_accum=True)
            T.copy(operand, shared)
            T.gemm(shared, b, again, clear_accum=True)
            T.copy(operand, Out2)
            T.copy(acc, Out)
            T.copy(again, Out3)

    return kernel
