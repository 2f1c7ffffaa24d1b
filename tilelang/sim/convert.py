"""Conversions between the dtypes of values, and values as raw words."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilelang.ir.types import DType
from tilelang.sim import reference_values

Value = Any
"""int, bool, np.generic or np.ndarray, as the docstring of `sim.values` says."""


FLOAT32 = DType("float32")


def wrap(value: Value, dtype: DType) -> Value:
    """An integer, or an array of wide integers, reduced to `dtype` modulo 2**bits."""
    low = dtype.limits[0]
    reduced = (value - low) % (1 << dtype.bits) + low
    return reduced.astype(dtype.numpy) if isinstance(reduced, np.ndarray) else int(reduced)


def wide(value: Value, dtype: DType) -> Value:
    """Integers in a type where one operation on `dtype` is exact, modulo 2**64 at least (Python's own for 64 bits)."""
    if not isinstance(value, np.ndarray):
        return int(value)
    return value.astype(object if dtype.bits == 64 else np.int64)


def computed(value: Value, dtype: DType) -> Value:
    """A float value in the dtype its operations are computed in: float32 for the narrow ones."""
    return value.astype(np.float32) if dtype.bits < 32 else value


def narrowed(value: Value, dtype: DType) -> Value:
    """What was computed for `dtype` in the dtype itself."""
    return value if dtype.bits >= 32 else plain(np.asarray(reference_values.convert(value, FLOAT32, dtype)), dtype)


def as_bool(value: Value) -> Value:
    return value if isinstance(value, np.ndarray) else bool(value)


def convert(value: Value, source: DType, target: DType) -> Value:
    """`value` of dtype `source` as `target`, as a C++ cast does it on the device: to nearest even; truncated and saturated from
    float to integer (NaN gives 0); modulo 2**bits between integers."""
    if source == target:
        return value
    if target.kind == "bool":
        return as_bool(value != 0)
    if target.is_float:
        return plain(np.asarray(reference_values.convert(np.asarray(value, source.numpy), source, target)), target)
    if source.is_float:
        return _saturate(computed(value, source), target)
    if isinstance(value, np.ndarray) and target.limits[0] <= source.limits[0] and source.limits[1] <= target.limits[1]:
        return value.astype(target.numpy)
    return wrap(wide(value, DType("int64")), target)


def _saturate(value: Value, target: DType) -> Value:
    low, high = target.limits

    def one(number: float) -> int:
        if number != number:
            return 0
        return max(low, min(high, int(number))) if abs(number) < float("inf") else (high if number > 0 else low)

    if not isinstance(value, np.ndarray):
        return one(float(value))
    return np.array([one(number) for number in value.ravel().tolist()], target.numpy).reshape(value.shape)


def bits_of(value: Value, dtype: DType) -> np.ndarray:
    """The raw words of a value of `dtype`, as unsigned integers of the same width (0-d where it is uniform)."""
    return np.asarray(value, dtype.numpy).view(f"u{dtype.bytes}")


def plain(value: np.ndarray, dtype: DType) -> Value:
    """An array as a value: 0-d ones become the scalar of their kind."""
    if value.ndim:
        return value
    return value[()] if dtype.is_float else value.item()
