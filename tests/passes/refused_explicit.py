"""The smallest programs that are refused of those divided and synchronised by hand, one for each reason."""
from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

from tests.passes.maker import Maker, region, tile
from tests.passes.programs import BX
from tilelang.ir.buffer import Buffer, Mbarriers, Region
from tilelang.ir.expr import Const
from tilelang.ir.tile import Gemm, Kernel, MbarrierArrive, SetMaxRegisters, Stmt, SyncThreads, TmaCopy, Warpgroups
from tilelang.ir.types import DType, Scope, WarpPolicy


class ByHand(Maker):
    """A maker with one mbarrier."""

    def __init__(self) -> None:
        super().__init__()
        self.full = Mbarriers("full", (1,), DType("uint64"), Scope.BARRIER, self.span(), arrivals=(128,))
        self.buffers.append(self.full)

    def load(self, src: Buffer | Region, dst: Buffer | Region) -> TmaCopy:
        return TmaCopy(src=region(src), dst=region(dst), barriers=self.full, index=Const(0), span=self.span())

    def only(self, *groups_and_body: int | Stmt) -> Warpgroups:
        groups = tuple(each for each in groups_and_body if isinstance(each, int))
        body = tuple(each for each in groups_and_body if isinstance(each, Stmt))
        return Warpgroups(groups=groups, body=body, span=self.span())

    def registers(self, count: int, increase: bool) -> SetMaxRegisters:
        return SetMaxRegisters(count=count, increase=increase, span=self.span())


def planned(*kinds: str) -> Kernel:
    mk = Maker()
    a, c = mk.tensor("A", 64, 64), mk.tensor("C", 64, 64)
    stmt: Stmt = SetMaxRegisters(count=240, increase=True, span=mk.span())
    if "meeting" in kinds:
        stmt = SyncThreads(barrier_id=1, threads=128, span=mk.span())
    tile_ = mk.shared("tile", 64, 64)
    return mk.kernel({BX: 1}, stmt, mk.copy(a, tile_), mk.copy(tile_, c))


def loaded(shape: tuple[int, int], dtype: str = "float16") -> Kernel:
    mk = ByHand()
    a, a_s = mk.tensor("A", *shape), mk.shared("A_s", 64, 32, dtype=dtype)
    return mk.kernel({BX: 1}, mk.load(tile(a, (0, 0), 64, 32), a_s))


def part_of_a_slot() -> Kernel:
    mk = ByHand()
    a, a_s = mk.tensor("A", 64, 32), mk.shared("A_s", 2, 64, 32)
    return mk.kernel({BX: 1}, mk.load(tile(a, (0, 0), 32, 32), tile(a_s, (1, 32, 0), 1, 32, 32)))


def stored_with_a_pitch() -> Kernel:
    mk = Maker()
    c, tile_ = mk.tensor("C", 64, 36), mk.shared("tile", 64, 36)
    return mk.kernel({BX: 1}, mk.fill(tile_, 1), TmaCopy(src=tile_.whole(), dst=c.whole(), span=mk.span()))


def multiplied(row: int, k: int) -> Kernel:
    """A is 64 x k from `row` on, of a tile of 128 x 64."""
    mk = ByHand()
    c, a_s, b_s, acc = mk.tensor("C", 64, 64), mk.shared("A_s", 2, 128, 64), mk.shared("B_s", k, 64), mk.fragment("acc", 64, 64)
    gemm = Gemm(a=tile(a_s, (0, row, 0), 1, 64, k), b=b_s.whole(), c=acc.whole(), clear_accum=True, span=mk.span())
    return mk.kernel({BX: 1}, gemm, mk.copy(acc, c))


def layouts_of_teams() -> Kernel:
    """One warpgroup reads 64 columns of B_s at once, the other two 32 each."""
    mk = ByHand()
    c, a_s, b_s = mk.tensor("C", 64, 64), mk.shared("A_s", 64, 32), mk.shared("B_s", 32, 64)
    one, two = mk.fragment("one", 64, 64), mk.fragment("two", 64, 64)
    first = mk.gemm(a_s, b_s, one, clear_accum=True)
    second = mk.gemm(a_s, b_s, two, clear_accum=True, policy=WarpPolicy.FULL_COL)
    return mk.kernel({BX: 1}, mk.only(0, first, mk.copy(one, c)), mk.only(1, 2, second, mk.copy(two, c)), threads=384)


def shared_fragment() -> Kernel:
    mk = ByHand()
    c, x = mk.tensor("C", 64, 64, dtype="float32"), mk.fragment("x", 64, 64)
    return mk.kernel({BX: 1}, mk.only(0, mk.clear(x)), mk.only(1, mk.copy(x, c)), threads=256)


def two_fragments() -> Kernel:
    mk = ByHand()
    x, y = mk.fragment("x", 64, 64), mk.fragment("y", 64, 64)
    return mk.kernel({BX: 1}, mk.only(0, mk.clear(x)), mk.only(1, mk.clear(y)), mk.copy(x, y), threads=256)


def many_barriers() -> Kernel:
    mk = ByHand()
    teams = [groups for size in (1, 2, 3) for groups in combinations(range(4), size)]
    arrivals = [mk.only(*groups, MbarrierArrive(barriers=mk.full, index=Const(0), span=mk.span())) for groups in teams]
    meetings = [SyncThreads(barrier_id=number, threads=512, span=mk.span()) for number in (1, 2)]
    return mk.kernel({BX: 1}, *meetings, *arrivals, threads=512)


def mbarriers(count: int) -> Kernel:
    mk = ByHand()
    mk.buffers.append(Mbarriers("more", (count - 1,), DType("uint64"), Scope.BARRIER, mk.span(), arrivals=(128,) * (count - 1)))
    return mk.kernel({BX: 1})


def many_registers() -> Kernel:
    mk = ByHand()
    return mk.kernel({BX: 1}, mk.only(0, mk.registers(24, False)), mk.only(1, 2, 3, mk.registers(240, True)), threads=512)


def few_registers() -> Kernel:
    mk = ByHand()
    x, y = mk.tensor("X", 128, 128, dtype="float32"), mk.fragment("y", 128, 128)
    first = mk.only(1, mk.registers(240, True))
    return mk.kernel({BX: 1}, first, mk.only(0, mk.registers(40, False), mk.copy(x, y), mk.copy(y, x)), threads=256)


REFUSED_EXPLICIT: dict[str, Callable[[], Kernel]] = {
    "registers of planned roles": planned,
    "meeting of planned roles": lambda: planned("meeting"),
    "TMA load with a pitch of 72 bytes": lambda: loaded((64, 36)),
    "TMA load that converts": lambda: loaded((64, 32), dtype="float32"),
    "TMA load of a part of a slot": part_of_a_slot,
    "TMA store with a pitch of 72 bytes": stored_with_a_pitch,
    "part of an operand that splits K": lambda: multiplied(0, 32),
    "part of an operand at row 4": lambda: multiplied(4, 64),
    "operand in two layouts by two teams": layouts_of_teams,
    "fragment of two teams": shared_fragment,
    "statement of two teams": two_fragments,
    "named barriers": many_barriers,
    "mbarriers": lambda: mbarriers(129),
    "registers by hand": many_registers,
    "fragments beyond their registers": few_registers,
}
