"""Expressions as C++: whatever is printed means, by C++'s precedence and conversions, what the tree means."""
from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegen.cpp import BadText, Value, evaluate
from tilelang.codegen import expressions
from tilelang.codegen.c_types import C_TYPES
from tilelang.codegen.emit import Names
from tilelang.codegen.expressions import Printer
from tilelang.codegen.literals import nearest
from tilelang.errors import InternalError
from tilelang.ir import device, expr
from tilelang.ir.device import i32, u32
from tilelang.ir.expr import (
    BOOL,
    FLOAT32,
    INT32,
    UINT32,
    UINT64,
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Load,
    Reinterpret,
    Select,
    Unary,
    Var,
    binary,
    compare,
)
from tilelang.ir.types import DType
from tilelang.sim import reference_values

INTEGERS = tuple(DType(name) for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"))
WIDE = tuple(dtype for dtype in INTEGERS if dtype.bits >= 32)
ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "min": min, "max": max, "<<": operator.lshift, ">>": operator.rshift,
}  # fmt: skip
UNARY: dict[str, Callable[[int], int]] = {"-": operator.neg, "~": operator.invert, "not": operator.not_}
COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne}
VARIABLES = {dtype: tuple(Var(f"{dtype}_{name}", dtype) for name in "ab") for dtype in (*INTEGERS, BOOL)}


def wrapped(number: int, dtype: DType) -> int:
    """The number modulo the range of an integer type."""
    return int(number != 0) if dtype == BOOL else Value(int(number), "").to(C_TYPES[dtype]).number


def meaning(node: Expr, values: dict[Var, int]) -> int:
    """What device IR means: every node's value is of its dtype."""
    match node:
        case Const(value=value):
            return int(value)
        case Var():
            return values[node]
        case Unary(op=op, value=value):
            return wrapped(UNARY[op](meaning(value, values)), node.dtype)
        case Binary(op="and" | "or" as op, a=a, b=b):
            return int((all if op == "and" else any)(meaning(side, values) for side in (a, b)))
        case Binary(op=op, a=a, b=b):
            return wrapped(ARITHMETIC[op](meaning(a, values), meaning(b, values)), node.dtype)
        case Compare(op=op, a=a, b=b):
            return int(COMPARE[op](meaning(a, values), meaning(b, values)))
        case Select(condition=condition, then=then, otherwise=otherwise):
            return meaning(then if meaning(condition, values) else otherwise, values)
        case Cast(value=value, dtype=dtype):
            return wrapped(meaning(value, values), dtype)
    raise AssertionError(node)


def printed(node: Expr) -> str:
    return Printer(Names()).text(node)


def check(node: Expr, values: dict[Var, int]) -> str:
    """Asserts that the text means what the tree means, once it is converted to the tree's dtype; returns the text."""
    text = printed(node)
    variables = {var.name: Value(number, C_TYPES[var.dtype]) for var, number in values.items()}
    try:
        found = evaluate(text, variables)
    except BadText as error:
        raise AssertionError(f"{text}\n{node}\n{error}") from error
    assert found.to(C_TYPES[node.dtype]).number == meaning(node, values), f"{text}\n{node}\n{variables}"
    return text


@cache
def numbers(dtype: DType) -> st.SearchStrategy[int]:
    low, high = dtype.limits
    ends = sorted(end for end in {low, low + 1, -2, -1, 0, 1, 2, 3, high - 1, high} if low <= end <= high)
    return st.one_of(st.sampled_from(ends), st.integers(low, high))


@cache
def leaves(dtype: DType) -> st.SearchStrategy[Expr]:
    constants = numbers(dtype).map(lambda number: Const(bool(number) if dtype == BOOL else number, dtype))
    return st.one_of(st.sampled_from(VARIABLES[dtype]), constants)


@cache
def trees(dtype: DType, depth: int, among: tuple[DType, ...]) -> st.SearchStrategy[Expr]:
    """Trees of a dtype, whose parts have dtypes `among`."""
    if depth == 0:
        return leaves(dtype)
    same, truth = trees(dtype, depth - 1, among), trees(BOOL, depth - 1, among)
    options = [leaves(dtype), st.builds(Select, truth, same, same)]
    if dtype == BOOL:
        pairs = st.one_of([st.tuples(*[trees(kind, depth - 1, among)] * 2) for kind in among])
        options += [
            st.builds(lambda op, pair: Compare(op, *pair), st.sampled_from(list(COMPARE)), pairs),
            st.builds(Binary, st.sampled_from(("and", "or")), truth, truth),
            st.builds(lambda value: Unary("not", value), truth),
        ]
    else:
        positive = numbers(dtype).filter(bool).map(lambda number: Const(number, dtype))
        shifts = st.integers(0, dtype.bits - 1).map(lambda number: Const(number, dtype))
        options += [
            st.builds(Binary, st.sampled_from(("+", "-", "*", "&", "|", "^", "min", "max")), same, same),
            st.builds(Binary, st.sampled_from(("//", "%")), same, positive),
            st.builds(Binary, st.sampled_from(("<<", ">>")), same, shifts),
            st.builds(Unary, st.sampled_from(("-", "~")), same),
            st.builds(Cast, st.one_of([trees(kind, depth - 1, among) for kind in (*among, BOOL)]), st.just(dtype)),
        ]
    return st.one_of(options)


@st.composite
def cases(draw: st.DrawFn, among: tuple[DType, ...]) -> tuple[Expr, dict[Var, int]]:
    node = draw(st.one_of([trees(dtype, 3, among) for dtype in (*among, BOOL)]))
    return node, {var: draw(numbers(var.dtype)) for dtype in (*among, BOOL) for var in VARIABLES[dtype]}


@settings(max_examples=800, deadline=None, derandomize=True)
@given(cases((INT32, UINT32)))
def test_printed_is_meant_for_32_bits(case: tuple[Expr, dict[Var, int]]) -> None:
    check(*case)


@settings(max_examples=500, deadline=None, derandomize=True)
@given(cases((INT32, UINT32, *WIDE[2:])))
def test_printed_is_meant_for_32_and_64_bits(case: tuple[Expr, dict[Var, int]]) -> None:
    check(*case)


@settings(max_examples=500, deadline=None, derandomize=True)
@given(cases(INTEGERS))
def test_printed_is_meant_for_all_widths(case: tuple[Expr, dict[Var, int]]) -> None:
    check(*case)


def test_every_pair_of_operators() -> None:
    """a op1 (b op2 c) and (a op1 b) op2 c for every two operators, on values that tell the groupings apart."""
    texts = set()
    for dtype in (INT32, UINT32):
        a, b, c = (Var(name, dtype) for name in "abc")
        divide = {"//", "%"}
        for first in ARITHMETIC:
            for second in ARITHMETIC:
                for node in (Binary(first, a, Binary(second, b, c)), Binary(second, Binary(first, a, b), c)):
                    for values in ((20, 3, 2), (7, 5, 1), (100, 9, 3)):
                        named = dict(zip((a, b, c), values, strict=True))
                        try:
                            meaning(node, named)
                        except (ZeroDivisionError, ValueError, OverflowError):
                            assert {first, second} & (divide | {"<<", ">>"})
                            continue
                        if first in ("<<", ">>") and isinstance(node.b, Binary) and not 0 <= meaning(node.b, named) < 32:
                            continue
                        texts.add(check(node, named))
    assert len(texts) > 250


# ---- readable text ------------------------------------------------------------------------------------------------------------

X, Y, Z = (Var(name) for name in "xyz")
U, V = Var("u", UINT32), Var("v", UINT32)
F, G = Var("f", FLOAT32), Var("g", FLOAT32)
B1, B2, B3 = (Var(name, BOOL) for name in ("p", "q", "r"))
TEXTS: list[tuple[Expr, str]] = [
    (X + Y + Z, "x + y + z"),
    (X + (Y + Z), "x + (y + z)"),
    (X - (Y - Z), "x - (y - z)"),
    ((X + Y) * Z, "(x + y) * z"),
    (X * Y + Z, "x * y + z"),
    (X * (Y * Z), "x * (y * z)"),
    (-X * Y, "-x * y"),
    (-(X * Y), "-(x * y)"),
    (Unary("-", Unary("-", X)), "-(-x)"),
    (Unary("-", i32(-3)), "-(-3)"),
    (X - i32(-3), "x - -3"),
    ((X << 2) + Y, "(x << 2) + y"),
    ((X + Y) << 2, "(x + y) << 2"),
    ((X >> 5) * 16 + (Y & 15), "(x >> 5) * 16 + (y & 15)"),
    ((X & Y) ^ Z, "(x & y) ^ z"),
    (X | (Y << 3), "x | (y << 3)"),
    (~X & Y, "~x & y"),
    (X & ~Y, "x & (~y)"),
    (U // u32(4) + V % u32(3), "u / 4 + v % 3"),
    (U // (V * u32(3)), "u / (v * 3)"),
    (X // 4 + Y % 3, "tl::floor_div(x, 4) + tl::floor_mod(y, 3)"),
    (binary("min", X + 1, Y), "min(x + 1, y)"),
    (binary("max", F, Const(0.5, FLOAT32)), "fmaxf(f, 0.5f)"),
    (X + 1 < Y * 2, "x + 1 < y * 2"),
    (compare("!=", X & 1, 0), "(x & 1) != 0"),
    (Compare("==", Compare("<", X, Y), B1), "(x < y) == p"),
    (binary("or", binary("and", B1, B2), B3), "p && q || r"),
    (binary("and", binary("or", B1, B2), B3), "(p || q) && r"),
    (Unary("not", binary("and", B1, B2)), "!(p && q)"),
    (Unary("not", Unary("not", B1)), "!(!p)"),
    (Select(X < Y, X, Y) + Z, "(x < y ? x : y) + z"),
    (Select(B1, Select(B2, X, Y), Z), "p ? (q ? x : y) : z"),
    (U + Cast(X * 128, UINT32), "u + x * 128"),
    (Cast(X, UINT32) * u32(16), "static_cast<uint32_t>(x) * 16"),
    (U * u32(1024) + V, "u * 1024 + v"),
    (U ^ u32(1), "u ^ 1"),
    (Cast(X, DType("int64")) * Const(2**40, DType("int64")), "static_cast<long long>(x) * 1099511627776ll"),
    (Const(True, BOOL), "true"),
    (i32(-(2**31)), "(-2147483647 - 1)"),
    (u32(2**32 - 1), "4294967295u"),
    (Const(-(2**63), DType("int64")), "(-9223372036854775807ll - 1)"),
    (u32(1) << u32(31), "1u << 31"),
    (U >> u32(31), "u >> 31"),
    (Cast(X, UINT32) >> U, "static_cast<uint32_t>(x) >> u"),
    (Select(B1, u32(5), u32(7)), "p ? 5u : 7"),
    (~u32(5) & U, "~5u & u"),
    (Const(2**64 - 1, UINT64), "18446744073709551615ull"),
    (F * G - F, "f * g - f"),
    (F - (G - F), "f - (g - f)"),
    (Call("exp2", (F * G,), FLOAT32), "tl::exp2(f * g)"),
    (Call("descriptor_low", (U, u32(16)), UINT32), "tl::descriptor_low(u, 16)"),
    (Call("matrix_descriptor", (U + u32(2), u32(1024), u32(128)), UINT64), "tl::matrix_descriptor<1024, 128>(u + 2)"),
    (Call("abs", (X,), INT32), "abs(x)"),
    (Call("abs", (Var("s", DType("int8")),), DType("int8")), "static_cast<signed char>(abs(s))"),
    (Call("abs", (Var("h", DType("float16")),), DType("float16")), "tl::round_f16(fabsf(h))"),
    (Cast(Var("d", DType("float64")), DType("bfloat16")), "tl::round_bf16(tl::to_odd_float64(d))"),
    (Cast(X, DType("float16")), "tl::round_f16(tl::to_odd_int32(x))"),
    (Cast(Var("s", DType("int16")), DType("float16")), "tl::round_f16(static_cast<float>(s))"),
    (Reinterpret(F, INT32), "__float_as_int(f)"),
    (Reinterpret(U, FLOAT32), "__int_as_float(u)"),
    (Reinterpret(Var("d", DType("float64")), UINT64), "static_cast<uint64_t>(__double_as_longlong(d))"),
    (Reinterpret(Var("l", DType("int64")), DType("float64")), "__longlong_as_double(l)"),
    (Reinterpret(Var("h", DType("float16")), DType("bfloat16")), "tl::from_bits_bf16(tl::bits_f16(h))"),
    (Reinterpret(X, UINT32), "static_cast<uint32_t>(x)"),
    (Call("pack", (Cast(F, DType("bfloat16")), Cast(G + F, DType("bfloat16"))), UINT32), "tl::pack_bf16(f, g + f)"),
]


@pytest.mark.parametrize(("node", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_text(node: Expr, text: str) -> None:
    assert printed(node) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0f"), (-0.0, "-0.0f"), (1.0, "1.0f"), (-2.5, "-2.5f"), (0.1, "0.1f"), (1e-7, "1e-07f"), (3e38, "3e+38f"),
        (float("inf"), "tl::infinity()"), (float("-inf"), "-tl::infinity()"), (float("nan"), "tl::nan()"),
        (1e39, "tl::infinity()"), (-1e-50, "-0.0f"), (1e16, "1e+16f"), (16777217.0, "16777216.0f"), (1 + 2**-24, "1.0f"),
        (1 + 2**-23, "1.0000001f"),
    ],
)  # fmt: skip
def test_float_constants(number: float, text: str) -> None:
    assert printed(Const(number, FLOAT32)) == text


def test_constants_of_narrow_types_are_values_of_theirs() -> None:
    assert printed(Const(0.1, DType("float16"))) == "0.099975586f"
    assert printed(Const(0.1, DType("bfloat16"))) == "0.100097656f"
    assert printed(Const(0.3, DType("float8_e4m3fn"))) == "0.3125f"


@pytest.mark.parametrize(
    ("number", "dtype", "text"),
    [
        (1e6, "float16", "tl::infinity()"), (-1e6, "float16", "-tl::infinity()"), (65519.0, "float16", "65504.0f"),
        (65520.0, "float16", "tl::infinity()"), (3.4e38, "bfloat16", "tl::infinity()"), (1e300, "bfloat16", "tl::infinity()"),
        (1e6, "float8_e5m2", "57344.0f"), (-1e6, "float8_e4m3fn", "-448.0f"), (float("inf"), "float8_e5m2", "57344.0f"),
    ],
)  # fmt: skip
def test_constants_out_of_range_are_what_rounding_makes_of_them(number: float, dtype: str, text: str) -> None:
    """float8 saturates, as the hardware's conversions to it do."""
    assert printed(Const(number, DType(dtype))) == text


NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    st.one_of(st.floats(width=64), st.floats(-1000, 1000), st.floats(-1e-6, 1e-6), st.floats(width=32)), st.sampled_from(NARROW)
)
def test_constants_are_the_references(number: float, name: str) -> None:
    """Rounded once from double, halves to even, saturated where the reference saturates."""
    with np.errstate(all="ignore"):
        wanted = reference_values.constant(number, DType(name)).astype(np.float64)
    found = nearest(number, DType(name))
    assert (np.isnan(wanted) and np.isnan(found)) or np.float64(found).view(np.uint64) == wanted.view(np.uint64)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.floats(width=64, allow_nan=False, allow_infinity=False))
def test_double_constants_are_exact(number: float) -> None:
    """No suffix, so that C++ reads a double; and digits that give back the same bits."""
    text = printed(Const(number, DType("float64")))
    assert np.float64(text).view(np.uint64) == np.float64(number).view(np.uint64)
    assert any(c in text for c in ".e"), "C++ would read an int"


@settings(max_examples=500, deadline=None, derandomize=True)
@given(st.floats(width=64))
def test_float_constants_round_once(number: float) -> None:
    """The digits, read as a double and rounded to float32 as C++ rounds them, are the constant rounded to float32."""
    text = printed(Const(number, FLOAT32))
    with np.errstate(over="ignore"):
        wanted = np.float32(number)
    if not np.isfinite(wanted):
        assert text.removeprefix("-") == ("tl::nan()" if np.isnan(wanted) else "tl::infinity()")
        return
    assert text.endswith("f")
    assert np.float32(text[:-1]).view(np.uint32) == wanted.view(np.uint32)


def test_negative_float_constants_are_operands() -> None:
    assert printed(F - Const(-2.5, FLOAT32)) == "f - -2.5f"
    assert printed(Unary("-", Const(-2.5, FLOAT32))) == "-(-2.5f)"
    assert printed(Unary("-", Const(-0.0, FLOAT32))) == "-(-0.0f)"


# ---- what has a printing ------------------------------------------------------------------------------------------------------


def test_every_kind_of_expression_prints() -> None:
    """All but an element of a tile buffer, of which device code has none."""
    there = [thing for module in (expr, device) for thing in vars(module).values()]
    kinds = {thing for thing in there if isinstance(thing, type) and issubclass(thing, Expr)}
    assert kinds == {*expressions._PRINT, Expr, Load}


@pytest.mark.parametrize(
    "node",
    [
        Call("no such function", (X,), INT32),
        Binary("no such operator", X, Y),
        Call("pack", (F, G), UINT32),
        Call("pack", (Cast(X, DType("float16")), Cast(Y, DType("float16"))), UINT32),
    ],
    ids=["function", "operator", "pack of floats", "pack of ints"],
)
def test_what_has_no_printing_is_an_internal_error(node: Expr) -> None:
    with pytest.raises(InternalError) as caught:
        printed(node)
    assert caught.value.code == "TL905"
