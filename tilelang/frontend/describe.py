"""Expressions, regions and tiles as short text, for messages: `Q[bz, bx * 64, by, 0]`, `128 x 64`."""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.ir.arith import simplify
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Binary, Call, Cast, Compare, Const, Expr, Load, Reinterpret, Select, Unary, Var

_PRECEDENCE = {"or": 1, "and": 2, "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10}
_NOT, _COMPARE, _NEGATE, _ATOM = 3, 4, 11, 12


def expr_text(expr: object) -> str:
    """A Python-like spelling of an expression."""
    return _text(expr)[0]


def shape_text(extents: Iterable[object]) -> str:
    """Extents as `128 x 64`; `a scalar` where there are none."""
    return " x ".join(expr_text(extent) for extent in extents) or "a scalar"


def tile_text(operand: Buffer | Region | Load) -> str:
    """An operand of a tile op as the author could have written it."""
    if isinstance(operand, Buffer):
        return operand.name
    if isinstance(operand, Load):
        return expr_text(operand)
    if operand.extents == operand.buffer.shape and all(isinstance(base, Const) and base.value == 0 for base in operand.base):
        return operand.buffer.name
    pairs = zip(operand.base, operand.extents, strict=True)
    return f"{operand.buffer.name}[{', '.join(_slice(base, extent) for base, extent in pairs)}]"


def place_text(operand: Buffer | Region | Load) -> str:
    """A note that names where the operand's buffer comes from."""
    buffer = operand if isinstance(operand, Buffer) else operand.buffer
    what = "is a parameter" if buffer.scope == "global" else "is allocated"
    where = f": {buffer.span}" if buffer.span else ""
    return f"{buffer.name} ({shape_text(buffer.shape)}, {buffer.dtype}, {buffer.scope}) {what} here{where}"


def _slice(base: Expr, extent: object) -> str:
    text = expr_text(base)
    if extent == 1:
        return text
    if not isinstance(extent, int):
        return f"{text} : {expr_text(simplify(base + extent))}"  # type: ignore[operator]
    if isinstance(base, Const):
        return f"{text}:{base.value + extent}"
    return f"{text} : {text} + {expr_text(extent)}"


def _text(expr: object) -> tuple[str, int]:  # noqa: C901 - one case per node  # noqa: C901 - one case per node
    """(text, precedence of its outermost operator)."""
    match expr:
        case Const(value=value):
            return str(value), _ATOM if value >= 0 else _NEGATE
        case Var(name=name):
            return name, _ATOM
        case Load(buffer=buffer, indices=indices):
            return (f"{buffer.name}[{', '.join(map(expr_text, indices))}]" if indices else buffer.name), _ATOM
        case Unary(op="not", value=value):
            return f"not {_inside(value, _NOT)}", _NOT
        case Unary(op=op, value=value):
            return f"{op}{_inside(value, _NEGATE)}", _NEGATE
        case Binary(op=op, a=a, b=b) if op in _PRECEDENCE:
            level = _PRECEDENCE[op]
            return f"{_inside(a, level)} {op} {_inside(b, level + 1)}", level
        case Binary(op=op, a=a, b=b):
            return f"{op}({expr_text(a)}, {expr_text(b)})", _ATOM
        case Compare(op=op, a=a, b=b):
            return f"{_inside(a, _COMPARE + 1)} {op} {_inside(b, _COMPARE + 1)}", _COMPARE
        case Select(condition=condition, then=then, otherwise=otherwise):
            return f"{_inside(then, 1)} if {_inside(condition, 1)} else {_inside(otherwise, 1)}", 0
        case Cast(value=value, dtype=dtype):
            return f"{dtype}({expr_text(value)})", _ATOM
        case Reinterpret(value=value, dtype=dtype):
            return f"reinterpret({expr_text(value)}, {dtype})", _ATOM
        case Call(fn=fn, args=args):
            return f"{fn}({', '.join(map(expr_text, args))})", _ATOM
    return str(expr), _ATOM


def _inside(expr: object, level: int) -> str:
    text, own = _text(expr)
    return text if own >= level else f"({text})"
