"""Functions of values as C++: CUDA's math functions, and the helpers of device code."""
from __future__ import annotations

from collections.abc import Callable

from tilelang.codegen.c_types import TL_TYPES, c_type, is_narrow, rounded
from tilelang.errors import InternalError
from tilelang.ir.expr import Call, Cast, Expr
from tilelang.ir.types import DType

MATH = {
    "exp": "expf", "exp2": "tl::exp2", "log": "logf", "log2": "log2f", "sqrt": "sqrtf", "rsqrt": "rsqrtf", "tanh": "tanhf",
    "sigmoid": "tl::sigmoid", "floor": "floorf", "ceil": "ceilf", "abs": "fabsf", "round": "rintf", "trunc": "truncf",
    "sin": "sinf", "cos": "cosf", "erf": "erff",
}  # fmt: skip
"""Of floats, by the names that take float32."""

Text = Callable[[Expr], str]
"""Prints an argument."""


def call_text(call: Call, text: Text) -> str:
    """C++ for a call.  Raises InternalError (TL905) for a function that has none."""
    if call.fn == "abs" and call.dtype.is_int:
        absolute = f"abs({text(call.args[0])})"
        return f"static_cast<{c_type(call.dtype)}>({absolute})" if call.dtype.bits < 32 else absolute
    if call.fn in MATH:
        result = f"{of_width(MATH[call.fn], call.dtype)}({', '.join(text(arg) for arg in call.args)})"
        return rounded(result, call.dtype) if is_narrow(call.dtype) else result
    if call.fn not in _HELPERS:
        raise InternalError(f"function {call.fn} has no printing", code="TL905")
    return _HELPERS[call.fn](call.args, text)


def of_width(function: str, dtype: DType) -> str:
    """The name of a float function for `dtype`: for double CUDA's without the f; ours are overloaded."""
    return function if dtype != "float64" or function.startswith("tl::") else function.removesuffix("f")


def _pack(args: tuple[Expr, ...], text: Text) -> str:
    low, high = args
    if not (isinstance(low, Cast) and isinstance(high, Cast) and low.value.dtype == high.value.dtype == "float32"):
        raise InternalError("pack takes two float32 values cast to one 16-bit type", code="TL905")
    return f"tl::pack_{TL_TYPES[low.dtype]}({text(low.value)}, {text(high.value)})"


def _matrix_descriptor(args: tuple[Expr, ...], text: Text) -> str:
    low, stride, swizzle = args
    return f"tl::matrix_descriptor<{text(stride)}, {text(swizzle)}>({text(low)})"


def _descriptor_low(args: tuple[Expr, ...], text: Text) -> str:
    return f"tl::descriptor_low({', '.join(text(arg) for arg in args)})"


_HELPERS: dict[str, Callable[[tuple[Expr, ...], Text], str]] = {
    "pack": _pack, "matrix_descriptor": _matrix_descriptor, "descriptor_low": _descriptor_low,
}  # fmt: skip
