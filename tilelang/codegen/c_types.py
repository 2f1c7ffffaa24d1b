"""Our dtypes in C++: the type of a value, of an element in memory, and the names by which wrappers know them."""
from __future__ import annotations

from tilelang.errors import InternalError
from tilelang.ir.types import DType

C_TYPES = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "uint32_t", "uint64": "uint64_t",
    "float16": "float", "bfloat16": "float", "float8_e4m3fn": "float", "float8_e5m2": "float",
    "float32": "float", "float64": "double",
}  # fmt: skip
"""Of a scalar of device code: narrow floats are float32 there, rounded after every operation."""

TL_TYPES = {"float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
"""Narrow floats in the names of our wrappers, as PTX abbreviates them."""

_STORAGE_TYPES = {
    "float16": "uint16_t", "bfloat16": "uint16_t", "float8_e4m3fn": "uint8_t", "float8_e5m2": "uint8_t", "bool": "uint8_t",
}  # fmt: skip


def c_type(dtype: DType) -> str:
    """The C++ type of a scalar of device code.  Raises InternalError (TL905) for a dtype that has none."""
    if dtype not in C_TYPES:
        raise InternalError(f"no C++ type for a {dtype} scalar", code="TL905")
    return C_TYPES[dtype]


def storage_type(dtype: DType) -> str:
    """The C++ type of an element in memory: raw words for narrow floats and bool."""
    return _STORAGE_TYPES.get(dtype) or c_type(dtype)


def wrapper_name(dtype: DType) -> str:
    """The abbreviation of an element type in the names of our wrappers: f16, e4m3, i8, u8, ..."""
    return TL_TYPES.get(dtype) or dtype.replace("uint", "u").replace("int", "i").replace("bool", "u8")


def is_narrow(dtype: DType) -> bool:
    """Whether values of `dtype` are float32 in registers, rounded after every operation."""
    return dtype.is_float and dtype.bits < 32


def rounded(text: str, dtype: DType) -> str:
    """C++ for a float that is rounded to a narrow dtype."""
    return f"tl::round_{TL_TYPES[dtype]}({text})"
