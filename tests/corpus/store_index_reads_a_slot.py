"""Race: the place of a store is read from a slot behind the store's barriers, and the slot was released without one more."""
import tilelang.language as T


@T.prim_func
def program(
    A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float16"), index: T.Tensor((256, 64), "int32"),
    C: T.Tensor((1024, 64), "float32"),
):  # fmt: skip
    with T.Kernel(1, threads=128) as bx:
        A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
        places, acc = T.alloc_shared((64, 64), "int32"), T.alloc_fragment((64, 64), "float32")
        for t in T.serial(4):
            T.clear(acc)
            T.copy(index[t * 64, bx * 64], places)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[t * 64, k * 32], A_s)
                T.copy(B[k * 32, 0], B_s)
                T.gemm(A_s, B_s, acc)
            T.copy(acc, C[t * 64 + places[0, 0] * 64, 0])
