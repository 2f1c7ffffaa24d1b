"""A pipelined loop that runs once, or not at all, with more stages than that."""
import tilelang.language as T

CASES = [{"depth": depth, "stages": stages} for depth in (0, 16, 32) for stages in (1, 2, 4, 5)]


def program(depth, stages):
    @T.prim_func
    def kernel(A: T.Tensor((64, depth), "float16"), B: T.Tensor((depth, 32), "float16"), Out: T.Tensor((64, 32), "float16")):
        with T.Kernel(1, threads=128) as bx:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            acc = T.alloc_fragment((64, 32), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(depth, 32), num_stages=stages):
                T.copy(A[bx * 64, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, acc)
            T.copy(acc, Out)

    return kernel
