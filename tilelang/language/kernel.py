"""The frame of a kernel: the decorators, the launch, and what is said about the launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.errors import TypeProblem, Unsupported
from tilelang.frontend.builder import current
from tilelang.frontend.specs import KernelSpec, kernel_spec
from tilelang.ir.expr import Expr


def prim_func(func: Callable[..., Any] | None = None, *, eager_jit: bool = False) -> Any:
    """Turns a function into a kernel (`ir.tile.Kernel`) at once, by running its body.

    Parameters are annotated: `T.Tensor(shape, dtype)` or a dtype for a scalar.  Values of the functions around it and of the
    module are taken as they are now.  Raises KernelError, at the line to change, for everything a kernel cannot hold."""
    if eager_jit:
        from tilelang.frontend.problems import caller_span

        hint = "annotate the parameters with T.Tensor(shape, dtype)"
        raise Unsupported("eager_jit=True is not there yet", code="TL302", span=caller_span(), hint=hint)
    from tilelang.frontend.entry import build_kernel

    return build_kernel if func is None else build_kernel(func)


def macro(func: Callable[..., Any] | None = None) -> Any:
    """A function whose body is built into each kernel that calls it.  Tiles are passed by reference, scalars by value; parameters
    annotated with `T.Ref` can be assigned to; it may return values, but not from inside a loop or `if` of the kernel."""
    from tilelang.frontend.entry import Macro

    return Macro if func is None else Macro(func)


def Kernel(
    *blocks: object, threads: object = None, prelude: str | None = None, cluster_dims: object = None, is_cpu: bool = False
) -> KernelSpec:
    """`with T.Kernel(blocks_x, blocks_y, threads=128) as (bx, by):` - a grid of 1 to 3 axes, 128 threads unless said otherwise.

    Raises ShapeProblem TL207 for extents, TypeProblem TL215 unless threads is a positive multiple of 32 up to 1024, Unsupported
    TL302 for clusters and preludes."""
    if cluster_dims not in (None, 1, (1,), (1, 1), (1, 1, 1), [1, 1, 1]):
        raise Unsupported(f"cluster_dims={cluster_dims!r} is not there yet", code="TL302", hint="leave it out")
    if prelude is not None or is_cpu:
        name = "prelude" if prelude is not None else "is_cpu"
        raise Unsupported(f"T.Kernel(..., {name}=...) is not there", code="TL302", hint="leave it out")
    return kernel_spec(blocks, threads)


def use_swizzle(panel_size: object, order: str = "row", enable: bool = True) -> None:
    """Walks the grid in panels of `panel_size` rows of blocks, for reuse in the L2 cache.

    The orders "column" and "mlx", which would change the speed only, are taken and not used.  Raises TypeProblem TL216 for a
    panel size that is no positive int and for any other order."""
    builder = current("T.use_swizzle")
    builder.require_kernel("T.use_swizzle")
    if isinstance(panel_size, (bool, Expr)) or not isinstance(panel_size, int) or panel_size < 1:
        shown = "an expression" if isinstance(panel_size, Expr) else repr(panel_size)
        raise TypeProblem(
            f"panel_size={shown} of T.use_swizzle; it must be a positive int", code="TL216", hint="T.use_swizzle(8)"
        )
    if order not in ("row", "column", "mlx"):
        raise TypeProblem(f"order={order!r} of T.use_swizzle; it may be 'row'", code="TL216", hint="leave it out for 'row'")
    if enable and order == "row":
        builder.swizzle_panel = panel_size
    elif enable:
        from tilelang.frontend import hints

        hints.decide(builder, "block order", "by plan", f"the order {order!r} is asked for; only 'row' is used")


__all__ = ["Kernel", "macro", "prim_func", "use_swizzle"]
