"""Constants as C++ literals: the nearest value of their dtype, in the fewest digits that give it."""
from __future__ import annotations

import math

from tilelang.ir.expr import FLOAT32, Const
from tilelang.ir.rounding import nearest
from tilelang.ir.types import DType

INT32_LEAST, INT64_LEAST = -(2**31), -(2**63)


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
