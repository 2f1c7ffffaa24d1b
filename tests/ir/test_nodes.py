"""Buffers, regions and statements as data: indexing, slices, tile shapes, identity."""
from __future__ import annotations

import dataclasses

import pytest

from tests.sim.reference_kernels import buffer, kernel, matmul, serial, store
from tests.sim.test_reference import subclasses
from tilelang.errors import ShapeProblem
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Const, Load, Var, as_expr
from tilelang.ir.types import DType, Scope

A = buffer("A", (4, 8, 16), "float32")
I, J = Var("i"), Var("j")  # noqa: E741


def constants(*numbers: int) -> tuple[Const, ...]:
    return tuple(Const(number) for number in numbers)


def test_a_full_index_is_an_element():
    assert A[I, 2, J] == Load(A, (I, Const(2), J))
    assert A[0, -1, -16] == Load(A, constants(0, 7, 0))
    scalar = buffer("v", (), "int32", Scope.VAR)
    assert scalar[()] == Load(scalar, ())


@pytest.mark.parametrize(
    ("key", "base", "extents"),
    [
        ((slice(None),), (0, 0, 0), (4, 8, 16)), (2, (2, 0, 0), (1, 8, 16)), ((1, slice(2, 6)), (1, 2, 0), (1, 4, 16)),
        ((..., slice(8, None)), (0, 0, 8), (4, 8, 8)), ((0, ..., slice(None, -4)), (0, 0, 0), (1, 8, 12)),
        ((slice(-3, -1), 0, 0), (1, 0, 0), (2, 1, 1)), (Ellipsis, (0, 0, 0), (4, 8, 16)),
        ((slice(0, 4), slice(3, 3)), (0, 3, 0), (4, 0, 16)),
    ],
)  # fmt: skip
def test_slices_are_regions(key, base, extents):
    assert A[key] == Region(A, constants(*base), extents)


def test_extents_cancel_symbols():
    region = A[I * 2 : (I + 1) * 2, J : J + 8, 0:I]
    assert region.extents[:2] == (2, 8)
    assert not isinstance(region.extents[2], int)
    assert region.base == (I * 2, J, Const(0))


def test_the_tile_shape_leaves_out_extents_of_1():
    assert A[1, :, :].tile_shape == (8, 16)
    assert A[1:2, 0:1, 3].tile_shape == ()
    assert A[0:0, :, 1].tile_shape == (0, 8)
    assert A[0:I, 0, 0].tile_shape == (A[0:I, 0, 0].extents[0],)


def test_the_whole_buffer():
    assert A.whole() == A[:] == A[...]
    n = Var("n")
    b = Buffer("B", (n, 4), DType("float32"), Scope.GLOBAL)
    assert b.whole().extents == (n, 4)
    assert b.rank == 2


@pytest.mark.parametrize(("key", "code"), [((0, 0, 0, 0), "TL201"), ((slice(0, 4, 2), 0, 0), "TL202")])
def test_indices_that_do_not_fit(key, code):
    with pytest.raises(ShapeProblem, match=code):
        A[key]


def test_buffers_and_variables_are_identities():
    assert buffer("A", (4,), "int8") != buffer("A", (4,), "int8")
    assert Var("i") != Var("i")
    assert len({A, buffer("A", (4, 8, 16), "float32")}) == 2


@pytest.mark.parametrize("node", sorted(subclasses(tile.Stmt), key=lambda node: node.__name__))
def test_statements_are_frozen_identities_with_a_span(node):
    fields = {field.name for field in dataclasses.fields(node)}
    assert "span" in fields
    assert node.__dataclass_params__.frozen
    assert not node.__dataclass_params__.eq
    assert all(field.kw_only for field in dataclasses.fields(node))


def test_equal_statements_are_two():
    first, second = store(A, (0, 0, 0), 1.0), store(A, (0, 0, 0), 1.0)
    assert first != second
    assert first.value == second.value
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.value = as_expr(2)
    assert dataclasses.replace(serial(I, 3), step=2).step == 2


def test_a_kernel_names_its_tensors():
    n = Var("n")
    built = kernel((A, n), (), ())
    assert built.tensors == (A,)
    assert [param.name for param in matmul(64, 64, 64).params] == ["A", "B", "C"]
