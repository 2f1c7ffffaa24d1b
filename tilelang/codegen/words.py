"""Values as they are stored: 32-bit words, into which narrow elements are packed, or single elements."""
from __future__ import annotations

from tilelang.codegen.c_types import is_narrow, wrapper_name
from tilelang.codegen.out import Out
from tilelang.ir.arith import constant_difference
from tilelang.ir.device import RegisterLoad
from tilelang.ir.expr import Cast, Expr
from tilelang.ir.packed import part_of, register_of


def word(values: tuple[Expr, ...], out: Out) -> str:
    """One 32-bit word of the values: one of 32 bits, or 2 or 4 narrow ones, whose rounding the packing does."""
    if len(values) == 1:
        return out.printer.exact(values[0])
    first = values[0]
    if isinstance(first, RegisterLoad) and _is_register(first, values):
        *rest, last = first.indices
        return out.printer.element(first.registers, (*rest, register_of(last, len(values))))
    return f"tl::pack_{wrapper_name(first.dtype)}({', '.join(_unrounded(value, out) for value in values)})"


def words(values: tuple[Expr, ...], out: Out) -> str:
    """The 32-bit words of a vector store."""
    per_word = max(32 // values[0].dtype.bits, 1)
    return ", ".join(word(values[i : i + per_word], out) for i in range(0, len(values), per_word))


def element(value: Expr, out: Out) -> str:
    """One element as it lies in memory."""
    if is_narrow(value.dtype):
        return f"tl::bits_{wrapper_name(value.dtype)}({_unrounded(value, out)})"
    return out.expr(value)


def _is_register(first: RegisterLoad, values: tuple[Expr, ...]) -> bool:
    """Whether the values are all the elements of one packed register, which then need no unpacking and packing."""
    return (
        first.registers.packed
        and part_of(first.indices[-1], len(values)) == 0
        and all(isinstance(value, RegisterLoad) and _follows(value, first, i) for i, value in enumerate(values))
    )


def _follows(value: RegisterLoad, first: RegisterLoad, distance: int) -> bool:
    """Whether an element is `distance` elements behind another in the same row."""
    same = value.registers is first.registers and value.indices[:-1] == first.indices[:-1]
    return same and constant_difference(value.indices[-1], first.indices[-1]) == distance


def _unrounded(value: Expr, out: Out) -> str:
    """A value whose rounding to a narrow float is left to what stores it."""
    if isinstance(value, Cast) and is_narrow(value.dtype) and value.value.dtype == "float32":
        return out.expr(value.value)
    return out.expr(value)
