"""The parts that the programs of the GEMM family are put together from, as macros of the language.

People vary these independently of the loop around them: how a tile is loaded, how it is multiplied, what happens to the
accumulator afterwards, how it leaves.  What is a Python value here (a tile, a flag, the order of an epilogue) is decided while
the kernel is built, so each choice of options is a program of its own.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tilelang.language as T


@dataclass(frozen=True)
class Options:
    """One program.  `shape` is (M, N, K) in elements, `tile` is (block_M, block_N, block_K)."""

    loop: str
    shape: tuple[int, int, int]
    tile: tuple[int, int, int]
    num_stages: int = 2
    threads: int = 128
    transpose_a: bool = False
    transpose_b: bool = False
    policy: str = "Square"
    dtype: str = "float16"
    out_dtype: str = "float16"
    start: str = "clear"
    load: str = "copy"
    a_from: str = "shared"
    epilogue: tuple[str, ...] = ()
    vector_from: str = "global"
    store: str = "copy"
    swizzle: int = 0
    bound: int = 0
    """A number that some loops need: blocks of a persistent grid, trips of a second loop, the period of a condition."""


def ceildiv(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True)
class Parts:
    """The macros of one program and the shapes they agree on."""

    load_a: Any
    load_b: Any
    multiply: Any
    begin: Any
    finish: Any
    a_shape: tuple[int, int]
    b_shape: tuple[int, int]
    a_tile: tuple[int, int]
    b_tile: tuple[int, int]


def parts(o: Options) -> Parts:
    """The macros for these options."""
    (M, N, K), (block_M, block_N, block_K) = o.shape, o.tile
    a_is_k_by_m = o.transpose_a != (o.load == "transposing")
    return Parts(
        load_a=loader_of_a(o), load_b=loader_of_b(o), multiply=multiplier(o), begin=beginning(o), finish=ending(o),
        a_shape=(K, M) if a_is_k_by_m else (M, K), b_shape=(N, K) if o.transpose_b else (K, N),
        a_tile=(block_K, block_M) if o.transpose_a else (block_M, block_K),
        b_tile=(block_N, block_K) if o.transpose_b else (block_K, block_N),
    )  # fmt: skip


# ---- loads --------------------------------------------------------------------------------------------------------------------


def loader(o: Options) -> Any:
    """Fills a tile from the box of a tensor that begins at (i0, j0)."""

    @T.macro
    def load(source: Any, tile: Any, i0: Any, j0: Any, rows: Any, columns: Any) -> None:
        if o.load == "slice":
            T.copy(source[i0 : i0 + rows, j0 : j0 + columns], tile)
        elif o.load == "parallel":
            for i, j in T.Parallel(rows, columns):
                tile[i, j] = source[i0 + i, j0 + j]
        elif o.load == "fragment":
            staged = T.alloc_fragment((rows, columns), o.dtype)
            T.copy(source[i0, j0], staged)
            T.copy(staged, tile)
        else:
            T.copy(source[i0, j0], tile)

    return load


def loader_of_a(o: Options) -> Any:
    """Fills A's tile; "transposing" turns it over on the way, as T.copy does not."""
    block_M, _, block_K = o.tile
    load = loader(o)

    @T.macro
    def transposing(A: Any, A_tile: Any, row: Any, depth: Any) -> None:
        if o.transpose_a:
            for k, i in T.Parallel(block_K, block_M):
                A_tile[k, i] = A[row + i, depth + k]
        else:
            for i, k in T.Parallel(block_M, block_K):
                A_tile[i, k] = A[depth + k, row + i]

    @T.macro
    def straight(A: Any, A_tile: Any, row: Any, depth: Any) -> None:
        if o.transpose_a:
            load(A, A_tile, depth, row, block_K, block_M)
        else:
            load(A, A_tile, row, depth, block_M, block_K)

    return transposing if o.load == "transposing" else straight


def loader_of_b(o: Options) -> Any:
    """Fills B's tile."""
    _, block_N, block_K = o.tile
    load = loader(o)

    @T.macro
    def load_b(B: Any, B_tile: Any, depth: Any, column: Any) -> None:
        if o.transpose_b:
            load(B, B_tile, column, depth, block_N, block_K)
        else:
            load(B, B_tile, depth, column, block_K, block_N)

    return load_b


# ---- products -----------------------------------------------------------------------------------------------------------------


def multiplier(o: Options) -> Any:
    """acc += A_tile @ B_tile; where `first` and the options say so, the old value does not count."""
    block_M, _, block_K = o.tile
    policy = getattr(T.GemmWarpPolicy, o.policy)

    @T.macro
    def from_registers(A_tile: Any, B_tile: Any, acc: Any, first: Any) -> None:
        A_regs = T.alloc_fragment((block_M, block_K), o.dtype)
        T.copy(A_tile, A_regs)
        T.gemm(A_regs, B_tile, acc, transpose_B=o.transpose_b, policy=policy, clear_accum=first and o.start == "clear_accum")

    @T.macro
    def from_shared(A_tile: Any, B_tile: Any, acc: Any, first: Any) -> None:
        clear = first and o.start == "clear_accum"
        T.gemm(A_tile, B_tile, acc, transpose_A=o.transpose_a, transpose_B=o.transpose_b, policy=policy, clear_accum=clear)

    return from_registers if o.a_from == "registers" else from_shared


# ---- before and after ---------------------------------------------------------------------------------------------------------


def beginning(o: Options) -> Any:
    """What the accumulator holds before the first product."""

    @T.macro
    def begin(acc: Any, residual: Any, row: Any, column: Any) -> None:
        if o.start == "clear":
            T.clear(acc)
        elif o.start == "fill":
            T.fill(acc, 3)
        elif o.start == "load":
            T.copy(residual[row, column], acc)

    return begin


def ending(o: Options) -> Any:
    """Epilogue and store."""
    apply, store = step_of_epilogue(o), storer(o)

    @T.macro
    def finish(acc: Any, bias: Any, residual: Any, C: Any, row: Any, column: Any) -> None:
        for word in o.epilogue:
            apply(word, acc, bias, residual, row, column)
        store(acc, C, row, column)

    return finish


def step_of_epilogue(o: Options) -> Any:
    """One step, by its name."""
    block_M, block_N, _ = o.tile
    add_bias, add_residual = bias_adder(o), residual_adder(o)

    @T.macro
    def apply(word: Any, acc: Any, bias: Any, residual: Any, row: Any, column: Any) -> None:
        if word == "bias":
            add_bias(acc, bias, column)
        elif word == "relu":
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] = T.max(acc[i, j], 0)
        elif word == "scale":
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] *= 0.5
        elif word == "residual":
            add_residual(acc, residual, row, column)
        elif word == "mask":
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] = T.if_then_else(row + i >= column + j, acc[i, j], -1.0)

    return apply


def bias_adder(o: Options) -> Any:
    """acc += bias, a float32 row vector, read where it is or through a tile."""
    block_M, block_N, _ = o.tile

    @T.macro
    def add_bias(acc: Any, bias: Any, column: Any) -> None:
        if o.vector_from == "global":
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] += bias[column + j]
        else:
            allocate = T.alloc_shared if o.vector_from == "shared" else T.alloc_fragment
            bias_tile = allocate((block_N,), "float32")
            T.copy(bias[column], bias_tile)
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] += bias_tile[j]

    return add_bias


def residual_adder(o: Options) -> Any:
    """acc += residual, a matrix of the operands' dtype, read where it is or through a tile."""
    block_M, block_N, _ = o.tile

    @T.macro
    def add_residual(acc: Any, residual: Any, row: Any, column: Any) -> None:
        if o.vector_from == "global":
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] += residual[row + i, column + j]
        else:
            allocate = T.alloc_shared if o.vector_from == "shared" else T.alloc_fragment
            residual_tile = allocate((block_M, block_N), o.dtype)
            T.copy(residual[row, column], residual_tile)
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] += residual_tile[i, j]

    return add_residual


def storer(o: Options) -> Any:
    """acc to C, rounded once: at once, through shared memory, through a fragment, through both, or element by element."""
    (M, N, _), (block_M, block_N, _) = o.shape, o.tile

    @T.macro
    def store(acc: Any, C: Any, row: Any, column: Any) -> None:
        if o.store == "shared":
            C_tile = T.alloc_shared((block_M, block_N), o.out_dtype)
            T.copy(acc, C_tile)
            T.copy(C_tile, C[row, column])
        elif o.store == "cast":
            C_regs = T.alloc_fragment((block_M, block_N), o.out_dtype)
            T.copy(acc, C_regs)
            T.copy(C_regs, C[row, column])
        elif o.store == "fragments and shared":
            C_regs = T.alloc_fragment((block_M, block_N), o.out_dtype)
            C_tile = T.alloc_shared((block_M, block_N), o.out_dtype)
            for i, j in T.Parallel(block_M, block_N):
                C_regs[i, j] = T.cast(acc[i, j], o.out_dtype)
            T.copy(C_regs, C_tile)
            T.copy(C_tile, C[row, column])
        elif o.store == "parallel":
            for i, j in T.Parallel(block_M, block_N):
                if row + i < M and column + j < N:
                    C[row + i, column + j] = acc[i, j]
        else:
            T.copy(acc, C[row, column])

    return store
