"""What a right matrix product is, exactly and within rounding.  Works on NumPy arrays and PyTorch tensors alike.

Two tiers.  *Exact*: integer-valued inputs so small that every partial sum is a float32 and every result a float16; then any order
of summation gives the same bits, and one wrong, missing or doubled term shows.  *Bounded*: real inputs, every element within what
rounding explains, element by element; a norm over the whole matrix would hide a fault in one corner of it.
"""
from __future__ import annotations

from typing import Any

UNIT_ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}


def integer_magnitude(k: int, limit: int = 2048, sigmas: float = 6.0) -> int:
    """The largest m such that sums of k products of integers drawn evenly from [-m, m] stay below `limit` up to `sigmas`
    standard deviations (each such integer has variance m (m + 1) / 3); at least 1.  Integers up to 2048 are float16 values."""
    m = 1
    while sigmas * k**0.5 * (m + 1) * (m + 2) / 3 <= limit:
        m += 1
    return m


def accumulation_constant(k: int) -> float:
    """c(K) of the bound: 4 sqrt(K / 16) + 8, for float32 accumulation in chunks of 16 products."""
    return 4 * (k / 16) ** 0.5 + 8


def largest_error(result: Any, a: Any, b: Any, out_dtype: str = "float16") -> float:
    """The largest |result - a @ b| as a fraction of c(K) 2**-24 (|a| @ |b|) + u |a @ b|, element by element.

    At most 1 for a right result; NaN for one that holds a NaN.

    `result` (M x N), `a` (M x K) and `b` (K x N) are float64 arrays with the values the kernel really read and wrote; u is the
    unit roundoff of `out_dtype`.  An element with no allowance (all its products are zero) must be exact."""
    exact = a @ b
    for_sums = accumulation_constant(a.shape[1]) * UNIT_ROUNDOFF["float32"] * (abs(a) @ abs(b))
    allowed = for_sums + UNIT_ROUNDOFF[out_dtype] * abs(exact)
    return float((abs(result - exact) / (allowed + 1e-300)).max())
