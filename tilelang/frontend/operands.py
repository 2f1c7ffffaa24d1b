"""Operands of statements: elements and regions of buffers, checked against the buffers' extents and made complete."""

from __future__ import annotations

from dataclasses import replace

from tilelang.errors import NameProblem, ShapeProblem, TypeProblem, Unsupported
from tilelang.frontend.builder import Builder
from tilelang.frontend.describe import expr_text, place_text, shape_text, tile_text
from tilelang.frontend.specs import value_name
from tilelang.frontend.threads import refuse_thread
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Binary, Expr, Load, Select, Var, is_const
from tilelang.ir.types import Scope

Operand = Buffer | Region | Load


def check_reads(builder: Builder, value: object) -> None:
    """Checks every element read anywhere in a field of a statement.  Bodies were checked statement by statement."""
    if isinstance(value, tuple):
        for item in value:
            check_reads(builder, item)
    elif isinstance(value, (Expr, Region)):
        _check_expression(builder, value, builder.is_conditional())


def _check_expression(builder: Builder, node: Expr | Region, guarded: bool) -> None:
    """`guarded`: whether the node may stay unevaluated, in which case an index that varies may be out of range."""
    from tilelang.ir.walk import children

    refuse_thread(node)
    if isinstance(node, Var) and node in builder.over:
        raise NameProblem(
            f"{node.name} belongs to a block that is over, and an expression made there is used after it", code="TL105",
            hint="use the expression in the block, or keep its value in a T.alloc_var",
        )  # fmt: skip
    if isinstance(node, Load):
        check_element(builder, node, guarded)
    if isinstance(node, Binary) and node.op in ("//", "%") and is_const(node.b, 0):
        raise TypeProblem(f"{expr_text(node)} divides by 0", code="TL217")
    for at, child in enumerate(children(node)):
        if isinstance(child, Expr):
            lazy = at > 0 and (isinstance(node, Select) or (isinstance(node, Binary) and node.op in ("and", "or")))
            _check_expression(builder, child, guarded or lazy)


def check_element(builder: Builder, element: Load, guarded: bool) -> None:
    """ShapeProblem TL203 where an index is past the end for certain; TypeProblem TL213 where it is no integer, or the element no
    value."""
    _require_values(element.buffer)
    for axis, (index, size) in enumerate(zip(element.indices, element.buffer.shape, strict=True)):
        _check_integer(index, element.buffer, axis)
        _check_inside(builder, element, axis, index, 1, size, guarded)


def check_index(builder: Builder, buffer: Buffer, index: Expr) -> None:
    """The same for the index of an mbarrier, and for what it reads."""
    check_reads(builder, index)
    _check_integer(index, buffer, 0)
    _check_inside(builder, Load(buffer, (index,)), 0, index, 1, buffer.shape[0], builder.is_conditional())


def _require_values(buffer: Buffer) -> None:
    if buffer.scope is Scope.BARRIER:
        raise TypeProblem(
            f"{buffer.name} is an array of mbarriers, which hold no values", code="TL213",
            hint="use T.mbarrier_arrive and T.mbarrier_wait_parity on them",
        )  # fmt: skip


def as_operand(value: object, what: str) -> Operand:
    """A buffer, a slice or an element with indices; TypeProblem TL213 for anything else."""
    if isinstance(value, Load) and value.buffer.scope is Scope.VAR:
        raise TypeProblem(
            f"{what} must be a tile, and {value.buffer.name} is a scalar", code="TL213", hint="assign to it: name = value"
        )
    if isinstance(value, (Buffer, Region, Load)):
        _require_values(value if isinstance(value, Buffer) else value.buffer)
        return value
    shown = f"the expression {expr_text(value)}" if isinstance(value, Expr) else f"{type(value).__name__} {value!r}"
    raise TypeProblem(f"{what} must be a buffer, a slice or an element of one, not {shown}", code="TL213")


def as_region(builder: Builder, operand: Operand, tile: tuple[int, ...] = ()) -> Region:
    """The region an operand means.  A bare element takes its extents from `tile` by the rule of `binding.py`."""
    if isinstance(operand, Buffer):
        return operand.whole()
    if isinstance(operand, Load):
        for axis, index in enumerate(operand.indices):
            _check_integer(index, operand.buffer, axis)
        from tilelang.frontend.binding import bind

        wanted = tuple(extent for extent in tile if extent != 1)
        region, decision = bind(operand, wanted, builder.facts, builder.span)
        if wanted:
            builder.decisions.append(decision)
        return _checked(builder, region, exact=False)
    return _checked(builder, _static(builder, operand), exact=True)


def static_tile(builder: Builder, operand: Operand) -> tuple[int, ...]:
    """The extents other than 1 of an operand that is no bare element."""
    return as_region(builder, operand).tile_shape  # type: ignore[return-value]


def require_scope(operand: Operand, what: str, allowed: tuple[Scope, ...], hint: str = "") -> None:
    """TypeProblem TL212 unless the operand lives in one of the scopes."""
    buffer = operand if isinstance(operand, Buffer) else operand.buffer
    if buffer.scope not in allowed:
        raise TypeProblem(
            f"{what} must be {' or '.join(allowed)} memory, and {buffer.name} is {buffer.scope}", code="TL212", hint=hint,
            notes=(place_text(operand),),
        )  # fmt: skip


def _static(builder: Builder, region: Region) -> Region:
    """The region with extents that are numbers."""
    extents = []
    for axis, extent in enumerate(region.extents):
        value = builder.facts.constant(extent)
        if value is None:
            raise Unsupported(
                f"dimension {axis} of {tile_text(region)} has extent {expr_text(extent)}, not known while the kernel is built",
                code="TL303", hint=f"write it with a Python int for the size: {value_name(region)}[i : i + 64]",
            )  # fmt: skip
        if value < 1:
            raise ShapeProblem(f"dimension {axis} of {region.buffer.name} is sliced to {value} elements", code="TL203")
        extents.append(value)
    return replace(region, extents=tuple(extents))


def _checked(builder: Builder, region: Region, exact: bool) -> Region:
    """ShapeProblem TL203 for a slice past the end.  A tile placed by a bare element may hang over a global buffer's end."""
    guarded = builder.is_conditional()
    for axis, (base, extent, size) in enumerate(zip(region.base, region.extents, region.buffer.shape, strict=True)):
        _check_integer(base, region.buffer, axis)
        if exact or region.buffer.scope is not Scope.GLOBAL:
            _check_inside(builder, region, axis, base, extent, size, guarded)  # type: ignore[arg-type]
        else:
            _check_inside(builder, region, axis, base, 1, size, guarded)
    return region


def _check_integer(index: Expr, buffer: Buffer, axis: int) -> None:
    if not index.dtype.is_int:
        hint = "use // for integer division" if index.dtype.is_float else ""
        raise TypeProblem(
            f"index {axis} of {buffer.name} is {expr_text(index)} of dtype {index.dtype}; an index is an integer",
            code="TL213",
            hint=hint,
        )


def _check_inside(builder: Builder, where: Operand, axis: int, base: Expr, extent: int, size: object, guarded: bool) -> None:
    """A constant base is judged in every scope, one that varies only where the block's own memory is overrun for certain."""
    buffer = where if isinstance(where, Buffer) else where.buffer
    constant = builder.facts.constant(base)
    found = (constant, constant) if constant is not None else None
    if found is None and buffer.scope is not Scope.GLOBAL and not guarded:
        found = builder.facts.attained_range(base)
    if found is None or not isinstance(size, int) or (found[0] >= 0 and found[1] + extent <= size):
        return
    reached = found[1] + extent - 1 if found[1] + extent > size else found[0]
    verb = "is" if found[0] == found[1] and extent == 1 else "reaches"
    raise ShapeProblem(
        f"index {axis} of {tile_text(where)} {verb} {reached}, and {buffer.name} has {size} elements there", code="TL203",
        hint=f"{buffer.name} is {shape_text(buffer.shape)}; indices run from 0 to {size - 1}", notes=(place_text(buffer),),
    )  # fmt: skip
