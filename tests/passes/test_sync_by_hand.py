"""Barriers inside a team and proxy fences, statement by statement."""
from __future__ import annotations

from tests.passes.maker import Maker
from tests.passes.programs import BX, K
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer, Mbarriers
from tilelang.ir.expr import Const
from tilelang.ir.tile import Kernel, MbarrierArrive, MbarrierWait, Stmt, SyncThreads, Warpgroups
from tilelang.ir.types import DType, Scope
from tilelang.passes.plan_sync_by_hand import plan_sync_by_hand
from tilelang.passes.plans import CopyKind, CopyPlan
from tilelang.passes.teams import whole_block

FULL = Mbarriers("full", (1,), DType("uint64"), Scope.BARRIER, arrivals=(128,))


class Tiles(Maker):
    """Two shared tiles, a tensor, an accumulator; copies are loops or TMA loads."""

    def __init__(self) -> None:
        super().__init__()
        self.c = self.tensor("C", 64, 64)
        self.a, self.b, self.acc = self.shared("a", 64, 64), self.shared("b", 64, 64), self.fragment("acc", 64, 64)
        self.plans: dict[tile.Copy, CopyPlan] = {}

    def load(self, dst: Buffer) -> tile.TmaCopy:
        copy = tile.TmaCopy(src=self.c.whole(), dst=dst.whole(), barriers=FULL, index=Const(0))
        self.plans[copy] = CopyPlan(CopyKind.TMA_LOAD)
        return copy

    def store(self, src: Buffer) -> tile.TmaCopy:
        copy = tile.TmaCopy(src=src.whole(), dst=self.c.whole())
        self.plans[copy] = CopyPlan(CopyKind.TMA_STORE)
        return copy

    def product(self) -> tile.Gemm:
        return self.gemm(self.a, self.b, self.acc)

    def found(self, *body: Stmt, threads: int = 256) -> dict[Stmt, bool]:
        """Where a barrier (for an arrival or a meeting: a fence) stands, and whether it has a fence."""
        kernel: Kernel = self.kernel({BX: 1}, *body, threads=threads)
        syncs = plan_sync_by_hand(kernel.body, whole_block(kernel), self.plans, {})
        return {stmt: sync.fence for stmt, sync in syncs.items()}


def only(*groups_and_body: int | Stmt) -> Warpgroups:
    groups = tuple(each for each in groups_and_body if isinstance(each, int))
    return Warpgroups(groups=groups, body=tuple(each for each in groups_and_body if isinstance(each, Stmt)))


def arrive() -> MbarrierArrive:
    return MbarrierArrive(barriers=FULL, index=Const(0))


def wait() -> MbarrierWait:
    return MbarrierWait(barriers=FULL, index=Const(0), parity=Const(0))


def test_order_between_teams_is_the_authors() -> None:
    mk = Tiles()
    assert mk.found(only(0, mk.clear(mk.a)), only(1, mk.fill(mk.a, 1)), only(0, mk.load(mk.b)), only(1, mk.load(mk.b))) == {}


def test_a_team_meets_over_its_own_writes() -> None:
    mk = Tiles()
    again = mk.fill(mk.a, 1)
    assert mk.found(only(0, mk.clear(mk.a), again)) == {again: False}


def test_tma_and_tensor_core_need_a_fence() -> None:
    mk = Tiles()
    product = mk.product()
    assert mk.found(only(0, mk.clear(mk.a), product)) == {product: True}
    mk = Tiles()
    store = mk.store(mk.a)
    assert mk.found(only(1, mk.clear(mk.a), store)) == {store: True}


def test_a_load_waits_for_the_teams_own_readers_and_nobody_elses() -> None:
    mk = Tiles()
    load, product = mk.load(mk.a), mk.product()
    assert mk.found(mk.loop(K, 3, only(0, load, arrive(), wait(), product))) == {load: False}
    mk = Tiles()
    assert mk.found(mk.loop(K, 3, only(0, mk.load(mk.a), arrive()), only(1, wait(), mk.product()))) == {}


def test_an_arrival_after_stores_that_are_read_asynchronously_is_fenced() -> None:
    mk = Tiles()
    first, second = arrive(), arrive()
    assert mk.found(only(0, mk.clear(mk.a), first, second), only(1, wait(), mk.product())) == {first: True}
    mk = Tiles()
    assert mk.found(only(0, mk.clear(mk.a), tile.FenceProxyAsync(), arrive()), only(1, wait(), mk.product())) == {}
    mk = Tiles()
    assert mk.found(only(0, mk.clear(mk.a), arrive()), only(1, wait(), mk.fill(mk.a, 1))) == {}, "nobody reads it asynchronously"


def test_an_arrival_in_a_loop_is_fenced_for_the_round_before() -> None:
    mk = Tiles()
    arrival, clear = arrive(), mk.clear(mk.a)
    found = mk.found(mk.loop(K, 3, only(0, arrival, clear)), only(1, mk.product()))
    assert found == {arrival: True, clear: False}


def test_the_authors_meetings_count() -> None:
    mk = Tiles()
    meet = SyncThreads()
    assert mk.found(mk.clear(mk.a), meet, only(0, mk.product())) == {meet: True}, "its fence alone"
    mk = Tiles()
    assert mk.found(mk.clear(mk.a), tile.FenceProxyAsync(), SyncThreads(), only(0, mk.product())) == {}
    mk = Tiles()
    for threads in (128, 256):
        named = SyncThreads(barrier_id=2, threads=threads)
        assert mk.found(only(0, mk.clear(mk.a), named, mk.fill(mk.a, 1))) == {}, "all of the team are among them"
        mk = Tiles()
    again = mk.fill(mk.a, 1)
    assert mk.found(only(0, mk.clear(mk.a), SyncThreads(barrier_id=2, threads=64), again)) == {again: False}


def test_all_meet_before_a_part_goes_on_with_what_all_wrote() -> None:
    mk = Tiles()
    part = only(0, mk.product())
    assert mk.found(mk.clear(mk.a), part) == {part: True}
    mk = Tiles()
    inner = only(1, mk.product())
    outer = only(0, 1, mk.clear(mk.a), inner)
    assert mk.found(outer, threads=384) == {inner: True}


def test_all_meet_where_they_go_on_with_what_a_part_wrote() -> None:
    mk = Tiles()
    rest = mk.fill(mk.a, 1)
    assert mk.found(only(0, mk.clear(mk.a)), rest) == {rest: False}
    mk = Tiles()
    part, rest = only(0, mk.clear(mk.a)), mk.fill(mk.a, 1)
    assert mk.found(mk.loop(K, 2, part, rest)) == {rest: False, part: False}, "and before the part's next round"
