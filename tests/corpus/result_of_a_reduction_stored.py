"""The compiler hung once: a reduction's result was spread, for its store, before its source, and the two disagreed for ever."""
import tilelang.language as T

CASES = [{"dim": dim, "threads": threads, "rounds": rounds} for dim in (0, 1) for threads in (32, 128) for rounds in (1, 2)]


def program(dim, threads, rounds):
    @T.prim_func
    def kernel(A: T.Tensor((24, 24), "float16"), Out: T.Tensor((69,), "float16")):
        with T.Kernel(3, threads=threads) as bx:
            tile = T.alloc_fragment((24, 24), "float16")
            best = T.alloc_fragment((24,), "float16")
            T.fill(tile, 1)
            for _ in T.serial(rounds):
                T.reduce_max(tile, best, dim=dim)
                for i, j in T.Parallel(24, 24):
                    tile[i, j] = T.max(tile[i, j], A[i, j]) + best[23 - i]
            T.copy(best, Out[bx * 24])

    return kernel
