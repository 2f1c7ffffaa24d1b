"""A tile is stored to a tensor, by TMA where it can be, and the same block reads it there again, spread in another way."""
import tilelang.language as T

CASES = [{"rounds": rounds, "columns": columns} for rounds in (1, 3) for columns in (32, 31)]


def program(rounds, columns):
    @T.prim_func
    def kernel(
        A: T.Tensor((128, columns), "float16"), Out: T.Tensor((128, columns), "float16"),
        Out2: T.Tensor((128, columns), "float16"),
    ):  # fmt: skip
        with T.Kernel(2, threads=128) as bx:
            tile = T.alloc_shared((64, columns), "float16")
            back = T.alloc_shared((64, columns), "float16")
            T.copy(A[bx * 64, 0], tile)
            for _ in T.serial(rounds):
                T.copy(tile, Out[bx * 64, 0])
                for i, j in T.Parallel(64, columns):
                    back[i, j] = Out[bx * 64 + 63 - i, j] + 1
                T.copy(back, tile)
            T.copy(back, Out2[bx * 64, 0])

    return kernel
