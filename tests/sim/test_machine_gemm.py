"""A complete ring GEMM on the machine: exact values under every schedule, and every spoilt synchronisation noticed."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from tests.conftest import slowness
from tests.sim.ring_gemm import BARRIER_LINE, RingGemm, exact_inputs
from tilelang.errors import HazardError
from tilelang.sim.schedule import SCHEDULES


def check(spec: RingGemm, schedule: str, seed: int = 0) -> None:
    a, b, expected = exact_inputs(spec.m, spec.n, spec.k, spec.dtype, seed)
    assert np.array_equal(spec.run(a, b, schedule), expected), (spec, schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("block_k", [16, 32, 64])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_stages_trip_counts_and_swizzles(stages: int, block_k: int, schedule: str) -> None:
    for trips in sorted({0, 1, stages - 1, stages, stages + 1, 2 * stages + 1}):
        check(RingGemm(64, 64, trips * block_k, block_k=block_k, stages=stages), schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 72), (40, 64, 64), (64, 24, 64), (72, 136, 200), (1, 8, 8), (129, 72, 104)])
def test_tails_over_a_grid(m: int, n: int, k: int, schedule: str) -> None:
    for block_k in (16, 32, 64):
        check(RingGemm(m, n, k, block_k=block_k, stages=2), schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("producer_first", [False, True])
@pytest.mark.parametrize("warpgroups", [1, 2])
def test_roles_and_dtypes(warpgroups: int, producer_first: bool, dtype: str, schedule: str) -> None:
    check(RingGemm(128, 128, 192, 128, 128, 64, 2, warpgroups, producer_first, dtype), schedule)


@pytest.mark.parametrize("block_n", [64, 128, 192, 256])
def test_widths(block_n: int) -> None:
    check(RingGemm(64, block_n, 128, block_n=block_n, stages=2), "fifo")


def test_specials_pass_through() -> None:
    """An infinity and a NaN of an input reach exactly the outputs that depend on them."""
    spec = RingGemm(64, 64, 64)
    a, b, _ = exact_inputs(64, 64, 64)
    a[3, 5], b[7, 11] = np.inf, np.nan
    with np.errstate(all="ignore"):
        expected = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    assert np.array_equal(spec.run(a, b), expected, equal_nan=True)


def test_only_the_blocks_asked_for() -> None:
    spec = RingGemm(128, 128, 64)
    a, b, expected = exact_inputs(128, 128, 64)
    c = spec.run(a, b, blocks=[(1, 0, 0)])
    assert np.array_equal(c[:64, 64:], expected[:64, 64:])
    assert (c[64:] == 7).all()
    assert (c[:, :64] == 7).all()


def test_large_tile_is_quick() -> None:
    """One block of 128 x 128 x 64 with 16 k steps; measured 0.08 s, and the bound leaves room for a busy machine."""
    spec = RingGemm(128, 128, 1024, 128, 128)
    a, b, expected = exact_inputs(128, 128, 1024)
    start = time.perf_counter()
    c = spec.run(a, b)
    assert time.perf_counter() - start < 2 * slowness()
    assert np.array_equal(c, expected)


# ---- faults -------------------------------------------------------------------------------------------------------------------


def verdict(spec: RingGemm, schedule: str) -> str:
    """The code of the hazard that shows by value, without vector clocks, else "wrong" or "right"."""
    a, b, expected = exact_inputs(spec.m, spec.n, spec.k)
    try:
        c = spec.run(a, b, schedule, hazards=False)
    except HazardError as error:
        return error.code
    return "right" if np.array_equal(c, expected) else "wrong"


FAULTS = {
    "no_init": "TL803",
    "no_expect": "TL801",
    "tx_more": "TL801",
    "tx_less": "TL806",
    "no_empty_arrive": "TL801",
    "more_arrivals": "TL801",
    "empty_parity": "TL801",
    "no_commit": "TL820",
    "no_wgmma_wait": "TL820",
    "lax_wgmma_wait": "TL820",
    "no_bulk_wait": "TL830",
    "no_bulk_commit": "TL830",
}


@pytest.mark.parametrize("producer_first", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_reported(fault: str, schedule: str, producer_first: bool) -> None:
    """Three stages and seven trips, so that every slot is used again: these are reported by name under every schedule."""
    assert verdict(RingGemm(64, 64, 7 * 64, stages=3, producer_first=producer_first, fault=fault), schedule) == FAULTS[fault]


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_overwritten_too_early(stages: int) -> None:
    """A producer that does not wait for a free slot arrives too often, hangs, or spoils a value, under every schedule."""
    for schedule in SCHEDULES:
        spec = RingGemm(64, 64, 7 * 64, stages=stages, fault="no_empty_wait")
        assert verdict(spec, schedule) in {"wrong", "TL801", "TL805", "TL806"}, (stages, schedule)


@pytest.mark.parametrize("fault", ["no_full_wait", "full_parity"])
def test_read_before_the_copy(fault: str) -> None:
    """Races that only a late copy shows: the lazy schedule finds bytes that nothing has written."""
    assert verdict(RingGemm(64, 64, 7 * 64, fault=fault), "lazy-async") == "TL810"
    assert verdict(RingGemm(64, 64, 7 * 64, fault=fault), "reverse") == "TL810"


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_released_too_early(stages: int) -> None:
    """A slot released before its wgmma has finished gives a wrong value when the wgmma is late."""
    spec = RingGemm(64, 64, 7 * 64, stages=stages, fault="early_release")
    assert verdict(spec, "lazy-async") == "wrong"
    assert verdict(spec, "eager-async") == "right"


@pytest.mark.parametrize("block_n", [16, 48, 64])
def test_missing_epilogue_barrier(block_n: int) -> None:
    """Without the named barrier the elected thread, a strand of its own, stores the tile before other warps have written it."""
    spec = RingGemm(64, block_n, 64, block_n=block_n, block_k=16, fault="no_epilogue_barrier")
    assert verdict(spec, "eager-async") == "TL810"


@pytest.mark.parametrize("fault", ["no_empty_wait", "no_empty_arrive", "early_release", "empty_parity"])
def test_slot_faults_are_harmless_only_where_no_slot_is_reused(fault: str) -> None:
    """Trips at most stages: nothing is overwritten, so a slot's release may be left out; `empty_parity` still hangs."""
    for trips, schedule in itertools.product((1, 2, 3), SCHEDULES):
        found = verdict(RingGemm(64, 64, trips * 64, stages=3, fault=fault), schedule)
        assert found == ("TL801" if fault == "empty_parity" else "right"), (trips, schedule, found)


def test_deadlock_report_names_everything() -> None:
    spec = RingGemm(64, 64, 4 * 64, stages=2, fault="no_empty_arrive")
    a, b, _ = exact_inputs(64, 64, 4 * 64)
    with pytest.raises(HazardError) as caught:
        spec.run(a, b)
    error = caught.value
    assert error.code == "TL801"
    assert error.span is not None
    producer = next(note for note in error.notes if note.startswith("producer thread 128"))
    assert "mbarrier empty[0] parity 0" in producer
    assert "128 of 128 arrivals pending, 0 bytes outstanding" in producer
    assert f"ring_gemm.tl:{BARRIER_LINE}" in producer
    consumer = next(note for note in error.notes if note.startswith("consumer waits"))
    assert "mbarrier full[0] parity 1" in consumer
    assert "1 of 1 arrivals pending" in consumer
    assert f"ring_gemm.tl:{BARRIER_LINE + 1}" in consumer
    assert "Deadlock" in str(error)


def test_outstanding_bytes_are_reported() -> None:
    spec = RingGemm(64, 64, 64, stages=1, fault="tx_more")
    a, b, _ = exact_inputs(64, 64, 64)
    with pytest.raises(HazardError, match="16 bytes outstanding"):
        spec.run(a, b)
