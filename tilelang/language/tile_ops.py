"""Operations on whole tiles.  A tile is a buffer, a slice `A[i : i + 64, :]`, or a bare element `A[i, j]` that gives only the
first element while the extents come from the other operand."""

from __future__ import annotations

from tilelang.errors import Unsupported
from tilelang.frontend.builder import current
from tilelang.ir.types import ReduceKind, WarpPolicy


def copy(
    src: object, dst: object, *, coalesced_width: int | None = None, disable_tma: bool = False,
    eviction_policy: str | None = None, prefer_instruction: str | None = None, loop_layout: object = None,
    annotations: dict[str, object] | None = None,
) -> None:  # fmt: skip
    """`dst = src`, element by element, converted to dst's dtype.  Out of bounds, reads give 0 and writes are dropped.

    The options are hints on how to copy; what is copied never depends on them, and this compiler chooses for itself.
    Raises ShapeProblem TL203, TL205, TL206 and TypeProblem TL213, TL219."""
    from tilelang.frontend import ops

    ops.copy(current("T.copy"), src, dst)


def fill(buffer: object, value: object) -> None:
    """Every element of the tile becomes `value`.  Raises TypeProblem TL213, TL217, TL219."""
    from tilelang.frontend import ops

    ops.fill(current("T.fill"), buffer, value)


def clear(buffer: object) -> None:
    """Every element of the tile becomes 0."""
    from tilelang.frontend import ops

    ops.fill(current("T.clear"), buffer, 0, "T.clear")


def gemm(
    A: object, B: object, C: object, transpose_A: bool = False, transpose_B: bool = False, policy: object = WarpPolicy.SQUARE,
    clear_accum: object = False, mbar: object = None, *, k_pack: int = 1, wg_wait: int = 0,
) -> None:  # fmt: skip
    """`C += op(A) @ op(B)`, or `C = ...` where `clear_accum`; op(A) is M x K, op(B) is K x N, C is an M x N fragment.

    `k_pack` means nothing here.  Raises ShapeProblem TL204, TypeProblem TL211, TL212, TL216, TL219 and Unsupported TL302."""
    if mbar is not None or wg_wait:
        name = "mbar" if mbar is not None else "wg_wait"
        raise Unsupported(
            f"T.gemm(..., {name}=...) is not there yet; T.gemm waits by itself", code="TL302", hint=f"leave {name} out"
        )
    builder = current("T.gemm")
    from tilelang.frontend import ops

    ops.gemm(builder, A, B, C, transpose_a=transpose_A, transpose_b=transpose_B, policy=policy, clear_accum=clear_accum)


def reduce_sum(buffer: object, out: object, dim: int = -1, clear: bool = True, batch: int = 1) -> None:
    """`out` = the sum of `buffer` over dimension `dim` (added to out's old value where not `clear`).

    out has buffer's extents without `dim`, or with 1 there.  `batch` is a hint.  Raises ShapeProblem TL208, TypeProblem TL212."""
    from tilelang.frontend import ops

    ops.reduce(current("T.reduce_sum"), ReduceKind.SUM, buffer, out, dim, clear)


def reduce_max(
    buffer: object, out: object, dim: int = -1, clear: bool = True, batch: int = 1, nan_propagate: bool = False
) -> None:
    """`out` = the largest of `buffer` over dimension `dim` (and of out's old value unless `clear`).  Raises as `reduce_sum`."""
    _reduce(ReduceKind.MAX, buffer, out, dim, clear, nan_propagate)


def reduce_min(
    buffer: object, out: object, dim: int = -1, clear: bool = True, batch: int = 1, nan_propagate: bool = False
) -> None:
    """`out` = the smallest of `buffer` over dimension `dim` (and of out's old value unless `clear`).  Raises as `reduce_sum`."""
    _reduce(ReduceKind.MIN, buffer, out, dim, clear, nan_propagate)


def reduce_abssum(buffer: object, out: object, dim: int = -1, clear: bool = True, batch: int = 1) -> None:
    """`out` = the sum of absolute values of `buffer` over dimension `dim`.  Raises as `reduce_sum`."""
    from tilelang.frontend import ops

    ops.reduce(current("T.reduce_abssum"), ReduceKind.ABSSUM, buffer, out, dim, clear)


def reduce_absmax(
    buffer: object, out: object, dim: int = -1, clear: bool = True, batch: int = 1, nan_propagate: bool = False
) -> None:
    """`out` = the largest absolute value of `buffer` over dimension `dim`.  Raises as `reduce_sum`."""
    _reduce(ReduceKind.ABSMAX, buffer, out, dim, clear, nan_propagate)


def _reduce(kind: ReduceKind, buffer: object, out: object, dim: int, clear: bool, nan_propagate: bool) -> None:
    builder = current(f"T.reduce_{kind}")
    if nan_propagate:
        raise Unsupported("nan_propagate=True is not there yet", code="TL302", hint="leave it out")
    from tilelang.frontend import ops

    ops.reduce(builder, kind, buffer, out, dim, clear)


__all__ = ["clear", "copy", "fill", "gemm", "reduce_absmax", "reduce_abssum", "reduce_max", "reduce_min", "reduce_sum"]
