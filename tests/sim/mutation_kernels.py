"""Small kernels that use every kind of synchronisation the compiler emits, for counting which of their mutants are noticed.

Each takes (stages, trips, tiles): the depth of its pipeline, the k steps of one tile, and the tiles that a block computes one
after the other.  Tiles are 64 x 64 x 16 or smaller; arrays hold small integers, so that results are exact.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import tilelang.language as T
from tilelang.ir import device as d
from tilelang.ir.tile import Kernel
from tilelang.sim.equivalence import Facts, Ring
from tilelang.sim.mutate import Mutant
from tilelang.target import SM_90A, Target

M, N, K = 64, 64, 16
ONE_SM = dataclasses.replace(SM_90A, multiprocessors=1, lone_warpgroup_cycles=1)
"""A chip on which a few tiles are more than two for each SM, so that warpgroups take them in turn."""


@dataclass(frozen=True)
class Shape:
    """How deep, how long, how often."""

    stages: int
    trips: int
    tiles: int = 1

    def __str__(self) -> str:
        return f"S{self.stages} K{self.trips} W{self.tiles}"


def gemm(s: Shape) -> Kernel:
    @T.prim_func
    def kernel(
        A: T.Tensor((M, s.trips * K), "float16"), B: T.Tensor((s.trips * K, N), "float16"), C: T.Tensor((M, N), "float16"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128) as bx:
            A_s, B_s = T.alloc_shared((M, K), "float16"), T.alloc_shared((K, N), "float16")
            acc = T.alloc_fragment((M, N), "float32")
            T.clear(acc)
            for k in T.Pipelined(s.trips, num_stages=s.stages):
                T.copy(A[0, k * K], A_s)
                T.copy(B[k * K, 0], B_s)
                T.gemm(A_s, B_s, acc)
            T.copy(acc, C[bx * M, 0])

    return kernel


def gemm_transposed(s: Shape) -> Kernel:
    @T.prim_func
    def kernel(
        A: T.Tensor((s.trips * K, M), "float16"), B: T.Tensor((32, s.trips * K), "float16"), C: T.Tensor((M, 32), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128) as bx:
            A_s, B_s = T.alloc_shared((K, M), "float16"), T.alloc_shared((32, K), "float16")
            acc = T.alloc_fragment((M, 32), "float32")
            T.clear(acc)
            for k in T.Pipelined(s.trips, num_stages=s.stages):
                T.copy(A[k * K, 0], A_s)
                T.copy(B[0, k * K], B_s)
                T.gemm(A_s, B_s, acc, transpose_A=True, transpose_B=True)
            T.copy(acc, C[bx * M, 0])

    return kernel


def gemm_two_warpgroups(s: Shape) -> Kernel:
    @T.prim_func
    def kernel(
        A: T.Tensor((M, s.trips * K), "float16"), B: T.Tensor((s.trips * K, N), "float16"), C: T.Tensor((M, N), "float16"),
    ):  # fmt: skip
        with T.Kernel(1, threads=256) as bx:
            A_s, B_s = T.alloc_shared((M, K), "float16"), T.alloc_shared((K, N), "float16")
            C_s, acc = T.alloc_shared((M, N), "float16"), T.alloc_fragment((M, N), "float32")
            T.clear(acc)
            for k in T.Pipelined(s.trips, num_stages=s.stages):
                T.copy(A[0, k * K], A_s)
                T.copy(B[k * K, 0], B_s)
                T.gemm(A_s, B_s, acc)
            T.copy(acc, C_s)
            T.copy(C_s, C[bx * M, 0])

    return kernel


def persistent(s: Shape) -> Kernel:
    @T.prim_func
    def kernel(
        A: T.Tensor((s.tiles * M, s.trips * K), "float16"), B: T.Tensor((s.trips * K, N), "float16"),
        C: T.Tensor((s.tiles * M, N), "float16"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128) as bx:
            A_s, B_s = T.alloc_shared((M, K), "float16"), T.alloc_shared((K, N), "float16")
            acc = T.alloc_fragment((M, N), "float32")
            for t in T.serial(s.tiles):
                T.clear(acc)
                for k in T.Pipelined(s.trips, num_stages=s.stages):
                    T.copy(A[t * M, k * K], A_s)
                    T.copy(B[k * K, bx * N], B_s)
                    T.gemm(A_s, B_s, acc)
                T.copy(acc, C[t * M, 0])

    return kernel


def persistent_scaled(s: Shape) -> Kernel:
    """The epilogue reads a bias that was loaded for this tile, and leaves through the author's own shared tile."""

    @T.prim_func
    def kernel(
        A: T.Tensor((s.tiles * M, s.trips * K), "float16"), B: T.Tensor((s.trips * K, N), "float16"),
        bias: T.Tensor((s.tiles, N), "float32"), C: T.Tensor((s.tiles * M, N), "float16"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128) as bx:
            A_s, B_s = T.alloc_shared((M, K), "float16"), T.alloc_shared((K, N), "float16")
            acc, C_s = T.alloc_fragment((M, N), "float32"), T.alloc_shared((M, N), "float16")
            for t in T.serial(s.tiles):
                T.clear(acc)
                for k in T.Pipelined(s.trips, num_stages=s.stages):
                    T.copy(A[t * M, k * K], A_s)
                    T.copy(B[k * K, bx * N], B_s)
                    T.gemm(A_s, B_s, acc)
                for i, j in T.Parallel(M, N):
                    acc[i, j] = T.max(acc[i, j] + bias[t, j], 0)
                T.copy(acc, C_s)
                T.copy(C_s, C[t * M, 0])

    return kernel


def overwriting(s: Shape) -> Kernel:
    """Every tile goes to the same place, so that the last one must win."""

    @T.prim_func
    def kernel(
        A: T.Tensor((s.tiles * M, s.trips * K), "float16"), B: T.Tensor((s.trips * K, N), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128) as bx:
            A_s, B_s = T.alloc_shared((M, K), "float16"), T.alloc_shared((K, N), "float16")
            acc = T.alloc_fragment((M, N), "float32")
            for t in T.serial(s.tiles):
                T.clear(acc)
                for k in T.Pipelined(s.trips, num_stages=s.stages):
                    T.copy(A[t * M, k * K], A_s)
                    T.copy(B[k * K, bx * N], B_s)
                    T.gemm(A_s, B_s, acc)
                T.copy(acc, C[bx * M, 0])

    return kernel


def two_gemms(s: Shape) -> Kernel:
    """Two products an iteration that share an operand."""

    @T.prim_func
    def kernel(
        A: T.Tensor((M, s.trips * K), "float16"), B: T.Tensor((s.trips * K, N), "float16"),
        D: T.Tensor((s.trips * K, 32), "float16"), C: T.Tensor((M, N), "float16"), E: T.Tensor((M, 32), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128) as bx:
            A_s, B_s, D_s = (T.alloc_shared(shape, "float16") for shape in ((M, K), (K, N), (K, 32)))
            acc, acc2 = T.alloc_fragment((M, N), "float32"), T.alloc_fragment((M, 32), "float32")
            T.clear(acc)
            T.clear(acc2)
            for k in T.Pipelined(s.trips, num_stages=s.stages):
                T.copy(A[0, k * K], A_s)
                T.copy(B[k * K, 0], B_s)
                T.copy(D[k * K, 0], D_s)
                T.gemm(A_s, B_s, acc)
                T.gemm(A_s, D_s, acc2)
            T.copy(acc, C[bx * M, 0])
            T.copy(acc2, E[bx * M, 0])

    return kernel


def two_loops(s: Shape) -> Kernel:
    """Two pipelined loops one after the other through one ring."""

    @T.prim_func
    def kernel(
        A: T.Tensor((M, s.trips * K), "float16"), B: T.Tensor((s.trips * K, N), "float16"), C: T.Tensor((M, N), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128) as bx:
            A_s, B_s = T.alloc_shared((M, K), "float16"), T.alloc_shared((K, N), "float16")
            acc = T.alloc_fragment((M, N), "float32")
            T.clear(acc)
            for k in T.Pipelined(s.trips, num_stages=s.stages):
                T.copy(A[0, k * K], A_s)
                T.copy(B[k * K, 0], B_s)
                T.gemm(A_s, B_s, acc)
            for k in T.Pipelined(s.trips, num_stages=s.stages):
                T.copy(A[0, k * K], A_s)
                T.copy(B[k * K, 0], B_s)
                T.gemm(A_s, B_s, acc)
            T.copy(acc, C[bx * M, 0])

    return kernel


def resident(s: Shape) -> Kernel:
    """One operand loaded once, outside the loop, and a result stored in each iteration."""

    @T.prim_func
    def kernel(
        Q: T.Tensor((M, K), "float16"), B: T.Tensor((s.trips * 32, K), "float16"), C: T.Tensor((M, s.trips * 32), "float16"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128) as bx:
            Q_s, B_s = T.alloc_shared((M, K), "float16"), T.alloc_shared((32, K), "float16")
            acc = T.alloc_fragment((M, 32), "float32")
            T.copy(Q[bx * M, 0], Q_s)
            for k in T.Pipelined(s.trips, num_stages=s.stages):
                T.copy(B[k * 32, 0], B_s)
                T.gemm(Q_s, B_s, acc, transpose_B=True, clear_accum=True)
                T.copy(acc, C[0, k * 32])

    return kernel


def attention(s: Shape) -> Kernel:
    """Scores to registers, from there into the second product; K and V in rings of their own."""

    @T.prim_func
    def kernel(
        Q: T.Tensor((M, 16), "float16"), Ks: T.Tensor((s.trips * 16, 16), "float16"), V: T.Tensor((s.trips * 16, 32), "float16"),
        O: T.Tensor((M, 32), "float16"),  # noqa: E741
    ):  # fmt: skip
        with T.Kernel(1, threads=128) as bx:
            Q_s, K_s, V_s = (T.alloc_shared(shape, "float16") for shape in ((M, 16), (16, 16), (16, 32)))
            scores, probs = T.alloc_fragment((M, 16), "float32"), T.alloc_fragment((M, 16), "float16")
            acc, top = T.alloc_fragment((M, 32), "float32"), T.alloc_fragment((M,), "float32")
            T.copy(Q[bx * M, 0], Q_s)
            T.clear(acc)
            T.fill(top, 0)
            for k in T.Pipelined(s.trips, num_stages=s.stages):
                T.copy(Ks[k * 16, 0], K_s)
                T.gemm(Q_s, K_s, scores, transpose_B=True, clear_accum=True)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i, j in T.Parallel(M, 16):
                    probs[i, j] = T.min(scores[i, j], 1)
                T.copy(V[k * 16, 0], V_s)
                T.gemm(probs, V_s, acc)
            for i, j in T.Parallel(M, 32):
                acc[i, j] = acc[i, j] + top[i]
            T.copy(acc, O[bx * M, 0])

    return kernel


def chained(s: Shape) -> Kernel:
    """The first product goes through shared memory to be an operand of the second."""

    @T.prim_func
    def kernel(
        Q: T.Tensor((M, 16), "float16"), Ks: T.Tensor((s.trips * 16, 16), "float16"), V: T.Tensor((s.trips * 16, 32), "float16"),
        O: T.Tensor((M, 32), "float16"),  # noqa: E741
    ):  # fmt: skip
        with T.Kernel(1, threads=128) as bx:
            Q_s, K_s, V_s, S_s = (T.alloc_shared(shape, "float16") for shape in ((M, 16), (16, 16), (16, 32), (M, 16)))
            scores, acc = T.alloc_fragment((M, 16), "float32"), T.alloc_fragment((M, 32), "float32")
            T.copy(Q[bx * M, 0], Q_s)
            T.clear(acc)
            for k in T.Pipelined(s.trips, num_stages=s.stages):
                T.copy(Ks[k * 16, 0], K_s)
                T.gemm(Q_s, K_s, scores, transpose_B=True, clear_accum=True)
                T.copy(scores, S_s)
                T.copy(V[k * 16, 0], V_s)
                T.gemm(S_s, V_s, acc)
            T.copy(acc, O[bx * M, 0])

    return kernel


def pipelined_copies(s: Shape) -> Kernel:
    """The TMA store is itself the last reader of a slot."""

    @T.prim_func
    def kernel(A: T.Tensor((s.trips * 16, 64), "float16"), B: T.Tensor((s.trips * 16, 64), "float16")):
        with T.Kernel(1, threads=128) as bx:
            A_s = T.alloc_shared((16, 64), "float16")
            for k in T.Pipelined(s.trips, num_stages=s.stages):
                T.copy(A[k * 16, bx * 64], A_s)
                T.copy(A_s, B[k * 16, 0])

    return kernel


def elementwise(s: Shape) -> Kernel:
    """Threads read what TMA brought, and store to global memory themselves."""

    @T.prim_func
    def kernel(A: T.Tensor((s.trips * 16, 64), "float16"), B: T.Tensor((s.trips * 16, 64), "float32")):
        with T.Kernel(1, threads=128) as bx:
            A_s = T.alloc_shared((16, 64), "float16")
            for k in T.Pipelined(s.trips, num_stages=s.stages):
                T.copy(A[k * 16, bx * 64], A_s)
                for i, j in T.Parallel(16, 64):
                    B[k * 16 + i, j] = T.cast(A_s[i, j], "float32") * 2

    return kernel


def transpose(s: Shape) -> Kernel:
    """Written by rows, read by columns, tile after tile through one piece of shared memory."""

    @T.prim_func
    def kernel(A: T.Tensor((s.trips * 32, 32), "float32"), B: T.Tensor((32, s.trips * 32), "float32")):
        with T.Kernel(1, threads=128) as bx:
            tile = T.alloc_shared((32, 32), "float32")
            for k in T.serial(s.trips):
                for i, j in T.Parallel(32, 32):
                    tile[i, j] = A[k * 32 + i, bx * 32 + j]
                for i, j in T.Parallel(32, 32):
                    B[i, k * 32 + j] = tile[j, i]

    return kernel


def row_sums(s: Shape) -> Kernel:
    """Rows of a shared tile that all warps share: partial sums meet in shared memory."""

    @T.prim_func
    def kernel(A: T.Tensor((s.trips * 4, 256), "float32"), B: T.Tensor((s.trips * 4,), "float32")):
        with T.Kernel(1, threads=128) as bx:
            tile, sums = T.alloc_fragment((4, 256), "float32"), T.alloc_fragment((4,), "float32")
            for k in T.serial(s.trips):
                for i, j in T.Parallel(4, 256):
                    tile[i, j] = A[k * 4 + i, bx * 256 + j]
                T.reduce_sum(tile, sums, dim=1)
                for i in T.Parallel(4):
                    B[k * 4 + i] = sums[i]

    return kernel


def ping_pong(s: Shape) -> Kernel:
    """Two warpgroups take the tiles of one block in turn, where the chip has one SM."""

    @T.prim_func
    def kernel(
        A: T.Tensor((s.tiles * M, s.trips * K), "float16"), B: T.Tensor((s.trips * K, N), "float16"),
        C: T.Tensor((s.tiles * M, N), "float16"),
    ):  # fmt: skip
        with T.Kernel(s.tiles, threads=128) as bx:
            A_s, B_s = T.alloc_shared((M, K), "float16"), T.alloc_shared((K, N), "float16")
            acc = T.alloc_fragment((M, N), "float32")
            T.clear(acc)
            for k in T.Pipelined(s.trips, num_stages=s.stages):
                T.copy(A[bx * M, k * K], A_s)
                T.copy(B[k * K, 0], B_s)
                T.gemm(A_s, B_s, acc)
            for i, j in T.Parallel(M, N):
                acc[i, j] = T.max(acc[i, j], 0)
            T.copy(acc, C[bx * M, 0])

    return kernel


def ping_pong_guest(s: Shape) -> Kernel:
    """The same with a residual, which comes by TMA into the tile that the result is stored from."""

    @T.prim_func
    def kernel(
        A: T.Tensor((s.tiles * M, s.trips * K), "float16"), B: T.Tensor((s.trips * K, 32), "float16"),
        R: T.Tensor((s.tiles * M, 32), "float16"), C: T.Tensor((s.tiles * M, 32), "float16"),
    ):  # fmt: skip
        with T.Kernel(s.tiles, threads=128) as bx:
            A_s, B_s = T.alloc_shared((M, K), "float16"), T.alloc_shared((K, 32), "float16")
            acc = T.alloc_fragment((M, 32), "float32")
            T.clear(acc)
            for k in T.Pipelined(s.trips, num_stages=s.stages):
                T.copy(A[bx * M, k * K], A_s)
                T.copy(B[k * K, 0], B_s)
                T.gemm(A_s, B_s, acc)
            for i, j in T.Parallel(M, 32):
                acc[i, j] = acc[i, j] + R[bx * M + i, j]
            T.copy(acc, C[bx * M, 0])

    return kernel


PIPELINED = (Shape(2, 1), Shape(3, 2), Shape(2, 2), Shape(2, 3), Shape(3, 4), Shape(2, 4), Shape(1, 3))
"""K < S, K = S, K % S != 0, K % 2S != 0, and K a multiple of 2S."""
PERSISTENT = (Shape(3, 2, 1), Shape(4, 1, 2), Shape(2, 2, 2), Shape(2, 3, 2), Shape(2, 4, 2), Shape(3, 2, 3))
IN_TURN = (Shape(2, 1, 3), Shape(3, 2, 3), Shape(2, 2, 4), Shape(2, 3, 4), Shape(2, 4, 3), Shape(2, 5, 4), Shape(2, 8, 5))
"""The same of the ring that two warpgroups share, with slots for both; as many slots as there are fills, or more, or as two tiles
fill; odd and even numbers of tiles."""
SERIAL = (Shape(1, 1), Shape(1, 2), Shape(1, 3))


# ---- what makes a mutant equivalent -------------------------------------------------------------------------------------------

Match = Callable[[Mutant], bool]


def _of(
    kind: type[d.Stmt], *actions: str, index: int | None = None, near: str | None = None, passed: str | None = None,
    target: str | None = None,
) -> Match:  # fmt: skip
    """Mutants of one kind of statement; `index` counts among those that are otherwise alike."""
    return lambda m: (
        m.kind is kind and m.action in actions and target in (None, m.target)
        and index in (None, m.index) and near in (None, m.near) and passed in (None, m.passed)
    )  # fmt: skip


def _rings(s: Shape, *prefixes: str, resident: str = "") -> dict[str, Ring]:
    rings = {prefix: Ring(s.stages, s.trips * s.tiles) for prefix in prefixes}
    return rings | ({resident: Ring(1, 1)} if resident else {})


_APART: tuple[Match, bool] = (_of(d.BulkWaitGroup, "delete", "pending+1", "later"), True)
"""Stores of one block go to different places, so that the next need not wait until one has been written."""


def _persistent_facts(s: Shape, apart: bool = True) -> Facts:
    """The first barrier of the epilogue keeps the store of the tile before from being overwritten.  With more k steps than
    stages a slot is released, after that store, and filled again before the epilogue: the barrier is not needed then."""
    unneeded = s.tiles == 1 or s.trips > s.stages
    return Facts(_rings(s, ""), (
        (_of(d.NamedBarrierSync, "delete", index=0), unneeded),
        (_of(d.NamedBarrierSync, "later", passed="Unroll"), unneeded),
        (_of(d.NamedBarrierSync, "earlier"), True),
        (_APART[0], apart or s.tiles == 1),
    ))  # fmt: skip


def _resident_facts(s: Shape) -> Facts:
    """The first barrier of the store keeps the one of the iteration before from being overwritten."""
    once = s.trips == 1
    return Facts(_rings(s, "B_s_", resident="Q_s_"), (
        _APART,
        (_of(d.NamedBarrierSync, "delete", index=0), once),
        (_of(d.NamedBarrierSync, "later", passed="Unroll"), once),
    ))  # fmt: skip


def _two_gemms_facts(s: Shape) -> Facts:
    """The producer refills A first, and A is released after a wait that covers both products, by when all three slots have been
    full: the first product needs no wait of its own, and the bytes of B and D may be expected before their slots are free.  The
    second accumulator is not touched in the loop, so the first fence serves both."""
    first, second = "B_s_empty", "A_s_empty"
    return Facts(_rings(s, "A_s_", "B_s_", "D_s_"), (
        (lambda m: m.kind is d.MbarrierWait and m.passed == "MbarrierExpectTx" and m.target in ("B_s_empty", "D_s_empty"), True),
        (_of(d.WgmmaCommitGroup, "delete", "earlier", "later", near=first), True),
        (_of(d.WgmmaWaitGroup, "delete", "later", "pending+1", near=first), True),
        (_of(d.WgmmaFence, "delete", "later", near=second), True),
    ))  # fmt: skip


def _two_loops_facts(s: Shape) -> Facts:
    """What the first loop leaves in flight the second one's waits cover, before anything touches the accumulator; only the
    release of its slots comes too early."""
    first, second = range(s.trips), range(s.trips, 2 * s.trips)
    ring = Ring(s.stages, 2 * s.trips, lambda mutant: (first, second)[mutant.index])
    fresh = not ring.reused(first)
    return Facts({"": ring}, (
        (_of(d.WgmmaCommitGroup, "delete", "earlier", "later", index=0), fresh),
        (_of(d.WgmmaWaitGroup, "delete", "pending+1", index=0), fresh),
        (_of(d.WgmmaFence, "delete", "later", index=1), True),
    ))  # fmt: skip


def _chained_facts(s: Shape) -> Facts:
    """Each warp reads the rows of scores that it wrote itself, so nothing is overwritten before the next scores.  The result's
    tile shares memory with the first slot of V: the barrier before it is needed where the last product reads that slot."""
    other_slot = (s.trips - 1) % s.stages != 0
    return Facts(_rings(s, "K_s_", "V_s_", resident="Q_s_"), (
        (_of(d.NamedBarrierSync, "delete", index=0), other_slot),
        (_of(d.NamedBarrierSync, "later", passed="Unroll"), other_slot),
        (_of(d.NamedBarrierSync, "delete", index=2), True),
        (_of(d.NamedBarrierSync, "later", passed="StoreMatrix"), True),
        (_of(d.WgmmaFence, "delete", "later", near="V_s_empty"), True),
    ))  # fmt: skip


def _pipelined_copies_facts(s: Shape) -> Facts:
    return Facts(_rings(s, ""), (_APART,))


def _transpose_facts(s: Shape) -> Facts:
    """The barrier at the top of the loop is for what the iteration before left behind."""
    once = s.trips == 1
    return Facts({}, ((_of(d.SyncThreads, "delete", "later", index=0), once),))


def _row_sums_facts(s: Shape) -> Facts:
    """As in `transpose`; before that barrier stand loads from global memory, which it has nothing to do with."""
    return Facts({}, ((_of(d.SyncThreads, "earlier", index=0), True), *_transpose_facts(s).own))


def _plain_facts(s: Shape) -> Facts:
    return Facts(_rings(s, ""))


# ---- ping-pong ----------------------------------------------------------------------------------------------------------------

WARPGROUPS = 2
_SPOILED_ADVANCE = ("delete", "slots+1", "slots-1")
Rule = tuple[Match, bool]


def _tiles_of(s: Shape, role: str) -> range:
    """The tiles that a role takes: a warpgroup every second one, the producer and the setup all."""
    return range(int(role[-1]), s.tiles, WARPGROUPS) if role.startswith("consumer_") else range(s.tiles)


def _turns_of(s: Shape, mutant: Mutant) -> range:
    """The turns of each tile whose slot a mutant's statement is about: the slot of a turn is released one turn later, that of the
    last one behind the loop, where the wait that can be moved past a release is, too."""
    if mutant.kind is d.MbarrierArrive:
        return range(s.trips - 1) if mutant.index == 0 else range(s.trips - 1, s.trips)
    if mutant.kind is d.WgmmaWaitGroup:
        return range(s.trips - 1, s.trips)
    return range(s.trips)


def _main_ring(s: Shape) -> Ring:
    def share(mutant: Mutant) -> list[int]:
        return [tile * s.trips + turn for tile in _tiles_of(s, mutant.role) for turn in _turns_of(s, mutant)]

    return Ring(WARPGROUPS * s.stages, s.trips * s.tiles, share)


def _guest_ring(s: Shape) -> Ring:
    return Ring(WARPGROUPS, s.tiles, lambda mutant: _tiles_of(s, mutant.role))


def _ping_pong_facts(s: Shape) -> Facts:
    """As in `persistent`, the first barrier of the epilogue is not needed for a warpgroup's only tile, nor where a slot that was
    released in this tile has been filled again before the epilogue."""
    ring = _main_ring(s)
    rules: list[Rule] = []
    for number in range(WARPGROUPS):
        unneeded = _takes_one(s, number) or s.trips > ring.slots
        barrier = _of(d.NamedBarrierSync, "delete", index=0), _of(d.NamedBarrierSync, "later", passed="Unroll")
        rules += [(_by(number, match), unneeded) for match in barrier] + _warpgroup_rules(s, number, "phase")
    return Facts({"": ring}, (*rules, *_producer_rules(s, ""), *_TURNS))


def _ping_pong_guest_facts(s: Shape) -> Facts:
    """The guest may be waited for ahead of the main loop: whoever is to release its slot has all it needs by then.  Where a slot
    that was released in this tile has been filled again, the warpgroup's tile before is done, its store included: so the guest's
    bytes may be expected before its slot is free, and the slot released before the store has read it."""
    refilled = s.trips > WARPGROUPS * s.stages
    early: list[Rule] = [(_of(d.MbarrierArrive, "earlier", passed="Elected", target="R_tile_empty"), True)] if refilled else []
    rules: list[Rule] = [
        *early,
        (_of(d.MbarrierWait, "earlier", passed="For", target="R_tile_empty"), True),
        (_of(d.MbarrierWait, "later", passed="MbarrierExpectTx", target="R_tile_empty"), refilled),
    ]
    for number in range(WARPGROUPS):
        spoiled = _of(d.RingAdvance, *_SPOILED_ADVANCE, target="R_tile_phase")
        rules += [(_by(number, spoiled), _takes_one(s, number)), *_warpgroup_rules(s, number, "A_s_B_s_phase")]
    return Facts({"A_s_B_s_": _main_ring(s), "R_tile_": _guest_ring(s)}, (*rules, *_producer_rules(s, "A_s_B_s_"), *_TURNS))


def _by(number: int, match: Match) -> Match:
    return lambda m: m.role == f"consumer_{number}" and match(m)


def _takes_one(s: Shape, number: int) -> bool:
    return len(_tiles_of(s, f"consumer_{number}")) == 1


def _warpgroup_rules(s: Shape, number: int, phase: str) -> list[Rule]:
    """What is not needed in one of the warpgroups.

    The other's turn may begin with this one's, before this one's slots are full, if no slot is filled again before this one's
    next tile: then no wait can take a phase for the one two before.  A slot may be released while it is read if a tile fills the
    ring exactly: the first slot, which is filled again before all others, is released behind the loop then.  The gemm in flight
    need not be waited for in the loop, nor be a group by then, if none of the slots that are released there is filled again.  A
    position moved on by whole double laps does not move."""
    ring, once = _main_ring(s), _takes_one(s, number)
    early = [tile * s.trips + turn for tile in _tiles_of(s, f"consumer_{number}") for turn in range(s.trips - 1)]
    fresh = not ring.reused(early)
    rules = (
        (_of(d.Assign, "delete", target="turn_phase"), once),
        (_of(d.Assign, "later", passed="For", target="turn_phase"), True),
        (_of(d.Assign, "earlier", passed="If", target="behind"), s.trips == 1),
        (_of(d.Assign, "later", passed="RingAdvance", target="behind"), s.trips == ring.slots),
        (_of(d.Declare, "phase start", target="behind"), True),
        (_of(d.MbarrierArrive, "earlier", passed="For", target="turn"), WARPGROUPS * s.trips <= ring.slots),
        (_of(d.MbarrierArrive, "later", passed="WgmmaWaitGroup", target="turn"), True),
        (_of(d.MbarrierArrive, "later", passed="RingAdvance"), True),
        (_of(d.RingAdvance, "delete", index=0, target=phase), once or s.trips % (2 * ring.slots) == 0),
        (_of(d.RingAdvance, "slots+1", "slots-1", index=0, target=phase), once),
        (_of(d.RingAdvance, *_SPOILED_ADVANCE, index=1, target=phase), once and s.trips == 1),
        (_of(d.WgmmaWaitGroup, "delete", "pending+1", index=1), fresh),
        (_of(d.WgmmaWaitGroup, "later", passed="If"), fresh),
        (_of(d.WgmmaCommitGroup, "later", passed="WgmmaWaitGroup"), fresh),
    )
    return [(_by(number, match), answer) for match, answer in rules]


def _producer_rules(s: Shape, prefix: str) -> list[Rule]:
    """Where a tile fills the ring exactly, the producer may wait for the slot before, and expect bytes of the slot behind: a slot
    is released once the next one has been full, the last one behind the loop, so that neither is ever a phase off.  Where all
    tiles together fill it once with one turn each, the slots hold the same B, so that one's B may go to the next."""
    ring = _main_ring(s)
    exactly, one_lap = s.trips == ring.slots, ring.uses == ring.slots
    return [
        (_of(d.MbarrierWait, "stage-1", target=f"{prefix}empty"), exactly),
        (_of(d.MbarrierExpectTx, "stage+1", target=f"{prefix}full"), exactly or one_lap),
        (_of(d.RingAdvance, "earlier", passed="TmaLoad", target=f"{prefix}phase"), s.trips == 1 and one_lap),
    ]


_TURNS: tuple[Rule, ...] = (
    (lambda m: m.kind is d.MbarrierInit and m.action == "later" and m.target.startswith("turn"), True),
    (lambda m: m.target.startswith("turn"), False),
)
"""No copy completes on a turn.  A warpgroup that does not wait for its turn, or not for that one, can take it twice before the
other has waited once, which then waits for ever; where it cannot, it is because they have slots in common, and then it can
mistake the phase of one."""


@dataclass(frozen=True)
class Subject:
    make: Callable[[Shape], Kernel]
    shapes: tuple[Shape, ...]
    facts: Callable[[Shape], Facts]
    target: Target = SM_90A


SUBJECTS: dict[str, Subject] = {
    "gemm": Subject(gemm, PIPELINED, _plain_facts),
    "gemm_transposed": Subject(gemm_transposed, PIPELINED, _plain_facts),
    "gemm_two_warpgroups": Subject(gemm_two_warpgroups, PIPELINED, _plain_facts),
    "persistent": Subject(persistent, PERSISTENT, _persistent_facts),
    "persistent_scaled": Subject(persistent_scaled, PERSISTENT, _persistent_facts),
    "overwriting": Subject(overwriting, PERSISTENT, lambda s: _persistent_facts(s, apart=False)),
    "two_gemms": Subject(two_gemms, PIPELINED, _two_gemms_facts),
    "two_loops": Subject(two_loops, PIPELINED, _two_loops_facts),
    "resident": Subject(resident, PIPELINED, _resident_facts),
    "attention": Subject(attention, PIPELINED, lambda s: Facts(_rings(s, "K_s_", "V_s_", resident="Q_s_"))),
    "chained": Subject(chained, PIPELINED, _chained_facts),
    "pipelined_copies": Subject(pipelined_copies, PIPELINED, _pipelined_copies_facts),
    "elementwise": Subject(elementwise, PIPELINED, _plain_facts),
    "transpose": Subject(transpose, SERIAL, _transpose_facts),
    "row_sums": Subject(row_sums, SERIAL, _row_sums_facts),
    "ping_pong": Subject(ping_pong, IN_TURN, _ping_pong_facts, ONE_SM),
    "ping_pong_guest": Subject(ping_pong_guest, IN_TURN, _ping_pong_guest_facts, ONE_SM),
}
