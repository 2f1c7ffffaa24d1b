"""Dtype-like values of the language, as a `DType` or a located refusal."""

from __future__ import annotations

import re

from tilelang.errors import TypeProblem, Unsupported
from tilelang.ir.expr import Const, Expr, as_expr
from tilelang.ir.types import DTYPE_NAMES, DType

# Dtypes of the language that have no storage here yet; vector types (`float32x4`) likewise.
LATER_DTYPES = (
    "int4", "uint4", "int1", "tfloat32", "float4_e2m1fn", "float4_e2m1_unpacked", "float8_e8m0fnu", "float8_e4m3fnuz",
    "float8_e5m2fnuz", "float8_e4m3b11fnuz", "float8_e3m4", "float6_e2m3fn", "float6_e3m2fn",
)  # fmt: skip
# Names that people give to dtypes and that are none.
_MEANT = {
    "half": "float16", "fp16": "float16", "f16": "float16", "bf16": "bfloat16", "fp32": "float32", "f32": "float32",
    "fp64": "float64", "f64": "float64", "fp8": "float8_e4m3fn", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "i8": "int8",
    "u8": "uint8", "i32": "int32", "short": "int16", "byte": "uint8",
}  # fmt: skip
_VECTOR = re.compile(r"(u?int|float|bfloat|bool)\w*x\d+$")


def is_later_dtype(name: str) -> bool:
    """Whether `name` is a dtype of the language that is not there yet."""
    return name in LATER_DTYPES or _VECTOR.match(name) is not None


def as_dtype(value: object) -> DType:
    """The `DType` that `value` names: a string, a `T.float16`, a torch or NumPy dtype, Python's float, int, bool.

    Raises TypeProblem TL210 for what is none and Unsupported TL303 for one that is not there yet."""
    name = value
    if isinstance(value, type) and value.__module__ in ("numpy", "ml_dtypes"):
        name = value.__name__
    elif type(value).__module__.startswith("numpy"):
        name = getattr(value, "name", value)
    try:
        return DType(name)
    except ValueError:
        pass
    text = str(name)
    there = f"there are {', '.join(DTYPE_NAMES)}"
    if is_later_dtype(text):
        raise Unsupported(f"dtype {text!r} is not there yet; {there}", code="TL303")
    from tilelang.frontend.problems import close_match

    found = _MEANT.get(text) or close_match(text, DTYPE_NAMES)
    hint = f"did you mean {found!r}?" if found else "give a name such as 'float16' or an object such as T.float16"
    raise TypeProblem(f"unknown dtype {text!r}; {there}", code="TL210", hint=hint)


def literal(value: object, dtype: DType) -> Expr:
    """A value that goes into a place of `dtype`: numbers take that dtype, expressions stay as they are.

    Raises TypeProblem TL213 for what is neither and TL217 for a whole number that does not fit."""
    if isinstance(value, Expr) and not isinstance(value, Const):
        return value
    try:
        number = value.value if isinstance(value, Const) else as_expr(value, dtype).value  # type: ignore[union-attr, arg-type]
    except TypeError as error:
        raise TypeProblem(str(error), code="TL213") from error
    except OverflowError as error:
        raise TypeProblem(f"a number of {int(value).bit_length()} bits does not fit {dtype}", code="TL217") from error  # type: ignore[call-overload]
    if (
        isinstance(number, int)
        and not dtype.is_float
        and dtype.kind != "bool"
        and not dtype.limits[0] <= number <= dtype.limits[1]
    ):
        low, high = dtype.limits
        hint = "use a wider dtype"
        raise TypeProblem(f"{number} does not fit {dtype}, which holds {low} to {high}", code="TL217", hint=hint)
    return value if isinstance(value, Const) and value.dtype != dtype and isinstance(number, float) else as_expr(number, dtype)
