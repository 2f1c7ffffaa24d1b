"""A block that computes several tiles goes on with the ring where the tile before left it, whatever the number of trips."""
import tilelang.language as T

CASES = [{"tiles": tiles, "trips": trips, "stages": stages}
         for stages in (1, 2, 3) for trips in (1, 2, 3, 5) for tiles in (2, 3)]  # fmt: skip


def program(tiles, trips, stages):
    depth = trips * 16

    @T.prim_func
    def kernel(
        A: T.Tensor((tiles * 64, depth), "float16"), B: T.Tensor((depth, 32), "float16"),
        Out: T.Tensor((tiles * 64, 32), "float16"),
    ):  # fmt: skip
        with T.Kernel(2, threads=128) as bx:
            a = T.alloc_shared((64, 16), "float16")
            b = T.alloc_shared((16, 32), "float16")
            acc = T.alloc_fragment((64, 32), "float32")
            for wave in T.serial(T.ceildiv(tiles, 2)):
                tile = wave * 2 + bx
                if tile < tiles:
                    T.clear(acc)
                    for k in T.Pipelined(trips, num_stages=stages):
                        T.copy(A[tile * 64, k * 16], a)
                        T.copy(B[k * 16, 0], b)
                        T.gemm(a, b, acc)
                    T.copy(acc, Out[tile * 64, 0])

    return kernel
