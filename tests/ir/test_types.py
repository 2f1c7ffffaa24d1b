"""Data types by name, and which type an operation has."""
from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from tilelang.ir.expr import Cast, Const, Var
from tilelang.ir.types import DTYPE_NAMES, DType, LoopKind, ReduceKind, Scope, WarpPolicy, promote


@pytest.mark.parametrize("name", DTYPE_NAMES)
def test_a_dtype_is_its_name(name):
    dtype = DType(name)
    assert dtype == name
    assert {dtype: 1}[name] == 1
    assert str(dtype) == f"{dtype}" == name
    assert DType(dtype) == dtype
    assert dtype.numpy.itemsize == dtype.bytes == dtype.bits // 8


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("float", "float32"), ("double", "float64"), ("int", "int32"), ("uint", "uint32"), ("long", "int64"),
        ("float8_e4m3", "float8_e4m3fn"), ("torch.float16", "float16"), ("jnp.bfloat16", "bfloat16"), (float, "float32"),
        (int, "int32"), (bool, "bool"), (np.dtype("int8"), "int8"), (np.dtype(ml_dtypes.bfloat16), "bfloat16"),
    ],
)  # fmt: skip
def test_aliases(alias, name):
    assert DType(alias) == name


@pytest.mark.parametrize("wrong", ["float7", "", "Float16", None, 3, str])
def test_unknown_names_list_the_known_ones(wrong):
    with pytest.raises(ValueError, match=r"unknown dtype .* there are bool, int8"):
        DType(wrong)


def test_numpy_types_round_trip():
    assert [DType(DType(name).numpy) for name in DTYPE_NAMES] == list(DTYPE_NAMES)
    assert DType("bfloat16").numpy == ml_dtypes.bfloat16
    assert DType("float8_e5m2").numpy == ml_dtypes.float8_e5m2


@pytest.mark.parametrize("name", [name for name in DTYPE_NAMES if DType(name).is_int])
def test_limits_are_numpys(name):
    info = np.iinfo(DType(name).numpy)
    assert DType(name).limits == (info.min, info.max)


def test_kinds():
    assert [name for name in DTYPE_NAMES if DType(name).is_float] == [
        "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2",
    ]  # fmt: skip
    assert not DType("bool").is_int
    assert DType("bool").limits == (0, 1)


def test_a_dtype_makes_constants_and_casts():
    x = Var("x")
    assert DType("float16")(1.5) == Const(1.5, DType("float16"))
    assert DType("float16")(x) == Cast(x, DType("float16"))


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ("int32", "int64", "int64"), ("int8", "uint8", "uint8"), ("int64", "uint8", "int64"), ("bool", "int8", "int8"),
        ("int64", "float16", "float16"), ("float16", "bfloat16", "float32"), ("float16", "float32", "float32"),
        ("float8_e4m3fn", "float8_e5m2", "float16"), ("float8_e4m3fn", "bfloat16", "bfloat16"), ("bool", "bool", "bool"),
    ],
)  # fmt: skip
def test_promotion(a, b, result):
    assert promote(DType(a), DType(b)) == result


def test_promotion_is_symmetric_and_keeps_a_type():
    for a, b in itertools.product(map(DType, DTYPE_NAMES), repeat=2):
        assert promote(a, b) == promote(b, a)
        assert promote(a, a) == a
        assert promote(a, promote(a, b)) == promote(a, b)
        assert promote(a, b).is_float == (a.is_float or b.is_float)


def test_words_print_as_the_language_spells_them():
    assert [str(scope) for scope in Scope] == ["global", "shared", "fragment", "local", "var", "barrier"]
    assert f"T.{LoopKind.UNROLL}" == "T.unroll"
    assert f"T.reduce_{ReduceKind.ABSMAX}" == "T.reduce_absmax"
    assert [str(policy) for policy in WarpPolicy] == ["Square", "FullRow", "FullCol"]
