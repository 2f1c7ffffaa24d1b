"""A tile whose depth is 8 more than a multiple of 16, the depth of the matrix instructions."""
import tilelang.language as T

REFUSED = "TL316"
CASES = [{"block_k": block_k, "depth": depth} for block_k in (8, 24, 40) for depth in (40, 100)]


def program(block_k, depth):
    @T.prim_func
    def kernel(A: T.Tensor((64, depth), "float16"), B: T.Tensor((depth, 32), "float16"), Out: T.Tensor((64, 32), "float16")):
        with T.Kernel(1, threads=128) as bx:
            a = T.alloc_shared((64, block_k), "float16")
            b = T.alloc_shared((block_k, 32), "float16")
            acc = T.alloc_fragment((64, 32), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(depth, block_k), num_stages=2):
                T.copy(A[bx * 64, k * block_k], a)
                T.copy(B[k * block_k, 0], b)
                T.gemm(a, b, acc)
            T.copy(acc, Out)

    return kernel
