"""Data types, memory scopes and the kinds of loop: the words every later room uses.

A `DType` is its canonical name (a `str`), so `buffer.dtype == "float16"` holds and dtypes are dictionary keys and print as
themselves; aliases ("float", "half" as the attribute `T.half`, `torch.float16`) are folded when one is made.
"""
from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

# name -> (bits, kind).  Kinds: float (IEEE-like, more than 8 bits), float8, int, uint, bool.
_DTYPES: dict[str, tuple[int, str]] = {
    "bool": (8, "bool"),
    "int8": (8, "int"), "int16": (16, "int"), "int32": (32, "int"), "int64": (64, "int"),
    "uint8": (8, "uint"), "uint16": (16, "uint"), "uint32": (32, "uint"), "uint64": (64, "uint"),
    "float16": (16, "float"), "bfloat16": (16, "float"), "float32": (32, "float"), "float64": (64, "float"),
    "float8_e4m3fn": (8, "float8"), "float8_e5m2": (8, "float8"),
}  # fmt: skip
_ALIASES = {
    "float": "float32", "double": "float64", "int": "int32", "uint": "uint32", "long": "int64", "float8_e4m3": "float8_e4m3fn",
}  # fmt: skip


class DType(str):
    """A storage type by its canonical name, e.g. "float16".  Raises ValueError for a name that is none."""

    __slots__ = ()

    def __new__(cls, name: Any) -> DType:
        text = {float: "float32", int: "int32", bool: "bool"}.get(name) if isinstance(name, type) else str(name)
        text = (text or str(name)).removeprefix("torch.").removeprefix("jnp.")
        text = _ALIASES.get(text, text)
        if text not in _DTYPES:
            raise ValueError(f"unknown dtype {str(name)!r}; there are {', '.join(_DTYPES)}")
        return super().__new__(cls, text)

    @property
    def bits(self) -> int:
        return _DTYPES[self][0]

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def kind(self) -> str:
        return _DTYPES[self][1]

    @property
    def is_float(self) -> bool:
        return self.kind in ("float", "float8")

    @property
    def is_int(self) -> bool:
        """True for signed and unsigned integers, not for bool."""
        return self.kind in ("int", "uint")

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype (ml_dtypes for bfloat16 and float8)."""
        import numpy as np

        if self == "bfloat16" or self.kind == "float8":
            import ml_dtypes

            return np.dtype(getattr(ml_dtypes, self))
        return np.dtype(str(self))

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type."""
        if self.kind == "bool":
            return 0, 1
        return (0, 2**self.bits - 1) if self.kind == "uint" else (-(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1)

    def __call__(self, value: Any) -> Any:
        """`T.float32(x)`: a constant for a Python number, a cast for an expression."""
        from tilelang.ir.expr import Cast, Const, Expr

        return Cast(value, self) if isinstance(value, Expr) else Const(value, self)


DTYPE_NAMES = tuple(_DTYPES)


def promote(a: DType, b: DType) -> DType:
    """The dtype of a binary operation: float over int, then the wider, then bfloat16 with float16 gives float32."""
    if a == b:
        return a
    if a.kind == "bool" or b.kind == "bool":
        return b if a.kind == "bool" else a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.bits == b.bits:
        if a.is_float:
            return DType("float32") if a.bits == 16 else DType("float16")
        return a if a.kind == "uint" else b
    return a if a.bits > b.bits else b


class Scope(StrEnum):
    """Where a buffer lives: GLOBAL (a tensor), SHARED (a tile of the block), FRAGMENT (a tile spread over registers),
    LOCAL (an array of each thread), VAR (a mutable scalar), BARRIER (mbarriers of the block)."""

    GLOBAL = "global"
    SHARED = "shared"
    FRAGMENT = "fragment"
    LOCAL = "local"
    VAR = "var"
    BARRIER = "barrier"


class LoopKind(StrEnum):
    SERIAL = "serial"
    PIPELINED = "pipelined"
    UNROLL = "unroll"
    VECTORIZED = "vectorized"


class WarpPolicy(StrEnum):
    """How a gemm's warps are laid over its tile: over both dimensions, rows only, columns only."""

    SQUARE = "Square"
    FULL_ROW = "FullRow"
    FULL_COL = "FullCol"


class ReduceKind(StrEnum):
    SUM = "sum"
    MAX = "max"
    MIN = "min"
    ABSSUM = "abssum"
    ABSMAX = "absmax"
