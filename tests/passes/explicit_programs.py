"""Kernels divided and synchronised by hand: each a program, its inputs, and what it must compute from them."""
# ruff: noqa: E741, F841 - kernels are written as their authors would
from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

import tilelang.language as T
from examples.gemm_explicit import gemm_explicit
from tests.conftest import ROOT
from tilelang.ir.tile import Kernel

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Program:
    """`expected` computes the outputs, which follow the inputs among the parameters, exactly."""

    build: Callable[[], Kernel]
    inputs: Callable[[np.random.Generator], Arrays]
    expected: Callable[..., Arrays]


def small(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-2, 3, shape).astype(np.float16)


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-2, 3, shape).astype(np.float32)


def product(a: np.ndarray, b: np.ndarray) -> Arrays:
    return ((a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16),)


def matrices(m: int, n: int, k: int) -> Callable[[np.random.Generator], Arrays]:
    return lambda rng: (small(rng, m, k), small(rng, k, n))


def ring(m: int, n: int, k: int, stages: int, block_m: int = 128, block_n: int = 64, block_k: int = 32) -> Program:
    """The example, two warpgroups that multiply and one that loads."""
    return Program(lambda: gemm_explicit(m, n, k, block_m, block_n, block_k, stages), matrices(m, n, k), product)


# ---- one team -----------------------------------------------------------------------------------------------------------------


def alone() -> Kernel:
    """One warpgroup loads, waits and multiplies; its threads meet before the tile is loaded again."""

    @T.prim_func
    def alone(A: T.Tensor((64, 160), "float16"), B: T.Tensor((160, 64), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128) as bx:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            landed = T.alloc_barrier(128)
            T.clear(acc)
            for k in range(5):
                T.tma_copy(A[0, k * 32], a, barrier=landed)
                T.tma_copy(B[k * 32, 0], b, barrier=landed)
                T.mbarrier_arrive(landed)
                T.mbarrier_wait_parity(landed, k & 1)
                T.gemm(a, b, acc)
            T.copy(acc, C)

    return alone


def stored_by_tma() -> Kernel:
    """Tiles go out by T.tma_copy from slots that are written again."""

    @T.prim_func
    def doubled(A: T.Tensor((200, 64), "float16"), C: T.Tensor((200, 64), "float16")):
        with T.Kernel(1, threads=128) as bx:
            tiles = T.alloc_shared((2, 64, 64), "float16")
            landed = T.alloc_barrier([128, 128])
            for k in range(4):
                T.tma_copy(A[k * 64, 0], tiles[k % 2, :, :], barrier=landed[k % 2])
                T.mbarrier_arrive(landed[k % 2])
                T.mbarrier_wait_parity(landed[k % 2], (k // 2) & 1)
                for i, j in T.Parallel(64, 64):
                    tiles[k % 2, i, j] = tiles[k % 2, i, j] * 2
                T.tma_copy(tiles[k % 2, :, :], C[k * 64, 0])

    return doubled


# ---- several teams ------------------------------------------------------------------------------------------------------------


def ordinary_loads() -> Kernel:
    """A warpgroup loads by its own threads and stores; the proxy fence before its arrival is the compiler's."""

    @T.prim_func
    def loads(A: T.Tensor((64, 96), "float16"), B: T.Tensor((96, 64), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=256) as bx:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            ready = T.alloc_barrier(arrive_count=128)
            used = T.alloc_barrier(arrive_count=128)
            T.clear(acc)
            for k in range(3):
                with T.ws(0):
                    T.barrier_wait(used, (k + 1) % 2)
                    T.copy(A[0, k * 32], a)
                    T.copy(B[k * 32, 0], b)
                    T.barrier_arrive(ready)
                with T.ws(1):
                    T.barrier_wait(ready, k % 2)
                    T.gemm(a, b, acc)
                    T.barrier_arrive(used)
            T.copy(acc, C)

    return loads


def row_parts(block_n: int = 128, transpose: bool = False) -> Kernel:
    """Two warpgroups multiply parts of one tile of A, each into its own accumulator."""
    shape_a = (64, 128) if transpose else (128, 64)

    @T.prim_func
    def parts(A: T.Tensor((192, 128) if transpose else (128, 192), "float16"), B: T.Tensor((192, block_n), "float16"),
              C: T.Tensor((128, block_n), "float16")):  # fmt: skip
        with T.Kernel(1, threads=384) as bx:
            a = T.alloc_shared((2, *shape_a), "float16")
            b = T.alloc_shared((2, 64, block_n), "float16")
            low = T.alloc_fragment((64, block_n), "float32")
            high = T.alloc_fragment((64, block_n), "float32")
            bars = T.alloc_barrier([128, 128, 256, 256])  # landed, landed, used, used
            with T.ws(0):
                for k in range(3):
                    T.mbarrier_wait_parity(bars[2 + k % 2], (k // 2 + 1) % 2)
                    if transpose:
                        T.tma_copy(A[k * 64, 0], a[k % 2, :, :], barrier=bars[k % 2])
                    else:
                        T.tma_copy(A[0, k * 64], a[k % 2, :, :], barrier=bars[k % 2])
                    T.tma_copy(B[k * 64, 0], b[k % 2, :, :], barrier=bars[k % 2])
                    T.mbarrier_arrive(bars[k % 2])
            with T.ws(1):
                T.clear(low)
                for k in range(3):
                    T.mbarrier_wait_parity(bars[k % 2], (k // 2) % 2)
                    if transpose:
                        T.gemm(a[k % 2, :, 0:64], b[k % 2, :, :], low, transpose_A=True)
                    else:
                        T.gemm(a[k % 2, 0:64, :], b[k % 2, :, :], low)
                    T.mbarrier_arrive(bars[2 + k % 2])
                T.copy(low, C[0:64, :])
            with T.ws(2):
                T.clear(high)
                for k in range(3):
                    T.mbarrier_wait_parity(bars[k % 2], (k // 2) % 2)
                    if transpose:
                        T.gemm(a[k % 2, :, 64:128], b[k % 2, :, :], high, transpose_A=True)
                    else:
                        T.gemm(a[k % 2, 64:128, :], b[k % 2, :, :], high)
                    T.mbarrier_arrive(bars[2 + k % 2])
                T.copy(high, C[64:128, :])

    return parts


def transposed(a: np.ndarray, b: np.ndarray) -> Arrays:
    return product(a.T, b)


def passed_on() -> Kernel:
    """Rows are summed by one warpgroup, with an exchange between its warps, and divided by another that lies before it; bias is
    loaded by everybody first."""

    @T.prim_func
    def normalised(X: T.Tensor((24, 256), "float32"), bias: T.Tensor((256,), "float32"), Y: T.Tensor((24, 256), "float32")):
        with T.Kernel(3, threads=384) as bx:
            x = T.alloc_shared((8, 256), "float32")
            sums = T.alloc_shared((8,), "float32")
            extra = T.alloc_shared((256,), "float32")
            rows = T.alloc_fragment((8, 256), "float32")
            total = T.alloc_fragment((8,), "float32")
            summed = T.alloc_barrier(128)
            T.copy(bias, extra)
            T.copy(X[bx * 8, 0], x)
            with T.ws(2):
                T.copy(x, rows)
                T.reduce_sum(rows, total, dim=1)
                T.copy(total, sums)
                T.mbarrier_arrive(summed)
            with T.ws(0, 1):
                T.mbarrier_wait_parity(summed, 0)
                for i, j in T.Parallel(8, 256):
                    x[i, j] = x[i, j] * 2 + sums[i] + extra[j]
            T.copy(x, Y[bx * 8, 0])

    return normalised


def sums_added(x: np.ndarray, bias: np.ndarray) -> Arrays:
    return (x * 2 + x.sum(axis=1, keepdims=True) + bias,)


def apart() -> Kernel:
    """A team whose warpgroups are not neighbours, with one of them on its own inside."""

    @T.prim_func
    def apart(X: T.Tensor((16, 64), "float32"), Y: T.Tensor((16, 64), "float32")):
        with T.Kernel(1, threads=384) as bx:
            x = T.alloc_shared((16, 64), "float32")
            y = T.alloc_shared((16, 64), "float32")
            done = T.alloc_barrier(256)
            with T.ws(0, 2):
                T.copy(X, x)
                with T.ws(2):
                    for i, j in T.Parallel(16, 64):
                        y[i, j] = x[15 - i, j] + 1
                T.mbarrier_arrive(done)
            with T.ws(1):
                T.mbarrier_wait_parity(done, 0)
                T.copy(y, Y)

    return apart


def macros() -> Kernel:
    """Producer and consumer as macros; phases are counted in scalars and carried across tiles."""
    stages = 2

    @T.macro
    def put(A, tile, full, empty, row, k, turn):
        T.mbarrier_wait_parity(empty, (turn // stages) & 1 ^ 1)
        T.tma_copy(A[row, k], tile, barrier=full)
        T.mbarrier_arrive(full)

    @T.prim_func
    def persistent(A: T.Tensor((256, 96), "float16"), C: T.Tensor((256, 32), "float16")):
        with T.Kernel(2, threads=256) as bx:
            a = T.alloc_shared((stages, 64, 32), "float16")
            total = T.alloc_fragment((64, 32), "float32")
            full = T.alloc_barrier([128] * stages)
            empty = T.alloc_barrier([128] * stages)
            turn = T.alloc_var("int32")
            for tile in range(2):
                for k in range(3):
                    slot = turn % stages
                    with T.ws(1):
                        put(A, a[slot, :, :], full[slot], empty[slot], (bx * 2 + tile) * 64, k * 32, turn)
                    with T.ws(0):
                        if k == 0:
                            T.clear(total)
                        T.mbarrier_wait_parity(full[slot], (turn // stages) & 1)
                        for i, j in T.Parallel(64, 32):
                            total[i, j] += a[slot, i, j]
                        T.mbarrier_arrive(empty[slot])
                    turn += 1
                T.copy(total, C[(bx * 2 + tile) * 64, 0])

    return persistent


def thirds(a: np.ndarray) -> Arrays:
    return (a.astype(np.float64).reshape(256, 3, 32).sum(axis=1).astype(np.float16),)


def attention(causal: bool = False) -> Kernel:
    """Scores stay in registers; K and V have rings of their own, which a third warpgroup fills."""
    seq, dim, block, stages = 192, 64, 64, 2

    @T.prim_func
    def attend(Q: T.Tensor((seq, dim), "float16"), K: T.Tensor((seq, dim), "float16"), V: T.Tensor((seq, dim), "float16"),
               O: T.Tensor((seq, dim), "float32")):  # fmt: skip
        with T.Kernel(T.ceildiv(seq, 128), threads=384) as bx:
            q = T.alloc_shared((128, dim), "float16")
            k_tile = T.alloc_shared((stages, block, dim), "float16")
            v_tile = T.alloc_shared((stages, block, dim), "float16")
            scores = T.alloc_fragment((128, block), "float32")
            weights = T.alloc_fragment((128, block), "float16")
            acc = T.alloc_fragment((128, dim), "float32")
            q_full = T.alloc_barrier(128)
            k_full, v_full = T.alloc_barrier([128] * stages), T.alloc_barrier([128] * stages)
            k_empty, v_empty = T.alloc_barrier([256] * stages), T.alloc_barrier([256] * stages)
            with T.ws(2):
                T.tma_copy(Q[bx * 128, 0], q, barrier=q_full)
                T.mbarrier_arrive(q_full)
                for i in range(seq // block):
                    T.mbarrier_wait_parity(k_empty[i % stages], (i // stages) & 1 ^ 1)
                    T.tma_copy(K[i * block, 0], k_tile[i % stages, :, :], barrier=k_full[i % stages])
                    T.mbarrier_arrive(k_full[i % stages])
                    T.mbarrier_wait_parity(v_empty[i % stages], (i // stages) & 1 ^ 1)
                    T.tma_copy(V[i * block, 0], v_tile[i % stages, :, :], barrier=v_full[i % stages])
                    T.mbarrier_arrive(v_full[i % stages])
            with T.ws(0, 1):
                T.clear(acc)
                T.mbarrier_wait_parity(q_full, 0)
                for i in range(seq // block):
                    T.mbarrier_wait_parity(k_full[i % stages], (i // stages) & 1)
                    T.gemm(q, k_tile[i % stages, :, :], scores, transpose_B=True, clear_accum=True)
                    T.mbarrier_arrive(k_empty[i % stages])
                    for r, c in T.Parallel(128, block):
                        weights[r, c] = T.max(scores[r, c], 0)
                    T.mbarrier_wait_parity(v_full[i % stages], (i // stages) & 1)
                    T.gemm(weights, v_tile[i % stages, :, :], acc)
                    T.mbarrier_arrive(v_empty[i % stages])
                T.copy(acc, O[bx * 128, 0])

    return attend


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Arrays:
    scores = np.maximum(q.astype(np.float64) @ k.T.astype(np.float64), 0)
    return ((scores @ v.astype(np.float64)).astype(np.float32),)


def by_thread_number() -> Kernel:
    """Roles by conditions on the number of the thread, one warpgroup's scalars unlike the other's."""

    @T.prim_func
    def rolled(X: T.Tensor((192, 64), "float16"), Y: T.Tensor((192, 64), "float16")):
        with T.Kernel(1, threads=256) as bx:
            x = T.alloc_shared((2, 64, 64), "float16")
            full, empty = T.alloc_barrier([128, 128]), T.alloc_barrier([128, 128])
            turn = T.alloc_var("int32")
            tx = T.get_thread_binding()
            if tx < 128:
                T.set_max_nreg(40, 0)
                while turn < 3:
                    T.mbarrier_wait_parity(empty[turn % 2], (turn // 2) & 1 ^ 1)
                    T.tma_copy(X[turn * 64, 0], x[turn % 2, :, :], barrier=full[turn % 2])
                    T.mbarrier_arrive(full[turn % 2])
                    turn += 1
            else:
                T.set_max_nreg(160, 1)
                for k in range(3):
                    T.mbarrier_wait_parity(full[k % 2], (k // 2) & 1)
                    for i, j in T.Parallel(64, 64):
                        Y[(2 - k) * 64 + i, j] = x[k % 2, 63 - i, j]
                    T.mbarrier_arrive(empty[k % 2])

    return rolled


def named_meeting() -> Kernel:
    """The author's own named barrier and fence order two warpgroups that share a tile."""

    @T.prim_func
    def turned(X: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), Y: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=256) as bx:
            x = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            with T.ws(0):
                T.copy(X, x)
                T.fence_proxy_async()
                T.sync_threads(3, 256)
            with T.ws(1):
                T.copy(B, b)
                T.sync_threads(barrier_id=3, arrive_count=256)
                T.gemm(x, b, acc, clear_accum=True)
                T.copy(acc, Y)

    return turned


PROGRAMS = {
    **{f"ring of {s}, k={k}": ring(128, 64, k, s) for s, k in ((1, 96), (2, 32), (2, 64), (3, 64), (3, 96), (3, 160), (4, 168))},
    "ring, ragged": ring(200, 104, 72, 2),
    "ring, two panels": ring(128, 128, 128, 2, 128, 128, 128),
    "alone": Program(alone, matrices(64, 64, 160), product),
    "stored by TMA": Program(stored_by_tma, lambda rng: (small(rng, 200, 64),), lambda a: (a * 2,)),
    "ordinary loads": Program(ordinary_loads, matrices(64, 64, 96), product),
    "row parts": Program(row_parts, matrices(128, 128, 192), product),
    "column parts": Program(lambda: row_parts(64, True), lambda rng: (small(rng, 192, 128), small(rng, 192, 64)), transposed),
    "passed on": Program(passed_on, lambda rng: (floats(rng, 24, 256), floats(rng, 256)), sums_added),
    "apart": Program(apart, lambda rng: (floats(rng, 16, 64),), lambda x: (x[::-1] + 1,)),
    "macros": Program(macros, lambda rng: (small(rng, 256, 96),), thirds),
    "attention": Program(attention, lambda rng: tuple(small(rng, 192, 64) for _ in range(3)), attended),
    "by thread number": Program(by_thread_number, lambda rng: (small(rng, 192, 64),), lambda x: (x[::-1],)),
    "named meeting": Program(named_meeting, matrices(64, 64, 64), product),
}


# ---- the example, with a mistake ----------------------------------------------------------------------------------------------

EXAMPLE = ROOT / "examples" / "gemm_explicit.py"
FULL_WAIT = "T.mbarrier_wait_parity(full[k % stages], (k // stages) & 1)"
EMPTY_WAIT = "T.mbarrier_wait_parity(empty[k % stages], ((k // stages) & 1) ^ 1)"
MISTAKES = {
    "no wait for full": (FULL_WAIT, "pass", ("TL815",), "T.gemm("),
    "no wait for empty": (EMPTY_WAIT, "pass", ("TL815", "TL809"), "T.tma_copy(|T.mbarrier_arrive(full"),
    "no arrival on full": ("T.mbarrier_arrive(full[k % stages])", "pass", ("TL801",), "T.mbarrier_wait_parity("),
    "no arrival on empty": ("T.mbarrier_arrive(empty[k % stages])", "pass", ("TL801",), "T.mbarrier_wait_parity("),
    "parity of full": (FULL_WAIT, FULL_WAIT.replace("stages) & 1", "stages + 1) & 1"), ("TL801", "TL808", "TL815"), ""),
    "parity of empty": (EMPTY_WAIT, EMPTY_WAIT.replace(" ^ 1", ""), ("TL801",), "T.mbarrier_wait_parity("),
    "another slot": ("B_tile[k % stages, :, :], acc", "B_tile[(k + 1) % stages, :, :], acc", ("TL815",), "T.gemm("),
    "arrivals on empty": ("[256] * stages", "[128] * stages", ("TL809", "TL805"), "T.mbarrier_arrive("),
    "arrivals on full": ("[128] * stages", "[256] * stages", ("TL801",), "T.mbarrier_wait_parity("),
}  # fmt: skip
"""What is replaced by what; the codes by which the machine may report it, and what may stand in the line it names."""


def changed(old: str, new: str) -> str:
    """The example's text, one piece of it replaced (none if `old` is empty)."""
    text = EXAMPLE.read_text()
    assert not old or text.count(old) == 1, old
    return text.replace(old, new) if old else text


def module_at(path: Path) -> ModuleType:
    """The module in a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
