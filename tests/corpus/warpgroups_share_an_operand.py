"""Two to four warpgroups read one operand: a slot is free only when all of them are done with it."""
import tilelang.language as T

CASES = [{"threads": threads, "stages": stages, "policy": policy}
         for threads in (256, 512) for stages in (1, 2) for policy in ("FullRow", "FullCol")]  # fmt: skip


def program(threads, stages, policy):
    rows, columns = (threads // 2, 32) if policy == "FullRow" else (64, threads // 4)

    @T.prim_func
    def kernel(
        A: T.Tensor((rows, 160), "float16"), B: T.Tensor((160, columns), "float16"), Out: T.Tensor((rows, columns), "float16"),
    ):  # fmt: skip
        with T.Kernel(1, threads=threads) as bx:
            a = T.alloc_shared((rows, 32), "float16")
            b = T.alloc_shared((32, columns), "float16")
            acc = T.alloc_fragment((rows, columns), "float32")
            T.clear(acc)
            for k in T.Pipelined(5, num_stages=stages):
                T.copy(A[bx * rows, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, acc, policy=getattr(T.GemmWarpPolicy, policy))
            T.copy(acc, Out)

    return kernel
