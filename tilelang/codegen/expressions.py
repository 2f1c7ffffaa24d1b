"""Expressions of device IR as C++, with no more parentheses than they need."""
from __future__ import annotations

import math
import struct
from collections.abc import Callable

from tilelang.codegen.emit import Names
from tilelang.errors import InternalError
from tilelang.ir import device, expr
from tilelang.ir.arith import bounds
from tilelang.ir.expr import Expr
from tilelang.ir.packed import part_of, register_of
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
    "//": ("/", 13), "%": ("%", 13),  # of unsigned integers, where C++'s are floor division and its remainder
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
        self.ranges: dict[expr.Var, tuple[int, int]] = {}  # of variables whose values are known to lie in some range

    def note(self, var: expr.Var, low: Expr, high: Expr) -> None:
        """Notes that `var` lies between the values of two expressions."""
        ends = bounds(low, self.ranges), bounds(high, self.ranges)
        if ends[0] is not None and ends[1] is not None:
            self.ranges[var] = (ends[0][0], max(ends[0][0], ends[1][1]))

    def not_negative(self, value: Expr, least: int = 0) -> bool:
        """Whether `value` is surely at least `least`."""
        found = bounds(value, self.ranges)
        return found is not None and found[0] >= least

    def element(self, registers: device.Registers, indices: tuple[Expr, ...]) -> str:
        """An element (or row) of a register array, indices as they are."""
        return self.names.of(registers, registers.name) + "".join(f"[{self.text(index)}]" for index in indices)

    def text(self, value: Expr, above: int = 0) -> str:
        """C++ for `value`, parenthesised if it binds more loosely than `above`."""
        text, binding = _PRINT[type(value)](self, value)
        return f"({text})" if binding < above else text

    def exact(self, value: Expr, above: int = 0) -> str:
        """As `text`, where no other operand brings the value to its type: an unsigned constant says that it is one."""
        unsigned = isinstance(value, expr.Const) and value.dtype == "uint32"
        return f"{value.value}u" if unsigned else self.text(value, above)  # type: ignore[attr-defined]

    def pair(self, a: Expr, b: Expr, above_a: int = 0, above_b: int = 0) -> tuple[str, str]:
        """Two operands of one dtype, of which at most one is a number that takes its type from the other."""
        return self.exact(a, above_a) if isinstance(b, expr.Const) else self.text(a, above_a), self.text(b, above_b)


def _const(_: Printer, value: expr.Const) -> tuple[str, int]:
    number, dtype = value.value, value.dtype
    if dtype == "bool":
        return ("true" if number else "false"), _ATOM
    if dtype.is_float:
        return _float(float(number), dtype), _ATOM if math.copysign(1, number) > 0 else _UNARY
    suffix = {"int64": "ll", "uint64": "ull"}.get(dtype, "u" if dtype == "uint32" and number >= 2**31 else "")
    if number in (-(2**31), -(2**63)) and number == dtype.limits[0]:  # C++ reads the digits before the minus, which do not fit
        return f"({number + 1}{suffix} - 1)", _ATOM
    return f"{number}{suffix}", _ATOM if number >= 0 else _UNARY


def _float(number: float, dtype: DType) -> str:
    """The nearest value of `dtype`, in the fewest digits that give it."""
    value = _nearest(number, dtype)
    if math.isnan(value):
        return "tl::nan()"
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}tl::infinity()"
    if dtype == "float64":
        return repr(value)
    text = next(text for digits in range(1, 10) if float32(float(text := f"{value:.{digits}g}")) == value)
    return f"{text}f" if any(c in text for c in ".e") else f"{text}.0f"


def float32(number: float) -> float:
    """The nearest float32."""
    try:
        return struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


def _nearest(number: float, dtype: DType) -> float:
    if dtype == "float64" or not math.isfinite(number):
        return number
    return float32(number) if dtype == "float32" else float(dtype.numpy.type(number))


def _var(printer: Printer, value: expr.Var) -> tuple[str, int]:
    return printer.names.of(value, value.name), _ATOM


def _unary(printer: Printer, value: expr.Unary) -> tuple[str, int]:
    symbol = {"-": "-", "~": "~", "not": "!"}[value.op]
    text = symbol + printer.exact(value.value, _UNARY + 1)
    if value.dtype.is_int and value.dtype.bits < 32:
        return f"static_cast<{c_type(value.dtype)}>({text})", _ATOM
    return text, _UNARY


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
        return f"{_of_width(_FLOAT_CALLS[value.op], value.dtype)}({printer.text(value.a)}, {printer.text(value.b)})", _ATOM
    if value.op in ("//", "%") and value.dtype.kind == "int":
        if printer.not_negative(value.a) and printer.not_negative(value.b, 1):
            # C's division rounds toward zero, which is down here.
            return f"{printer.text(value.a, 13)} {'/' if value.op == '//' else '%'} {printer.text(value.b, 14)}", 13
        helper = "tl::floor_div" if value.op == "//" else "tl::floor_mod"
        return f"{helper}({printer.text(value.a)}, {printer.text(value.b)})", _ATOM
    if value.op in ("min", "max"):
        return f"{value.op}({', '.join(printer.pair(value.a, value.b))})", _ATOM
    if value.op not in _BINARY:
        raise InternalError(f"operator {value.op} has no printing yet", code="TL901")
    symbol, binding = _BINARY[value.op]
    inside = _UNARY if value.op in _CAREFUL else binding
    if value.op in ("<<", ">>"):  # the left operand alone gives the type
        return f"{printer.exact(value.a, inside)} {symbol} {printer.text(value.b, inside + 1)}", binding
    a, b = printer.pair(bare(value.a, value.b), bare(value.b, value.a), inside, inside + 1)
    return f"{a} {symbol} {b}", binding


def bare(operand: Expr, other: Expr) -> Expr:
    """Without a cast that C++ does itself: an int meeting a uint32_t becomes unsigned."""
    implicit = isinstance(operand, expr.Cast) and operand.dtype == "uint32" and operand.value.dtype == "int32"
    return operand.value if implicit and other.dtype == "uint32" and not isinstance(other, (expr.Cast, expr.Const)) else operand


def _compare(printer: Printer, value: expr.Compare) -> tuple[str, int]:
    a, b = printer.pair(value.a, value.b, 11, 11)
    return f"{a} {value.op} {b}", _COMPARE[value.op]


def _select(printer: Printer, value: expr.Select) -> tuple[str, int]:
    then, otherwise = printer.pair(value.then, value.otherwise, _SELECT + 1, _SELECT + 1)
    return f"{printer.text(value.condition, _SELECT + 1)} ? {then} : {otherwise}", _SELECT


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
    word = printer.element(registers, (*rest, register_of(last, per_word)))
    return f"tl::unpack_{storage_name(registers.dtype)}<{part_of(last, per_word)}>({word})", _ATOM


def storage_name(dtype: DType) -> str:
    """The name of an element type in our wrappers: f16, e4m3, i8, u8, ..."""
    return TL_TYPES.get(dtype) or dtype.replace("uint", "u").replace("int", "i").replace("bool", "u8")


def _call(printer: Printer, value: expr.Call) -> tuple[str, int]:
    if value.fn in MATH:
        if value.dtype.is_int:
            return f"{'abs' if value.fn == 'abs' else value.fn}({printer.text(value.args[0])})", _ATOM
        text = f"{_of_width(MATH[value.fn], value.dtype)}({', '.join(printer.text(arg) for arg in value.args)})"
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


def _of_width(function: str, dtype: DType) -> str:
    """The name of a float function for `dtype`: for double CUDA's without the f; ours are overloaded."""
    return function if dtype != "float64" or function.startswith("tl::") else function.removesuffix("f")


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
