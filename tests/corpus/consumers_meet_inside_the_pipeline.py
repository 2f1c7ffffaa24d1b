"""Inside a pipelined loop the consumers exchange data through shared memory; the producer, which runs ahead, takes no part in
it."""
import tilelang.language as T

CASES = [{"threads": threads, "stages": stages, "trips": trips}
         for threads in (128, 256) for stages in (1, 2, 3) for trips in (1, 4)]  # fmt: skip


def program(threads, stages, trips):
    rows = threads // 2

    @T.prim_func
    def kernel(
        A: T.Tensor((rows, trips * 32), "float16"), B: T.Tensor((trips * 32, 32), "float16"),
        Out: T.Tensor((rows, 32), "float16"),
    ):  # fmt: skip
        with T.Kernel(1, threads=threads) as bx:
            a = T.alloc_shared((rows, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            part = T.alloc_fragment((rows, 32), "float32")
            turned = T.alloc_shared((rows, 32), "float32")
            total = T.alloc_fragment((rows, 32), "float32")
            T.clear(total)
            for k in T.Pipelined(trips, num_stages=stages):
                T.copy(A[bx * rows, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, part, clear_accum=True)
                T.copy(part, turned)
                for i, j in T.Parallel(rows, 32):
                    total[i, j] += turned[rows - 1 - i, 31 - j]
            T.copy(total, Out)

    return kernel
