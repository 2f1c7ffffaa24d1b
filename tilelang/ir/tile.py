"""Tile IR: what the author meant, one block at a time.  Statements are compared by identity and carry their source span.

A kernel's body runs once per block.  Tile ops act on whole tiles; `Parallel` is a loop over points without order; everything
else is ordinary structured control flow.  The meaning of every node is what `sim/reference.py` does with it.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from tilelang.errors import Span, TypeProblem
from tilelang.ir.buffer import Buffer, Mbarriers, Region
from tilelang.ir.expr import Expr, Var
from tilelang.ir.types import LoopKind, ReduceKind, Scope, WarpPolicy
from tilelang.trace import Decision


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Stmt:
    """Base of all statements."""

    span: Span | None = None


Body = tuple[Stmt, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Let(Stmt):
    """`var = value`, immutable, visible to the statements after it in the same body."""

    var: Var
    value: Expr


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Store(Stmt):
    """`buffer[indices] = value` (no indices for a VAR); the value is converted to the buffer's dtype."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class For(Stmt):
    """`for var in range(start, stop, step)`, `step` a non-zero constant.  `num_stages` counts only for PIPELINED loops; the
    meaning is the serial loop's whatever the kind."""

    var: Var
    start: Expr
    stop: Expr
    step: int
    kind: LoopKind
    body: Body
    num_stages: int = 0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Parallel(Stmt):
    """`body` for every point of a box, in no order: one variable and one extent per dimension."""

    vars: tuple[Var, ...]
    extents: tuple[Expr, ...]
    body: Body


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class While(Stmt):
    condition: Expr
    body: Body


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class If(Stmt):
    condition: Expr
    then: Body
    otherwise: Body = ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Break(Stmt):
    """Leaves the innermost For or While."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Continue(Stmt):
    """Starts the next iteration of the innermost For or While."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Copy(Stmt):
    """`dst = src`, converted to dst's dtype.  Both regions have the same `tile_shape`.  Reads outside the source buffer give 0,
    writes outside the destination buffer are dropped."""

    src: Region
    dst: Region


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Fill(Stmt):
    """Every element of `dst` becomes `value`."""

    dst: Region
    value: Expr


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Gemm(Stmt):
    """`c += op(a) @ op(b)` on 2-D tiles (`c = ...` where `clear_accum`), accumulated in c's dtype.  `a` is M x K (K x M where
    `transpose_a`), `b` is K x N (N x K where `transpose_b`)."""

    a: Region
    b: Region
    c: Region
    transpose_a: bool = False
    transpose_b: bool = False
    clear_accum: Expr | bool = False
    policy: WarpPolicy = WarpPolicy.SQUARE


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reduce(Stmt):
    """`dst[...] = reduce over dimension dim of src` (folded into dst's old value where not `clear`)."""

    kind: ReduceKind
    src: Region
    dst: Region
    dim: int
    clear: bool = True


# ---- synchronisation by hand: a kernel with mbarriers or T.ws ------------------------------------------------------------------
# Its meaning is what its threads do together, which only the simulated machine runs.


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Warpgroups(Stmt):
    """`body` by the threads of the block's warpgroups `groups` (ascending) alone, which share its tiles and loops; the others
    pass. Everything outside is done by all threads of the block."""

    groups: tuple[int, ...]
    body: Body


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TmaCopy(Copy):
    """A copy that TMA does as a whole, started by one thread.  Into shared memory: it only starts, and `barriers[index]` expects
    its bytes from then on, without an arrival.  Into global memory: when it is over, the source may be written again."""

    barriers: Mbarriers | None = None
    index: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MbarrierArrive(Stmt):
    """One arrival on `barriers[index]` by every thread."""

    barriers: Mbarriers
    index: Expr


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MbarrierWait(Stmt):
    """Every thread waits until the phase of `barriers[index]` with this parity (0 or 1) has completed; on a fresh barrier the one
    of parity 1 has."""

    barriers: Mbarriers
    index: Expr
    parity: Expr


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SyncThreads(Stmt):
    """All threads of the block meet; or, at the named barrier `barrier_id` (1 to 15), `threads` of them."""

    barrier_id: int = 0
    threads: int = 0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FenceProxyAsync(Stmt):
    """Each thread's ordinary accesses to shared memory before later ones by TMA and tensor core."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SetMaxRegisters(Stmt):
    """The warpgroups take (`increase`) or give back registers, until each thread has `count`."""

    count: int
    increase: bool


@dataclass(frozen=True, slots=True)
class RegisterHints:
    """Registers of a thread that the author asks for, None where the planner chooses: for warpgroups that load and warpgroups
    that compute.  `fixed`: none are moved."""

    producer: int | None = None
    consumer: int | None = None
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class GridAxis:
    """One axis of the grid: its variable (blockIdx.x, y, z in order) and its extent."""

    var: Var
    extent: int | Expr


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Kernel:
    """A whole kernel: parameters in the caller's order (a GLOBAL buffer for a tensor, a Var for a scalar), grid, threads the
    author asked for, the buffers allocated inside, and the body.  `decisions` are those of the front end."""

    name: str
    params: tuple[Buffer | Var, ...]
    grid: tuple[GridAxis, ...]
    threads: int
    buffers: tuple[Buffer, ...]
    body: Body
    span: Span | None = None
    swizzle_panel: int = 0
    decisions: tuple[Decision, ...] = field(default=())
    registers: RegisterHints = RegisterHints()

    def __call__(self, *arguments: object, **named: object) -> None:
        """Raises TypeProblem TL221: what is called is a compiled kernel."""
        raise TypeProblem(
            f"{self.name} is a T.prim_func, which has to be compiled before it is called", code="TL221", span=self.span,
            hint=f"kernel = tilelang.compile({self.name}), then kernel(...)",
        )  # fmt: skip

    def __str__(self) -> str:
        """The kernel as text in the language."""
        from tilelang.ir.text import render

        return render(self)

    @property
    def tensors(self) -> tuple[Buffer, ...]:
        """The parameters that are tensors."""
        return tuple(param for param in self.params if isinstance(param, Buffer))

    @property
    def is_explicit(self) -> bool:
        """Whether the author divides the warpgroups and synchronises them by hand."""
        return any(buffer.scope is Scope.BARRIER for buffer in self.buffers) or _divides(self.body)


def _divides(body: Body) -> bool:
    inner = (getattr(stmt, name, ()) for stmt in body for name in ("body", "then", "otherwise"))
    return any(isinstance(stmt, Warpgroups) for stmt in body) or any(_divides(part) for part in inner if part)
