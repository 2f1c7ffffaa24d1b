"""Bank conflicts, against a count that goes bank by bank and word by word."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.sim.machine_kernels import TILE, kernel, role
from tilelang.errors import Span
from tilelang.ir import device as d
from tilelang.ir.device import THREAD, i32
from tilelang.ir.expr import FLOAT32, UINT32, Cast, Const
from tilelang.sim.banks import BankCounter, wavefronts
from tilelang.sim.machine import run

PLACE = (Span("banks.tl", 3), "st.shared")


def slowly(starts: list[int], width: int) -> int:
    words = {(start + byte) // 4 for start in starts for byte in range(width)}
    return max(sum(word % 32 == bank for word in words) for bank in range(32))


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_against_a_plain_count(width: int) -> None:
    rng = random.Random(width)
    for _ in range(200):
        starts = [width * rng.randrange(512 // width) for _ in range(rng.randint(1, 32))]
        assert wavefronts(np.array(starts), width) == slowly(starts, width)


def count(stride: int, elements: int = 1, elect: bool = False) -> BankCounter:
    """128 threads store `elements` floats each, `stride` bytes apart."""
    address = d.SharedAddress(TILE) + Cast(THREAD & 31, UINT32) * stride
    store = d.StoreShared(address=address, values=(Const(0.0, FLOAT32),) * elements, span=PLACE[0])
    counter = BankCounter()
    alone = (d.Elected(warp=0, body=()),) if elect else ()
    run(kernel(role(*alone, store, d.Declare(var=d.Var("x"), value=i32(0)))), {}, banks=counter, hazards=False)
    return counter


@pytest.mark.parametrize(
    ("stride", "elements", "each", "fewest"),
    [
        (4, 1, 1, 1), (8, 1, 2, 1), (128, 1, 32, 1), (132, 1, 1, 1), (0, 1, 1, 1), (8, 2, 2, 2), (16, 4, 4, 4), (64, 4, 16, 4),
        (128, 4, 32, 4),
    ],
)  # fmt: skip
def test_strides(stride: int, elements: int, each: int, fewest: int) -> None:
    found = count(stride, elements).counts[PLACE]
    assert (found.accesses, found.wavefronts, found.fewest) == (4, 4 * each, 4 * fewest)
    assert found.extra == 4 * (each - fewest)


def test_the_counts_as_text() -> None:
    assert str(count(8)).endswith(": 4 accesses, 8 wavefronts, 4 needed")
    assert str(BankCounter()) == "no access to shared memory"


def test_a_lane_that_marches_alone_counts_with_its_warp() -> None:
    assert count(8, elect=True).counts == count(8).counts
    assert count(8, elect=True).extra == 4
