"""What a right matrix product and a right attention are, exactly and within rounding; on NumPy arrays and PyTorch tensors alike.

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


def attention(q: Any, k: Any, v: Any, dtype: str, causal: bool, first_row: int = 0) -> tuple[Any, Any]:
    """softmax(q @ k.T / sqrt(D)) @ v, exactly, and how far from it rounding may take each element of a kernel's result.

    `q` (..., M x D), `k` and `v` (..., N x D) are float64 arrays with the values the kernel really read; leading dimensions go
    along.  With `causal`, row i of q, which is row first_row + i of the whole, sees the keys 0 ... first_row + i.  With P the
    probabilities, the allowance is

        (2 u + 2**-20 + 2 d) (P @ |v|)  +  u |P @ v|  +  N 2**-24 max |v|

    where u, the unit roundoff of `dtype`, is for P on its way into the second product, for its sum and for the result; 2**-20 for
    exp2 and float32's part in them; d, a row's largest error of a score, c(D) 2**-24 (|q| @ |k|.T) / sqrt(D), enters P through
    the exponential; and the last term is for the float32 sums over N keys."""
    u, scale = UNIT_ROUNDOFF[dtype], q.shape[-1] ** -0.5
    keys = k.swapaxes(-1, -2)
    scores = (q @ keys) * scale
    off = accumulation_constant(q.shape[-1]) * UNIT_ROUNDOFF["float32"] * scale * _largest(abs(q) @ abs(keys))
    if causal:
        for row in range(q.shape[-2]):
            scores[..., row, first_row + row + 1 :] = -float("inf")
    weights = _exp(scores - _largest(scores))
    weights /= weights.sum(-1)[..., None]
    exact = weights @ v
    allowed = (2 * u + 2.0**-20 + 2 * off) * (weights @ abs(v)) + u * abs(exact)
    return exact, allowed + v.shape[-2] * UNIT_ROUNDOFF["float32"] * float(abs(v).max())


def _largest(array: Any) -> Any:
    """The largest of each row, with the dimension kept."""
    found = array.max(-1)
    return (found.values if hasattr(found, "values") else found)[..., None]


def _exp(array: Any) -> Any:
    if hasattr(array, "exp"):
        return array.exp()
    import numpy as np

    return np.exp(array)


def error_norm(result: Any, exact: Any) -> float:
    """The relative error in the Frobenius norm."""
    return float(((result - exact) ** 2).sum() ** 0.5 / (exact**2).sum() ** 0.5)
