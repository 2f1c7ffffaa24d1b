"""The programs of the GEMM family, in the language: one function for each shape of the loop, all of one `Options`."""
from __future__ import annotations

from collections.abc import Callable

import tilelang.language as T
from tests.fuzz.gemm_parts import Options, ceildiv, parts
from tilelang.ir.tile import Kernel


def build(options: Options) -> Kernel:
    """The kernel of these options.  Raises KernelError for what the language does not have."""
    return LOOPS[options.loop](options)


def plain(o: Options) -> Kernel:
    """C = epilogue(A @ B), one tile a block."""
    (M, N, K), (block_M, block_N, block_K), p = o.shape, o.tile, parts(o)

    @T.prim_func
    def gemm(
        A: T.Tensor(p.a_shape, o.dtype), B: T.Tensor(p.b_shape, o.dtype), bias: T.Tensor((N,), "float32"),
        residual: T.Tensor((M, N), o.dtype), C: T.Tensor((M, N), o.out_dtype),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=o.threads) as (bx, by):
            A_tile = T.alloc_shared(p.a_tile, o.dtype)
            B_tile = T.alloc_shared(p.b_tile, o.dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            if o.swizzle:
                T.use_swizzle(o.swizzle)
            p.begin(acc, residual, by * block_M, bx * block_N)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=o.num_stages):
                p.load_a(A, A_tile, by * block_M, ko * block_K)
                p.load_b(B, B_tile, ko * block_K, bx * block_N)
                p.multiply(A_tile, B_tile, acc, ko == 0)
            p.finish(acc, bias, residual, C, by * block_M, bx * block_N)

    return gemm


def two_products(o: Options) -> Kernel:
    """C = A @ B + A @ D: three copies and two gemms an iteration."""
    (M, N, K), (block_M, block_N, block_K), p = o.shape, o.tile, parts(o)

    @T.prim_func
    def gemm(
        A: T.Tensor(p.a_shape, o.dtype), B: T.Tensor(p.b_shape, o.dtype), D: T.Tensor(p.b_shape, o.dtype),
        bias: T.Tensor((N,), "float32"), residual: T.Tensor((M, N), o.dtype), C: T.Tensor((M, N), o.out_dtype),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=o.threads) as (bx, by):
            A_tile = T.alloc_shared(p.a_tile, o.dtype)
            B_tile = T.alloc_shared(p.b_tile, o.dtype)
            D_tile = T.alloc_shared(p.b_tile, o.dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            p.begin(acc, residual, by * block_M, bx * block_N)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=o.num_stages):
                p.load_a(A, A_tile, by * block_M, ko * block_K)
                p.load_b(B, B_tile, ko * block_K, bx * block_N)
                p.multiply(A_tile, B_tile, acc, ko == 0)
                p.load_b(D, D_tile, ko * block_K, bx * block_N)
                p.multiply(A_tile, D_tile, acc, False)
            p.finish(acc, bias, residual, C, by * block_M, bx * block_N)

    return gemm


def gated(o: Options) -> Kernel:
    """C = max(A @ B, 0) * (A @ D): two accumulators that meet in the epilogue."""
    (M, N, K), (block_M, block_N, block_K), p = o.shape, o.tile, parts(o)

    @T.prim_func
    def gemm(
        A: T.Tensor(p.a_shape, o.dtype), B: T.Tensor(p.b_shape, o.dtype), D: T.Tensor(p.b_shape, o.dtype),
        bias: T.Tensor((N,), "float32"), residual: T.Tensor((M, N), o.dtype), C: T.Tensor((M, N), o.out_dtype),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=o.threads) as (bx, by):
            A_tile = T.alloc_shared(p.a_tile, o.dtype)
            B_tile = T.alloc_shared(p.b_tile, o.dtype)
            D_tile = T.alloc_shared(p.b_tile, o.dtype)
            gate = T.alloc_fragment((block_M, block_N), "float32")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(gate)
            p.begin(acc, residual, by * block_M, bx * block_N)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=o.num_stages):
                p.load_a(A, A_tile, by * block_M, ko * block_K)
                p.load_b(B, B_tile, ko * block_K, bx * block_N)
                p.load_b(D, D_tile, ko * block_K, bx * block_N)
                p.multiply(A_tile, B_tile, gate, False)
                p.multiply(A_tile, D_tile, acc, ko == 0)
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] = T.max(gate[i, j], 0) * acc[i, j]
            p.finish(acc, bias, residual, C, by * block_M, bx * block_N)

    return gemm


def nested(o: Options) -> Kernel:
    """C = epilogue(A @ B), K in an outer serial loop and an inner pipelined one of `bound` trips."""
    (M, N, K), (block_M, block_N, block_K), p = o.shape, o.tile, parts(o)
    inner = max(o.bound, 1)

    @T.prim_func
    def gemm(
        A: T.Tensor(p.a_shape, o.dtype), B: T.Tensor(p.b_shape, o.dtype), bias: T.Tensor((N,), "float32"),
        residual: T.Tensor((M, N), o.dtype), C: T.Tensor((M, N), o.out_dtype),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=o.threads) as (bx, by):
            A_tile = T.alloc_shared(p.a_tile, o.dtype)
            B_tile = T.alloc_shared(p.b_tile, o.dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            p.begin(acc, residual, by * block_M, bx * block_N)
            for outer in T.serial(T.ceildiv(K, block_K * inner)):
                for ki in T.Pipelined(inner, num_stages=o.num_stages):
                    depth = (outer * inner + ki) * block_K
                    p.load_a(A, A_tile, by * block_M, depth)
                    p.load_b(B, B_tile, depth, bx * block_N)
                    p.multiply(A_tile, B_tile, acc, outer + ki == 0)
            p.finish(acc, bias, residual, C, by * block_M, bx * block_N)

    return gemm


def conditional(o: Options) -> Kernel:
    """Every `bound`-th step is left out, copies and gemm: C = the sum of the products of the other steps."""
    (M, N, K), (block_M, block_N, block_K), p = o.shape, o.tile, parts(o)
    period = max(o.bound, 2)

    @T.prim_func
    def gemm(
        A: T.Tensor(p.a_shape, o.dtype), B: T.Tensor(p.b_shape, o.dtype), bias: T.Tensor((N,), "float32"),
        residual: T.Tensor((M, N), o.dtype), C: T.Tensor((M, N), o.out_dtype),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=o.threads) as (bx, by):
            A_tile = T.alloc_shared(p.a_tile, o.dtype)
            B_tile = T.alloc_shared(p.b_tile, o.dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            p.begin(acc, residual, by * block_M, bx * block_N)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=o.num_stages):
                if (ko + bx) % period != 0:
                    p.load_a(A, A_tile, by * block_M, ko * block_K)
                    p.load_b(B, B_tile, ko * block_K, bx * block_N)
                    p.multiply(A_tile, B_tile, acc, False)
            p.finish(acc, bias, residual, C, by * block_M, bx * block_N)

    return gemm


def conditional_copy(o: Options) -> Kernel:
    """B's tile is loaded on every `bound`-th step only and read on each: C = sum of A[:, ko] @ B[ko - ko % bound]."""
    (M, N, K), (block_M, block_N, block_K), p = o.shape, o.tile, parts(o)
    period = max(o.bound, 2)

    @T.prim_func
    def gemm(
        A: T.Tensor(p.a_shape, o.dtype), B: T.Tensor(p.b_shape, o.dtype), bias: T.Tensor((N,), "float32"),
        residual: T.Tensor((M, N), o.dtype), C: T.Tensor((M, N), o.out_dtype),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=o.threads) as (bx, by):
            A_tile = T.alloc_shared(p.a_tile, o.dtype)
            B_tile = T.alloc_shared(p.b_tile, o.dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            p.begin(acc, residual, by * block_M, bx * block_N)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=o.num_stages):
                p.load_a(A, A_tile, by * block_M, ko * block_K)
                if ko % period == 0:
                    p.load_b(B, B_tile, ko * block_K, bx * block_N)
                p.multiply(A_tile, B_tile, acc, False)
            p.finish(acc, bias, residual, C, by * block_M, bx * block_N)

    return gemm


def conditional_gemm(o: Options) -> Kernel:
    """Both tiles are loaded on each step; `if`, `elif` and `else` say what becomes of them, by step and by block."""
    (M, N, K), (block_M, block_N, block_K), p = o.shape, o.tile, parts(o)
    period = max(o.bound, 2)

    @T.prim_func
    def gemm(
        A: T.Tensor(p.a_shape, o.dtype), B: T.Tensor(p.b_shape, o.dtype), bias: T.Tensor((N,), "float32"),
        residual: T.Tensor((M, N), o.dtype), C: T.Tensor((M, N), o.out_dtype),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=o.threads) as (bx, by):
            A_tile = T.alloc_shared(p.a_tile, o.dtype)
            B_tile = T.alloc_shared(p.b_tile, o.dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            p.begin(acc, residual, by * block_M, bx * block_N)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=o.num_stages):
                p.load_a(A, A_tile, by * block_M, ko * block_K)
                p.load_b(B, B_tile, ko * block_K, bx * block_N)
                if ko % period == 0:
                    p.multiply(A_tile, B_tile, acc, False)
                elif by > 0:
                    p.multiply(A_tile, B_tile, acc, False)
                    p.multiply(A_tile, B_tile, acc, False)
                else:
                    for i, j in T.Parallel(block_M, block_N):
                        acc[i, j] += 1
            p.finish(acc, bias, residual, C, by * block_M, bx * block_N)

    return gemm


def prologue(o: Options) -> Kernel:
    """C = D + A @ B + A[:, :block_K] @ B[:block_K]: copies and a gemm before the loop, through the loop's own tiles."""
    (M, N, K), (block_M, block_N, block_K), p = o.shape, o.tile, parts(o)

    @T.prim_func
    def gemm(
        A: T.Tensor(p.a_shape, o.dtype), B: T.Tensor(p.b_shape, o.dtype), bias: T.Tensor((N,), "float32"),
        residual: T.Tensor((M, N), o.dtype), C: T.Tensor((M, N), o.out_dtype),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=o.threads) as (bx, by):
            A_tile = T.alloc_shared(p.a_tile, o.dtype)
            B_tile = T.alloc_shared(p.b_tile, o.dtype)
            bias_tile = T.alloc_shared((block_N,), "float32")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.copy(bias[bx * block_N], bias_tile)
            p.begin(acc, residual, by * block_M, bx * block_N)
            p.load_a(A, A_tile, by * block_M, 0)
            p.load_b(B, B_tile, 0, bx * block_N)
            p.multiply(A_tile, B_tile, acc, True)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=o.num_stages):
                p.load_a(A, A_tile, by * block_M, ko * block_K)
                p.load_b(B, B_tile, ko * block_K, bx * block_N)
                p.multiply(A_tile, B_tile, acc, False)
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] += bias_tile[j]
            p.finish(acc, bias, residual, C, by * block_M, bx * block_N)

    return gemm


def resident(o: Options) -> Kernel:
    """C[:, j] = A @ B[:, j] for every j: K fits one tile, A is loaded once before the loop, each result leaves inside it."""
    (M, N, _), (block_M, block_N, _), p = o.shape, o.tile, parts(o)

    @T.prim_func
    def gemm(
        A: T.Tensor(p.a_shape, o.dtype), B: T.Tensor(p.b_shape, o.dtype), bias: T.Tensor((N,), "float32"),
        residual: T.Tensor((M, N), o.dtype), C: T.Tensor((M, N), o.out_dtype),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(M, block_M), threads=o.threads) as bx:
            A_tile = T.alloc_shared(p.a_tile, o.dtype)
            B_tile = T.alloc_shared(p.b_tile, o.dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            p.load_a(A, A_tile, bx * block_M, 0)
            for j in T.Pipelined(T.ceildiv(N, block_N), num_stages=o.num_stages):
                p.begin(acc, residual, bx * block_M, j * block_N)
                p.load_b(B, B_tile, 0, j * block_N)
                p.multiply(A_tile, B_tile, acc, True)
                p.finish(acc, bias, residual, C, bx * block_M, j * block_N)

    return gemm


def two_loops(o: Options) -> Kernel:
    """C = epilogue(A @ B + A[:, :bound tiles] @ D[:bound tiles]): two pipelined loops, the second through the first's A tile."""
    (M, N, K), (block_M, block_N, block_K), p = o.shape, o.tile, parts(o)

    @T.prim_func
    def gemm(
        A: T.Tensor(p.a_shape, o.dtype), B: T.Tensor(p.b_shape, o.dtype), D: T.Tensor(p.b_shape, o.dtype),
        bias: T.Tensor((N,), "float32"), residual: T.Tensor((M, N), o.dtype), C: T.Tensor((M, N), o.out_dtype),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=o.threads) as (bx, by):
            A_tile = T.alloc_shared(p.a_tile, o.dtype)
            B_tile = T.alloc_shared(p.b_tile, o.dtype)
            D_tile = T.alloc_shared(p.b_tile, o.dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            p.begin(acc, residual, by * block_M, bx * block_N)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=o.num_stages):
                p.load_a(A, A_tile, by * block_M, ko * block_K)
                p.load_b(B, B_tile, ko * block_K, bx * block_N)
                p.multiply(A_tile, B_tile, acc, ko == 0)
            for ko in T.Pipelined(o.bound, num_stages=max(o.num_stages - 1, 0)):
                p.load_a(A, A_tile, by * block_M, ko * block_K)
                p.load_b(D, D_tile, ko * block_K, bx * block_N)
                p.multiply(A_tile, D_tile, acc, False)
            p.finish(acc, bias, residual, C, by * block_M, bx * block_N)

    return gemm


def persistent(o: Options) -> Kernel:
    """C = epilogue(A @ B): `bound` blocks walk over all tiles, by steps of `bound`, some of them over one tile more."""
    (M, N, K), (block_M, block_N, block_K), p = o.shape, o.tile, parts(o)
    blocks, across, down = max(o.bound, 1), ceildiv(N, block_N), ceildiv(M, block_M)

    @T.prim_func
    def gemm(
        A: T.Tensor(p.a_shape, o.dtype), B: T.Tensor(p.b_shape, o.dtype), bias: T.Tensor((N,), "float32"),
        residual: T.Tensor((M, N), o.dtype), C: T.Tensor((M, N), o.out_dtype),
    ):  # fmt: skip
        with T.Kernel(blocks, threads=o.threads) as block:
            A_tile = T.alloc_shared(p.a_tile, o.dtype)
            B_tile = T.alloc_shared(p.b_tile, o.dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            for wave in T.serial(T.ceildiv(across * down, blocks)):
                tile = wave * blocks + block
                if tile < across * down:
                    row = tile // across * block_M
                    column = tile % across * block_N
                    p.begin(acc, residual, row, column)
                    for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=o.num_stages):
                        p.load_a(A, A_tile, row, ko * block_K)
                        p.load_b(B, B_tile, ko * block_K, column)
                        p.multiply(A_tile, B_tile, acc, ko == 0)
                    p.finish(acc, bias, residual, C, row, column)

    return gemm


def triangular(o: Options) -> Kernel:
    """Row block i adds up i + `bound` steps at most, as causal attention does: the trip count depends on the block."""
    (M, N, K), (block_M, block_N, block_K), p = o.shape, o.tile, parts(o)

    @T.prim_func
    def gemm(
        A: T.Tensor(p.a_shape, o.dtype), B: T.Tensor(p.b_shape, o.dtype), bias: T.Tensor((N,), "float32"),
        residual: T.Tensor((M, N), o.dtype), C: T.Tensor((M, N), o.out_dtype),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=o.threads) as (bx, by):
            A_tile = T.alloc_shared(p.a_tile, o.dtype)
            B_tile = T.alloc_shared(p.b_tile, o.dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            p.begin(acc, residual, by * block_M, bx * block_N)
            for ko in T.Pipelined(T.min(by + o.bound, T.ceildiv(K, block_K)), num_stages=o.num_stages):
                p.load_a(A, A_tile, by * block_M, ko * block_K)
                p.load_b(B, B_tile, ko * block_K, bx * block_N)
                p.multiply(A_tile, B_tile, acc, False)
            p.finish(acc, bias, residual, C, by * block_M, bx * block_N)

    return gemm


def chained(o: Options) -> Kernel:
    """C = epilogue((A @ B) @ E): the first product, rounded, is the left operand of the second, from shared memory or registers.
    N is one tile wide and E is N x N."""
    (M, N, K), (block_M, block_N, block_K), p = o.shape, o.tile, parts(o)

    @T.prim_func
    def gemm(
        A: T.Tensor(p.a_shape, o.dtype), B: T.Tensor(p.b_shape, o.dtype), E: T.Tensor((block_N, block_N), o.dtype),
        bias: T.Tensor((N,), "float32"), residual: T.Tensor((M, N), o.dtype), C: T.Tensor((M, N), o.out_dtype),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(M, block_M), threads=o.threads) as bx:
            A_tile = T.alloc_shared(p.a_tile, o.dtype)
            B_tile = T.alloc_shared(p.b_tile, o.dtype)
            E_tile = T.alloc_shared((block_N, block_N), o.dtype)
            first = T.alloc_fragment((block_M, block_N), "float32")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.copy(E, E_tile)
            T.clear(first)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=o.num_stages):
                p.load_a(A, A_tile, bx * block_M, ko * block_K)
                p.load_b(B, B_tile, ko * block_K, 0)
                p.multiply(A_tile, B_tile, first, False)
            p.begin(acc, residual, bx * block_M, 0)
            if o.a_from == "registers":
                rounded = T.alloc_fragment((block_M, block_N), o.dtype)
                T.copy(first, rounded)
                T.gemm(rounded, E_tile, acc, clear_accum=o.start == "clear_accum")
            else:
                rounded_tile = T.alloc_shared((block_M, block_N), o.dtype)
                T.copy(first, rounded_tile)
                T.gemm(rounded_tile, E_tile, acc, clear_accum=o.start == "clear_accum")
            p.finish(acc, bias, residual, C, bx * block_M, 0)

    return gemm


LOOPS: dict[str, Callable[[Options], Kernel]] = {
    loop.__name__: loop
    for loop in (
        plain, two_products, gated, nested, conditional, conditional_copy, conditional_gemm, prologue, resident, two_loops,
        persistent, triangular, chained,
    )
}  # fmt: skip
