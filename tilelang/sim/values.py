"""Values of device expressions: evaluated for all threads that march together, once where they agree.

A uniform integer is a Python int, a uniform bool a Python bool, a uniform float a NumPy scalar of its dtype; a value that differs
from thread to thread is a NumPy array with one element for each thread.  int32 and int64 arithmetic that leaves its range is
reported, unsigned arithmetic wraps.  16- and 8-bit floats are computed in float32 and rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from tilelang.errors import HazardError, InternalError, Span
from tilelang.ir import device
from tilelang.ir import expr as ex
from tilelang.ir.types import DType
from tilelang.sim import reference_values
from tilelang.sim.convert import Value, as_bool, bits_of, computed, convert, narrowed, plain, wide, wrap

FLOAT32 = DType("float32")


class Lanes(Protocol):
    """What evaluation needs of the threads that march together."""

    name: str
    env: dict[ex.Var, Value]
    mask: np.ndarray | None
    span: Span | None

    def load_register(self, registers: device.Registers, indices: tuple[Value, ...]) -> Value: ...
    def shared_address(self, array: device.SharedArray) -> int: ...


def evaluate(expr: ex.Expr, lanes: Lanes) -> Value:
    """The value of `expr` for `lanes`.  Raises HazardError TL840 (overflow), TL841 (division by zero, shift count),
    InternalError for an expression that means nothing."""
    rule = EVALUATE.get(type(expr))
    if rule is None:
        raise InternalError(f"the machine cannot evaluate a {type(expr).__name__}", code="TL930", span=lanes.span)
    return rule(expr, lanes)


def scalar(value: Value, lanes: Lanes, what: str) -> int:
    """The one integer that all active threads agree on.  Raises HazardError TL842 where they do not."""
    if not isinstance(value, np.ndarray):
        return int(value)
    active = value if lanes.mask is None else value[lanes.mask]
    others = active[active != active[0]]
    if others.size:
        raise HazardError(
            f"{lanes.name}: {what} must be the same in all threads, and is {active[0]} in one and {others[0]} in another",
            code="TL842", span=lanes.span,
        )  # fmt: skip
    return int(active[0])


def any_active(bad: Any, lanes: Lanes) -> bool:
    """Whether `bad` (a bool or an array of them) is true for an active thread."""
    if isinstance(bad, np.ndarray) and bad.ndim and lanes.mask is not None:
        bad = bad & lanes.mask
    return bool(np.any(bad))


# ---- leaves -------------------------------------------------------------------------------------------------------------------


def _const(expr: ex.Const, lanes: Lanes) -> Value:
    dtype = expr.dtype
    if dtype.is_float:
        return reference_values.constant(expr.value, dtype)
    return bool(expr.value) if dtype.kind == "bool" else int(expr.value)


def _var(expr: ex.Var, lanes: Lanes) -> Value:
    try:
        return lanes.env[expr]
    except KeyError:
        raise InternalError(f"{lanes.name} uses {expr.name} before it is declared", code="TL931", span=lanes.span) from None


def _shared_address(expr: device.SharedAddress, lanes: Lanes) -> int:
    return lanes.shared_address(expr.array)


def _register_load(expr: device.RegisterLoad, lanes: Lanes) -> Value:
    return lanes.load_register(expr.registers, tuple(evaluate(index, lanes) for index in expr.indices))


def _load(expr: ex.Load, lanes: Lanes) -> Value:
    raise InternalError(
        f"an element of {expr.buffer.name} is read in device code, which has no buffers", code="TL930", span=lanes.span
    )


# ---- operators ----------------------------------------------------------------------------------------------------------------


def _fit(value: Value, dtype: DType, op: str, lanes: Lanes) -> Value:
    """`value`, wide, as `dtype`: unsigned wraps, signed is reported where it does not fit."""
    if dtype.kind == "int":
        low, high = dtype.limits
        bad = (value < low) | (value > high)
        if any_active(np.asarray(bad, bool) if isinstance(value, np.ndarray) else bad, lanes):
            shown = value if not isinstance(value, np.ndarray) else value[np.asarray(bad, bool)][0]
            raise HazardError(
                f"{lanes.name}: {dtype} overflow: the result of {op!r} is {shown}, outside {low} to {high}",
                code="TL840", span=lanes.span, hint="use a wider or an unsigned type",
            )  # fmt: skip
        if not isinstance(value, np.ndarray):
            return value if low <= value <= high else wrap(value, dtype)
    return wrap(value, dtype)


def _divide(op: Callable[[Value, Value], Value]) -> Callable[[Value, Value, DType, Lanes], Value]:
    def run(a: Value, b: Value, dtype: DType, lanes: Lanes) -> Value:
        zero = np.asarray(b == 0, bool) if isinstance(b, np.ndarray) else b == 0
        if any_active(zero, lanes):
            raise HazardError(f"{lanes.name}: an integer is divided by zero", code="TL841", span=lanes.span)
        return op(a, np.where(zero, 1, b) if isinstance(b, np.ndarray) else b)

    return run


def _shift(op: Callable[[Value, Value], Value]) -> Callable[[Value, Value, DType, Lanes], Value]:
    def run(a: Value, b: Value, dtype: DType, lanes: Lanes) -> Value:
        bad = (b < 0) | (b >= dtype.bits)
        if any_active(np.asarray(bad, bool) if isinstance(b, np.ndarray) else bad, lanes):
            raise HazardError(
                f"{lanes.name}: a {dtype} is shifted by a count outside 0 to {dtype.bits - 1}", code="TL841", span=lanes.span
            )
        return op(a, b % dtype.bits)

    return run


_INT: dict[str, Callable[[Value, Value, DType, Lanes], Value]] = {
    "+": lambda a, b, d, s: a + b,
    "-": lambda a, b, d, s: a - b,
    "*": lambda a, b, d, s: a * b,
    "//": _divide(lambda a, b: a // b),
    "%": _divide(lambda a, b: a % b),
    "<<": _shift(lambda a, b: a << b),
    ">>": _shift(lambda a, b: a >> b),
    "&": lambda a, b, d, s: a & b,
    "|": lambda a, b, d, s: a | b,
    "^": lambda a, b, d, s: a ^ b,
    "min": lambda a, b, d, s: np.minimum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else min(a, b),
    "max": lambda a, b, d, s: np.maximum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else max(a, b),
}


def _float_max(a: Value, b: Value) -> Value:
    """One NaN is ignored, and +0 is greater than -0.  (PTX ISA, "max".)"""
    return np.where((a == 0) & (b == 0), a + b, np.fmax(a, b))


_FLOAT: dict[str, Callable[[Value, Value], Value]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "//": np.floor_divide, "%": np.mod,
    "min": lambda a, b: -_float_max(-a, -b), "max": _float_max, "pow": np.power,
}  # fmt: skip
_BOOL: dict[str, Callable[[Value, Value], Value]] = {"&": np.logical_and, "|": np.logical_or, "^": np.logical_xor}
_COMPARE: dict[str, Callable[[Value, Value], Value]] = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
}  # fmt: skip


def _operands(expr: ex.Binary | ex.Compare, lanes: Lanes) -> DType:
    """The common dtype of both operands.  Raises InternalError where there is none."""
    dtype, other = expr.a.dtype, expr.b.dtype
    if dtype != other:
        raise InternalError(f"the operands of {expr.op!r} are {dtype} and {other}", code="TL932", span=lanes.span)
    return dtype


def _binary(expr: ex.Binary, lanes: Lanes) -> Value:
    if expr.op in ("and", "or"):
        return _logical(expr, lanes)
    dtype = _operands(expr, lanes)
    table = _FLOAT if dtype.is_float else _BOOL if dtype.kind == "bool" else _INT
    if expr.op not in table:
        raise InternalError(f"there is no operator {expr.op!r} on {dtype}", code="TL932", span=lanes.span)
    a, b = evaluate(expr.a, lanes), evaluate(expr.b, lanes)
    if dtype.is_float:
        return narrowed(_FLOAT[expr.op](computed(a, dtype), computed(b, dtype)), dtype)
    if dtype.kind == "bool":
        return as_bool(_BOOL[expr.op](a, b))
    return _fit(_INT[expr.op](wide(a, dtype), wide(b, dtype), dtype, lanes), dtype, expr.op, lanes)


def _logical(expr: ex.Binary, lanes: Lanes) -> Value:
    """Short-circuit "and" and "or": the right side only for threads that need it."""
    a = evaluate(expr.a, lanes)
    if not isinstance(a, np.ndarray):
        return evaluate(expr.b, lanes) if a == (expr.op == "and") else bool(a)
    needs = a if expr.op == "and" else ~a
    with_mask = _masked(expr.b, needs, lanes)
    if with_mask is None:
        return a
    return a & with_mask if expr.op == "and" else a | with_mask


def _masked(expr: ex.Expr, condition: np.ndarray, lanes: Lanes) -> Value | None:
    """`expr` evaluated with only the threads of `condition` active; None where there are none."""
    outer = lanes.mask
    lanes.mask = condition if outer is None else condition & outer
    try:
        return evaluate(expr, lanes) if lanes.mask.any() else None
    finally:
        lanes.mask = outer


def _compare(expr: ex.Compare, lanes: Lanes) -> Value:
    dtype = _operands(expr, lanes)
    a, b = evaluate(expr.a, lanes), evaluate(expr.b, lanes)
    if dtype.is_float:
        a, b = computed(a, dtype), computed(b, dtype)
    return as_bool(_COMPARE[expr.op](a, b))


def _unary(expr: ex.Unary, lanes: Lanes) -> Value:
    value = evaluate(expr.value, lanes)
    if expr.op == "not":
        return ~value if isinstance(value, np.ndarray) else not value
    dtype = expr.value.dtype
    if dtype.is_float:
        if expr.op == "~":
            raise InternalError(f"there is no operator '~' on {dtype}", code="TL932", span=lanes.span)
        return -value
    exact = wide(value, dtype)
    return _fit(-exact if expr.op == "-" else ~exact, dtype, expr.op, lanes)


def _select(expr: ex.Select, lanes: Lanes) -> Value:
    condition = evaluate(expr.condition, lanes)
    if not isinstance(condition, np.ndarray):
        return evaluate(expr.then if condition else expr.otherwise, lanes)
    then, otherwise = _masked(expr.then, condition, lanes), _masked(expr.otherwise, ~condition, lanes)
    if then is None or otherwise is None:
        return otherwise if then is None else then
    numpy = expr.dtype.numpy
    return np.where(condition, np.asarray(then, numpy), np.asarray(otherwise, numpy))


def _cast(expr: ex.Cast, lanes: Lanes) -> Value:
    return convert(evaluate(expr.value, lanes), expr.value.dtype, expr.dtype)


def _reinterpret(expr: ex.Reinterpret, lanes: Lanes) -> Value:
    source, target = expr.value.dtype, expr.dtype
    if source.bits != target.bits:
        raise InternalError(f"a {source} cannot be read as a {target}: the widths differ", code="TL932", span=lanes.span)
    return plain(bits_of(evaluate(expr.value, lanes), source).view(target.numpy), target)


# ---- calls --------------------------------------------------------------------------------------------------------------------


def _pack(expr: ex.Call, lanes: Lanes) -> Value:
    low, high = (bits_of(evaluate(arg, lanes), arg.dtype) for arg in expr.args)
    if low.dtype.itemsize != 2 or high.dtype.itemsize != 2:
        raise InternalError("pack() takes two 16-bit values", code="TL932", span=lanes.span)
    packed = low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)
    return plain(np.asarray(packed), DType("uint32"))


def _descriptor_low(expr: ex.Call, lanes: Lanes) -> Value:
    address, lbo = evaluate(expr.args[0], lanes), evaluate(expr.args[1], lanes)
    if any_active(address % 16 != 0, lanes) or any_active(lbo % 16 != 0, lanes) or any_active(lbo >> 4 >= 1 << 14, lanes):
        raise HazardError(
            f"{lanes.name}: a matrix descriptor needs an address and a leading byte offset that are multiples of 16, the offset "
            f"below {1 << 18}; they are {address} and {lbo}",
            code="TL822", span=lanes.span,
        )  # fmt: skip
    return lbo >> 4 << 16 | (address & 0x3FFFF) >> 4


def _matrix_descriptor(expr: ex.Call, lanes: Lanes) -> Value:
    low = evaluate(expr.args[0], lanes)
    sbo, swizzle_bytes = (scalar(evaluate(arg, lanes), lanes, "a descriptor field") for arg in expr.args[1:])
    layout = {0: 0, 128: 1, 64: 2, 32: 3}.get(swizzle_bytes)
    if layout is None or sbo % 16 or not 0 <= sbo >> 4 < 1 << 14:
        raise HazardError(
            f"{lanes.name}: a matrix descriptor has a stride byte offset of {sbo} and a swizzle of {swizzle_bytes} bytes",
            code="TL822", span=lanes.span,
        )  # fmt: skip
    high = layout << 62 | (sbo >> 4) << 32
    return low.astype(np.uint64) | np.uint64(high) if isinstance(low, np.ndarray) else low | high


_MATH: dict[str, Callable[[Value], Value]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt, "tanh": np.tanh, "floor": np.floor,
    "ceil": np.ceil, "abs": np.abs,
    "rsqrt": lambda x: (1 / np.sqrt(x)).astype(x.dtype),
    "sigmoid": lambda x: (1 / (1 + np.exp(-x))).astype(x.dtype),
    "round": np.rint, "trunc": np.trunc, "sin": np.sin, "cos": np.cos,
    "erf": lambda x: np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype)[()],
}  # fmt: skip
_HELPERS: dict[str, Callable[[ex.Call, Lanes], Value]] = {
    "pack": _pack, "descriptor_low": _descriptor_low, "matrix_descriptor": _matrix_descriptor,
}  # fmt: skip


def _call(expr: ex.Call, lanes: Lanes) -> Value:
    helper = _HELPERS.get(expr.fn)
    if helper is not None:
        return helper(expr, lanes)
    function = _MATH.get(expr.fn)
    source = expr.args[0].dtype if expr.args else expr.dtype
    if function is None or len(expr.args) != 1 or not (source.is_float or expr.fn == "abs"):
        raise InternalError(
            f"there is no device function {expr.fn}({', '.join(a.dtype for a in expr.args)})", code="TL932", span=lanes.span
        )
    value = evaluate(expr.args[0], lanes)
    if not source.is_float:
        return _fit(abs(wide(value, source)), source, "abs", lanes)
    return convert(function(computed(value, source)), FLOAT32 if source.bits < 32 else source, expr.dtype)


EVALUATE: dict[type[ex.Expr], Callable[[Any, Lanes], Value]] = {
    ex.Const: _const,
    ex.Var: _var,
    ex.Unary: _unary,
    ex.Binary: _binary,
    ex.Compare: _compare,
    ex.Select: _select,
    ex.Cast: _cast,
    ex.Reinterpret: _reinterpret,
    ex.Call: _call,
    ex.Load: _load,
    device.SharedAddress: _shared_address,
    device.RegisterLoad: _register_load,
}
"""How each kind of expression is evaluated."""
