"""Operators on truth values, and on bits."""
# ruff: noqa: SIM300 (the expression under test stands on the left)
from __future__ import annotations

import operator

import pytest

from tilelang.ir.expr import BOOL, FLOAT32, INT32, Binary, Cast, Const, Unary, Var, binary, unary

N, X = Var("n"), Var("x", FLOAT32)
FLAG, OTHER = N < 1, N < 2


@pytest.mark.parametrize("op", ["+", "-", "*", "//", "%", "<<", ">>"])
def test_arithmetic_takes_true_as_one(op: str) -> None:
    assert binary(op, FLAG, OTHER) == Binary(op, Cast(FLAG, INT32), Cast(OTHER, INT32))
    assert binary(op, FLAG, True) == Binary(op, Cast(FLAG, INT32), Const(1))
    assert binary("+", True, True) == Const(2)


def test_a_negative_truth_value_is_an_integer() -> None:
    assert -FLAG == Unary("-", Cast(FLAG, INT32))
    assert unary("-", True) == Const(-1)


def test_truth_values_stay_truth_values() -> None:
    assert FLAG & OTHER == Binary("&", FLAG, OTHER)
    assert binary("max", FLAG, OTHER) == FLAG | OTHER
    assert binary("min", FLAG, OTHER) == FLAG & OTHER
    assert ~FLAG == Unary("not", FLAG)
    assert unary("~", Const(True, BOOL)) == Const(False, BOOL)


@pytest.mark.parametrize("op", [operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor])
def test_floats_have_no_bits(op) -> None:
    with pytest.raises(TypeError, match="acts on integers"):
        op(X, 1)
    with pytest.raises(TypeError, match="acts on integers"):
        op(N, X)


def test_the_bits_of_a_float_are_not_turned() -> None:
    with pytest.raises(TypeError, match="acts on integers"):
        operator.invert(X)
