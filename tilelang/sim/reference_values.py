"""Arithmetic of the storage types on NumPy: one value per element, in the NumPy type of its dtype, every operation rounded once.

The rules, where NumPy's differ:
- 8- and 16-bit floats compute in float32 and round to nearest even; float64 and integers convert to them in one rounding.
- float8 saturates at its largest finite value, infinities included, as cvt.rn.satfinite does (PTX ISA, "cvt"); NaN stays.
- float to integer truncates and saturates, NaN gives 0; integers wrap in their width; to bool is `!= 0`.
- `//` and `%` are Python's; an integer divided by zero gives 0, a shift by the width or more shifts everything out.
- max and min ignore one NaN operand, and +0 is greater than -0 (PTX ISA, "max" and "min").
- math functions compute in float64 and round once, so that machines agree as far as their float64 functions do.

Nothing here raises for a value; callers run under `np.errstate(all="ignore")`.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilelang.errors import InternalError, Unsupported
from tilelang.ir.types import DTYPE_NAMES, DType

Value = Any  # a NumPy scalar or array whose NumPy dtype is that of the expression's dtype

BOOL, INT32, _F32, _F64 = DType("bool"), DType("int32"), DType("float32"), DType("float64")
NUMPY: dict[str, np.dtype] = {name: DType(name).numpy for name in DTYPE_NAMES}
_LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
_PATTERN_BYTE = 0x5A


def wide(dtype: DType) -> DType:
    """The float type in which values of `dtype` are computed: float64 for float64, else float32."""
    return _F64 if dtype == "float64" else _F32


def uninitialised(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """An array of recognisable content: NaN for floats, every byte 0x5A for integers, True for bool."""
    if dtype.is_float:
        return np.full(shape, np.nan, NUMPY[dtype])
    if dtype == "bool":
        return np.ones(shape, bool)
    pattern = np.frombuffer(bytes([_PATTERN_BYTE]) * dtype.bytes, NUMPY[dtype])[0]
    return np.full(shape, pattern, NUMPY[dtype])


def constant(value: int | float | bool, dtype: DType) -> Value:
    """A Python number as a scalar of `dtype`; an integer wraps, a float is rounded once."""
    if dtype in ("float32", "float64", "bool"):
        return NUMPY[dtype].type(value)
    if isinstance(value, float) or dtype.is_float:
        return convert(np.float64(value), _F64, dtype)
    low, high = dtype.limits
    wrapped = int(value) if low <= value <= high else (int(value) - low) % (high - low + 1) + low
    return NUMPY[dtype].type(wrapped)


# ---- conversions --------------------------------------------------------------------------------------------------------------


def convert(value: Value, dtype: DType, to: DType) -> Value:
    """`value` of `dtype` as `to`, by the rules of `expr.Cast`."""
    if dtype == to:
        return value
    if to == "bool":
        return (value.astype(np.float64) if dtype.is_float else value) != 0
    if to.is_float:
        return _to_float(value, dtype, to)
    return _float_to_int(value, to) if dtype.is_float else value.astype(NUMPY[to])


def reinterpret(value: Value, to: DType) -> Value:
    """The same bits as another dtype of the same width."""
    if to == "bool":
        return value.view(np.uint8) != 0
    return np.ascontiguousarray(value).view(NUMPY[to]).reshape(np.shape(value))[()]


def _to_float(value: Value, dtype: DType, to: DType) -> Value:
    """A number of any other dtype as a float dtype, in one rounding."""
    if to in ("float64", "float32"):
        return value.astype(NUMPY[to])
    if to == "float16" and dtype in ("float64", "float32"):
        return value.astype(np.float16)
    if dtype == "float64":
        value = _odd_float32(_saturated(value, to))
    elif to == "bfloat16" and dtype.is_int and dtype.bits > 16:
        value = _odd_float32(_odd_float64(value) if dtype.bits == 64 else value.astype(np.float64))
    else:  # exact, or (integers to float16 and float8) past the largest value before float32 rounds
        value = value.astype(np.float32)
    return _saturated(value, to).astype(NUMPY[to])


def _saturated(value: Value, to: DType) -> Value:
    """A wide float inside the range of a float8 type; NaN stays."""
    return np.clip(value, value.dtype.type(-_LARGEST[to]), value.dtype.type(_LARGEST[to])) if to.kind == "float8" else value


def _odd_float32(value: Value) -> Value:
    """float64 to float32, rounded to odd: a later rounding to nearest then sees what was lost (no double rounding)."""
    nearest = value.astype(np.float32)
    bits, back = nearest.view(np.uint32), nearest.astype(np.float64)
    towards = np.where(np.abs(back) > np.abs(value), bits - np.uint32(1), bits + np.uint32(1))
    adjust = (back != value) & ~np.isnan(value) & (bits & np.uint32(1) == 0)
    return np.where(adjust, towards, bits).astype(np.uint32).view(np.float32)


def _odd_float64(value: Value) -> Value:
    """A 64-bit integer to float64, rounded to odd where 53 bits do not hold it."""
    kind = value.dtype.type
    low = kind(0x7FF)
    sticky = (value & ~low) | np.where(value & low != 0, kind(0x800), kind(0))
    large = value >= kind(2**53) if value.dtype.kind == "u" else (value >= kind(2**53)) | (value <= kind(-(2**53)))
    return np.where(large, sticky, value).astype(np.float64)


def _float_to_int(value: Value, to: DType) -> Value:
    """Truncated towards zero, saturated, NaN as 0."""
    whole = np.trunc(value.astype(np.float64))
    low, high = to.limits
    kind = NUMPY[to].type
    inside = (whole >= low) & (whole < float(high + 1))
    result = np.where(inside, whole, 0.0).astype(NUMPY[to])
    result = np.where(whole >= float(high + 1), kind(high), result)
    return np.where(whole < low, kind(low), result)[()]


# ---- operators ----------------------------------------------------------------------------------------------------------------


def unary(op: str, value: Value, dtype: DType) -> Value:
    """`op value`; "~" and "not" of a bool are its negation."""
    if op in ("not", "~"):
        return np.logical_not(value) if op == "not" else np.invert(value)
    if dtype == "bool":
        return value
    return _rounded(np.negative(_widened(value, dtype)), dtype) if dtype.is_float else np.negative(value)


def binary(op: str, a: Value, b: Value, dtype: DType) -> Value:
    """`a op b` for operands of one dtype, which is the result's."""
    if op in ("and", "or"):
        return np.logical_and(a, b) if op == "and" else np.logical_or(a, b)
    if dtype == "bool" and op not in ("&", "|", "^", "min", "max"):  # bool + bool and the like: as integers, then != 0
        return binary(op, a.astype(np.int32), b.astype(np.int32), INT32) != 0
    function = (_FLOAT if dtype.is_float else _INT).get(op)
    if function is None:
        raise InternalError(f"operator {op} is not defined for {dtype}", code="TL910")
    if dtype.is_float:
        return _rounded(function(_widened(a, dtype), _widened(b, dtype)), dtype)
    return function(a, b)


def compare(op: str, a: Value, b: Value, dtype: DType) -> Value:
    """`a op b` as bool, for operands of `dtype`."""
    if dtype.is_float:
        a, b = _widened(a, dtype), _widened(b, dtype)
    return _COMPARE[op](a, b)


def call(fn: str, args: Sequence[tuple[Value, DType]], dtype: DType) -> Value:
    """A math function by name; raises `Unsupported` (TL370) for a name that is none."""
    function = MATH.get(fn)
    if function is None:
        raise Unsupported(f"the function {fn} has no meaning on the CPU yet", code="TL370", hint=f"there are {', '.join(MATH)}")
    value, source = args[0]
    if not source.is_float and fn in ("floor", "ceil", "round", "trunc", "abs"):
        return convert(np.abs(value) if fn == "abs" and source != "bool" else value, source, dtype)
    return convert(function(convert(value, source, _F64)), _F64, dtype)


def maximum(a: Value, b: Value) -> Value:
    """The greater of two wide floats; one NaN is ignored, +0 beats -0."""
    return np.where((a == 0) & (b == 0), a + b, np.fmax(a, b))


def minimum(a: Value, b: Value) -> Value:
    """The smaller of two wide floats; one NaN is ignored, -0 beats +0."""
    return -maximum(-a, -b)


def _widened(value: Value, dtype: DType) -> Value:
    return value if dtype in ("float32", "float64") else value.astype(np.float32)


def _rounded(value: Value, dtype: DType) -> Value:
    return value if dtype in ("float32", "float64") else convert(value, _F32, dtype)


def _float_power(a: Value, b: Value) -> Value:
    return np.power(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)


def _int_power(a: Value, b: Value) -> Value:
    """Wraps; a negative exponent gives the truncated reciprocal: 0 unless the base is 1 or -1."""
    zero, one = a.dtype.type(0), a.dtype.type(1)
    power = np.power(a, np.where(b < 0, zero, b))
    unit = np.where(np.abs(a) == one, np.where(b % 2 == 0, one, a), zero)
    return np.where(b < 0, unit, power)


def _shift_left(a: Value, b: Value) -> Value:
    zero = a.dtype.type(0)
    inside = (b >= 0) & (b < a.dtype.itemsize * 8)
    return np.where(inside, np.left_shift(a, np.where(inside, b, zero)), zero)


def _shift_right(a: Value, b: Value) -> Value:
    """Arithmetic for signed types: the sign fills what is shifted in."""
    zero, last = a.dtype.type(0), a.dtype.type(a.dtype.itemsize * 8 - 1)
    inside = (b >= 0) & (b <= last)
    shifted = np.right_shift(a, np.where(inside, b, last))
    return shifted if a.dtype.kind == "i" else np.where(inside, shifted, zero)


def _error_function(value: Value) -> Value:
    """erf, which NumPy lacks, by C's."""
    return np.vectorize(math.erf, otypes=[np.float64])(value)[()]


_FLOAT: dict[str, Callable[[Value, Value], Value]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "//": np.floor_divide, "%": np.mod,
    "min": minimum, "max": maximum, "pow": _float_power,
}  # fmt: skip
_INT: dict[str, Callable[[Value, Value], Value]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "//": np.floor_divide, "%": np.mod, "<<": _shift_left, ">>": _shift_right,
    "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor, "min": np.minimum, "max": np.maximum, "pow": _int_power,
}  # fmt: skip
_COMPARE: dict[str, Callable[[Value, Value], Value]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip
MATH: dict[str, Callable[[Value], Value]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt, "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "tanh": np.tanh, "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)), "floor": np.floor, "ceil": np.ceil, "abs": np.abs,
    "round": np.rint, "trunc": np.trunc, "sin": np.sin, "cos": np.cos, "erf": _error_function,
}  # fmt: skip
