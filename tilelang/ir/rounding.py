"""Python numbers as values of a float dtype, in one rounding: what constants print as and scalar parameters are passed as."""
from __future__ import annotations

import math
from typing import NamedTuple

from tilelang.ir.types import DType


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
