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
    "float16": "float", "bfloat16": "float", "float8_e4m3fn": "float", "float8_e5m2": "float", "float32": "float", "float64": "double",
}  # fmt: skip
TL_TYPES = {"float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
# How elements lie in memory.
STORAGE_TYPES = {
    "float16": "uint16_t", "bfloat16": "uint16_t", "float8_e4m3fn": "uint8_t", "float8_e5m2": "uint8_t", "bool": "uint8_t",
}  # fmt: skip


def storage_type(dtype: DType) -> str:
    """The C++ type of an element in memory."""
    return STORAGE_TYPES.get(dtype) or c_type(dtype)


# C++ operator and its precedence; a higher number binds tighter.
_BINARY = {
    "*": ("*", 13), "/": ("/", 13), "+": ("+", 12), "-": ("-", 12), "<<": ("<<", 11), ">>": (">>", 11),
    "&": ("&", 7), "^": ("^", 6), "|": ("|", 5), "and": ("&&", 4), "or": ("||", 3),
}  # fmt: skip
_COMPARE = {"<": 10, "<=": 10, ">": 10, ">=": 10, "==": 9, "!=": 9}
_ATOM, _UNARY, _SELECT = 20, 15, 2
_FLOAT_CALLS = {"min": "fminf", "max": "fmaxf", "pow": "powf", "//": "tl::floor_div", "%": "tl::floor_mod"}
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

    def element(self, registers: device.Registers, indices: tuple[Expr, ...]) -> str:
        """An element (or row) of a register array, indices as they are."""
        return self.names.of(registers, registers.name) + "".join(f"[{self.text(index)}]" for index in indices)

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
    if value.dtype.is_int and value.dtype.bits < 32 and value.op not in ("min", "max"):
        wide_int = expr.Binary(value.op, *(expr.Cast(x, expr.INT32) for x in (value.a, value.b)))
        return f"static_cast<{c_type(value.dtype)}>({printer.text(wide_int)})", _ATOM
    if is_narrow(value.dtype):
        wide = expr.Binary(value.op, *(expr.Cast(x, expr.FLOAT32) for x in (value.a, value.b)))
        if value.op in ("min", "max"):
            return printer.text(wide), _ATOM
        return _rounded(printer.text(wide), value.dtype), _ATOM
    if value.dtype.is_float and value.op in _FLOAT_CALLS:
        return f"{_FLOAT_CALLS[value.op]}({printer.text(value.a)}, {printer.text(value.b)})", _ATOM
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
    source, target = value.value.dtype, value.dtype
    inner = printer.text(value.value)
    if is_narrow(target):
        return _rounded(inner if source == "float32" or is_narrow(source) else f"static_cast<float>({inner})", target), _ATOM
    if is_narrow(source) and target == "float32":
        return _PRINT[type(value.value)](printer, value.value)
    if source.is_float and target.is_int:
        return f"tl::to_{target}({inner})", _ATOM
    if target == "bool":
        return f"{printer.text(value.value, 10)} != 0", _COMPARE["!="]
    return f"static_cast<{c_type(target)}>({inner})", _ATOM


def is_narrow(dtype: DType) -> bool:
    """Whether values of `dtype` are float32 in registers, rounded after every operation."""
    return dtype.is_float and dtype.bits < 32


def _rounded(text: str, dtype: DType) -> str:
    return f"tl::round_{TL_TYPES[dtype]}({text})"


def _reinterpret(printer: Printer, value: expr.Reinterpret) -> tuple[str, int]:
    source, target, inner = value.value.dtype, value.dtype, printer.text(value.value)
    bits = f"tl::bits_{TL_TYPES[source]}({inner})" if is_narrow(source) else f"__float_as_int({inner})" if source == "float32" else inner
    if is_narrow(target):
        return f"tl::from_bits_{TL_TYPES[target]}({bits})", _ATOM
    return (f"__int_as_float({bits})" if target == "float32" else f"static_cast<{c_type(target)}>({bits})"), _ATOM


def _shared(printer: Printer, value: device.SharedAddress) -> tuple[str, int]:
    return printer.names.of(value.array, value.array.name), _ATOM


def _register(printer: Printer, value: device.RegisterLoad) -> tuple[str, int]:
    registers = value.registers
    if not registers.packed:
        return printer.element(registers, value.indices), _ATOM
    per_word = 32 // registers.dtype.bits
    *rest, last = value.indices
    word = printer.element(registers, (*rest, divide(last, per_word)))
    return f"tl::unpack_{storage_name(registers.dtype)}<{remainder(last, per_word)}>({word})", _ATOM


def storage_name(dtype: DType) -> str:
    """The name of an element type in our wrappers: f16, e4m3, i8, u8, ..."""
    return TL_TYPES.get(dtype) or dtype.replace("uint", "u").replace("int", "i").replace("bool", "u8")


def remainder(index: Expr, unit: int) -> int:
    """`index % unit` for an index into a packed array, whose variables all have factors that are multiples of `unit`."""
    match index:
        case expr.Const():
            return int(index.value) % unit
        case expr.Binary(op="*") if any(isinstance(x, expr.Const) and int(x.value) % unit == 0 for x in (index.a, index.b)):
            return 0
        case expr.Binary(op="+"):
            return (remainder(index.a, unit) + remainder(index.b, unit)) % unit
    raise InternalError(f"an index into a packed array is no known multiple of {unit}: {index}", code="TL901")


def divide(index: Expr, unit: int) -> Expr:
    """`index // unit` under the same condition: the number of the register that holds the element."""
    match index:
        case expr.Const():
            return expr.Const(int(index.value) // unit, index.dtype)
        case expr.Binary(op="*"):
            a, b = (index.a, index.b) if isinstance(index.b, expr.Const) else (index.b, index.a)
            factor = expr.Const(int(b.value) // unit, b.dtype)  # type: ignore[union-attr]
            return a if factor.value == 1 else expr.Binary("*", a, factor)
        case expr.Binary(op="+"):
            a, b = divide(index.a, unit), divide(index.b, unit)
            carry = (remainder(index.a, unit) + remainder(index.b, unit)) // unit
            total = a if expr.is_const(b, 0) else b if expr.is_const(a, 0) else expr.Binary("+", a, b)
            return expr.Binary("+", total, expr.Const(carry)) if carry else total
    raise InternalError(f"an index into a packed array that cannot be divided by {unit}: {index}", code="TL901")


def _call(printer: Printer, value: expr.Call) -> tuple[str, int]:
    if value.fn in MATH:
        if value.dtype.is_int:
            return f"{'abs' if value.fn == 'abs' else value.fn}({printer.text(value.args[0])})", _ATOM
        text = f"{MATH[value.fn]}({', '.join(printer.text(arg) for arg in value.args)})"
        return (_rounded(text, value.dtype) if is_narrow(value.dtype) else text), _ATOM
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


def _swizzle(printer: Printer, args: tuple[Expr, ...]) -> str:
    address, width = args
    return f"tl::swizzle<{printer.text(width)}>({printer.text(address)})"


MATH = {
    "exp": "expf", "exp2": "tl::exp2", "log": "logf", "log2": "log2f", "sqrt": "sqrtf", "rsqrt": "rsqrtf", "tanh": "tanhf",
    "sigmoid": "tl::sigmoid", "floor": "floorf", "ceil": "ceilf", "abs": "fabsf", "round": "rintf", "trunc": "truncf",
    "sin": "sinf", "cos": "cosf", "erf": "erff",
}  # fmt: skip
_CALLS: dict[str, Callable[[Printer, tuple[Expr, ...]], str]] = {
    "pack": _pack,
    "matrix_descriptor": _matrix_descriptor,
    "descriptor_low": _descriptor_low,
    "swizzle": _swizzle,
}
_PRINT: dict[type, Callable[..., tuple[str, int]]] = {
    expr.Const: _const,
    expr.Var: _var,
    expr.Unary: _unary,
    expr.Binary: _binary,
    expr.Compare: _compare,
    expr.Select: _select,
    expr.Cast: _cast,
    expr.Reinterpret: _reinterpret,
    expr.Call: _call,
    device.SharedAddress: _shared,
    device.RegisterLoad: _register,
}
