"""Integer arithmetic on expressions, against evaluation with Python's own integers."""
from __future__ import annotations

import itertools
import operator
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilelang.ir.arith import bounds, constant_difference, linear_form, simplify
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import (
    BOOL,
    FLOAT32,
    INT32,
    UINT32,
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
    as_expr,
)
from tilelang.ir.types import DType, Scope

X, Y, Z = Var("x"), Var("y"), Var("z")
VARS = (X, Y, Z)
_OPS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod, "min": min, "max": max,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift,
}  # fmt: skip
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def evaluate(expr: Expr, env: dict[Var, int]) -> int:  # noqa: C901 - one case per node
    """The value of an integer expression over the mathematical integers."""
    match expr:
        case Const(value=value):
            return int(value)
        case Var():
            return env[expr]
        case Unary(op="-", value=value):
            return -evaluate(value, env)
        case Unary(op="~", value=value):
            return ~evaluate(value, env)
        case Unary(op="not", value=value):
            return int(not evaluate(value, env))
        case Binary(op="and", a=a, b=b):
            return int(bool(evaluate(a, env)) and bool(evaluate(b, env)))
        case Binary(op="or", a=a, b=b):
            return int(bool(evaluate(a, env)) or bool(evaluate(b, env)))
        case Binary(op=op, a=a, b=b):
            return _OPS[op](evaluate(a, env), evaluate(b, env))
        case Compare(op=op, a=a, b=b):
            return int(_COMPARE[op](evaluate(a, env), evaluate(b, env)))
        case Select(condition=condition, then=then, otherwise=otherwise):
            return evaluate(then if evaluate(condition, env) else otherwise, env)
        case Cast(value=value):
            return evaluate(value, env)
        case Call(fn="abs", args=(value,)):
            return abs(evaluate(value, env))
    raise AssertionError(expr)


def integers(depth: int) -> st.SearchStrategy[Expr]:
    """Random int32 expressions, built without the folding of the operators."""
    leaf = st.one_of(st.sampled_from(VARS), st.integers(-9, 9).map(lambda value: Const(value, INT32)))
    if depth == 0:
        return leaf
    inner = integers(depth - 1)
    positive = st.integers(1, 8).map(lambda value: Const(value, INT32))
    shift = st.integers(0, 4).map(lambda value: Const(value, INT32))
    return st.one_of(
        leaf,
        st.builds(Binary, st.sampled_from(["+", "-", "*", "min", "max", "&", "|", "^"]), inner, inner),
        st.builds(Binary, st.sampled_from(["+", "-", "*"]), inner, inner),
        st.builds(Binary, st.sampled_from(["//", "%"]), inner, positive),
        st.builds(Binary, st.sampled_from(["<<", ">>"]), inner, shift),
        st.builds(Unary, st.sampled_from(["-", "~"]), inner),
        st.builds(Select, conditions(depth - 1), inner, inner),
        st.builds(lambda value: Call("abs", (value,), INT32), inner),
        st.builds(lambda value: Cast(Cast(value, DType("int64")), INT32), inner),
    )


def conditions(depth: int) -> st.SearchStrategy[Expr]:
    compare = st.builds(Compare, st.sampled_from(sorted(_COMPARE)), integers(max(depth - 1, 0)), integers(max(depth - 1, 0)))
    if depth <= 0:
        return st.one_of(compare, st.booleans().map(lambda value: Const(value, BOOL)))
    inner = conditions(depth - 1)
    return st.one_of(
        compare,
        st.builds(Binary, st.sampled_from(["and", "or"]), inner, inner),
        st.builds(Unary, st.just("not"), inner),
        st.booleans().map(lambda value: Const(value, BOOL)),
    )


ENVIRONMENTS = [dict(zip(VARS, values, strict=True)) for values in itertools.product((-5, -1, 0, 3, 8), (-4, 0, 7), (-2, 5))]
RANGES = st.dictionaries(st.sampled_from(VARS), st.tuples(st.integers(-6, 6), st.integers(0, 5)), max_size=3)


@settings(max_examples=300, deadline=None)
@given(integers(3))
def test_simplify_keeps_every_value(expr: Expr) -> None:
    simple = simplify(expr)
    assert simple.dtype == expr.dtype
    for env in ENVIRONMENTS:
        assert evaluate(simple, env) == evaluate(expr, env)


@settings(max_examples=150, deadline=None)
@given(conditions(2))
def test_simplify_keeps_every_condition(expr: Expr) -> None:
    simple = simplify(expr)
    assert simple.dtype == BOOL
    for env in ENVIRONMENTS:
        assert evaluate(simple, env) == evaluate(expr, env)


@settings(max_examples=150, deadline=None)
@given(st.one_of(integers(3), conditions(2)), RANGES)
def test_simplify_inside_ranges(expr: Expr, spans: dict[Var, tuple[int, int]]) -> None:
    ranges = {var: (low, low + size) for var, (low, size) in spans.items()}
    simple = simplify(expr, ranges)
    choices = [sorted({*ranges.get(var, (-3, 4)), sum(ranges.get(var, (1, 1))) // 2}) for var in VARS]
    for values in itertools.product(*choices):
        env = dict(zip(VARS, values, strict=True))
        assert evaluate(simple, env) == evaluate(expr, env)


@settings(max_examples=300, deadline=None)
@given(integers(3), st.tuples(*[st.tuples(st.integers(-6, 6), st.integers(0, 4))] * 3))
def test_bounds_hold_every_value(expr: Expr, spans: tuple[tuple[int, int], ...]) -> None:
    ranges = {var: (low, low + size) for var, (low, size) in zip(VARS, spans, strict=True)}
    found = bounds(expr, ranges)
    if found is None:
        return
    for values in itertools.product(*(range(low, high + 1) for low, high in ranges.values())):
        assert found[0] <= evaluate(expr, dict(zip(VARS, values, strict=True))) <= found[1]


@settings(max_examples=200, deadline=None)
@given(integers(3))
def test_linear_form_is_the_expression(expr: Expr) -> None:
    constant, terms = linear_form(expr)
    assert 0 not in terms.values()
    for env in ENVIRONMENTS[::3]:
        assert constant + sum(coefficient * evaluate(atom, env) for atom, coefficient in terms.items()) == evaluate(expr, env)


@settings(max_examples=200, deadline=None)
@given(integers(2), integers(2))
def test_constant_difference_is_one(a: Expr, b: Expr) -> None:
    found = constant_difference(a, b)
    if found is not None:
        for env in ENVIRONMENTS:
            assert evaluate(a, env) - evaluate(b, env) == found
    assert constant_difference(a, a) == 0


def test_bounds_are_tight_for_sums_of_independent_variables() -> None:
    ranges = {X: (0, 7), Y: (0, 15)}
    assert bounds(X * 128 + Y * 8 + 3, ranges) == (3, 7 * 128 + 15 * 8 + 3)
    assert bounds(X - X, ranges) == (0, 0)
    assert bounds(X // 2, ranges) == (0, 3)
    assert bounds(X % 4, ranges) == (0, 3)
    assert bounds(X % 100, ranges) == (0, 7)
    assert bounds((X + 8) % 8, {X: (1, 7)}) == (1, 7)
    assert bounds(Z % 5, ranges) == (0, 4)
    assert bounds(Z, ranges) is None
    assert bounds(Z & 31, ranges) == (0, 31)


def test_bounds_of_what_is_loaded_are_unknown() -> None:
    tensor = Buffer("A", (8,), INT32, Scope.GLOBAL)
    assert bounds(Load(tensor, (X,)), {X: (0, 7)}) is None
    assert bounds(Cast(X, FLOAT32), {X: (0, 7)}) is None


def test_numbers_have_no_width() -> None:
    expr = X * 2**31 * 2**31
    assert linear_form(expr) == (0, {X: 2**62})
    assert bounds(expr, {X: (0, 8)}) == (0, 2**65)
    assert constant_difference(X * 2**31 * 2**31 + 2**40, X * 2**31 * 2**31) == 2**40
    # A result that does not fit the dtype is not folded into a constant of it.
    assert simplify(Binary("*", Binary("*", X, Const(2**30, INT32)), Const(4, INT32))).dtype == INT32


def test_slices_cancel() -> None:
    assert constant_difference((Y + 1) * 128, Y * 128) == 128
    assert constant_difference(Y * 128 + 64 + X, X + Y * 128) == 64
    assert constant_difference(X, Y) is None
    assert constant_difference(Cast(X, DType("int64")) + 4, Cast(X, DType("int64"))) == 4


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (X + 0, "x"),
        (X * 4 // 4, "x"),
        ((X * 64 + 63 + 1) // 64, "x + 1"),
        ((X * 64 + Y) % 64, "y % 64"),
        ((X // 4) // 8, "x // 32"),
        ((X % 64) % 8, "x % 8"),
        (X - X + Y, "y"),
        (Binary("min", X + 3, X + 5), "x + 3"),
        (Binary("max", X + 3, X + 5), "x + 5"),
        ((X + 1) * 64 - X * 64, "64"),
    ],
)
def test_what_simplifies(before: Expr, after: str) -> None:
    from tilelang.frontend.describe import expr_text

    assert expr_text(simplify(before)) == after


def test_ranges_decide() -> None:
    ranges = {X: (0, 7), Y: (0, 63)}
    assert simplify((X * 64 + Y) // 64, ranges) == X
    assert simplify((X * 64 + Y) % 64, ranges) == Y
    assert simplify(X < 8, ranges) == Const(True, BOOL)
    assert simplify(X >= 8, ranges) == Const(False, BOOL)
    assert simplify(Compare("==", X, as_expr(9)), ranges) == Const(False, BOOL)
    assert simplify(X < 7, ranges) == (X < 7)


def test_what_simplify_leaves_alone() -> None:
    real, word = Var("f", FLOAT32), Var("u", UINT32)
    for expr in ((real + 1.0) - 1.0, real * 0.0, real + 0.0, (word * 4) // 4, X // Y, X % Y, X * 6 // 4):
        assert simplify(expr) is expr


def test_the_same_object_comes_back() -> None:
    expr = X * 64 + Y // 3
    assert simplify(expr) is expr
