"""The shape of attention over sequences of any length, with numbers that stay exact.

The "probability" of a key is 1 where its score is at least the row's running maximum and 0 elsewhere, and older sums are dropped
when the maximum grows."""
import tilelang.language as T

CASES = [{"length": length, "stages": stages} for length in (1, 63, 65, 129) for stages in (1, 2, 3)]


def program(length, stages):
    @T.prim_func
    def kernel(
        Q: T.Tensor((length, 32), "float16"), K: T.Tensor((length, 32), "float16"), V: T.Tensor((length, 32), "float16"),
        Out: T.Tensor((length, 32), "float16"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(length, 64), threads=128) as bx:
            q = T.alloc_shared((64, 32), "float16")
            k = T.alloc_shared((32, 32), "float16")
            v = T.alloc_shared((32, 32), "float16")
            scores = T.alloc_fragment((64, 32), "float32")
            probs = T.alloc_fragment((64, 32), "float16")
            acc = T.alloc_fragment((64, 32), "float32")
            best = T.alloc_fragment((64,), "float32")
            before = T.alloc_fragment((64,), "float32")
            T.copy(Q[bx * 64, 0], q)
            T.clear(acc)
            T.fill(best, -T.infinity("float32"))
            for step in T.Pipelined(T.ceildiv(length, 32), num_stages=stages):
                T.copy(K[step * 32, 0], k)
                T.gemm(q, k, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(64, 32):
                    scores[i, j] = T.if_then_else(bx * 64 + i >= step * 32 + j, scores[i, j], -T.infinity("float32"))
                T.copy(best, before)
                T.reduce_max(scores, best, dim=1, clear=False)
                for i, j in T.Parallel(64, 32):
                    probs[i, j] = T.if_then_else(scores[i, j] >= best[i], 1.0, 0.0)
                for i, j in T.Parallel(64, 32):
                    acc[i, j] = T.if_then_else(before[i] < best[i], 0.0, acc[i, j])
                T.copy(V[step * 32, 0], v)
                T.gemm(probs, v, acc)
            T.copy(acc, Out[bx * 64, 0])

    return kernel
