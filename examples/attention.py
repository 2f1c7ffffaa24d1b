"""Attention, forward: softmax(Q @ K.T / sqrt(dim)) @ V for each head, without ever storing the matrix of scores.

    python examples/attention.py

Multi-head, or grouped-query where several heads of Q share one of K and V; causal or full.  The second result is the logarithm of
each row's softmax denominator, which a backward pass needs.  The idea is that of online_softmax.py: block_N keys at a time, what
has been summed so far is scaled down whenever a row's maximum rises.
"""
import numpy as np
from harness import Bound, check, gpu, on_gpu, random

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634


def attention(batch, heads, kv_heads, seq, dim, causal=False, block_M=128, block_N=128, num_stages=2, threads=256):
    scale = dim**-0.5 * LOG2_E  # exp(x) is exp2(x * LOG2_E), and exp2 is one instruction

    @T.prim_func
    def forward(
        Q: T.Tensor((batch, seq, heads, dim), "float16"), K: T.Tensor((batch, seq, kv_heads, dim), "float16"),
        V: T.Tensor((batch, seq, kv_heads, dim), "float16"), Out: T.Tensor((batch, seq, heads, dim), "float16"),
        lse: T.Tensor((batch, heads, seq), "float32"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(seq, block_M), heads, batch, threads=threads) as (bx, head, b):
            Q_tile = T.alloc_shared((block_M, dim), "float16")
            K_tile = T.alloc_shared((block_N, dim), "float16")
            V_tile = T.alloc_shared((block_N, dim), "float16")
            S = T.alloc_fragment((block_M, block_N), "float32")
            P = T.alloc_fragment((block_M, block_N), "float16")
            out = T.alloc_fragment((block_M, dim), "float32")
            highest = T.alloc_fragment((block_M,), "float32")
            before = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            of_tile = T.alloc_fragment((block_M,), "float32")
            kv_head = head // (heads // kv_heads)

            T.copy(Q[b, bx * block_M : (bx + 1) * block_M, head, :], Q_tile)
            T.clear(out)
            T.clear(total)
            T.fill(highest, -T.infinity("float32"))
            keys = T.min((bx + 1) * block_M, seq) if causal else seq  # after these none matters
            for k in T.Pipelined(T.ceildiv(keys, block_N), num_stages=num_stages):
                T.copy(K[b, k * block_N : (k + 1) * block_N, kv_head, :], K_tile)
                T.gemm(Q_tile, K_tile, S, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(block_M, block_N):
                    key = k * block_N + j
                    seen = key <= bx * block_M + i if causal else key < seq
                    S[i, j] = T.if_then_else(seen, S[i, j] * scale, -T.infinity("float32"))
                T.copy(highest, before)
                T.reduce_max(S, highest, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_N):
                    S[i, j] = T.exp2(S[i, j] - highest[i])
                T.reduce_sum(S, of_tile, dim=1)
                for i in T.Parallel(block_M):
                    before[i] = T.exp2(before[i] - highest[i])  # from here on the factor
                    total[i] = total[i] * before[i] + of_tile[i]
                for i, j in T.Parallel(block_M, dim):
                    out[i, j] *= before[i]
                T.copy(S, P)
                T.copy(V[b, k * block_N : (k + 1) * block_N, kv_head, :], V_tile)
                T.gemm(P, V_tile, out)  # P stays in registers
            for i, j in T.Parallel(block_M, dim):
                out[i, j] /= total[i]
            T.copy(out, Out[b, bx * block_M : (bx + 1) * block_M, head, :])
            for i in T.Parallel(block_M):
                lse[b, head, bx * block_M + i] = (highest[i] + T.log2(total[i])) / LOG2_E

    return forward


def inputs(batch, heads, kv_heads, seq, dim):
    """Q, K and V: standard-normal numbers."""
    return random(batch, seq, heads, dim), *(random(batch, seq, kv_heads, dim, seed=seed) for seed in (1, 2))


def expected(Q, K, V, causal) -> tuple[Bound, Bound]:
    """The exact result and logarithms (V may have fewer heads than Q).

    Rounding explains 2 u (P @ |V|) for P in float16 (u = 2**-11) and another u |O| for the result; and whatever the scores'
    float32 sums are off by (delta, absolute) changes P by as much, relatively."""
    Q, K, V = (array.astype(np.float64).transpose(0, 2, 1, 3) for array in (Q, K, V))  # (batch, head, seq, dim)
    K, V = (array.repeat(Q.shape[1] // array.shape[1], axis=1) for array in (K, V))
    seq, dim = Q.shape[-2:]
    S = Q @ K.swapaxes(-1, -2) / dim**0.5
    terms = (np.abs(Q) @ np.abs(K).swapaxes(-1, -2)).max(axis=-1, keepdims=True) / dim**0.5
    delta = (4 * (dim / 16) ** 0.5 + 8) * 2.0**-24 * terms
    if causal:
        S[..., np.triu(np.ones((seq, seq), bool), 1)] = -np.inf
    highest = S.max(axis=-1, keepdims=True)
    P = np.exp(S - highest)
    total = P.sum(axis=-1, keepdims=True)
    P /= total
    out = P @ V
    allowed = (2 * 2.0**-11 + 2.0**-20 + 2 * delta) * (P @ np.abs(V)) + 2.0**-11 * np.abs(out) + seq * 2.0**-24 * np.abs(V).max()
    lse = (highest + np.log(total))[..., 0]
    off = (delta + 2.0**-22 * (1 + np.abs(highest)))[..., 0] + 2.0**-22 * np.abs(lse)
    return (out.transpose(0, 2, 1, 3), allowed.transpose(0, 2, 1, 3)), (lse, off)


def show(where, kernel, shape, causal):
    """Runs the kernel where `where` says, checks its results and, on a GPU, times it."""
    batch, heads, kv_heads, seq, dim = shape
    arrays = inputs(*shape)
    what = f"{where}: {batch} x {seq} x {heads} x {dim}, {kv_heads} heads of K and V, {'causal' if causal else 'full'}"
    if where == "GPU":
        (out, lse), seconds = on_gpu(kernel, *arrays)
        flop = 4 * batch * heads * seq * seq * dim / (2 if causal else 1)
        what += f", {seconds * 1e6:.0f} us, {flop / seconds / 1e12:.0f} TFLOP/s"
        Q, K, V = (array[-1:, :, -1:] for array in arrays)  # the last head of the last sequence says enough
        out, lse = out[-1:, :, -1:], lse[-1:, -1:]
    else:
        out, lse = kernel(*arrays)
        Q, K, V = arrays
    of_out, of_lse = expected(Q, K, V, causal)
    check(what, out, of_out)
    check(" " * len(where) + "  logarithms of the denominators", lse, of_lse)


def main():
    for causal in (False, True):
        for shape in ((1, 4, 4, 300, 64), (1, 4, 1, 256, 64)):
            show("CPU", tilelang.compile(attention(*shape, causal), out_idx=[3, 4]), shape, causal)
        for shape in ((4, 16, 16, 4096, 128), (4, 16, 4, 4096, 128)) if gpu() else ():
            show("GPU", tilelang.compile(attention(*shape, causal), out_idx=[3, 4]), shape, causal)


if __name__ == "__main__":
    main()
