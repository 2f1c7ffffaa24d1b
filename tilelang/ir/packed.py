"""Indices into packed register arrays, whose elements share 32-bit registers: which register, and which part of it.

Such an index is a sum of constants and of unrolled variables times multiples of the elements per register, so both are known
without knowing the variables.
"""
from __future__ import annotations

from tilelang.errors import InternalError
from tilelang.ir.expr import Binary, Const, Expr, is_const


def part_of(index: Expr, per_register: int) -> int:
    """`index % per_register`.  Raises InternalError (TL907) where that depends on a variable."""
    match index:
        case Const():
            return int(index.value) % per_register
        case Binary(op="*", a=a, b=b) if any(isinstance(side, Const) and side.value % per_register == 0 for side in (a, b)):
            return 0
        case Binary(op="+"):
            return (part_of(index.a, per_register) + part_of(index.b, per_register)) % per_register
    raise InternalError(f"an index into a packed array is no known multiple of {per_register}: {index}", code="TL907")


def register_of(index: Expr, per_register: int) -> Expr:
    """`index // per_register`, under the same condition."""
    match index:
        case Const():
            return Const(int(index.value) // per_register, index.dtype)
        case Binary(op="*"):
            a, b = (index.a, index.b) if isinstance(index.b, Const) else (index.b, index.a)
            factor = Const(int(b.value) // per_register, b.dtype)  # type: ignore[union-attr]
            return a if factor.value == 1 else Binary("*", a, factor)
        case Binary(op="+"):
            carry = (part_of(index.a, per_register) + part_of(index.b, per_register)) // per_register
            terms = [register_of(index.a, per_register), register_of(index.b, per_register), Const(carry)]
            return _sum([term for term in terms if not is_const(term, 0)])
    raise InternalError(f"an index into a packed array that cannot be divided by {per_register}: {index}", code="TL907")


def _sum(terms: list[Expr]) -> Expr:
    if not terms:
        return Const(0)
    total = terms[0]
    for term in terms[1:]:
        total = Binary("+", total, term)
    return total
