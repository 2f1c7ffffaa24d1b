"""A shared tile is read at the start of an iteration and overwritten at its end: the load must not run ahead of the read."""
import tilelang.language as T

CASES = [{"trips": trips, "stages": stages} for stages in (0, 1, 2, 3) for trips in (0, 1, 2, 4)]


def program(trips, stages):
    @T.prim_func
    def kernel(A: T.Tensor((64, 160), "float16"), B: T.Tensor((160, 32), "float16"), Out: T.Tensor((64, 32), "float32")):
        with T.Kernel(1, threads=128) as bx:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            acc = T.alloc_fragment((64, 32), "float32")
            T.copy(A[bx * 64, 0], a)
            T.copy(B[0, 0], b)
            T.clear(acc)
            for k in T.Pipelined(trips, num_stages=stages):
                T.gemm(a, b, acc)
                T.copy(A[0, (k + 1) * 32], a)
                T.copy(B[(k + 1) * 32, 0], b)
            T.copy(acc, Out)

    return kernel
