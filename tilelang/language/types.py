"""Dtypes, parameter annotations and the warp policy."""

from __future__ import annotations

from typing import Final

from tilelang.frontend.annotations import Ref, Tensor
from tilelang.frontend.dtypes import as_dtype
from tilelang.ir.types import DType, WarpPolicy

Buffer = Tensor

bool: Final = DType("bool")  # noqa: A001 - the language's own name
int8: Final = DType("int8")
int16: Final = DType("int16")
int32: Final = DType("int32")
int64: Final = DType("int64")
uint8: Final = DType("uint8")
uint16: Final = DType("uint16")
uint32: Final = DType("uint32")
uint64: Final = DType("uint64")
float16: Final = DType("float16")
bfloat16: Final = DType("bfloat16")
float32: Final = DType("float32")
float64: Final = DType("float64")
float8_e4m3fn: Final = DType("float8_e4m3fn")
float8_e4m3: Final = DType("float8_e4m3fn")
float8_e5m2: Final = DType("float8_e5m2")
half: Final = float16
float: Final = float32  # noqa: A001
double: Final = float64
int: Final = int32  # noqa: A001
uint: Final = uint32
long: Final = int64
short: Final = int16


def dtype(value: object) -> DType:
    """The dtype that `value` names: "float16", "float", a torch or NumPy dtype, Python's float, int or bool.

    Raises TypeProblem TL210 for a name that is none and Unsupported TL303 for a dtype that is not there yet."""
    return as_dtype(value)


class GemmWarpPolicy:
    """How the warps of a T.gemm are laid over its tile: over both dimensions, over rows only, over columns only."""

    Square: Final = WarpPolicy.SQUARE
    FullRow: Final = WarpPolicy.FULL_ROW
    FullCol: Final = WarpPolicy.FULL_COL


__all__ = [
    "Buffer",
    "GemmWarpPolicy",
    "Ref",
    "Tensor",
    "bfloat16",
    "bool",
    "double",
    "dtype",
    "float",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "half",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "long",
    "short",
    "uint",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]  # fmt: skip
