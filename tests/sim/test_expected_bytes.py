"""mbarrier.expect_tx without an arrival: the phase needs the bytes and all arrivals."""
from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.sim.machine_kernels import kernel, raises, role
from tests.sim.test_machine import ARRIVED, BARRIERS, FIRST, INIT, LOAD, MAP, STORE, STORED, X, one
from tilelang.errors import HazardError
from tilelang.ir import device as d
from tilelang.ir.device import i32
from tilelang.sim.machine import run
from tilelang.sim.schedule import SCHEDULES

ADD = d.MbarrierAddTx(barrier=FIRST, bytes=2048)
ARRIVE = d.MbarrierArrive(barrier=FIRST)


def launch(*body: d.Stmt, schedule: str = "fifo") -> np.ndarray:
    array = np.arange(1024).reshape(16, 64).astype(np.float16)
    run(kernel(role(*body), setup=(INIT, d.SyncThreads()), maps=(MAP,)), {X: array}, schedule=schedule)
    return array


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_phase_waits_for_the_arrival(schedule: str) -> None:
    shifted = dataclasses.replace(STORE, coordinates=(i32(0), i32(4)))
    array = launch(one(ADD, LOAD, ARRIVE, ARRIVED, shifted, *STORED), schedule=schedule)
    expected = np.arange(1024).reshape(16, 64).astype(np.float16)
    expected[4:] = expected[:12].copy()
    assert np.array_equal(array, expected)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_bytes_without_an_arrival_complete_nothing(schedule: str) -> None:
    with raises("TL801") as caught:
        launch(one(ADD, LOAD, ARRIVED), schedule=schedule)
    assert "1 of 1 arrivals pending" in str(caught.value)


def test_bytes_that_nothing_brings() -> None:
    with raises("TL801") as caught:
        launch(one(ADD, ARRIVE, ARRIVED))
    assert "2048 bytes outstanding" in str(caught.value)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_load_whose_bytes_nobody_expects(schedule: str) -> None:
    """It never completes the phase, or is on its way when the block ends."""
    with pytest.raises(HazardError) as caught:
        launch(one(LOAD, ARRIVE, ARRIVED), schedule=schedule)
    assert caught.value.code in ("TL801", "TL806", "TL830")


def test_before_it_is_initialised() -> None:
    with raises("TL803"):
        run(kernel(role(one(ADD)), maps=(MAP,)), {X: np.zeros((16, 64), np.float16)})


def test_barriers_with_arrivals_of_their_own() -> None:
    array = dataclasses.replace(BARRIERS, each=(1, 2), arrivals=2)
    refs = [d.BarrierRef(array, i32(i)) for i in range(2)]
    setup = (one(*(d.MbarrierInit(barrier=ref) for ref in refs), d.FenceMbarrierInit()), d.SyncThreads())
    waits = [d.MbarrierWait(barrier=ref, parity=d.u32(0)) for ref in refs]
    first, second = (d.MbarrierArrive(barrier=ref) for ref in refs)
    built = dataclasses.replace(kernel(role(one(first, waits[0], second, second, waits[1])), setup=setup), barriers=(array,))
    run(built, {})
    with raises("TL801"):
        run(dataclasses.replace(built, roles=(role(one(second, waits[1])),)), {})
