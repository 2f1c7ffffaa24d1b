"""Index arithmetic without its trivial parts: sums without zeros, products without ones, shifts and masks for powers of two."""
from __future__ import annotations

from collections.abc import Iterable

from tilelang.ir.device import u32
from tilelang.ir.expr import BOOL, UINT32, Binary, Cast, Const, Expr, binary, is_const
from tilelang.ir.walk import rewrite


def add(a: Expr, b: Expr | int) -> Expr:
    """`a + b`."""
    if isinstance(b, int):
        return a if b == 0 else binary("+", a, b)
    return a if is_const(b, 0) else b if is_const(a, 0) else binary("+", a, b)


def times(value: Expr, factor: int) -> Expr:
    """`value * factor`."""
    if factor == 0 or is_const(value, 0):
        return Const(0, value.dtype)
    return value if factor == 1 else binary("*", value, factor)


def quotient(value: Expr, divisor: int) -> Expr:
    """`value // divisor`, for a positive divisor and any sign of the value."""
    if divisor == 1:
        return value
    return binary(">>", value, divisor.bit_length() - 1) if _is_power_of_two(divisor) else binary("//", value, divisor)


def remainder(value: Expr, divisor: int) -> Expr:
    """`value % divisor`, for a positive divisor and any sign of the value."""
    return binary("&", value, divisor - 1) if _is_power_of_two(divisor) else binary("%", value, divisor)


def powers_of_two(value: Expr) -> Expr:
    """The same with its floor divisions and remainders by powers of two as shifts and masks."""
    return rewrite(value, _shift_or_mask)  # type: ignore[return-value]


def _shift_or_mask(node: object) -> object:
    if isinstance(node, Binary) and node.op in ("//", "%") and isinstance(node.b, Const) and node.dtype.is_int:
        divisor = int(node.b.value)
        if _is_power_of_two(divisor):
            return quotient(node.a, divisor) if node.op == "//" else remainder(node.a, divisor)
    return node


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def unsigned(value: Expr) -> Expr:
    """A value that is not negative as uint32, the type of addresses in shared memory."""
    return u32(int(value.value)) if isinstance(value, Const) else Cast(value, UINT32)


def all_of(conditions: Iterable[Expr | None]) -> Expr | None:
    """The conjunction of conditions, None standing for one that always holds; None if there is nothing to check."""
    return _joined("and", (condition for condition in conditions if condition is not None and not is_const(condition, True)))


def any_of(conditions: Iterable[Expr]) -> Expr:
    """Their disjunction; false if there are none."""
    found = _joined("or", conditions)
    return Const(False, BOOL) if found is None else found


def _joined(op: str, conditions: Iterable[Expr]) -> Expr | None:
    found: Expr | None = None
    for condition in conditions:
        found = condition if found is None else binary(op, found, condition)
    return found
