"""A pipelined loop inside a `while`: phases go on from round to round."""
import tilelang.language as T

CASES = [{"rounds": rounds, "trips": trips, "stages": stages}
         for rounds in (0, 1, 3) for trips, stages in ((1, 2), (3, 2), (2, 3))]  # fmt: skip


def program(rounds, trips, stages):
    @T.prim_func
    def kernel(A: T.Tensor((64, 288), "float16"), B: T.Tensor((288, 32), "float16"), Out: T.Tensor((64, 32), "float16")):
        with T.Kernel(1, threads=128) as bx:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            acc = T.alloc_fragment((64, 32), "float32")
            done = T.alloc_var("int32", 0)
            T.clear(acc)
            while done < rounds:
                for k in T.Pipelined(trips, num_stages=stages):
                    T.copy(A[bx * 64, (done * trips + k) * 32], a)
                    T.copy(B[(done * trips + k) * 32, 0], b)
                    T.gemm(a, b, acc)
                done += 1
            T.copy(acc, Out)

    return kernel
