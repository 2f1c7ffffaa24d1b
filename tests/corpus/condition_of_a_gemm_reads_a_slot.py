"""Race: a slot that only a gemm's clear_accum read was released before all lanes of a warp had read it."""
import tilelang.language as T


@T.prim_func
def program(A: T.Tensor((192, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((192, 64), "float16")):
    with T.Kernel(1, threads=128) as bx:
        A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
        whole, acc = T.alloc_shared((64, 32), "float16"), T.alloc_fragment((64, 64), "float32")
        for t in T.serial(3):
            T.copy(A[t * 64, bx * 64], whole)
            T.clear(acc)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[t * 64, k * 32], A_s)
                T.copy(B[k * 32, 0], B_s)
                T.gemm(A_s, B_s, acc, clear_accum=(whole[0, k] > T.cast(0, "float16")))
            T.copy(acc, C[t * 64, 0])
