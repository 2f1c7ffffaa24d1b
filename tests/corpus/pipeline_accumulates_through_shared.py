"""An iteration reads what the one before left in a shared tile, and writes it anew: neither may be reordered nor doubled."""
import tilelang.language as T

CASES = [{"trips": trips, "stages": stages} for stages in (0, 2, 3) for trips in (0, 1, 3)]


def program(trips, stages):
    @T.prim_func
    def kernel(A: T.Tensor((48, 96), "float32"), Out: T.Tensor((48, 32), "float32")):
        with T.Kernel(1, threads=96) as bx:
            a = T.alloc_shared((48, 32), "float32")
            total = T.alloc_shared((48, 32), "float32")
            T.clear(total)
            for k in T.Pipelined(trips, num_stages=stages):
                T.copy(A[bx * 48, k * 32], a)
                for i, j in T.Parallel(48, 32):
                    total[i, j] = total[i, j] + a[47 - i, j]
            T.copy(total, Out)

    return kernel
