"""A short way to write tile kernels by hand: every statement gets a line of its own in a made-up file."""
from __future__ import annotations

from dataclasses import dataclass, field

from tilelang.errors import Span
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Const, Expr, Var, as_expr
from tilelang.ir.tile import Body, Copy, Fill, For, Gemm, GridAxis, Kernel, Let, Stmt
from tilelang.ir.types import DType, LoopKind, Scope

FILE = "by_hand.tl"


@dataclass
class Maker:
    """Collects parameters and buffers in order; statements are made where they are written."""

    params: list[Buffer | Var] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    line: int = 0

    def span(self) -> Span:
        self.line += 1
        return Span(FILE, self.line)

    # ---- buffers --------------------------------------------------------------------------------------------------------------

    def tensor(self, name: str, *shape: int, dtype: str = "float16") -> Buffer:
        buffer = Buffer(name, shape, DType(dtype), Scope.GLOBAL, self.span())
        self.params.append(buffer)
        return buffer

    def alloc(self, name: str, shape: tuple[int, ...], dtype: str, scope: Scope) -> Buffer:
        buffer = Buffer(name, shape, DType(dtype), scope, self.span())
        self.buffers.append(buffer)
        return buffer

    def shared(self, name: str, *shape: int, dtype: str = "float16") -> Buffer:
        return self.alloc(name, shape, dtype, Scope.SHARED)

    def fragment(self, name: str, *shape: int, dtype: str = "float32") -> Buffer:
        return self.alloc(name, shape, dtype, Scope.FRAGMENT)

    # ---- statements -----------------------------------------------------------------------------------------------------------

    def copy(self, src: Buffer | Region, dst: Buffer | Region) -> Copy:
        return Copy(src=region(src), dst=region(dst), span=self.span())

    def gemm(self, a: Buffer, b: Buffer, c: Buffer, **options: object) -> Gemm:
        return Gemm(a=region(a), b=region(b), c=region(c), span=self.span(), **options)  # type: ignore[arg-type]

    def clear(self, dst: Buffer | Region) -> Fill:
        return self.fill(dst, 0)

    def fill(self, dst: Buffer | Region, value: int | float) -> Fill:
        return Fill(dst=region(dst), value=Const(value, region(dst).buffer.dtype), span=self.span())

    def let(self, var: Var, value: Expr | int) -> Let:
        return Let(var=var, value=as_expr(value), span=self.span())

    def loop(
        self, var: Var, stop: Expr | int, *body: Stmt, stages: int = 0, start: Expr | int = 0, step: int = 1,
        kind: LoopKind | None = None,
    ) -> For:  # fmt: skip
        """A serial loop, or with `stages` a pipelined one."""
        kind = kind or (LoopKind.PIPELINED if stages else LoopKind.SERIAL)
        bounds = {"start": as_expr(start), "stop": as_expr(stop)}
        return For(var=var, **bounds, step=step, kind=kind, num_stages=stages, body=body, span=self.span())

    def kernel(self, grid: dict[Var, int], *body: Stmt, threads: int = 128, name: str = "kernel") -> Kernel:
        axes = tuple(GridAxis(var, extent) for var, extent in grid.items())
        return Kernel(
            name=name, params=tuple(self.params), grid=axes, threads=threads, buffers=tuple(self.buffers), body=flat(body),
            span=self.span(),
        )  # fmt: skip


def flat(body: tuple[Stmt | Body, ...]) -> Body:
    return tuple(stmt for part in body for stmt in (part if isinstance(part, tuple) else (part,)))


def region(part: Buffer | Region) -> Region:
    return part.whole() if isinstance(part, Buffer) else part


def tile(buffer: Buffer, base: tuple[Expr | int, ...], *extents: int) -> Region:
    """The box of `buffer` from `base` on."""
    return Region(buffer, tuple(as_expr(part) for part in base), extents)
