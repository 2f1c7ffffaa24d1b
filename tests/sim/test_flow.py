"""What depends on data or on the block: found where it decides something, and not where it is only computed with."""

from __future__ import annotations

import dataclasses

import pytest

from tests.sim.machine_kernels import BARRIERS, TILE, kernel, role
from tilelang.ir import device as d
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import BLOCK_IDX, THREAD, i32, u32
from tilelang.ir.expr import FLOAT32, INT32, UINT32, Cast, Compare, Const, Var
from tilelang.ir.types import DType, Scope
from tilelang.sim.flow import control_axes, data_dependences

INDEX = Buffer("index", (64,), DType("int32"), Scope.GLOBAL)
TABLE = Buffer("table", (64,), FLOAT32, Scope.GLOBAL)
LOADED = d.Registers(name="loaded", dtype=INT32, shape=(1,))
VALUE = d.Registers(name="value", dtype=FLOAT32, shape=(1,))
LOAD = d.LoadGlobal(tensor=INDEX, offset=THREAD, target=LOADED, first=(i32(0),), count=1)
FOUND = d.RegisterLoad(LOADED, (i32(0),))
GATHER = d.LoadGlobal(tensor=TABLE, offset=FOUND, target=VALUE, first=(i32(0),), count=1)
DECLARE = (d.DeclareRegisters(registers=LOADED), d.DeclareRegisters(registers=VALUE))
N, I = Var("n"), Var("i")  # noqa: E741
STORE = d.StoreGlobal(tensor=TABLE, offset=THREAD, values=(Const(1.0, FLOAT32),))


def found(*body: d.Stmt) -> list[str]:
    made = dataclasses.replace(kernel(role(*DECLARE, *body)), pointers=(INDEX, TABLE))
    return [dependence.what for dependence in data_dependences(made)]


def test_values_alone_are_no_dependence() -> None:
    doubled = d.RegisterStore(registers=VALUE, indices=(i32(0),), value=Cast(FOUND, FLOAT32) * 2)
    assert found(LOAD, doubled, dataclasses.replace(STORE, values=(d.RegisterLoad(VALUE, (i32(0),)),))) == []


@pytest.mark.parametrize(
    ("stmt", "what"),
    [
        (GATHER, "the place of an access to global memory"),
        (dataclasses.replace(STORE, predicate=Compare("==", FOUND, i32(0))), "the place of an access to global memory"),
        (d.For(var=I, start=i32(0), stop=FOUND, body=()), "the bounds of a loop"),
        (d.If(condition=Compare("==", FOUND, i32(0)), then=(STORE,), uniform=False), "a condition"),
        (d.While(condition=Compare("==", FOUND, i32(0)), body=()), "a condition"),
        (d.MbarrierWait(barrier=d.BarrierRef(BARRIERS, FOUND), parity=u32(0)), "a barrier's phase"),
        (
            d.StoreShared(address=d.SharedAddress(TILE) + Cast(FOUND, UINT32) * 4, values=(u32(0),)),
            "the place of an access to shared memory",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, d.Stmt) else "",
)  # fmt: skip
def test_what_decides(stmt: d.Stmt, what: str) -> None:
    assert found(LOAD, stmt) == [what]
    assert found(stmt) == []  # nothing was loaded


def test_the_place_in_a_thread_s_own_array() -> None:
    """An index that comes from data may be outside the array for other data."""
    chosen = d.RegisterLoad(d.Registers(name="own", dtype=FLOAT32, shape=(4,)), (FOUND,))
    what = ["the place of an access to a thread's own array"]
    assert found(LOAD, dataclasses.replace(STORE, values=(chosen,))) == what
    assert found(LOAD, d.RegisterStore(registers=VALUE, indices=(FOUND,), value=Const(1.0, FLOAT32))) == what


def test_through_variables_and_back_round_a_loop() -> None:
    late = d.Assign(var=N, value=FOUND)
    loop = d.For(var=I, start=i32(0), stop=i32(2), body=(d.For(var=Var("j"), start=i32(0), stop=N, body=()), late))
    assert found(LOAD, d.Declare(var=N, value=i32(1), mutable=True), loop) == ["the bounds of a loop"]


def test_what_is_assigned_under_a_condition_depends_on_it() -> None:
    choose = d.If(condition=Compare("==", FOUND, i32(0)), then=(d.Assign(var=N, value=i32(3)),), uniform=False)
    declare = d.Declare(var=N, value=i32(1), mutable=True)
    assert found(LOAD, declare, choose) == []  # a choice between values
    assert found(LOAD, declare, choose, dataclasses.replace(STORE, offset=N)) == ["the place of an access to global memory"]


def test_axes_that_control_flow_depends_on() -> None:
    declare = d.Declare(var=N, value=BLOCK_IDX[1] + 1)
    loop = d.For(var=I, start=i32(0), stop=N, body=())
    by_value = dataclasses.replace(STORE, offset=BLOCK_IDX[0] * 128 + THREAD)
    assert control_axes(kernel(role(declare, loop, by_value))) == {1}
    assert control_axes(kernel(role(by_value))) == set()
