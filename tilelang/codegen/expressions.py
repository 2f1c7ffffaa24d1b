"""Expressions of device IR as C++, with no more parentheses than they need."""
from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from tilelang.codegen.c_types import TL_TYPES, c_type, is_narrow, rounded, wrapper_name
from tilelang.codegen.calls import call_text, of_width
from tilelang.codegen.emit import Names
from tilelang.codegen.literals import literal
from tilelang.errors import InternalError
from tilelang.ir import device, expr
from tilelang.ir.arith import bounds
from tilelang.ir.expr import Expr
from tilelang.ir.packed import part_of, register_of
from tilelang.ir.types import DType


class Binding(IntEnum):
    """How tightly C++'s operators bind, from the loosest up."""

    SELECT = 2
    OR = 3
    AND = 4
    BIT_OR = 5
    BIT_XOR = 6
    BIT_AND = 7
    EQUAL = 9
    LESS = 10
    SHIFT = 11
    SUM = 12
    PRODUCT = 13
    UNARY = 15
    ATOM = 20


_BINARY = {
    "*": ("*", Binding.PRODUCT), "/": ("/", Binding.PRODUCT), "+": ("+", Binding.SUM), "-": ("-", Binding.SUM),
    "<<": ("<<", Binding.SHIFT), ">>": (">>", Binding.SHIFT), "&": ("&", Binding.BIT_AND), "^": ("^", Binding.BIT_XOR),
    "|": ("|", Binding.BIT_OR), "and": ("&&", Binding.AND), "or": ("||", Binding.OR),
    # Where nothing is negative, or unsigned: there C++'s are floor division and its remainder.
    "//": ("/", Binding.PRODUCT), "%": ("%", Binding.PRODUCT),
}  # fmt: skip
_COMPARE = {
    "<": Binding.LESS, "<=": Binding.LESS, ">": Binding.LESS, ">=": Binding.LESS, "==": Binding.EQUAL, "!=": Binding.EQUAL,
}  # fmt: skip
_FLOOR_CALLS = {"//": "tl::floor_div", "%": "tl::floor_mod"}
_FLOAT_CALLS = {"min": "fminf", "max": "fmaxf", "pow": "powf", **_FLOOR_CALLS}
_BITS_OF = {"float32": "__float_as_int", "float64": "__double_as_longlong"}
_FROM_BITS = {"float32": "__int_as_float", "float64": "__longlong_as_double"}
# Operators whose mixing with + - * C++ programmers misread; their operands are always parenthesised.
_CAREFUL = {"<<", ">>", "&", "^", "|"}


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
        if isinstance(value, expr.Const) and value.dtype == "uint32":
            return f"{value.value}u"
        return self.text(value, above)

    def pair(self, a: Expr, b: Expr, above_a: int = 0, above_b: int = 0) -> tuple[str, str]:
        """Two operands of one dtype, of which at most one is a number that takes its type from the other."""
        return self.exact(a, above_a) if isinstance(b, expr.Const) else self.text(a, above_a), self.text(b, above_b)


def _const(_: Printer, value: expr.Const) -> tuple[str, int]:
    text = literal(value)
    return text, Binding.UNARY if text.startswith("-") else Binding.ATOM


def _var(printer: Printer, value: expr.Var) -> tuple[str, int]:
    return printer.names.of(value, value.name), Binding.ATOM


def _unary(printer: Printer, value: expr.Unary) -> tuple[str, int]:
    symbol = {"-": "-", "~": "~", "not": "!"}[value.op]
    text = symbol + printer.exact(value.value, Binding.UNARY + 1)
    if value.dtype.is_int and value.dtype.bits < 32:
        return f"static_cast<{c_type(value.dtype)}>({text})", Binding.ATOM
    return text, Binding.UNARY


def _binary(printer: Printer, value: expr.Binary) -> tuple[str, int]:
    if value.dtype.is_int and value.dtype.bits < 32 and value.op not in ("min", "max"):
        return _narrow_integers(printer, value)
    if is_narrow(value.dtype):
        return _narrow_floats(printer, value)
    if value.dtype.is_float and value.op in _FLOAT_CALLS:
        return f"{of_width(_FLOAT_CALLS[value.op], value.dtype)}({printer.text(value.a)}, {printer.text(value.b)})", Binding.ATOM
    if value.op in ("//", "%") and value.dtype.kind == "int":
        return _floor_division(printer, value)
    if value.op in ("min", "max"):
        return f"{value.op}({', '.join(printer.pair(value.a, value.b))})", Binding.ATOM
    return _infix(printer, value)


def _narrow_integers(printer: Printer, value: expr.Binary) -> tuple[str, int]:
    """C++ computes in int; the result wraps in its own width."""
    wide = expr.Binary(value.op, *(expr.Cast(x, expr.INT32) for x in (value.a, value.b)))
    return f"static_cast<{c_type(value.dtype)}>({printer.text(wide)})", Binding.ATOM


def _narrow_floats(printer: Printer, value: expr.Binary) -> tuple[str, int]:
    """Computed in float32 and rounded, except where the result is one of the operands."""
    text = printer.text(expr.Binary(value.op, *(expr.Cast(x, expr.FLOAT32) for x in (value.a, value.b))))
    return (text if value.op in ("min", "max") else rounded(text, value.dtype)), Binding.ATOM


def _floor_division(printer: Printer, value: expr.Binary) -> tuple[str, int]:
    """Of signed integers.  C++'s operators round toward zero, which is down where neither operand is negative."""
    if printer.not_negative(value.a) and printer.not_negative(value.b, 1):
        symbol, binding = _BINARY[value.op]
        return f"{printer.text(value.a, binding)} {symbol} {printer.text(value.b, binding + 1)}", binding
    return f"{_FLOOR_CALLS[value.op]}({printer.text(value.a)}, {printer.text(value.b)})", Binding.ATOM


def _infix(printer: Printer, value: expr.Binary) -> tuple[str, int]:
    if value.op not in _BINARY:
        raise InternalError(f"operator {value.op} has no printing", code="TL905")
    symbol, binding = _BINARY[value.op]
    inside = Binding.UNARY if value.op in _CAREFUL else binding
    if value.op in ("<<", ">>"):  # the left operand alone gives the type
        return f"{printer.exact(value.a, inside)} {symbol} {printer.text(value.b, inside + 1)}", binding
    a, b = printer.pair(bare(value.a, value.b), bare(value.b, value.a), inside, inside + 1)
    return f"{a} {symbol} {b}", binding


def bare(operand: Expr, other: Expr) -> Expr:
    """Without a cast that C++ does itself: an int meeting a uint32_t becomes unsigned."""
    if isinstance(operand, expr.Cast) and operand.dtype == "uint32" and operand.value.dtype == "int32":
        return operand.value if other.dtype == "uint32" and not isinstance(other, (expr.Cast, expr.Const)) else operand
    return operand


def _compare(printer: Printer, value: expr.Compare) -> tuple[str, int]:
    a, b = printer.pair(value.a, value.b, Binding.SHIFT, Binding.SHIFT)
    return f"{a} {value.op} {b}", _COMPARE[value.op]


def _select(printer: Printer, value: expr.Select) -> tuple[str, int]:
    then, otherwise = printer.pair(value.then, value.otherwise, Binding.SELECT + 1, Binding.SELECT + 1)
    return f"{printer.text(value.condition, Binding.SELECT + 1)} ? {then} : {otherwise}", Binding.SELECT


def _cast(printer: Printer, value: expr.Cast) -> tuple[str, int]:
    source, target = value.value.dtype, value.dtype
    inner = printer.text(value.value)
    if is_narrow(target):
        return rounded(_as_float32(inner, source), target), Binding.ATOM
    if is_narrow(source) and target == "float32":
        return _PRINT[type(value.value)](printer, value.value)
    if source.is_float and target.is_int:
        return f"tl::to_{target}({inner})", Binding.ATOM
    if target == "bool":
        return f"{printer.text(value.value, Binding.LESS)} != 0", _COMPARE["!="]
    return f"static_cast<{c_type(target)}>({inner})", Binding.ATOM


def _as_float32(text: str, source: DType) -> str:
    """Exactly; or, where float32 does not hold the source, so that rounding it further is as one rounding."""
    if source == "float32" or is_narrow(source):
        return text
    return f"static_cast<float>({text})" if source.bits <= 16 else f"tl::to_odd_{source}({text})"


def _reinterpret(printer: Printer, value: expr.Reinterpret) -> tuple[str, int]:
    """By way of the bits as an integer of the same width."""
    source, target, bits = value.value.dtype, value.dtype, printer.text(value.value)
    if is_narrow(source):
        bits = f"tl::bits_{TL_TYPES[source]}({bits})"
    elif source in _BITS_OF:
        bits = f"{_BITS_OF[source]}({bits})"
    if is_narrow(target):
        return f"tl::from_bits_{TL_TYPES[target]}({bits})", Binding.ATOM
    if source in _BITS_OF and target.kind == "int":
        return bits, Binding.ATOM
    return f"{_FROM_BITS.get(target) or f'static_cast<{c_type(target)}>'}({bits})", Binding.ATOM


def _shared(printer: Printer, value: device.SharedAddress) -> tuple[str, int]:
    return printer.names.of(value.array, value.array.name), Binding.ATOM


def _register(printer: Printer, value: device.RegisterLoad) -> tuple[str, int]:
    registers = value.registers
    if not registers.packed:
        return printer.element(registers, value.indices), Binding.ATOM
    per_word = 32 // registers.dtype.bits
    *rest, last = value.indices
    word = printer.element(registers, (*rest, register_of(last, per_word)))
    return f"tl::unpack_{wrapper_name(registers.dtype)}<{part_of(last, per_word)}>({word})", Binding.ATOM


def _call(printer: Printer, value: expr.Call) -> tuple[str, int]:
    return call_text(value, printer.text), Binding.ATOM


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
