"""Functions of scalars.  Arguments are expressions or Python numbers; the result is an expression, except where all arguments of
`max`, `min`, `ceildiv` and the like are Python numbers, which give a Python number."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable

from tilelang.errors import TypeProblem
from tilelang.frontend.dtypes import as_dtype
from tilelang.frontend.expressions import choose, is_dynamic
from tilelang.ir import expr
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import FLOAT32, Call, Const, Expr, Reinterpret, as_expr, binary, convert, is_const
from tilelang.ir.types import DType


def _problem(message: str, *, code: str, hint: str = "") -> TypeProblem:
    """An error at the call of the function."""
    from tilelang.frontend.problems import caller_span

    return TypeProblem(message, code=code, span=caller_span(), hint=hint)


def _scalar(value: object, what: str, like: DType | None = None) -> Expr:
    """An argument as an expression; TypeProblem TL213 otherwise."""
    if isinstance(value, (Buffer, Region)):
        name = value.name if isinstance(value, Buffer) else value.buffer.name
        raise _problem(
            f"{what} takes scalars, not the tile {name}", code="TL213", hint=f"use it in T.Parallel on elements: {name}[i, j]"
        )
    try:
        return as_expr(value, like)  # type: ignore[arg-type]
    except TypeError as error:
        raise _problem(f"{what} takes scalars, not {type(value).__name__} {value!r}", code="TL213") from error


def _float_call(fn: str, value: object) -> Expr:
    """A function of one floating-point number, in its dtype; whole numbers become float32."""
    operand = _scalar(value, f"T.{fn}")
    operand = operand if operand.dtype.is_float else convert(operand, FLOAT32)
    return Call(fn, (operand,), operand.dtype)


def exp(x: object) -> Expr:
    """e ** x."""
    return _float_call("exp", x)


def exp2(x: object) -> Expr:
    """2 ** x."""
    return _float_call("exp2", x)


def log(x: object) -> Expr:
    """The natural logarithm."""
    return _float_call("log", x)


def log2(x: object) -> Expr:
    """The logarithm to base 2."""
    return _float_call("log2", x)


def sqrt(x: object) -> Expr:
    """The square root."""
    return _float_call("sqrt", x)


def rsqrt(x: object) -> Expr:
    """1 / sqrt(x)."""
    return _float_call("rsqrt", x)


def tanh(x: object) -> Expr:
    """The hyperbolic tangent."""
    return _float_call("tanh", x)


def sigmoid(x: object) -> Expr:
    """1 / (1 + exp(-x))."""
    return _float_call("sigmoid", x)


def sin(x: object) -> Expr:
    """The sine of x in radians."""
    return _float_call("sin", x)


def cos(x: object) -> Expr:
    """The cosine of x in radians."""
    return _float_call("cos", x)


def erf(x: object) -> Expr:
    """The error function, 2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x."""
    return _float_call("erf", x)


def floor(x: object) -> Expr:
    """The largest whole number not above x, in x's dtype; an integer is returned as it is."""
    return _rounded("floor", x)


def ceil(x: object) -> Expr:
    """The smallest whole number not below x, in x's dtype; an integer is returned as it is."""
    return _rounded("ceil", x)


def round(x: object) -> Expr:  # noqa: A001
    """The nearest whole number, the even one of two, in x's dtype; an integer is returned as it is."""
    return _rounded("round", x)


nearbyint = round


def trunc(x: object) -> Expr:
    """x without its fraction, in x's dtype; an integer is returned as it is."""
    return _rounded("trunc", x)


def isnan(x: object) -> Expr:
    """Whether x is not a number."""
    operand = _scalar(x, "T.isnan")
    if not operand.dtype.is_float or is_const(operand):
        return _known(operand, math.isnan)
    return expr.compare("!=", operand, operand)


def isinf(x: object) -> Expr:
    """Whether x is an infinity of either sign."""
    operand = _scalar(x, "T.isinf")
    if not operand.dtype.is_float or operand.dtype == "float8_e4m3fn" or is_const(operand):
        return _known(operand, math.isinf)
    return expr.compare("==", abs(operand), infinity(operand.dtype))


def isfinite(x: object) -> Expr:
    """Whether x is neither an infinity nor not a number."""
    operand = _scalar(x, "T.isfinite")
    if not operand.dtype.is_float or is_const(operand):
        return _known(operand, math.isfinite)
    if operand.dtype == "float8_e4m3fn":
        return expr.compare("==", operand, operand)
    return expr.compare("<", abs(operand), infinity(operand.dtype))


def _known(operand: Expr, test: Callable[[float], bool]) -> Const:
    """`test` of a number, or of an operand that cannot be anything but finite."""
    return Const(test(operand.value) if isinstance(operand, Const) else test(0.0), expr.BOOL)


def _rounded(fn: str, value: object) -> Expr:
    operand = _scalar(value, f"T.{fn}")
    return Call(fn, (operand,), operand.dtype) if operand.dtype.is_float else operand


def abs(x: object) -> Expr:  # noqa: A001 - the language's own name
    """The absolute value, in x's dtype."""
    operand = _scalar(x, "T.abs")
    return operand if operand.dtype.kind in ("uint", "bool") else Call("abs", (operand,), operand.dtype)


fabs = abs


def _pair(what: str, a: object, b: object) -> tuple[Expr, Expr]:
    left = _scalar(a, what, b.dtype if isinstance(b, Expr) else None)
    return left, _scalar(b, what, left.dtype)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def max(a: object, b: object) -> Expr | float:  # noqa: A001
    """The larger of two scalars."""
    return builtins.max(a, b) if _is_number(a) and _is_number(b) else binary("max", *_pair("T.max", a, b))  # type: ignore[type-var, return-value]


def min(a: object, b: object) -> Expr | float:  # noqa: A001
    """The smaller of two scalars."""
    return builtins.min(a, b) if _is_number(a) and _is_number(b) else binary("min", *_pair("T.min", a, b))  # type: ignore[type-var, return-value]


def clamp(dst: object, min_val: object, max_val: object) -> Expr | float:
    """`dst` limited to min_val .. max_val."""
    return min(max(dst, min_val), max_val)


def pow(x: object, y: object) -> Expr:  # noqa: A001
    """x ** y of floating-point numbers.  TypeProblem TL213 for two whole numbers."""
    a, b = _pair("T.pow", x, y)
    if not a.dtype.is_float and not b.dtype.is_float:
        raise _problem(
            f"T.pow works on floating-point numbers, not {a.dtype} and {b.dtype}",
            code="TL213",
            hint="cast one: x.astype('float32')",
        )
    return binary("pow", a, b)


def _integers(what: str, a: object, b: object) -> tuple[Expr, Expr]:
    left, right = _pair(what, a, b)
    for operand in (left, right):
        if not operand.dtype.is_int:
            raise _problem(f"{what} works on integers, not {operand.dtype}", code="TL213")
    if isinstance(right, Const) and right.value == 0:
        raise _problem(f"{what} divides by 0", code="TL217")
    return left, right


def ceildiv(lhs: object, rhs: object) -> Expr | int:
    """The quotient rounded up, for operands of any sign: ceildiv(7, 2) is 4 and ceildiv(7, -3) is -2."""
    left, right = _integers("T.ceildiv", lhs, rhs)
    if isinstance(lhs, int) and isinstance(rhs, int):
        return -(-lhs // rhs)
    if left.dtype.kind == "uint" or right.dtype.kind == "uint" or (isinstance(right, Const) and right.value > 0):
        return binary("//", left + right - 1 if not isinstance(right, Const) else left + (right.value - 1), right)
    return -binary("//", -left, right)


cdiv = ceildiv


def floordiv(a: object, b: object) -> Expr | int:
    """The quotient rounded down."""
    left, right = _integers("T.floordiv", a, b)
    return a // b if isinstance(a, int) and isinstance(b, int) else binary("//", left, right)


def floormod(a: object, b: object) -> Expr | int:
    """`a - b * floordiv(a, b)`: the remainder, with b's sign."""
    left, right = _integers("T.floormod", a, b)
    return a % b if isinstance(a, int) and isinstance(b, int) else binary("%", left, right)


def _bits(op: str, what: str, x: object, y: object) -> Expr:
    left, right = _pair(what, x, y)
    for operand in (left, right):
        if operand.dtype.is_float:
            raise _problem(f"{what} works on integers, not {operand.dtype}", code="TL213")
    return binary(op, left, right)


def shift_left(x: object, y: object) -> Expr:
    """x << y."""
    return _bits("<<", "T.shift_left", x, y)


def shift_right(x: object, y: object) -> Expr:
    """x >> y, keeping the sign of a signed x."""
    return _bits(">>", "T.shift_right", x, y)


def bitwise_and(x: object, y: object) -> Expr:
    """x & y."""
    return _bits("&", "T.bitwise_and", x, y)


def bitwise_or(x: object, y: object) -> Expr:
    """x | y."""
    return _bits("|", "T.bitwise_or", x, y)


def bitwise_xor(x: object, y: object) -> Expr:
    """x ^ y."""
    return _bits("^", "T.bitwise_xor", x, y)


def bitwise_not(x: object) -> Expr:
    """~x, which is -x - 1 for a signed integer."""
    operand = _scalar(x, "T.bitwise_not")
    if operand.dtype.is_float:
        raise _problem(f"T.bitwise_not works on integers, not {operand.dtype}", code="TL213")
    return ~operand


def cast(value: object, dtype: object, round: str = "", sat: bool = True, rbits: object = None) -> Expr:  # noqa: A002
    """`value` converted to `dtype`, rounded to nearest even; a float becomes an integer by truncation, saturating."""
    target = as_dtype(dtype)
    operand = _scalar(value, "T.cast")
    return operand if operand.dtype == target else expr.Cast(operand, target)


def Cast(dtype: object, value: object, annotations: object = None, span: object = None) -> Expr:
    """As `cast`, with the dtype first."""
    return cast(value, dtype)


def reinterpret(value: object, dtype: object) -> Expr:
    """The bits of `value` read as `dtype`, which has the same width.  TypeProblem TL213 otherwise."""
    target, operand = as_dtype(dtype), _scalar(value, "T.reinterpret")
    if operand.dtype.bits != target.bits or (operand.dtype == "bool") != (target == "bool"):
        raise _problem(
            f"T.reinterpret from {operand.dtype} ({operand.dtype.bits} bits) to {target} ({target.bits} bits): the widths differ",
            code="TL213", hint="use T.cast to convert the value",
        )  # fmt: skip
    return operand if operand.dtype == target else Reinterpret(operand, target)


def infinity(dtype: object) -> Const:
    """Positive infinity of a floating-point dtype.  TypeProblem TL213 for a dtype that has none."""
    target = as_dtype(dtype)
    if not target.is_float or target == "float8_e4m3fn":
        raise _problem(f"{target} has no infinity", code="TL213", hint="use a large finite value")
    return Const(builtins.float("inf"), target)


def if_then_else(cond: object, t: object, f: object) -> Expr:
    """`t` where cond holds, else `f`; only that side is evaluated."""
    if not is_dynamic(cond):
        return _scalar(t if (cond.value if isinstance(cond, Const) else cond) else f, "T.if_then_else")
    return choose(cond, t, f)  # type: ignore[return-value]


def Select(condition: object, true_value: object, false_value: object, span: object = None) -> Expr:
    """As `if_then_else`."""
    return if_then_else(condition, true_value, false_value)


__all__ = [
    "Cast", "Select", "abs", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "cast", "cdiv", "ceil", "ceildiv",
    "clamp", "cos", "erf", "exp", "exp2", "fabs", "floor", "floordiv", "floormod", "if_then_else", "infinity", "isfinite",
    "isinf", "isnan", "log", "log2", "max", "min", "nearbyint", "pow", "reinterpret", "round", "rsqrt", "shift_left",
    "shift_right", "sigmoid", "sin", "sqrt", "tanh", "trunc",
]  # fmt: skip
