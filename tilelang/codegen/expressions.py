"""Expressions of device IR as C++, with no more parentheses than they need."""
from __future__ import annotations

import math
from collections.abc import Callable

from tilelang.codegen.emit import Names
from tilelang.errors import InternalError
from tilelang.ir import device, expr
from tilelang.ir.expr import Expr
from tilelang.ir.types import DType

C_TYPES = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "uint32_t", "uint64": "uint64_t",
    "float32": "float", "float64": "double",
}  # fmt: skip
TL_TYPES = {"float16": "f16", "bfloat16": "bf16"}

# C++ operator and its precedence; a higher number binds tighter.
_BINARY = {
    "*": ("*", 13), "/": ("/", 13), "+": ("+", 12), "-": ("-", 12), "<<": ("<<", 11), ">>": (">>", 11),
    "&": ("&", 7), "^": ("^", 6), "|": ("|", 5), "and": ("&&", 4), "or": ("||", 3),
}  # fmt: skip
_COMPARE = {"<": 10, "<=": 10, ">": 10, ">=": 10, "==": 9, "!=": 9}
_ATOM, _UNARY, _SELECT = 20, 15, 2
# Operators whose mixing with + - * C++ programmers misread; their operands are always parenthesised.
_CAREFUL = {"<<", ">>", "&", "^", "|"}


def c_type(dtype: DType) -> str:
    """The C++ type of a scalar of device code."""
    if dtype not in C_TYPES:
        raise InternalError(f"no C++ type for a {dtype} scalar", code="TL901")
    return C_TYPES[dtype]


class Printer:
    """Prints expressions with the names of one kernel."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def text(self, value: Expr, above: int = 0) -> str:
        """C++ for `value`, parenthesised if it binds more loosely than `above`."""
        text, binding = _PRINT[type(value)](self, value)
        return f"({text})" if binding < above else text


def _const(_: Printer, value: expr.Const) -> tuple[str, int]:
    number, dtype = value.value, value.dtype
    if dtype == "bool":
        return ("true" if number else "false"), _ATOM
    if dtype.is_float:
        return _float(float(number), dtype), _ATOM if math.copysign(1, number) > 0 else _UNARY
    suffix = {"int64": "ll", "uint64": "ull"}.get(dtype, "u" if dtype == "uint32" and number >= 2**31 else "")
    if number == -(2**31) and dtype == "int32":
        return "(-2147483647 - 1)", _ATOM
    return f"{number}{suffix}", _ATOM if number >= 0 else _UNARY


def _float(number: float, dtype: DType) -> str:
    if dtype == "float64":
        raise InternalError("float64 constants have no printing yet", code="TL901")
    if math.isnan(number):
        return "__int_as_float(0x7fffffff)"
    if math.isinf(number):
        return f"{'-' if number < 0 else ''}__int_as_float(0x7f800000)"
    return f"{number!r}f"


def _var(printer: Printer, value: expr.Var) -> tuple[str, int]:
    return printer.names.of(value, value.name), _ATOM


def _unary(printer: Printer, value: expr.Unary) -> tuple[str, int]:
    symbol = {"-": "-", "~": "~", "not": "!"}[value.op]
    return symbol + printer.text(value.value, _UNARY + 1), _UNARY


def _binary(printer: Printer, value: expr.Binary) -> tuple[str, int]:
    if value.op in ("//", "%"):
        helper = "tl::floor_div" if value.op == "//" else "tl::floor_mod"
        return f"{helper}({printer.text(value.a)}, {printer.text(value.b)})", _ATOM
    if value.op in ("min", "max"):
        return f"{value.op}({printer.text(value.a)}, {printer.text(value.b)})", _ATOM
    if value.op not in _BINARY:
        raise InternalError(f"operator {value.op} has no printing yet", code="TL901")
    symbol, binding = _BINARY[value.op]
    inside = _UNARY if value.op in _CAREFUL else binding
    a, b = bare(value.a, value.b), bare(value.b, value.a)
    return f"{printer.text(a, inside)} {symbol} {printer.text(b, inside + 1)}", binding


def bare(operand: Expr, other: Expr) -> Expr:
    """Without a cast that C++ does itself: an int meeting a uint32_t becomes unsigned."""
    implicit = isinstance(operand, expr.Cast) and operand.dtype == "uint32" and operand.value.dtype == "int32"
    return operand.value if implicit and other.dtype == "uint32" and not isinstance(other, (expr.Cast, expr.Const)) else operand


def _compare(printer: Printer, value: expr.Compare) -> tuple[str, int]:
    binding = _COMPARE[value.op]
    return f"{printer.text(value.a, 11)} {value.op} {printer.text(value.b, 11)}", binding


def _select(printer: Printer, value: expr.Select) -> tuple[str, int]:
    parts = (printer.text(part, _SELECT + 1) for part in (value.condition, value.then, value.otherwise))
    return "{} ? {} : {}".format(*parts), _SELECT


def _cast(printer: Printer, value: expr.Cast) -> tuple[str, int]:
    return f"static_cast<{c_type(value.dtype)}>({printer.text(value.value)})", _ATOM


def _shared(printer: Printer, value: device.SharedAddress) -> tuple[str, int]:
    return printer.names.of(value.array, value.array.name), _ATOM


def _register(printer: Printer, value: device.RegisterLoad) -> tuple[str, int]:
    name = printer.names.of(value.registers, value.registers.name)
    return name + "".join(f"[{printer.text(index)}]" for index in value.indices), _ATOM


def _call(printer: Printer, value: expr.Call) -> tuple[str, int]:
    if value.fn not in _CALLS:
        raise InternalError(f"function {value.fn} has no printing yet", code="TL901")
    return _CALLS[value.fn](printer, value.args), _ATOM


def _pack(printer: Printer, args: tuple[Expr, ...]) -> str:
    low, high = args
    if not (isinstance(low, expr.Cast) and isinstance(high, expr.Cast) and low.value.dtype == high.value.dtype == "float32"):
        raise InternalError("pack takes two float32 values cast to one 16-bit type", code="TL901")
    return f"tl::pack_{TL_TYPES[low.dtype]}({printer.text(low.value)}, {printer.text(high.value)})"


def _matrix_descriptor(printer: Printer, args: tuple[Expr, ...]) -> str:
    low, stride, swizzle = args
    return f"tl::matrix_descriptor<{printer.text(stride)}, {printer.text(swizzle)}>({printer.text(low)})"


def _descriptor_low(printer: Printer, args: tuple[Expr, ...]) -> str:
    return f"tl::descriptor_low({', '.join(printer.text(arg) for arg in args)})"


_CALLS: dict[str, Callable[[Printer, tuple[Expr, ...]], str]] = {
    "pack": _pack,
    "matrix_descriptor": _matrix_descriptor,
    "descriptor_low": _descriptor_low,
}
_PRINT: dict[type, Callable[..., tuple[str, int]]] = {
    expr.Const: _const,
    expr.Var: _var,
    expr.Unary: _unary,
    expr.Binary: _binary,
    expr.Compare: _compare,
    expr.Select: _select,
    expr.Cast: _cast,
    expr.Call: _call,
    device.SharedAddress: _shared,
    device.RegisterLoad: _register,
}
