"""An array of each thread, indexed at run time: legal CUDA, to which the machine objected (TL842)."""
import tilelang.language as T


@T.prim_func
def program(A: T.Tensor((128, 8), "float32"), index: T.Tensor((128,), "int32"), Out: T.Tensor((128, 2), "float32")):
    with T.Kernel(1, threads=64) as bx:
        for i in T.Parallel(128):
            own = T.alloc_local((8,), "float32")
            for k in T.serial(8):
                own[k] = A[i, k] + bx
            Out[i, 0] = own[index[i]]
            own[(index[i] + i) % 8] = 3
            Out[i, 1] = own[i % 8]
