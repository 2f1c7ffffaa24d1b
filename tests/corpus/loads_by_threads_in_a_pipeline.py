"""One operand comes by TMA, the other by threads, since its rows are not multiples of 16 bytes: the gemm waits for both."""
import tilelang.language as T

CASES = [{"depth": depth, "stages": stages, "threads": threads}
         for depth in (95, 31, 1) for stages in (1, 3) for threads in (128, 256)]  # fmt: skip


def program(depth, stages, threads):
    rows = threads // 2

    @T.prim_func
    def kernel(A: T.Tensor((rows, depth), "float16"), B: T.Tensor((depth, 32), "float16"), Out: T.Tensor((rows, 32), "float16")):
        with T.Kernel(1, threads=threads) as bx:
            a = T.alloc_shared((rows, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            acc = T.alloc_fragment((rows, 32), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(depth, 32), num_stages=stages):
                T.copy(A[bx * rows, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, acc)
            T.copy(acc, Out)

    return kernel
