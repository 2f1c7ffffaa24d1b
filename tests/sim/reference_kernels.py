"""Kernels of tile IR built by hand, for the tests of what they mean."""
from __future__ import annotations

from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Call, Const, Expr, Var, as_expr, binary, compare, select
from tilelang.ir.types import DType, LoopKind, ReduceKind, Scope

F16, F32 = DType("float16"), DType("float32")


def buffer(name: str, shape: tuple[int, ...], dtype: str, scope: Scope = Scope.GLOBAL) -> Buffer:
    """A buffer; GLOBAL unless told."""
    return Buffer(name, shape, DType(dtype), scope)


def kernel(params: tuple, buffers: tuple, body: tuple, grid: tuple[tile.GridAxis, ...] | None = None) -> tile.Kernel:
    """A kernel; one block unless told."""
    return tile.Kernel(
        name="kernel", params=params, grid=grid or (tile.GridAxis(Var("bx"), 1),), threads=128, buffers=buffers, body=body
    )


def ceildiv(a: int, b: int) -> int:
    return -(-a // b)


def matmul(
    m: int, n: int, k: int, block: tuple[int, int, int] = (128, 128, 64), dtype: str = "float16", accum: str = "float32",
    out: str | None = None, transpose_a: bool = False, transpose_b: bool = False,
) -> tile.Kernel:  # fmt: skip
    """C[m, n] = A[m, k] @ B[k, n] by tiles, as an author writes it; A is stored k x m and B n x k where transposed."""
    bm, bn, bk = block
    a = buffer("A", (k, m) if transpose_a else (m, k), dtype)
    b = buffer("B", (n, k) if transpose_b else (k, n), dtype)
    c = buffer("C", (m, n), out or dtype)
    a_shared = buffer("A_shared", (bk, bm) if transpose_a else (bm, bk), dtype, Scope.SHARED)
    b_shared = buffer("B_shared", (bn, bk) if transpose_b else (bk, bn), dtype, Scope.SHARED)
    c_local = buffer("C_local", (bm, bn), accum, Scope.FRAGMENT)
    bx, by, ko = Var("bx"), Var("by"), Var("ko")
    rows, columns, depth = slice_of(by, bm), slice_of(bx, bn), slice_of(ko, bk)
    loop = tile.For(
        var=ko, start=as_expr(0), stop=as_expr(ceildiv(k, bk)), step=1, kind=LoopKind.PIPELINED, num_stages=3,
        body=(
            tile.Copy(src=a[depth, rows] if transpose_a else a[rows, depth], dst=a_shared.whole()),
            tile.Copy(src=b[columns, depth] if transpose_b else b[depth, columns], dst=b_shared.whole()),
            gemm(a_shared, b_shared, c_local, transpose_a=transpose_a, transpose_b=transpose_b),
        ),
    )  # fmt: skip
    body = (
        tile.Fill(dst=c_local.whole(), value=Const(0, DType(accum))),
        loop,
        tile.Copy(src=c_local.whole(), dst=c[rows, columns]),
    )
    grid = (tile.GridAxis(bx, ceildiv(n, bn)), tile.GridAxis(by, ceildiv(m, bm)))
    return kernel((a, b, c), (a_shared, b_shared, c_local), body, grid)


def gemm(a: Buffer, b: Buffer, c: Buffer, **options) -> tile.Gemm:
    """A gemm of whole buffers."""
    return tile.Gemm(a=a.whole(), b=b.whole(), c=c.whole(), **options)


def serial(var: Var, stop: Expr | int, *body: tile.Stmt, start: Expr | int = 0, step: int = 1) -> tile.For:
    """`for var in range(start, stop, step): body`."""
    return tile.For(var=var, start=as_expr(start), stop=as_expr(stop), step=step, kind=LoopKind.SERIAL, body=body)


def store(buffer: Buffer, indices: tuple, value: Expr | float) -> tile.Store:
    """`buffer[indices] = value`."""
    return tile.Store(buffer=buffer, indices=tuple(as_expr(i) for i in indices), value=as_expr(value, buffer.dtype))


def slice_of(index: Expr, extent: int) -> slice:
    """`index * extent : index * extent + extent`."""
    return slice(index * extent, index * extent + extent)


def attention(batch: int, heads: int, seq: int, dim: int, block_m: int = 64, block_n: int = 64) -> tile.Kernel:
    """FlashAttention's forward pass with a causal mask, float16 in (batch, seq, heads, dim)."""
    shape = (batch, seq, heads, dim)
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    q, k, v, out = (buffer(name, shape, "float16") for name in ("Q", "K", "V", "Out"))
    q_shared = buffer("Q_shared", (block_m, dim), "float16", Scope.SHARED)
    k_shared = buffer("K_shared", (block_n, dim), "float16", Scope.SHARED)
    v_shared = buffer("V_shared", (block_n, dim), "float16", Scope.SHARED)
    scores = buffer("scores", (block_m, block_n), "float32", Scope.FRAGMENT)
    probs = buffer("probs", (block_m, block_n), "float16", Scope.FRAGMENT)
    acc = buffer("acc", (block_m, dim), "float32", Scope.FRAGMENT)
    row_max, row_sum, prev_max, rescale = (
        buffer(name, (block_m,), "float32", Scope.FRAGMENT) for name in ("row_max", "row_sum", "prev_max", "rescale")
    )
    bx, by, bz, ko, i, j = (Var(name) for name in ("bx", "by", "bz", "ko", "i", "j"))
    minus_infinity = Const(float("-inf"), F32)
    masked = select(compare(">=", bx * block_m + i, ko * block_n + j), scores[i, j] * scale, minus_infinity)
    loop_body = (
        tile.Copy(src=k[bz, slice_of(ko, block_n), by, :], dst=k_shared.whole()),
        tile.Fill(dst=scores.whole(), value=Const(0.0, F32)),
        tile.Gemm(a=q_shared.whole(), b=k_shared.whole(), c=scores.whole(), transpose_b=True),
        points((i, j), (block_m, block_n), tile.Store(buffer=scores, indices=(i, j), value=masked)),
        tile.Copy(src=row_max.whole(), dst=prev_max.whole()),
        tile.Reduce(kind=ReduceKind.MAX, src=scores.whole(), dst=row_max.whole(), dim=1, clear=False),
        points((i,), (block_m,), tile.Store(buffer=rescale, indices=(i,), value=exp2(prev_max[i] - row_max[i]))),
        points((i, j), (block_m, block_n), tile.Store(buffer=probs, indices=(i, j), value=exp2(scores[i, j] - row_max[i]))),
        points((i, j), (block_m, dim), tile.Store(buffer=acc, indices=(i, j), value=acc[i, j] * rescale[i])),
        points((i,), (block_m,), tile.Store(buffer=row_sum, indices=(i,), value=row_sum[i] * rescale[i])),
        tile.Reduce(kind=ReduceKind.SUM, src=probs.whole(), dst=row_sum.whole(), dim=1, clear=False),
        tile.Copy(src=v[bz, slice_of(ko, block_n), by, :], dst=v_shared.whole()),
        tile.Gemm(a=probs.whole(), b=v_shared.whole(), c=acc.whole()),
    )
    trips = binary("//", (bx + 1) * block_m + (block_n - 1), block_n)
    body = (
        tile.Copy(src=q[bz, slice_of(bx, block_m), by, :], dst=q_shared.whole()),
        tile.Fill(dst=acc.whole(), value=Const(0.0, F32)),
        tile.Fill(dst=row_sum.whole(), value=Const(0.0, F32)),
        tile.Fill(dst=row_max.whole(), value=minus_infinity),
        tile.For(var=ko, start=as_expr(0), stop=trips, step=1, kind=LoopKind.PIPELINED, num_stages=2, body=loop_body),
        points((i, j), (block_m, dim), tile.Store(buffer=acc, indices=(i, j), value=acc[i, j] / row_sum[i])),
        tile.Copy(src=acc.whole(), dst=out[bz, slice_of(bx, block_m), by, :]),
    )
    grid = (tile.GridAxis(bx, ceildiv(seq, block_m)), tile.GridAxis(by, heads), tile.GridAxis(bz, batch))
    buffers = (q_shared, k_shared, v_shared, scores, probs, acc, row_max, row_sum, prev_max, rescale)
    return kernel((q, k, v, out), buffers, body, grid)


def points(variables: tuple[Var, ...], extents: tuple[int, ...], *body: tile.Stmt) -> tile.Parallel:
    """`for variables in T.Parallel(extents): body`."""
    return tile.Parallel(vars=variables, extents=tuple(as_expr(extent) for extent in extents), body=body)


def exp2(value: Expr) -> Expr:
    return Call("exp2", (value,), value.dtype)
