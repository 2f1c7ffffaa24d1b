"""Vector clocks and histories of memory, by hand and against a plain model with one clock for each thread."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tilelang.sim.clocks import ASYNC_GLOBAL, ASYNC_SHARED, GENERIC, IN_TIME, Clocks, Components, agents_of
from tilelang.sim.history import History

FOUR_WARPS = Components(warps=4, mbarriers=2)


def agents(*numbers: int) -> np.ndarray:
    return np.array(numbers)


def test_components_have_numbers_of_their_own() -> None:
    c = FOUR_WARPS
    numbers = [
        *range(c.agents), *(c.wgmma(warp) for warp in range(c.warps)), *(c.bulk_reads(agent) for agent in range(c.agents)),
        *(c.bulk_writes(agent) for agent in range(c.agents)), *(c.mbarrier(number) for number in range(c.mbarriers)),
    ]  # fmt: skip
    assert sorted(numbers) == list(range(c.count))


def test_agents_of_threads() -> None:
    assert agents_of(np.array([0, 1, 31, 32, 33, 127])).tolist() == [0, 1, 1, 2, 3, 7]


def test_publishing_covers_the_past_alone() -> None:
    clocks = Clocks(FOUR_WARPS)
    view = clocks.publish(agents(2))
    assert view[GENERIC, 2] == 1
    assert clocks.time[2] == 2
    clocks.learn(agents(4, 5), view)
    assert clocks.known[GENERIC, 4, 2] == clocks.known[GENERIC, 5, 2] == 1
    assert clocks.known[GENERIC, 6, 2] == 0


def test_what_is_learnt_is_passed_on() -> None:
    clocks = Clocks(FOUR_WARPS)
    clocks.learn(agents(2), clocks.publish(agents(0)))
    clocks.learn(agents(4), clocks.publish(agents(2)))
    assert clocks.known[GENERIC, 4, 0] == 1


def test_only_a_fence_makes_stores_visible_to_asynchronous_accesses() -> None:
    clocks = Clocks(FOUR_WARPS)
    clocks.learn(agents(2), clocks.publish(agents(0)))
    assert clocks.known[ASYNC_SHARED, 2, 0] == 0
    clocks.fence_async(agents(2))
    assert clocks.known[ASYNC_SHARED, 2, 0] == 1  # of another, since it has been seen
    assert clocks.known[ASYNC_SHARED, 2, 2] == 1  # its own
    assert clocks.time[2] == 2
    assert clocks.known[ASYNC_GLOBAL, 2].max() == 0
    view = clocks.publish(agents(2))
    clocks.learn(agents(4), view)
    assert clocks.known[ASYNC_SHARED, 4, 2] == 1


def test_a_fence_does_not_cover_what_is_learnt_later() -> None:
    clocks = Clocks(FOUR_WARPS)
    view = clocks.publish(agents(0))
    clocks.fence_async(agents(2))
    clocks.learn(agents(2), view)
    assert clocks.known[ASYNC_SHARED, 2, 0] == 0


def test_finished_asynchronous_work_is_seen_by_every_proxy() -> None:
    clocks = Clocks(FOUR_WARPS)
    clocks.learn_of(agents(0, 1), FOUR_WARPS.wgmma(0), 3)
    assert (clocks.known[:, :2, FOUR_WARPS.wgmma(0)] == 3).all()
    clocks.learn_of(agents(0), FOUR_WARPS.wgmma(0), 2)
    assert clocks.known[GENERIC, 0, FOUR_WARPS.wgmma(0)] == 3


def test_warps_that_meet() -> None:
    clocks = Clocks(FOUR_WARPS)
    clocks.learn(agents(2), clocks.publish(agents(6)))
    clocks.sync_warps(np.array([1, 2]))
    assert clocks.known[GENERIC, 3, 6] == 1  # of its lane 0
    assert clocks.known[GENERIC, 2, 3] == clocks.known[GENERIC, 3, 2] == 1
    assert clocks.known[GENERIC, 4, 2] == 0  # the other warp met by itself
    assert clocks.time.tolist() == [1, 1, 2, 2, 2, 2, 2, 1]


def test_what_is_set_going_comes_before_in_time_only() -> None:
    clocks = Clocks(FOUR_WARPS)
    clocks.learn(agents(2), clocks.publish(agents(0)))
    known = clocks.issue(2)
    assert known[0] == 1
    assert known[2] == 1
    assert clocks.time[2] == 2
    assert clocks.known[IN_TIME, 2, 0] == 1


# ---- histories ----------------------------------------------------------------------------------------------------------------


def write(history: History, clocks: Clocks, cell: int, thread: int, record: int = 0) -> bool:
    """Whether thread `thread` may write a cell; it does then."""
    return _access(history, clocks, cell, thread, record, True)


def read(history: History, clocks: Clocks, cell: int, thread: int, record: int = 0) -> bool:
    return _access(history, clocks, cell, thread, record, False)


def _access(history: History, clocks: Clocks, cell: int, thread: int, record: int, is_write: bool) -> bool:
    cells, threads = np.array([cell]), np.array([thread])
    who, known = agents_of(threads), clocks.known[GENERIC]
    if history.check_threads(cells, who, threads, known, is_write) is not None:
        return False
    times = clocks.time[who]
    if is_write:
        history.record_write(cells, who, threads, times, record)
    else:
        history.record_read(cells, who, threads, times, known[who, who], record)
    return True


def test_a_thread_needs_no_order_with_itself() -> None:
    history, clocks = History(4), Clocks(FOUR_WARPS)
    assert write(history, clocks, 0, 40)
    assert read(history, clocks, 0, 40)
    assert write(history, clocks, 0, 40)
    assert not read(history, clocks, 0, 41)  # another lane of the same agent
    assert not read(history, clocks, 0, 32)
    assert read(history, clocks, 1, 41)


def test_several_lanes_that_read_are_all_remembered() -> None:
    history, clocks = History(1), Clocks(FOUR_WARPS)
    assert read(history, clocks, 0, 40)
    assert read(history, clocks, 0, 41)
    assert not write(history, clocks, 0, 41)
    clocks.sync_warps(np.array([1]))
    assert write(history, clocks, 0, 41)


def test_lanes_that_read_one_cell_at_once() -> None:
    history, clocks = History(1), Clocks(FOUR_WARPS)
    cells, threads = np.array([0, 0]), np.array([40, 41])
    who, known = agents_of(threads), clocks.known[GENERIC]
    history.record_read(cells, who, threads, clocks.time[who], known[who, who], 0)
    assert not write(history, clocks, 0, 40)
    assert not write(history, clocks, 0, 41)


def test_conflicts_name_the_earlier_access() -> None:
    history, clocks = History(8), Clocks(FOUR_WARPS)
    assert write(history, clocks, 5, 70, record=9)
    cells, threads = np.array([4, 5]), np.array([1, 2])
    found = history.check_threads(cells, agents_of(threads), threads, clocks.known[GENERIC], False)
    assert found is not None
    assert (found.position, found.record, found.wrote, found.component, found.time, found.thread) == (1, 9, True, 5, 1, 70)


def test_asynchronous_accesses() -> None:
    history, known = History(4), np.zeros((1, FOUR_WARPS.count), np.int32)
    component = FOUR_WARPS.mbarrier(0)
    cells = np.arange(4)
    assert history.check_async(cells, known, 0, known[0]) is None
    history.record_async(cells, component, 1, True, 3)
    found = history.check_async(cells[2:], known, 0, None)
    assert found is not None
    assert (found.record, found.wrote, found.component, found.thread) == (3, True, component, -1)
    known[0, component] = 1
    assert history.check_async(cells, known, 0, None) is None
    history.record_async(cells, FOUR_WARPS.wgmma(0), 2, False, 4)
    assert history.check_async(cells, known, 0, None) is None  # two reads
    found = history.check_async(cells, known, 0, known[0])
    assert found is not None
    assert (found.record, found.wrote, found.component) == (4, False, FOUR_WARPS.wgmma(0))


class Model:
    """The same with a vector clock for each thread, sets of accesses, and no shortcuts."""

    def __init__(self, threads: int) -> None:
        self.knows: list[set[int]] = [set() for _ in range(threads)]
        self.done: list[tuple[int, int, bool, int]] = []

    def access(self, cell: int, thread: int, is_write: bool) -> bool:
        for number, (other_cell, other, wrote, _) in enumerate(self.done):
            if other_cell == cell and other != thread and (wrote or is_write) and number not in self.knows[thread]:
                return False
        self.done.append((cell, thread, is_write, len(self.done)))
        self.knows[thread].add(len(self.done) - 1)
        return True

    def meet(self, threads: list[int]) -> None:
        together = set().union(*(self.knows[thread] for thread in threads))
        for thread in threads:
            self.knows[thread] |= together


@pytest.mark.parametrize("seed", range(60))
def test_against_a_model_with_a_clock_for_each_thread(seed: int) -> None:
    """Random accesses, warps that meet, and barriers of whole warps: exactly the same races are found."""
    rng = random.Random(seed)
    history, clocks, model = History(3), Clocks(FOUR_WARPS), Model(128)
    lanes = (0, 1, 2)
    for step in range(60):
        kind = rng.random()
        if kind < 0.75:
            cell, thread, is_write = rng.randrange(3), 32 * rng.randrange(4) + rng.choice(lanes), rng.random() < 0.4
            expected = model.access(cell, thread, is_write)
            assert _access(history, clocks, cell, thread, step, is_write) == expected, (seed, step)
            if not expected:
                return
        elif kind < 0.88:
            warp = rng.randrange(4)
            clocks.sync_warps(np.array([warp]))
            model.meet([32 * warp + lane for lane in range(32)])
        else:
            warps = rng.sample(range(4), rng.randint(2, 4))
            who = np.array(sorted(agent for warp in warps for agent in (2 * warp, 2 * warp + 1)))
            clocks.learn(who, clocks.publish(who))
            model.meet([32 * warp + lane for warp in warps for lane in range(32)])
