"""Deadlock or race: a name that nothing uses was dropped, and with it the wait and the release of the slot that it read last."""
import tilelang.language as T


def program(turns, behind):
    K = 32 * turns

    @T.prim_func
    def unused(A: T.Tensor((64, K), "float16"), B: T.Tensor((K, 64), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128) as bx:
            A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(turns, num_stages=2):
                T.copy(A[bx * 64, k * 32], A_s)
                T.copy(B[k * 32, 0], B_s)
                if not behind:
                    value = A_s[0, 0] + B_s[0, 0]
                T.gemm(A_s, B_s, acc)
                if behind:
                    value = A_s[0, 0] + B_s[0, 0]
                    again = value + A_s[1, 1]  # noqa: F841
            T.copy(acc, C[bx * 64, 0])

    return unused


CASES = [{"turns": turns, "behind": behind} for turns in (1, 4) for behind in (False, True)]
