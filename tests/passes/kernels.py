"""Tile kernels built by hand, without the front end: the GEMM and its variations."""
from __future__ import annotations

from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Const, Var, binary
from tilelang.ir.tile import Copy, Fill, For, Gemm, GridAxis, Kernel
from tilelang.ir.types import DType, LoopKind, Scope


def ceildiv(a: int, b: int) -> int:
    return -(-a // b)


def gemm_kernel(
    m: int, n: int, k: int, block_m: int = 128, block_n: int = 128, block_k: int = 64, num_stages: int = 3,
    dtype: str = "float16", out_dtype: str | None = None, transpose_a: bool = False, transpose_b: bool = False,
    through_shared: bool = False, kind: LoopKind = LoopKind.PIPELINED, threads: int = 128,
) -> Kernel:  # fmt: skip
    """C[m, n] = op(A) @ op(B), one block_m x block_n tile per block; the whole of the language's plainest GEMM."""
    dt, out = DType(dtype), DType(out_dtype or dtype)
    a = Buffer("A", (k, m) if transpose_a else (m, k), dt, Scope.GLOBAL)
    b = Buffer("B", (n, k) if transpose_b else (k, n), dt, Scope.GLOBAL)
    c = Buffer("C", (m, n), out, Scope.GLOBAL)
    a_tile = (block_k, block_m) if transpose_a else (block_m, block_k)
    b_tile = (block_n, block_k) if transpose_b else (block_k, block_n)
    a_shared, b_shared = Buffer("A_shared", a_tile, dt, Scope.SHARED), Buffer("B_shared", b_tile, dt, Scope.SHARED)
    c_local = Buffer("C_local", (block_m, block_n), DType("float32"), Scope.FRAGMENT)
    c_shared = Buffer("C_shared", (block_m, block_n), out, Scope.SHARED)
    bx, by, ko = Var("bx"), Var("by"), Var("ko")
    row, column, depth = binary("*", by, block_m), binary("*", bx, block_n), binary("*", ko, block_k)
    loads = (
        Copy(src=Region(a, (depth, row) if transpose_a else (row, depth), a_tile), dst=a_shared.whole()),
        Copy(src=Region(b, (column, depth) if transpose_b else (depth, column), b_tile), dst=b_shared.whole()),
    )
    gemm = Gemm(a=a_shared.whole(), b=b_shared.whole(), c=c_local.whole(), transpose_a=transpose_a, transpose_b=transpose_b)
    out_region = Region(c, (row, column), (block_m, block_n))
    stores: tuple[Copy, ...] = (Copy(src=c_local.whole(), dst=out_region),)
    if through_shared:
        stores = (Copy(src=c_local.whole(), dst=c_shared.whole()), Copy(src=c_shared.whole(), dst=out_region))
    trips = Const(ceildiv(k, block_k))
    loop = For(var=ko, start=Const(0), stop=trips, step=1, kind=kind, num_stages=num_stages, body=(*loads, gemm))
    buffers = (a_shared, b_shared, *((c_shared,) if through_shared else ()), c_local)
    return Kernel(
        name="kernel", params=(a, b, c), grid=(GridAxis(bx, ceildiv(n, block_n)), GridAxis(by, ceildiv(m, block_m))),
        threads=threads,
        buffers=buffers, body=(Fill(dst=c_local.whole(), value=Const(0)), loop, *stores),
    )  # fmt: skip
