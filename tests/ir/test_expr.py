"""How Python's operators build expressions: dtypes, folding, and structure."""
# ruff: noqa: SIM300 (the expression under test stands on the left)
from __future__ import annotations

import itertools
import math
import operator

import numpy as np
import pytest

from tests.sim.reference_kernels import buffer
from tilelang.ir.expr import (
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
    binary,
    compare,
    const,
    convert,
    is_const,
    select,
    unary,
)
from tilelang.ir.types import DType
from tilelang.sim.reference_expr import Frame, evaluate

F16, F32, I8, I64, U32, BOOL = (DType(name) for name in ("float16", "float32", "int8", "int64", "uint32", "bool"))
N, X, H, L = Var("n"), Var("x", F32), Var("h", F16), Var("l", I64)
PYTHON = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift, "/": operator.truediv,
}  # fmt: skip


@pytest.mark.parametrize("op", PYTHON)
def test_operators_build_binaries_from_either_side(op):
    assert PYTHON[op](N, N) == Binary(op, *(N, N) if op != "/" else (Cast(N, F32), Cast(N, F32)))
    if op != "/":
        assert PYTHON[op](N, 3) == Binary(op, N, Const(3))
        assert PYTHON[op](3, N) == Binary(op, Const(3), N)
    else:
        assert PYTHON[op](1, X) == Binary(op, Const(1.0, F32), X)


@pytest.mark.parametrize("op", ["<", "<=", ">", ">="])
def test_comparisons(op):
    function = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[op]
    assert function(N, 3) == Compare(op, N, Const(3))
    assert function(N, 3).dtype == BOOL
    assert is_const(compare(op, 2, 3), function(2, 3))


def test_equality_is_structural_and_variables_are_identities():
    assert N + 1 == N + 1
    assert (N + 1 == Var("n") + 1) is False
    assert len({N + 1, N + 1, 1 + N}) == 2
    assert compare("==", N, 3) == Compare("==", N, Const(3))


def test_an_expression_has_no_truth_value():
    with pytest.raises(TypeError, match="no truth value"):
        bool(N < 3)


@pytest.mark.parametrize(
    ("expr", "dtype"),
    [
        (N + L, I64), (N + X, F32), (H + X, F32), (H * 2, F16), (H * 2.5, F16), (N * 2.5, F32), (N / 2, F32), (H / 2, F16),
        (N < X, BOOL), (Unary("not", N), BOOL), (-H, F16), (Binary("and", N < 1, N < 2), BOOL), (select(N < 1, H, X), F32),
        (N + 2**40, I64), (N.astype("float16"), F16), (Call("exp", (H,), F16), F16),
        (Var("u", U32) + 1, U32), (N + True, DType("int32")),
    ],
)  # fmt: skip
def test_dtypes(expr, dtype):
    assert expr.dtype == dtype


def test_operands_are_converted_to_the_common_dtype():
    assert N + X == Binary("+", Cast(N, F32), X)
    assert H * 2.5 == Binary("*", H, Const(2.5, F16))
    assert select(N < 1, H, 0) == Select(N < 1, H, Const(0.0, F16))
    assert compare("<", N, L) == Compare("<", Cast(N, I64), L)


@pytest.mark.parametrize("op", [op for op in PYTHON if op not in ("/", "<<", ">>")])
def test_constant_folding_is_evaluation(op):
    """What folding gives is what the reference computes, for all small pairs; no fold where the result would not fit."""
    with np.errstate(all="ignore"):
        for a, b in itertools.product([-128, -7, -1, 0, 1, 3, 100, 127], repeat=2):
            folded = binary(op, Const(a, I8), Const(b, I8))
            plain = Binary(op, Const(a, I8), Const(b, I8))
            assert folded.dtype == I8
            assert evaluate(folded, Frame({}, {})) == evaluate(plain, Frame({}, {})), (a, b)
            fits = not (op in ("//", "%") and b == 0) and -128 <= PYTHON[op](a, b) <= 127
            assert isinstance(folded, Const) == fits


def test_floats_and_division_by_zero_are_not_folded():
    assert isinstance(binary("+", Const(1.0, F32), Const(2.0, F32)), Binary)
    assert binary("//", 3, 0) == Binary("//", Const(3), Const(0))


def test_unary_folding():
    assert unary("-", 3) == Const(-3)
    assert unary("not", True) == Const(False, BOOL)
    assert unary("-", Const(1, U32)) == Unary("-", Const(1, U32))
    assert unary("-", Const(-(2**31))) == Unary("-", Const(-(2**31))), "whose negative no int32 holds"
    assert unary("-", Const(0.5, DType("float32"))) == Const(-0.5, DType("float32"))
    assert (~N) == Unary("~", N)


@pytest.mark.parametrize(
    ("value", "like", "wanted"),
    [
        (3, None, Const(3)), (2**31, None, Const(2**31, I64)), (-(2**31), None, Const(-(2**31))), (True, None, Const(True, BOOL)),
        (1.5, None, Const(1.5, F32)), (3, F16, Const(3.0, F16)), (1.5, I8, Const(1.5, F32)), (1, BOOL, Const(True, BOOL)),
        (3, I64, Const(3, I64)), (2**40, DType("int32"), Const(2**40, I64)), (300, I8, Const(300)), (2, BOOL, Const(2)),
        (-8, U32, Const(2**32 - 8, U32)), (-(2**40), U32, Const(-(2**40), I64)),
    ],
)  # fmt: skip
def test_numbers_become_constants(value, like, wanted):
    made = const(value, like)
    assert (made, made.dtype, type(made.value)) == (wanted, wanted.dtype, type(wanted.value))


def test_as_expr_takes_numpy_numbers_and_refuses_the_rest():
    assert as_expr(np.int64(3)) == Const(3)
    assert as_expr(np.float32(0.5)) == Const(0.5, F32)
    assert as_expr(N) is N
    for wrong in ("3", None, [1]):
        with pytest.raises(TypeError, match="a number or an expression is needed"):
            as_expr(wrong)


def test_convert():
    assert convert(N, DType("int32")) is N
    assert convert(Const(3), F16) == Const(3.0, F16)
    assert convert(Const(3), I64) == Const(3, I64)
    assert convert(Const(300), I8) == Cast(Const(300), I8)
    assert convert(Const(-1), U32) == Cast(Const(-1), U32)
    assert convert(Const(math.inf, F32), F16) == Cast(Const(math.inf, F32), F16)
    assert convert(N, F32) == Cast(N, F32)


def test_select_takes_a_side_where_the_condition_is_known():
    assert select(True, N, 3) is N
    assert select(Const(False, BOOL), N, 3) == Const(3)
    assert select(N < 1, N, 3) == Select(N < 1, N, Const(3))


def test_a_load_has_the_dtype_of_its_buffer():
    assert Load(buffer("A", (4,), "int8"), (N,)).dtype == I8


@pytest.mark.parametrize("expr", [N + 1, N < 1, Const(1), -N, Cast(N, F32), Select(N < 1, N, N), Call("exp", (X,), F32)])
def test_expressions_are_immutable(expr: Expr):
    name = next(iter(type(expr).__slots__))
    with pytest.raises(AttributeError):
        setattr(expr, name, None)
