"""Integer arithmetic on index expressions: linear forms, differences, bounds and simplification.

Everything here reasons over the mathematical integers (Python ints).  An expression of int32 or int64 is assumed not to overflow;
the width that makes this true is chosen where code is generated.  Unsigned and narrow ones wrap, and so do conversions to them:
they are atoms, which are not looked into.  Ring identities (`+`, `-`, `*`) within one dtype hold for wrapping values, too;
identities that involve division are applied to signed types only.

Example: `linear_form((by + 1) * 128 - 64)` is `(64, {by: 128})`, and with by in 0..7 its bounds are (64, 960).
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping

from tilelang.ir.expr import BOOL, INT32, Binary, Call, Cast, Compare, Const, Expr, Select, Unary, Var, compare, convert
from tilelang.ir.types import DType

INT64 = DType("int64")
LinearForm = tuple[int, dict[Expr, int]]
Range = tuple[int, int]
Ranges = Mapping[Var, Range]


# ---- linear forms -------------------------------------------------------------------------------------------------------------


def linear_form(expr: Expr) -> LinearForm:
    """`expr` as `constant + sum(coefficient * atom)`; an atom is whatever is not +, -, negation or a product with a constant.

    Conversions of int32 to int64 are looked through.  An expression that is no integer, or may wrap, is one atom."""
    return _linear(expr, None)


def _wraps(dtype: DType) -> bool:
    """Whether arithmetic in an integer type is modulo 2**bits rather than free of overflow."""
    return dtype.is_int and not (dtype.kind == "int" and dtype.bits >= INT32.bits)


def add_forms(a: LinearForm, b: LinearForm, scale: int = 1) -> LinearForm:
    """`a + scale * b`, without terms whose coefficient became 0."""
    terms = dict(a[1])
    for atom, coefficient in b[1].items():
        terms[atom] = terms.get(atom, 0) + scale * coefficient
    return a[0] + scale * b[0], {atom: coefficient for atom, coefficient in terms.items() if coefficient}


def constant_difference(a: Expr, b: Expr) -> int | None:
    """`a - b` where everything that varies cancels, else None."""
    constant, terms = add_forms(linear_form(a), linear_form(b), -1)
    return None if terms else constant


def _linear(expr: Expr, dtype: DType | None) -> LinearForm:
    """The linear form; with `dtype` given only nodes of exactly that dtype are taken apart."""
    if not expr.dtype.is_int or (dtype is not None and expr.dtype != dtype):
        return 0, {expr: 1}
    if dtype is None and _wraps(expr.dtype) and not isinstance(expr, Const):
        return 0, {expr: 1}
    match expr:
        case Const(value=value):
            return int(value), {}
        case Unary(op="-", value=value):
            return add_forms((0, {}), _linear(value, dtype), -1)
        case Binary(op="+" | "-" as op, a=a, b=b):
            return add_forms(_linear(a, dtype), _linear(b, dtype), 1 if op == "+" else -1)
        case Binary(op="*" | "<<", a=a, b=b):
            return _scaled(expr, _linear(a, dtype), _linear(b, dtype))
        case Cast(value=value) if dtype is None and value.dtype.is_int and not _narrows(value.dtype, expr.dtype):
            return _linear(value, dtype)
    return 0, {expr: 1}


def _narrows(given: DType, wanted: DType) -> bool:
    """Whether a conversion between integer types can change a value."""
    return given.limits[0] < wanted.limits[0] or given.limits[1] > wanted.limits[1]


def _scaled(expr: Binary, a: LinearForm, b: LinearForm) -> LinearForm:
    """A product or left shift, linear where one side is a constant."""
    if not b[1]:
        if expr.op == "*":
            return add_forms((0, {}), a, b[0])
        if 0 <= b[0] < 64:
            return add_forms((0, {}), a, 1 << b[0])
    elif not a[1] and expr.op == "*":
        return add_forms((0, {}), b, a[0])
    return 0, {expr: 1}


# ---- bounds -------------------------------------------------------------------------------------------------------------------


def bounds(expr: Expr, ranges: Ranges) -> Range | None:
    """The smallest and the largest value `expr` can take while each variable stays inside its (inclusive) range.

    Never too narrow; too wide where a variable occurs in several atoms.  None if nothing is known."""
    if expr.dtype.is_float:
        return None
    constant, terms = linear_form(expr)
    low = high = constant
    for atom, coefficient in terms.items():
        found = _atom_bounds(atom, ranges)
        if found is None:
            return None
        ends = sorted((found[0] * coefficient, found[1] * coefficient))
        low, high = low + ends[0], high + ends[1]
    return low, high


def _atom_bounds(atom: Expr, ranges: Ranges) -> Range | None:
    """Of an atom; of one that wraps, all values of its dtype if it may leave them, and at most those."""
    found = _unwrapped_bounds(atom, ranges)
    if not (_wraps(atom.dtype) or isinstance(atom, Cast)) or not atom.dtype.is_int:
        return found
    low, high = atom.dtype.limits
    if found is None:
        return (low, high) if atom.dtype.bits < INT32.bits else None
    return found if low <= found[0] and found[1] <= high else (low, high)


def _unwrapped_bounds(atom: Expr, ranges: Ranges) -> Range | None:
    match atom:
        case Var():
            return ranges.get(atom)
        case Const(value=value) if not atom.dtype.is_float:
            return int(value), int(value)
        case Compare() | Binary(op="and" | "or") | Unary(op="not"):
            return 0, 1
        case Cast(value=value) if value.dtype == BOOL:
            return 0, 1
        case Cast(value=value) if value.dtype.is_int:
            return bounds(value, ranges)
        case Select(then=then, otherwise=otherwise):
            return _union(bounds(then, ranges), bounds(otherwise, ranges))
        case Call(fn="abs", args=(value,)):
            return _absolute(bounds(value, ranges))
        case Unary(op="~", value=value):
            found = bounds(value, ranges)
            return None if found is None or value.dtype.kind != "int" else (~found[1], ~found[0])
        case Binary():
            return _binary_bounds(atom.op, bounds(atom.a, ranges), bounds(atom.b, ranges))
    return None


def _union(a: Range | None, b: Range | None) -> Range | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _absolute(found: Range | None) -> Range | None:
    if found is None:
        return None
    ends = abs(found[0]), abs(found[1])
    return (0 if found[0] <= 0 <= found[1] else min(ends)), max(ends)


_MONOTONE: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "min": min, "max": max,
}  # fmt: skip
"""Operators whose extreme values are at the ends of their operands' ranges."""


def _binary_bounds(op: str, a: Range | None, b: Range | None) -> Range | None:
    """Bounds of `a op b` for the operators that are no part of a linear form."""
    if op == "%" and b is not None and b[0] > 0:
        if a is not None and b[0] == b[1] and a[0] // b[0] == a[1] // b[0]:
            return a[0] % b[0], a[1] % b[0]
        return 0, b[1] - 1 if a is None or a[0] < 0 else min(b[1] - 1, a[1])
    if op == "&":
        known = [found[1] for found in (a, b) if found is not None and found[0] >= 0]
        return (0, min(known)) if known else None
    if a is None or b is None:
        return None
    if op in _MONOTONE:
        return _corners(_MONOTONE[op], a, b)
    if op == "//" and b[0] > 0:
        return _corners(lambda x, y: x // y, a, b)
    if op == ">>" and b[0] >= 0 and b[1] < 64:
        return _corners(lambda x, y: x >> y, a, b)
    if op in ("|", "^") and a[0] >= 0 and b[0] >= 0:
        return 0, (1 << max(a[1], b[1]).bit_length()) - 1
    return None


def _corners(operation, a: Range, b: Range) -> Range:
    values = [operation(x, y) for x in a for y in b]
    return min(values), max(values)


# ---- simplification -----------------------------------------------------------------------------------------------------------


def simplify(expr: Expr, ranges: Ranges | None = None) -> Expr:
    """An expression of the same dtype and the same value for all values of the variables (inside `ranges`, where given).

    Only identities that hold exactly; floating-point arithmetic is left alone.  What cannot be made smaller stays as written."""
    from tilelang.ir.walk import rewrite

    known = ranges or {}
    return rewrite(expr, lambda node: _simplified(node, known) if isinstance(node, Expr) else node)  # type: ignore[return-value]


def _simplified(node: Expr, ranges: Ranges) -> Expr:  # noqa: C901 - one case per rule  # noqa: C901 - one case per rule
    """One node whose operands are already simple."""
    match node:
        case Binary(op="+" | "-" | "*") if node.dtype.is_int:
            return _smaller(_from_form(_linear(node, node.dtype), node.dtype), node)
        case Binary(op="//" | "%", b=Const(value=divisor)) if node.dtype.kind == "int" and divisor > 0:
            return _division(node, int(divisor), ranges)
        case Binary(op="min" | "max", a=a, b=b) if node.dtype.is_int:
            return _extreme(node, constant_difference(a, b) if node.dtype.kind == "int" else (0 if a == b else None))
        case Binary(op="and" | "or", a=a, b=b):
            return _logical(node.op, a, b)
        case Unary(op="not", value=Const(value=value)):
            return Const(not value, BOOL)
        case Unary(op="not", value=Unary(op="not", value=inner)) if inner.dtype == BOOL:
            return inner
        case Compare(a=a, b=b) if a.dtype.kind == "int":
            return _comparison(node, ranges)
        case Select(condition=Const(value=value), then=then, otherwise=otherwise):
            return then if value else otherwise
        case Select(then=then, otherwise=otherwise) if then == otherwise:
            return then
        case Cast(value=value, dtype=dtype) if value.dtype == dtype:
            return value
        case Cast(value=Const(value=value), dtype=dtype) if dtype.is_int and isinstance(value, int):
            return Const(int(value), dtype) if dtype.limits[0] <= value <= dtype.limits[1] else node
    return node


def _division(node: Binary, divisor: int, ranges: Ranges) -> Expr:
    """`a // divisor` and `a % divisor`: multiples of the divisor leave the dividend; a known quotient is folded."""
    constant, terms = _linear(node.a, node.dtype)
    whole = {atom: coefficient // divisor for atom, coefficient in terms.items() if coefficient % divisor == 0}
    rest = {atom: coefficient for atom, coefficient in terms.items() if coefficient % divisor}
    remainder = _from_form((constant % divisor, rest), node.dtype)
    found = None if remainder is None else bounds(remainder, ranges)
    if remainder is None or found is None or found[0] // divisor != found[1] // divisor:
        return _smaller(_split_division(node, divisor, (constant // divisor, whole), remainder), node)
    quotient = found[0] // divisor
    if node.op == "//":
        return _smaller(_from_form((constant // divisor + quotient, whole), node.dtype), node)
    return _smaller(_from_form((constant % divisor - quotient * divisor, rest), node.dtype), node)


def _split_division(node: Binary, divisor: int, whole: LinearForm, remainder: Expr | None) -> Expr | None:
    """The division with the multiples of the divisor taken out of the dividend."""
    if remainder is None:
        return None
    match remainder:
        case Binary(op="//", a=inner, b=Const(value=first)) if node.op == "//" and first > 0:
            # floor(floor(x / a) / b) = floor(x / (a b)) for positive a and b.
            part = _binary_const("//", inner, int(first) * divisor)
        case Binary(op="%", a=inner, b=Const(value=first)) if node.op == "%" and first > 0 and first % divisor == 0:
            part = _binary_const("%", inner, divisor)
        case _:
            part = _binary_const(node.op, remainder, divisor)
    if node.op == "%" or part is None:
        return part
    return _from_form(add_forms(whole, _linear(part, node.dtype)), node.dtype)


def _binary_const(op: str, a: Expr, divisor: int) -> Expr | None:
    if divisor == 1:
        return a if op == "//" else Const(0, a.dtype)
    if divisor > a.dtype.limits[1]:
        return None
    if isinstance(a, Const):
        value = a.value // divisor if op == "//" else a.value % divisor
        return Const(value, a.dtype)
    return Binary(op, a, Const(divisor, a.dtype))


def _extreme(node: Binary, difference: int | None) -> Expr:
    if difference is None:
        return node
    return node.a if (difference <= 0) == (node.op == "min") else node.b


def _logical(op: str, a: Expr, b: Expr) -> Expr:
    """`and` / `or` with a constant side.  A constant on the right does not remove the left, which may be false or true alone."""
    absorbing = op == "or"
    if isinstance(a, Const):
        return Const(absorbing, BOOL) if bool(a.value) == absorbing else b
    if isinstance(b, Const) and bool(b.value) != absorbing:
        return a
    if isinstance(b, Const):
        return Const(absorbing, BOOL)
    return Binary(op, a, b)


def _comparison(node: Compare, ranges: Ranges) -> Expr:
    """A comparison whose sides differ by a constant, or whose difference has a known sign, is decided."""
    constant, terms = add_forms(linear_form(node.a), linear_form(node.b), -1)
    if not terms:
        return compare(node.op, constant, 0)
    total = (constant, constant)
    for atom, coefficient in terms.items():
        found = _atom_bounds(atom, ranges)
        if found is None:
            return node
        ends = sorted((found[0] * coefficient, found[1] * coefficient))
        total = total[0] + ends[0], total[1] + ends[1]
    verdicts = {compare(node.op, end, 0).value for end in total}  # type: ignore[attr-defined]
    if node.op in ("==", "!=") and total[0] != total[1] and total[0] <= 0 <= total[1]:
        return node
    return Const(verdicts.pop(), BOOL) if len(verdicts) == 1 else node


def _from_form(form: LinearForm, dtype: DType) -> Expr | None:
    """The expression of a linear form over atoms of `dtype`; None where a number does not fit the dtype."""
    constant, terms = form
    low, high = dtype.limits
    numbers = [abs(constant)] + [abs(coefficient) for coefficient in terms.values()]
    if any(number > high for number in numbers):
        return None
    result: Expr | None = None
    for atom, coefficient in sorted(terms.items(), key=lambda term: term[1] < 0):
        size = abs(coefficient)
        term = atom if size == 1 else Binary("*", atom, Const(size, dtype))
        if result is None:
            if coefficient < 0 and low == 0:
                return None
            result = term if coefficient > 0 else (Unary("-", atom) if size == 1 else Binary("*", atom, Const(-size, dtype)))
        else:
            result = Binary("+" if coefficient > 0 else "-", result, term)
    if result is None:
        return Const(constant, dtype) if low <= constant else None
    if constant:
        result = Binary("+" if constant > 0 else "-", result, Const(abs(constant), dtype))
    return result


def _smaller(new: Expr | None, old: Expr) -> Expr:
    return new if new is not None and _size(new) < _size(old) else old


def _size(expr: object) -> int:
    """Number of nodes of a tree."""
    if isinstance(expr, tuple):
        return sum(_size(item) for item in expr)
    if not isinstance(expr, Expr):
        return 0
    return 1 + sum(_size(getattr(expr, field.name)) for field in dataclasses.fields(expr))  # type: ignore[arg-type]


# ---- widths -------------------------------------------------------------------------------------------------------------------


def widened(expr: Expr) -> Expr:
    """An int32 expression with its sums and products done in int64, from its variables and loads on: an index never wraps."""
    if isinstance(expr, Const):
        return Const(expr.value, INT64)
    if isinstance(expr, Binary) and expr.dtype == INT32:
        return Binary(expr.op, widened(expr.a), widened(expr.b))
    return convert(expr, INT64)
