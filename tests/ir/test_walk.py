"""The laws of walking and rewriting: identity, order, sharing, and no field forgotten."""
from __future__ import annotations

import dataclasses

import pytest

from tests.sim.reference_kernels import attention, buffer, kernel, matmul, points, serial, store
from tilelang.ir import device, tile
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import INT32, UINT32, Binary, Cast, Const, Expr, Load, Var, as_expr, compare
from tilelang.ir.text import render
from tilelang.ir.types import DType
from tilelang.ir.walk import children, rewrite, substitute, walk

F32 = DType("float32")
A = buffer("A", (8, 16), "float32")
ROW, COL = Var("i"), Var("j")
KERNELS = [matmul(256, 128, 96), attention(1, 2, 128, 64)]


def everything() -> tile.Body:
    """A body with statements inside statements."""
    inner = tile.If(condition=compare("<", ROW, COL), then=(store(A, (ROW, COL), A[ROW, COL] * 2.0),), otherwise=(tile.Break(),))
    return (tile.Let(var=Var("y"), value=ROW + 1), serial(COL, 4, inner), points((ROW,), (8,)), *KERNELS[0].body)


@pytest.mark.parametrize("body", [everything(), *(built.body for built in KERNELS)], ids=range(3))
def test_rewriting_with_the_identity_gives_the_same_object(body):
    assert rewrite(body, lambda node: node) is body
    for stmt in body:
        assert rewrite(stmt, lambda node: node) is stmt


def test_rewriting_to_an_equal_node_still_counts_as_a_change():
    expr = Binary("+", ROW, Const(1))
    fresh = rewrite(expr, lambda node: Const(node.value, node.dtype) if isinstance(node, Const) else node)
    assert fresh == expr
    assert fresh is not expr


def test_only_the_path_to_a_change_is_rebuilt():
    body = everything()
    changed = rewrite(body, lambda node: Const(5) if node == Const(4) else node)
    assert [a is b for a, b in zip(body, changed, strict=True)] == [True, False, True, *[True] * len(KERNELS[0].body)]
    assert changed[1].body is body[1].body
    assert changed[1].stop == Const(5)


def test_children_come_before_their_parents_when_rewriting_and_after_when_walking():
    expr = (ROW + 1) * COL
    seen: list[object] = []
    rewrite(expr, lambda node: seen.append(node) or node)
    assert seen == [ROW, Const(1), ROW + 1, COL, expr]
    assert list(walk(expr)) == [expr, ROW + 1, ROW, Const(1), COL]


def test_walking_finds_every_node_that_the_dataclasses_hold():
    """Against a search through all fields, whatever their names, except what a node only refers to."""
    def found(value: object) -> list[object]:
        if isinstance(value, tuple):
            return [node for item in value for node in found(item)]
        if not isinstance(value, (Expr, tile.Stmt, Region)):
            return []
        fields = [getattr(value, field.name) for field in dataclasses.fields(value)]
        return [value, *(node for field in fields for node in found(field))]

    for body in (everything(), *(built.body for built in KERNELS)):
        assert [id(node) for node in walk(body)] == [id(node) for node in found(body)]
        assert len(list(walk(body))) > 10


def test_children_are_direct():
    stmt = store(A, (ROW, 0), A[ROW, COL])
    assert list(children(stmt)) == [ROW, Const(0), stmt.value]
    assert list(children(ROW)) == []


def test_a_statement_can_be_replaced_and_its_fields_kept():
    copy = tile.Copy(src=A.whole(), dst=A.whole())
    loop = serial(ROW, 3, copy, step=2)
    fill = tile.Fill(dst=A.whole(), value=Const(0.0, F32))
    changed = rewrite(loop, lambda node: fill if isinstance(node, tile.Copy) else node)
    assert changed.body == (fill,)
    assert (changed.var, changed.step, changed.kind) == (loop.var, 2, loop.kind)


def test_substitution_is_by_identity_and_reaches_regions_and_indices():
    twin = Var("i")
    body = (tile.Copy(src=A[ROW : ROW + 4, :], dst=A[twin : twin + 4, :]), store(A, (ROW, twin), Cast(ROW, F32)))
    changed = substitute(body, {ROW: as_expr(7)})
    assert changed[0].src.base[0] == Const(7)
    assert changed[0].dst is body[0].dst
    assert changed[1].indices == (Const(7), twin)
    assert changed[1].value == Cast(Const(7), F32)
    assert substitute(body, {Var("i"): as_expr(7)}) is body


def test_a_load_is_rewritten_with_its_indices():
    load = Load(A, (ROW, COL))
    changed = rewrite(load, lambda node: node + 1 if node is COL else node)
    assert changed == Load(A, (ROW, COL + 1))
    assert changed.buffer is A


def test_device_statements_are_walked_as_well():
    barriers = device.BarrierArray(name="full", count=2, arrivals=1)
    wait = device.MbarrierWait(barrier=device.BarrierRef(barriers, ROW), parity=Var("phase", UINT32))
    loop = device.For(var=ROW, start=as_expr(0), stop=COL, body=(wait,))
    assert rewrite(loop, lambda node: node) is loop
    assert {node.name for node in walk(loop) if isinstance(node, Var)} == {"i", "j", "phase"}
    changed = substitute(loop, {COL: Const(3, INT32)})
    assert changed.body is loop.body
    assert changed.stop == Const(3)


def test_a_rewritten_kernel_reads_as_expected():
    n, b = Var("n"), Buffer("B", (4,), F32, A.scope)
    body = substitute((serial(ROW, n, store(b, (ROW + n,), 1.0)),), {n: as_expr(4)})
    assert render(kernel((b,), (), body)).splitlines()[-2:] == ["        for i in range(4):", "            B[i + 4] = 1.0"]
