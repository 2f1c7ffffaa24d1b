"""Barriers, groups and the register pool, against the rules of the PTX ISA."""

from __future__ import annotations

import itertools

import pytest

from tests.sim.machine_kernels import raises
from tilelang.errors import InternalError, Span
from tilelang.ir.device import BarrierArray
from tilelang.sim.sync import TX_LIMIT_BYTES, AsyncEngine, AsyncOp, Groups, Mbarrier, NamedBarriers, RegisterPool

HERE = Span("kernel.py", 12)


def barrier(arrivals: int = 2) -> Mbarrier:
    made = Mbarrier(BarrierArray(name="full", count=4, arrivals=arrivals), 3)
    made.init(None)
    return made


def test_a_fresh_barrier_lets_parity_one_through() -> None:
    fresh = barrier()
    assert fresh.wait(1, None).ready()
    assert not fresh.wait(0, None).ready()


@pytest.mark.parametrize("arrivals", [1, 3])
def test_parity_alternates_with_phases(arrivals: int) -> None:
    each = barrier(arrivals)
    for phase in range(5):
        waits = {parity: each.wait(parity, None) for parity in (0, 1)}
        for _ in range(arrivals):
            assert [waits[parity].ready() for parity in (0, 1)] == [phase % 2 == 1, phase % 2 == 0]
            each.arrive(1, None)
        assert each.phase == phase + 1
        assert waits[phase % 2].ready()


@pytest.mark.parametrize("order", set(itertools.permutations(["arrive", "expect", "bytes", "bytes"])))
def test_a_phase_needs_arrivals_and_bytes(order: tuple[str, ...]) -> None:
    """In any order in which the last arrival does not come first: complete exactly when nothing is pending."""
    each = barrier(1)
    steps = {
        "arrive": lambda: each.arrive(1, None),
        "expect": lambda: each.expect_tx(64, None),
        "bytes": lambda: each.complete_tx(32, 0, None),
    }
    legal = order.index("arrive") > order.index("expect")  # otherwise the phase may end before its bytes are expected
    if not legal:
        return
    for count, step in enumerate(order, 1):
        steps[step]()
        assert each.phase == (1 if count == len(order) else 0), order


def test_misuse_of_an_mbarrier() -> None:
    raw = Mbarrier(BarrierArray(name="full", count=1, arrivals=1), 0)
    for action in (
        lambda: raw.arrive(1, HERE),
        lambda: raw.expect_tx(16, HERE),
        lambda: raw.wait(0, HERE),
    ):
        with raises("TL803") as caught:
            action()
        assert caught.value.span is HERE
        assert "full[0]" in str(caught.value)
    raw.init(None)
    with raises("TL804"):
        raw.init(HERE)
    with raises("TL807"):
        raw.wait(2, HERE)
    raw.expect_tx(16, None)
    raw.arrive(1, None)
    with raises("TL805"):
        raw.arrive(1, HERE)
    with pytest.raises(InternalError):
        Mbarrier(BarrierArray(name="full", count=1, arrivals=0), 0).init(None)


def test_byte_counts() -> None:
    each = barrier(1)
    with raises("TL806"):
        each.expect_tx(TX_LIMIT_BYTES + 1, HERE)
    each = barrier(1)
    each.expect_tx(32, None)
    each.arrive(1, None)
    with raises("TL806"):
        each.complete_tx(48, 0, HERE)  # more than expected, with no arrival left that could bring an expectation
    each = barrier(1)
    each.expect_tx(32, None)
    each.arrive(1, None)
    each.complete_tx(32, 0, None)
    with raises("TL806") as caught:
        each.complete_tx(16, 0, HERE)  # belongs to the phase that is over
    assert "after the phase" in str(caught.value)


def test_bytes_may_come_before_they_are_expected() -> None:
    """The tx-count is signed: a copy may complete between its issue and the arrival that announces it."""
    each = barrier(1)
    each.complete_tx(32, 0, None)
    assert each.tx_bytes == -32
    each.expect_tx(32, None)
    each.arrive(1, None)
    assert each.phase == 1


def test_wait_describes_the_barrier() -> None:
    each = barrier(2)
    each.expect_tx(4096, None)
    text = each.wait(0, HERE).describe()
    assert "full[3] parity 0" in text
    assert "2 of 2 arrivals pending, 4096 bytes outstanding" in text


def test_named_barrier_completes_by_threads() -> None:
    named = NamedBarriers()
    for _ in range(3):
        first = named.arrive(1, 128, 1, None)
        assert not first.ready()
        second = named.arrive(1, 128, 127, None)
        assert first.ready()
        assert second.ready()
    waiting = named.arrive(2, 64, 32, None)
    assert not waiting.ready()
    assert "barrier 2 (32 of 64 threads" in waiting.describe()


@pytest.mark.parametrize(("number", "threads"), [(16, 128), (-1, 128), (1, 0), (1, 100)])
def test_named_barrier_limits(number: int, threads: int) -> None:
    with raises("TL851"):
        NamedBarriers().arrive(number, threads, 1, HERE)


def test_named_barrier_with_two_counts_or_too_many_threads() -> None:
    named = NamedBarriers()
    named.arrive(1, 128, 32, None)
    with raises("TL851"):
        named.arrive(1, 256, 32, HERE)
    with raises("TL851"):
        named.arrive(1, 128, 128, HERE)


# ---- asynchronous operations --------------------------------------------------------------------------------------------------


def op(log: list[str], text: str, queue: object = None) -> AsyncOp:
    return AsyncOp(text, lambda: log.append(text), queue or object(), None)


@pytest.mark.parametrize(("newest_first", "expected"), [(False, "abcd"), (True, "dbac")])
def test_order_of_effects(newest_first: bool, expected: str) -> None:
    """b and d are independent; a comes before c, whatever the order, since they share a queue."""
    log: list[str] = []
    engine = AsyncEngine(at_issue=False, newest_first=newest_first)
    for text in "abcd":
        engine.issue(op(log, text, "queue" if text in "ac" else None))
    assert log == []
    while engine.advance():
        pass
    assert "".join(log) == expected
    assert not engine.pending


def test_eager_effects_at_issue() -> None:
    log: list[str] = []
    engine = AsyncEngine(at_issue=True, newest_first=False)
    issued = engine.issue(op(log, "a"))
    assert log == ["a"]
    assert issued.done


@pytest.mark.parametrize("pending", [0, 1, 2, 3])
def test_groups_wait_for_all_but_the_newest(pending: int) -> None:
    log: list[str] = []
    groups = Groups()
    ops = [op(log, text) for text in "abc"]
    for each in ops:
        groups.uncommitted.append(each)
        groups.commit()
    groups.uncommitted.append(op(log, "d"))
    wait = groups.wait(pending, "wait_group", None)
    assert wait.ready() is (pending == 3)
    for each in ops[: 3 - pending]:
        each.done = True
    assert wait.ready()
    assert groups.retire(pending) == ops[: 3 - pending]
    assert [each.text for each in groups.unwaited()] == list("abcd")[3 - pending :]


def test_an_empty_group_counts() -> None:
    groups = Groups()
    groups.uncommitted.append(op([], "a"))
    groups.commit()
    groups.commit()
    assert not groups.wait(1, "wait_group", None).ready()
    assert groups.wait(2, "wait_group", None).ready()


# ---- registers ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threads", "blocks", "at_entry"), [(256, 1, 256), (256, 2, 128), (384, 1, 168), (288, 1, 168), (160, 2, 168), (128, 1, 256)]
)
def test_registers_at_entry(threads: int, blocks: int, at_entry: int) -> None:
    assert RegisterPool(threads, blocks).at_entry == at_entry


def test_an_increase_waits_for_a_decrease() -> None:
    pool = RegisterPool(384, 1)
    first, second = pool.set(1, 240, True, None), pool.set(2, 240, True, None)
    assert not first.ready()
    assert not second.ready()
    assert "free" in first.describe()
    pool.set(0, 24, False, None)
    assert first.ready()
    assert second.ready()
    assert first.ready()  # asking again takes nothing more
    assert pool.free == 0


def test_an_increase_past_the_register_file_never_comes() -> None:
    pool = RegisterPool(384, 1)
    pool.set(0, 32, False, None)
    assert pool.set(1, 240, True, None).ready()
    assert not pool.set(2, 240, True, None).ready()


@pytest.mark.parametrize(("count", "increase"), [(20, False), (264, True), (100, True), (200, False)])
def test_register_counts_that_are_none(count: int, increase: bool) -> None:
    with raises("TL850"):
        RegisterPool(384, 1).set(0, count, increase, HERE)


def test_registers_in_the_wrong_direction() -> None:
    pool = RegisterPool(256, 2)
    pool.set(0, 24, False, None)
    with raises("TL850"):
        pool.set(0, 16 + 24, False, HERE)
    pool.set(1, 232, True, None).ready()
    with raises("TL850"):
        pool.set(1, 200, True, HERE)
