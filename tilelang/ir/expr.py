"""Expressions, of tile IR and of device IR alike: pure trees, compared by structure, variables by identity.

Python's arithmetic operators build them; `==` compares structure (the front end turns a kernel's own `==` into `Compare`).
Integer division is Python's floor division.  `Select` is lazy: only the side that is taken is evaluated.
"""
from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilelang.ir.types import DType, promote

if TYPE_CHECKING:
    from tilelang.ir.buffer import Buffer

INT32, BOOL, FLOAT32, UINT32, UINT64 = DType("int32"), DType("bool"), DType("float32"), DType("uint32"), DType("uint64")

Number = int | float | bool


class Expr:
    """Base of all expressions.  Every subclass has a `dtype`."""

    __slots__ = ()
    dtype: DType

    def __str__(self) -> str:
        from tilelang.ir.text import render_expr

        return render_expr(self)

    def __add__(self, other: Expr | Number) -> Expr: return binary("+", self, other)
    def __radd__(self, other: Number) -> Expr: return binary("+", other, self)
    def __sub__(self, other: Expr | Number) -> Expr: return binary("-", self, other)
    def __rsub__(self, other: Number) -> Expr: return binary("-", other, self)
    def __mul__(self, other: Expr | Number) -> Expr: return binary("*", self, other)
    def __rmul__(self, other: Number) -> Expr: return binary("*", other, self)
    def __truediv__(self, other: Expr | Number) -> Expr: return binary("/", self, other)
    def __rtruediv__(self, other: Number) -> Expr: return binary("/", other, self)
    def __floordiv__(self, other: Expr | Number) -> Expr: return binary("//", self, other)
    def __rfloordiv__(self, other: Number) -> Expr: return binary("//", other, self)
    def __mod__(self, other: Expr | Number) -> Expr: return binary("%", self, other)
    def __rmod__(self, other: Number) -> Expr: return binary("%", other, self)
    def __lshift__(self, other: Expr | Number) -> Expr: return binary("<<", self, other)
    def __rlshift__(self, other: Number) -> Expr: return binary("<<", other, self)
    def __rshift__(self, other: Expr | Number) -> Expr: return binary(">>", self, other)
    def __rrshift__(self, other: Number) -> Expr: return binary(">>", other, self)
    def __and__(self, other: Expr | Number) -> Expr: return binary("&", self, other)
    def __rand__(self, other: Number) -> Expr: return binary("&", other, self)
    def __or__(self, other: Expr | Number) -> Expr: return binary("|", self, other)
    def __ror__(self, other: Number) -> Expr: return binary("|", other, self)
    def __xor__(self, other: Expr | Number) -> Expr: return binary("^", self, other)
    def __rxor__(self, other: Number) -> Expr: return binary("^", other, self)
    def __neg__(self) -> Expr: return unary("-", self)
    def __invert__(self) -> Expr: return unary("~", self)
    def __lt__(self, other: Expr | Number) -> Expr: return compare("<", self, other)
    def __le__(self, other: Expr | Number) -> Expr: return compare("<=", self, other)
    def __gt__(self, other: Expr | Number) -> Expr: return compare(">", self, other)
    def __ge__(self, other: Expr | Number) -> Expr: return compare(">=", self, other)

    def __bool__(self) -> bool:
        raise TypeError("an expression of the kernel has no truth value while the kernel is being built")

    def astype(self, dtype: DType | str) -> Expr:
        """This value converted to `dtype`."""
        return Cast(self, DType(dtype))


@dataclass(frozen=True, slots=True)
class Const(Expr):
    """A number of a given dtype; infinities and NaN included."""

    value: Number
    dtype: DType = INT32


@dataclass(frozen=True, slots=True, eq=False)
class Var(Expr):
    """An immutable name: a grid or loop variable, a let, a scalar parameter, or a local of device code.  Identity, not name."""

    name: str
    dtype: DType = INT32


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    """`op` is one of "-", "~", "not"."""

    op: str
    value: Expr

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return BOOL if self.op == "not" else self.value.dtype


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """`op` is one of + - * / // % << >> & | ^ min max pow and or.  Both operands have the dtype of the result, except "and"/"or"
    (bool).  "//" and "%" are floor division and its remainder; "/" on integers was already turned into float operands."""

    op: str
    a: Expr
    b: Expr

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return BOOL if self.op in ("and", "or") else self.a.dtype


@dataclass(frozen=True, slots=True)
class Compare(Expr):
    """`op` is one of < <= > >= == !=; both operands have one dtype."""

    op: str
    a: Expr
    b: Expr

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return BOOL


@dataclass(frozen=True, slots=True)
class Select(Expr):
    """`then if condition else otherwise`, lazily."""

    condition: Expr
    then: Expr
    otherwise: Expr

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return self.then.dtype


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """Numeric conversion, round to nearest even; float to int truncates and saturates."""

    value: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Reinterpret(Expr):
    """The same bits read as another dtype of the same width."""

    value: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """A function of values by name: the math functions exp exp2 log log2 sqrt rsqrt tanh sigmoid sin cos erf floor ceil round
    (half to even) trunc abs, and in device IR the pure helpers that `ir/device.py` lists."""

    fn: str
    args: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Load(Expr):
    """The element of a buffer at `indices` (one per dimension; none for a VAR)."""

    buffer: Buffer
    indices: tuple[Expr, ...]

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return self.buffer.dtype


_FOLD: dict[str, Callable[[Number, Number], Number]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "min": min, "max": max,
}  # fmt: skip
_OF_BITS = ("<<", ">>", "&", "|", "^")
_OF_BOOLS = ("&", "|", "^")  # the others take True as 1
_COMPARE: dict[str, Callable[[Number, Number], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def const(value: Number, like: DType | None = None) -> Const:
    """A Python number as a constant: of dtype `like` if given and able to hold it, else bool, int32 (int64 if needed) or
    float32."""
    if like is not None and not (isinstance(value, float) and not like.is_float):
        if like.is_float:
            return Const(float(value), like)
        if like.kind == "uint" and -(2 ** (like.bits - 1)) <= value < 0:  # as a signed operand of the same width would be
            return Const(int(value) % 2**like.bits, like)
        if like.limits[0] <= value <= like.limits[1]:
            return Const(bool(value) if like == "bool" else int(value), like)
    if isinstance(value, bool):
        return Const(value, BOOL)
    if isinstance(value, int):
        return Const(value, INT32 if -(2**31) <= value < 2**31 else DType("int64"))
    return Const(float(value), FLOAT32)


def as_expr(value: Expr | Number, like: DType | None = None) -> Expr:
    """An expression for a Python or NumPy number (`like`: the dtype it should take), or the expression itself."""
    if isinstance(value, Expr):
        return value
    number = getattr(value, "item", lambda: value)()
    if not isinstance(number, (int, float)):
        raise TypeError(f"a number or an expression is needed here, not {type(number).__name__} {number!r}")
    return const(number, like)


def _coerce(a: Expr | Number, b: Expr | Number) -> tuple[Expr, Expr]:
    """Both operands as expressions of their common dtype."""
    left = as_expr(a, b.dtype if isinstance(b, Expr) else None)
    right = as_expr(b, left.dtype)
    dtype = promote(left.dtype, right.dtype)
    return convert(left, dtype), convert(right, dtype)


def convert(value: Expr, dtype: DType) -> Expr:
    """`value` as `dtype`: itself, a converted constant, or a `Cast`."""
    if value.dtype == dtype:
        return value
    if isinstance(value, Const) and dtype.is_float and math.isfinite(value.value):
        return Const(float(value.value), dtype)
    if isinstance(value, Const) and value.dtype == "bool" and dtype.is_int:
        return Const(int(value.value), dtype)
    if isinstance(value, Const) and value.dtype.is_int and dtype.is_int and dtype.limits[0] <= value.value <= dtype.limits[1]:
        return Const(value.value, dtype)
    return Cast(value, dtype)


def binary(op: str, a: Expr | Number, b: Expr | Number) -> Expr:
    """`a op b` in their common dtype, constant integers folded as long as the result fits the dtype.  Raises TypeError
    for bits of floats."""
    if op in ("and", "or"):
        return Binary(op, as_expr(a), as_expr(b))
    left, right = _coerce(a, b)
    if left.dtype == "bool" and op in ("min", "max"):
        return binary("&" if op == "min" else "|", left, right)
    if op in _OF_BITS and left.dtype.is_float:
        raise TypeError(f"{op} acts on integers, and an operand is {left.dtype}")
    if left.dtype == "bool" and op not in _OF_BOOLS:
        left, right = convert(left, INT32), convert(right, INT32)
    if op == "/" and not left.dtype.is_float:
        left, right = convert(left, FLOAT32), convert(right, FLOAT32)
    folded = _folded(op, left, right) if isinstance(left, Const) and isinstance(right, Const) else None
    return Binary(op, left, right) if folded is None else folded


def _folded(op: str, left: Const, right: Const) -> Const | None:
    """The value of an integer operation, None where it has none or does not fit the dtype."""
    if op not in _FOLD or not left.dtype.is_int or (op in ("//", "%") and right.value == 0):
        return None
    value = _FOLD[op](left.value, right.value)
    return Const(value, left.dtype) if left.dtype.limits[0] <= value <= left.dtype.limits[1] else None


def compare(op: str, a: Expr | Number, b: Expr | Number) -> Expr:
    """`a op b` as a bool expression, folded for constants."""
    left, right = _coerce(a, b)
    if isinstance(left, Const) and isinstance(right, Const):
        return Const(_COMPARE[op](left.value, right.value), BOOL)
    return Compare(op, left, right)


def unary(op: str, value: Expr | Number) -> Expr:
    """`op value`, folded for constants.  "~" of a bool is its other value, as in NumPy, and "-" takes True as 1.  Raises
    TypeError for "~" of a float."""
    operand = as_expr(value)
    if op == "~" and operand.dtype.is_float:
        raise TypeError(f"~ acts on integers, and the operand is {operand.dtype}")
    if op == "~" and operand.dtype == "bool":
        op = "not"
    if op == "-" and operand.dtype == "bool":
        operand = convert(operand, INT32)
    if isinstance(operand, Const):
        if op == "-" and (operand.dtype.is_float or (operand.dtype.kind == "int" and operand.value != operand.dtype.limits[0])):
            return Const(-operand.value, operand.dtype)
        if op == "not":
            return Const(not operand.value, BOOL)
    return Unary(op, operand)


def select(condition: Expr | bool, then: Expr | Number, otherwise: Expr | Number) -> Expr:
    """A lazy conditional of two values in their common dtype."""
    left, right = _coerce(then, otherwise)
    if isinstance(condition, (bool, Const)):
        return left if (condition.value if isinstance(condition, Const) else condition) else right
    return Select(condition, left, right)


def is_const(value: object, number: Number | None = None) -> bool:
    """Whether `value` is a constant (equal to `number`, if given)."""
    return isinstance(value, Const) and (number is None or value.value == number)
