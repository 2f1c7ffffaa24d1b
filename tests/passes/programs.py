"""Tile programs beyond the plain GEMM: several gemms, several loops, loads outside loops, trip counts of every kind.

Each takes few options, small tiles and a small grid.  The arrays hold small integers, so every result is exact in float32 and is
rounded at most once.
"""
from __future__ import annotations

from collections.abc import Callable

from tests.passes.maker import Maker, tile
from tilelang.ir.expr import Const, Var, binary, compare
from tilelang.ir.tile import Kernel

BX, BY, BZ, KO, T, I = (Var(name) for name in ("bx", "by", "bz", "ko", "t", "i"))  # noqa: E741
M, N, K = 64, 48, 32  # one tile


def two_gemms_one_accumulator(trips: int = 3, stages: int = 2) -> Kernel:
    """C = A @ B + A @ D: two gemms an iteration, one of whose tiles both read."""
    mk = Maker()
    a, b, d = mk.tensor("A", M, trips * K), mk.tensor("B", trips * K, N), mk.tensor("D", trips * K, N)
    c = mk.tensor("C", M, N)
    a_s, b_s, d_s, acc = mk.shared("A_s", M, K), mk.shared("B_s", K, N), mk.shared("D_s", K, N), mk.fragment("acc", M, N)
    return mk.kernel(
        {BX: 1}, mk.clear(acc),
        mk.loop(
            KO, trips, mk.copy(tile(a, (0, KO * K), M, K), a_s), mk.copy(tile(b, (KO * K, 0), K, N), b_s), mk.gemm(a_s, b_s, acc),
            mk.copy(tile(d, (KO * K, 0), K, N), d_s), mk.gemm(a_s, d_s, acc), stages=stages,
        ),
        mk.copy(acc, c),
    )  # fmt: skip


def two_accumulators(trips: int = 3, stages: int = 2) -> Kernel:
    """C = A @ B and E = A @ D, of different widths and output dtypes, in one loop."""
    mk = Maker()
    a, b, d = mk.tensor("A", M, trips * K), mk.tensor("B", trips * K, N), mk.tensor("D", trips * K, 80)
    c, e = mk.tensor("C", M, N), mk.tensor("E", M, 80, dtype="float32")
    a_s, b_s, d_s = mk.shared("A_s", M, K), mk.shared("B_s", K, N), mk.shared("D_s", K, 80)
    acc, acc2 = mk.fragment("acc", M, N), mk.fragment("acc2", M, 80)
    loads = (
        mk.copy(tile(a, (0, KO * K), M, K), a_s), mk.copy(tile(b, (KO * K, 0), K, N), b_s),
        mk.copy(tile(d, (KO * K, 0), K, 80), d_s),
    )  # fmt: skip
    return mk.kernel(
        {BX: 1}, mk.clear(acc), mk.clear(acc2),
        mk.loop(KO, trips, *loads, mk.gemm(a_s, b_s, acc), mk.gemm(a_s, d_s, acc2), stages=stages),
        mk.copy(acc, c), mk.copy(acc2, e),
    )  # fmt: skip


def two_loops(first: int = 3, second: int = 2, stages: int = 2, second_stages: int = 3) -> Kernel:
    """C = A @ B + D @ E, one pipelined loop each, with rings of their own."""
    mk = Maker()
    a, b, c = mk.tensor("A", M, first * K), mk.tensor("B", first * K, N), mk.tensor("C", M, N)
    d, e = mk.tensor("D", M, second * 16), mk.tensor("E", second * 16, N)
    a_s, b_s, d_s, e_s = mk.shared("A_s", M, K), mk.shared("B_s", K, N), mk.shared("D_s", M, 16), mk.shared("E_s", 16, N)
    acc = mk.fragment("acc", M, N)
    return mk.kernel(
        {BX: 1}, mk.clear(acc),
        mk.loop(
            KO, first, mk.copy(tile(a, (0, KO * K), M, K), a_s), mk.copy(tile(b, (KO * K, 0), K, N), b_s),
            mk.gemm(a_s, b_s, acc), stages=stages,
        ),
        mk.loop(
            T, second, mk.copy(tile(d, (0, T * 16), M, 16), d_s), mk.copy(tile(e, (T * 16, 0), 16, N), e_s),
            mk.gemm(d_s, e_s, acc), stages=second_stages,
        ),
        mk.copy(acc, c),
    )  # fmt: skip


def one_ring_two_loops(first: int = 3, second: int = 2, stages: int = 3) -> Kernel:
    """C = A[:, :s] @ B[:s] twice over, both loops through the same shared buffers, so through one ring that goes on turning."""
    mk = Maker()
    depth = max(first, second, 1) * K
    a, b, c = mk.tensor("A", M, depth), mk.tensor("B", depth, N), mk.tensor("C", M, N)
    a_s, b_s, acc = mk.shared("A_s", M, K), mk.shared("B_s", K, N), mk.fragment("acc", M, N)

    def loop(var: Var, trips: int, stages: int) -> object:
        body = mk.copy(tile(a, (0, var * K), M, K), a_s), mk.copy(tile(b, (var * K, 0), K, N), b_s), mk.gemm(a_s, b_s, acc)
        return mk.loop(var, trips, *body, stages=stages)

    return mk.kernel({BX: 1}, mk.clear(acc), loop(KO, first, stages), loop(T, second, 1), mk.copy(acc, c))  # type: ignore[arg-type]


def persistent(tiles: int = 3, trips: int = 3, stages: int = 2, out_dtype: str = "float16") -> Kernel:
    """C[t] = A[t] @ B for t in a serial loop: phases carry over from tile to tile, and the store has memory of its own."""
    mk = Maker()
    a, b = mk.tensor("A", tiles, M, trips * K), mk.tensor("B", trips * K, N)
    c = mk.tensor("C", tiles, M, N, dtype=out_dtype)
    a_s, b_s, acc = mk.shared("A_s", M, K), mk.shared("B_s", K, N), mk.fragment("acc", M, N)
    inner = mk.loop(
        KO, trips, mk.copy(tile(a, (T, 0, KO * K), 1, M, K), a_s), mk.copy(tile(b, (KO * K, 0), K, N), b_s),
        mk.gemm(a_s, b_s, acc), stages=stages,
    )  # fmt: skip
    return mk.kernel({BX: 1}, mk.loop(T, tiles, mk.clear(acc), inner, mk.copy(acc, tile(c, (T, 0, 0), 1, M, N))))


def nested(outer: int = 2, inner: int = 3, stages: int = 2) -> Kernel:
    """C = A @ B with K in two nested loops: the clear stands outside both, so zeros must be written."""
    mk = Maker()
    a, b, c = mk.tensor("A", M, max(outer * inner, 1) * K), mk.tensor("B", max(outer * inner, 1) * K, N), mk.tensor("C", M, N)
    a_s, b_s, acc = mk.shared("A_s", M, K), mk.shared("B_s", K, N), mk.fragment("acc", M, N)
    at = T * (inner * K) + KO * K
    body = mk.copy(tile(a, (0, at), M, K), a_s), mk.copy(tile(b, (at, 0), K, N), b_s), mk.gemm(a_s, b_s, acc)
    return mk.kernel({BX: 1}, mk.clear(acc), mk.loop(T, outer, mk.loop(KO, inner, *body, stages=stages)), mk.copy(acc, c))


def resident_operand(trips: int = 3, stages: int = 2, transpose_b: bool = True) -> Kernel:
    """C[:, j] = Q @ K[j]^T for every j: Q is loaded once, outside the loop, and each result leaves inside it."""
    mk = Maker()
    q, c = mk.tensor("Q", 2 * M, K), mk.tensor("C", 2 * M, trips * N)
    k = mk.tensor("K", trips * N, K) if transpose_b else mk.tensor("K", K, trips * N)
    q_s, k_s, acc = mk.shared("Q_s", M, K), mk.shared("K_s", *((N, K) if transpose_b else (K, N))), mk.fragment("acc", M, N)
    source = tile(k, (I * N, 0), N, K) if transpose_b else tile(k, (0, I * N), K, N)
    return mk.kernel(
        {BX: 2}, mk.copy(tile(q, (BX * M, 0), M, K), q_s),
        mk.loop(
            I, trips, mk.copy(source, k_s), mk.gemm(q_s, k_s, acc, transpose_b=transpose_b, clear_accum=True),
            mk.copy(acc, tile(c, (BX * M, I * N), M, N)), stages=stages,
        ),
    )  # fmt: skip


def outer_and_inner_loads(outer: int = 2, inner: int = 3, stages: int = 2) -> Kernel:
    """C[t, i] = A[t] @ B[i]: one tile is loaded in the outer loop and read in the inner one, the other in the inner loop."""
    mk = Maker()
    a, b, c = mk.tensor("A", outer * M, K), mk.tensor("B", K, inner * N), mk.tensor("C", outer * M, inner * N)
    a_s, b_s, acc = mk.shared("A_s", M, K), mk.shared("B_s", K, N), mk.fragment("acc", M, N)
    body = (
        mk.copy(tile(b, (0, I * N), K, N), b_s), mk.gemm(a_s, b_s, acc, clear_accum=True),
        mk.copy(acc, tile(c, (T * M, I * N), M, N)),
    )  # fmt: skip
    load = mk.copy(tile(a, (T * M, 0), M, K), a_s)
    return mk.kernel({BX: 1}, mk.loop(T, outer, load, mk.loop(I, inner, *body, stages=stages), stages=2))


def block_dependent_trips(extra: int = 0, stages: int = 3, blocks: int = 5) -> Kernel:
    """Block x adds up x + `extra` products: 0, 1, fewer than, as many as and more than `stages` trips, in one launch.  Zeros must
    be written, since a loop that may not run clears nothing."""
    mk = Maker()
    depth = (blocks + extra) * K
    a, b, c = mk.tensor("A", M, depth), mk.tensor("B", depth, N), mk.tensor("C", blocks, M, N)
    a_s, b_s, acc = mk.shared("A_s", M, K), mk.shared("B_s", K, N), mk.fragment("acc", M, N)
    body = mk.copy(tile(a, (0, KO * K), M, K), a_s), mk.copy(tile(b, (KO * K, 0), K, N), b_s), mk.gemm(a_s, b_s, acc)
    return mk.kernel(
        {BX: blocks}, mk.clear(acc), mk.loop(KO, BX + extra, *body, stages=stages), mk.copy(acc, tile(c, (BX, 0, 0), 1, M, N))
    )


def strided_loop(start: int = 4, stop: int = -1, step: int = -2, stages: int = 2) -> Kernel:
    """A loop with any start and step: C = sum of A[:, i] @ B[i] over range(start, stop, step)."""
    mk = Maker()
    depth = (max(start, stop) + 1) * K
    a, b, c = mk.tensor("A", M, depth), mk.tensor("B", depth, N), mk.tensor("C", M, N)
    a_s, b_s, acc = mk.shared("A_s", M, K), mk.shared("B_s", K, N), mk.fragment("acc", M, N)
    body = mk.copy(tile(a, (0, KO * K), M, K), a_s), mk.copy(tile(b, (KO * K, 0), K, N), b_s), mk.gemm(a_s, b_s, acc)
    return mk.kernel({BX: 1}, mk.clear(acc), mk.loop(KO, stop, *body, start=start, step=step, stages=stages), mk.copy(acc, c))


def chained(trips: int = 3, stages: int = 2, dim: int = 32) -> Kernel:
    """O = sum over j of (Q @ K[j]^T) @ V[j]: the first product goes through shared memory to be an operand of the second."""
    mk = Maker()
    q, k, v, o = mk.tensor("Q", M, dim), mk.tensor("K", trips * 64, dim), mk.tensor("V", trips * 64, dim), mk.tensor("O", M, dim)
    q_s, k_s, v_s, s_s = mk.shared("Q_s", M, dim), mk.shared("K_s", 64, dim), mk.shared("V_s", 64, dim), mk.shared("S_s", M, 64)
    scores, acc = mk.fragment("scores", M, 64), mk.fragment("acc", M, dim)
    return mk.kernel(
        {BX: 1}, mk.copy(q, q_s), mk.clear(acc),
        mk.loop(
            I, trips, mk.copy(tile(k, (I * 64, 0), 64, dim), k_s), mk.clear(scores), mk.gemm(q_s, k_s, scores, transpose_b=True),
            mk.copy(scores, s_s), mk.copy(tile(v, (I * 64, 0), 64, dim), v_s), mk.gemm(s_s, v_s, acc), stages=stages,
        ),
        mk.copy(acc, o),
    )  # fmt: skip


def batched(transpose_a: bool = False, stages: int = 2, trips: int = 2) -> Kernel:
    """C[z] = A[z] @ B[z] over a 3-D grid, tiles of 3-D tensors, with tails."""
    mk = Maker()
    m, n, k = 72, 56, trips * K - 8
    a = mk.tensor("A", 2, k, m) if transpose_a else mk.tensor("A", 2, m, k)
    b, c = mk.tensor("B", 2, k, n), mk.tensor("C", 2, m, n)
    a_s = mk.shared("A_s", K, M) if transpose_a else mk.shared("A_s", M, K)
    b_s, acc = mk.shared("B_s", K, N), mk.fragment("acc", M, N)
    source = tile(a, (BZ, KO * K, BY * M), 1, K, M) if transpose_a else tile(a, (BZ, BY * M, KO * K), 1, M, K)
    loads = mk.copy(source, a_s), mk.copy(tile(b, (BZ, KO * K, BX * N), 1, K, N), b_s)
    body = *loads, mk.gemm(a_s, b_s, acc, transpose_a=transpose_a)
    return mk.kernel(
        {BX: 2, BY: 2, BZ: 2}, mk.clear(acc), mk.loop(KO, trips, *body, stages=stages),
        mk.copy(acc, tile(c, (BZ, BY * M, BX * N), 1, M, N)),
    )  # fmt: skip


def heads_between(stages: int = 2) -> Kernel:
    """(batch, seq, heads, dim) tensors: the rows of a tile are `heads * dim` elements apart."""
    mk = Maker()
    q, k, c = mk.tensor("Q", 2, 80, 3, 32), mk.tensor("K", 2, 80, 3, 32), mk.tensor("C", 2, 3, 80, 80)
    q_s, k_s, acc = mk.shared("Q_s", 64, 32), mk.shared("K_s", 48, 32), mk.fragment("acc", 64, 48)
    body = (
        mk.copy(tile(k, (BZ, I * 48, BY, 0), 1, 48, 1, 32), k_s), mk.gemm(q_s, k_s, acc, transpose_b=True, clear_accum=True),
        mk.copy(acc, tile(c, (BZ, BY, BX * 64, I * 48), 1, 1, 64, 48)),
    )  # fmt: skip
    load = mk.copy(tile(q, (BZ, BX * 64, BY, 0), 1, 64, 1, 32), q_s)
    return mk.kernel({BX: 2, BY: 3, BZ: 2}, load, mk.loop(I, 2, *body, stages=stages))


def cleared_by_condition(trips: int = 4, stages: int = 2, period: int = 2) -> Kernel:
    """`clear_accum` that depends on the loop variable: only the products since the last clear remain."""
    mk = Maker()
    a, b, c = mk.tensor("A", M, trips * K), mk.tensor("B", trips * K, N), mk.tensor("C", M, N)
    a_s, b_s, acc = mk.shared("A_s", M, K), mk.shared("B_s", K, N), mk.fragment("acc", M, N)
    first = compare("==", binary("&", KO, period - 1), 0)
    body = (
        mk.copy(tile(a, (0, KO * K), M, K), a_s), mk.copy(tile(b, (KO * K, 0), K, N), b_s),
        mk.gemm(a_s, b_s, acc, clear_accum=first),
    )  # fmt: skip
    return mk.kernel({BX: 1}, mk.loop(KO, trips, *body, stages=stages), mk.copy(acc, c))


def start_value(value: float = 3, trips: int = 2, stages: int = 2, kind: str = "fill") -> Kernel:
    """C = value + A @ B: an accumulator that is filled, or filled inside an outer loop that runs once more than it must."""
    mk = Maker()
    a, b, c = mk.tensor("A", M, max(trips, 1) * K), mk.tensor("B", max(trips, 1) * K, N), mk.tensor("C", M, N)
    a_s, b_s, acc = mk.shared("A_s", M, K), mk.shared("B_s", K, N), mk.fragment("acc", M, N)
    body = mk.copy(tile(a, (0, KO * K), M, K), a_s), mk.copy(tile(b, (KO * K, 0), K, N), b_s), mk.gemm(a_s, b_s, acc)
    inside = mk.fill(acc, value), mk.loop(KO, trips, *body, stages=stages)
    if kind == "twice":
        return mk.kernel({BX: 1}, mk.loop(T, 2, *inside), mk.copy(acc, c))
    return mk.kernel({BX: 1}, *inside, mk.copy(acc, c))


def lets(stages: int = 2) -> Kernel:
    """Indices by way of names: some needed by loads only, some by the store only, some by both, one by nobody."""
    mk = Maker()
    a, b, c = mk.tensor("A", 2 * M, 3 * K), mk.tensor("B", 3 * K, 2 * N), mk.tensor("C", 2 * M, 2 * N)
    a_s, b_s, acc = mk.shared("A_s", M, K), mk.shared("B_s", K, N), mk.fragment("acc", M, N)
    row, column, depth, unused, trips = (Var(name) for name in ("row", "column", "depth", "unused", "trips"))
    return mk.kernel(
        {BX: 2, BY: 2}, mk.let(row, BY * M), mk.let(unused, row + 1), mk.let(column, BX * N), mk.let(trips, BX + 2),
        mk.clear(acc),
        mk.loop(
            KO, trips, mk.let(depth, KO * K), mk.copy(tile(a, (row, depth), M, K), a_s),
            mk.copy(tile(b, (depth, column), K, N), b_s),
            mk.gemm(a_s, b_s, acc), stages=stages,
        ),
        mk.copy(acc, tile(c, (row, column), M, N)),
    )  # fmt: skip


def stored_twice(trips: int = 2, stages: int = 2) -> Kernel:
    """One accumulator to two tensors of different dtypes, one of them by way of a shared buffer of the author's."""
    mk = Maker()
    a, b = mk.tensor("A", M, trips * K), mk.tensor("B", trips * K, N)
    c, d, e = mk.tensor("C", M, N), mk.tensor("D", M, N, dtype="float32"), mk.tensor("E", M, N, dtype="bfloat16")
    a_s, b_s, e_s = mk.shared("A_s", M, K), mk.shared("B_s", K, N), mk.shared("E_s", M, N, dtype="bfloat16")
    acc = mk.fragment("acc", M, N)
    body = mk.copy(tile(a, (0, KO * K), M, K), a_s), mk.copy(tile(b, (KO * K, 0), K, N), b_s), mk.gemm(a_s, b_s, acc)
    return mk.kernel(
        {BX: 1}, mk.clear(acc), mk.loop(KO, trips, *body, stages=stages), mk.copy(acc, c), mk.copy(acc, d), mk.copy(acc, e_s),
        mk.copy(e_s, e),
    )  # fmt: skip


def through_shared(shape: tuple[int, ...] = (40, 96), extents: tuple[int, ...] = (16, 64), dtype: str = "float16") -> Kernel:
    """D = A tile by tile through shared memory, no gemm: the tile is `extents` of a tensor of `shape`, tails included."""
    mk = Maker()
    a, d = mk.tensor("A", *shape, dtype=dtype), mk.tensor("D", *shape, dtype=dtype)
    a_s = mk.shared("A_s", *extents, dtype=dtype)
    grid = {var: -(-size // extent) for var, size, extent in zip((BZ, BY, BX), shape[::-1], extents[::-1], strict=False)}
    base = tuple(var * extent for var, extent in zip(reversed(tuple(grid)), extents, strict=True))
    return mk.kernel(grid, mk.copy(tile(a, base, *extents), a_s), mk.copy(a_s, tile(d, base, *extents)))


def pipelined_copies(trips: int = 5, stages: int = 3) -> Kernel:
    """D = A in a pipelined loop: the TMA store itself is the slot's last reader."""
    mk = Maker()
    a, d, a_s = mk.tensor("A", trips * 16, 64), mk.tensor("D", trips * 16, 64), mk.shared("A_s", 16, 64)
    at = (KO * 16, Const(0))
    body = mk.copy(tile(a, at, 16, 64), a_s), mk.copy(a_s, tile(d, at, 16, 64))
    return mk.kernel({BX: 1}, mk.loop(KO, trips, *body, stages=stages))


PROGRAMS: dict[str, tuple[Callable[..., Kernel], tuple[dict[str, object], ...]]] = {
    "two gemms, one accumulator": (
        two_gemms_one_accumulator, tuple({"trips": t, "stages": s} for t, s in ((1, 1), (3, 2), (5, 3), (2, 4))),
    ),
    "two accumulators": (two_accumulators, tuple({"trips": t, "stages": s} for t, s in ((1, 3), (3, 1), (4, 3)))),
    "two loops": (
        two_loops, tuple(dict(zip(("first", "second", "stages", "second_stages"), v, strict=True))
                         for v in ((3, 2, 2, 3), (1, 4, 3, 2), (4, 1, 1, 1), (2, 2, 4, 4))),
    ),
    "one ring, two loops": (
        one_ring_two_loops, tuple({"first": f, "second": s, "stages": n}
                                  for f, s, n in ((3, 2, 3), (2, 5, 2), (1, 1, 4), (0, 2, 2), (4, 0, 3))),
    ),
    "persistent": (
        persistent, ({}, {"tiles": 4, "trips": 3, "stages": 3}, {"tiles": 2, "trips": 1, "stages": 4},
                     {"out_dtype": "float32", "stages": 1}),
    ),
    "nested": (
        nested, tuple({"outer": o, "inner": i, "stages": s}
                      for o, i, s in ((2, 3, 2), (3, 1, 3), (1, 2, 4), (0, 2, 2), (2, 0, 2))),
    ),
    "resident operand": (resident_operand, ({}, {"trips": 4, "stages": 3, "transpose_b": False}, {"trips": 1, "stages": 2})),
    "outer and inner loads": (
        outer_and_inner_loads, ({}, {"outer": 3, "inner": 1, "stages": 3}, {"outer": 1, "inner": 4, "stages": 2}),
    ),
    "trips of the block": (block_dependent_trips, tuple({"extra": e, "stages": s} for e, s in ((0, 3), (1, 2), (0, 1), (0, 4)))),
    "strided loop": (
        strided_loop, tuple(dict(zip(("start", "stop", "step", "stages"), v, strict=True))
                            for v in ((4, -1, -2, 2), (4, -1, -1, 3), (1, 6, 2, 2), (3, 4, 5, 2), (2, 0, 1, 2))),
    ),
    "chained": (chained, ({}, {"trips": 1, "stages": 1}, {"trips": 3, "stages": 3, "dim": 64})),
    "batched": (batched, ({}, {"transpose_a": True, "stages": 3, "trips": 4})),
    "heads between": (heads_between, ({}, {"stages": 1})),
    "cleared by a condition": (cleared_by_condition, ({}, {"trips": 5, "stages": 3, "period": 4})),
    "start value": (
        start_value, ({}, {"value": -2.5, "trips": 3, "stages": 3}, {"value": 7, "trips": 0}, {"value": 0, "kind": "twice"},
                      {"value": 5, "kind": "twice"}, {"value": 0, "trips": 0}),
    ),
    "lets": (lets, ({}, {"stages": 3})),
    "stored twice": (stored_twice, ({}, {"trips": 3, "stages": 3})),
    "through shared": (
        through_shared, ({}, {"dtype": "float32"}, {"shape": (3, 24, 48), "extents": (2, 16, 32)},
                         {"shape": (200,), "extents": (64,)},
                         {"shape": (24, 40), "extents": (16, 24)}, {"shape": (72, 8), "extents": (16, 8)},
                         {"shape": (300, 64), "extents": (300, 64)}, {"shape": (40, 96), "extents": (16, 96), "dtype": "int8"}),
    ),
    "pipelined copies": (pipelined_copies, tuple({"trips": t, "stages": s} for t, s in ((5, 3), (1, 2), (4, 1), (0, 2)))),
}  # fmt: skip
