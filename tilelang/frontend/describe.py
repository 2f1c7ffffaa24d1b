"""Expressions, regions and tiles as short text for messages: `Q[bz, bx * 64, by, 0]`, `128 x 64`."""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Expr, Load


def expr_text(value: object) -> str:
    """An expression, or the extent of a dimension, as the author could have written it."""
    from tilelang.ir.text import render_expr

    return render_expr(value) if isinstance(value, Expr) else str(value)


def shape_text(extents: Iterable[object]) -> str:
    """Extents as `128 x 64`; `a scalar` where there are none."""
    return " x ".join(expr_text(extent) for extent in extents) or "a scalar"


def tile_text(operand: Buffer | Region | Load) -> str:
    """An operand of a tile op as the author could have written it."""
    from tilelang.ir.text import render_region

    if isinstance(operand, Buffer):
        return operand.name
    return expr_text(operand) if isinstance(operand, Load) else render_region(operand)


def indexed(buffer: Buffer) -> str:
    """An element of a buffer, for a hint: `A[i, j]`."""
    names = "ijklmn"
    return f"{buffer.name}[{', '.join(names[axis % 6] for axis in range(buffer.rank))}]"


def place_text(operand: Buffer | Region | Load) -> str:
    """A note that names where the operand's buffer comes from."""
    buffer = operand if isinstance(operand, Buffer) else operand.buffer
    what = "is a parameter" if buffer.scope == "global" else "is allocated"
    where = f": {buffer.span}" if buffer.span else ""
    return f"{buffer.name} ({shape_text(buffer.shape)}, {buffer.dtype}, {buffer.scope}) {what} here{where}"
