"""Constants as C++ literals: the nearest value of their dtype, in the fewest digits that give it."""
from __future__ import annotations

import math
from typing import NamedTuple

from tilelang.ir.expr import FLOAT32, Const
from tilelang.ir.types import DType

INT32_LEAST, INT64_LEAST = -(2**31), -(2**63)


class _Format(NamedTuple):
    """A binary float format: bits of the significand, exponent of the least subnormal, largest finite value; whether larger
    values become that one instead of infinity."""

    digits: int
    least_exponent: int
    largest: float
    saturates: bool = False


_FORMATS = {
    "float32": _Format(24, -149, (2 - 2**-23) * 2.0**127),
    "float16": _Format(11, -24, 65504.0),
    "bfloat16": _Format(8, -133, (2 - 2**-7) * 2.0**127),
    "float8_e4m3fn": _Format(4, -9, 448.0, saturates=True),
    "float8_e5m2": _Format(3, -16, 57344.0, saturates=True),
}


def nearest(number: float, dtype: DType) -> float:
    """The value of a float dtype nearest to `number`, ties to even, in one rounding from double.  As conversions on the device
    do, float8 saturates at its largest finite value, infinities included; the other types overflow to infinity."""
    if dtype == "float64" or math.isnan(number):
        return number
    form = _FORMATS[dtype]
    if abs(number) < 2 * form.largest:
        unit = max(math.frexp(number)[1] - form.digits, form.least_exponent)
        number = math.copysign(math.ldexp(round(math.ldexp(number, -unit)), unit), number)
    if abs(number) > form.largest:
        return math.copysign(form.largest if form.saturates else math.inf, number)
    return number


def literal(constant: Const) -> str:
    """C++ for a constant.  A negative one begins with a minus, except for the least int32 and int64, which are in parentheses."""
    number, dtype = constant.value, constant.dtype
    if dtype == "bool":
        return "true" if number else "false"
    return float_literal(float(number), dtype) if dtype.is_float else integer_literal(int(number), dtype)


def integer_literal(number: int, dtype: DType) -> str:
    """Digits, with the suffix that their type needs.  The least value has no literal: C++ reads the digits before the minus."""
    suffix = {"int64": "ll", "uint64": "ull"}.get(dtype, "u" if dtype == "uint32" and number >= 2**31 else "")
    if number in (INT32_LEAST, INT64_LEAST) and number == dtype.limits[0]:
        return f"({number + 1}{suffix} - 1)"
    return f"{number}{suffix}"


def float_literal(number: float, dtype: DType) -> str:
    """The nearest value of `dtype`, as a float (or, for float64, a double): infinities and NaN are calls, since text without
    headers has no other names for them."""
    value = nearest(number, dtype)
    if math.isnan(value):
        return "tl::nan()"
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}tl::infinity()"
    if dtype == "float64":
        return repr(value)
    text = next(text for digits in range(1, 10) if nearest(float(text := f"{value:.{digits}g}"), FLOAT32) == value)
    return f"{text}f" if any(c in text for c in ".e") else f"{text}.0f"
