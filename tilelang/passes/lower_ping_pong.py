"""Two consumer warpgroups that take tiles in turn, and the producer that fills the one ring for both.

    for each tile of mine:                                  (every second one; the producer: every one)
        ...                                                 what stands in front of the main loop
        wait for turn[me]                                   the other has seen its last slot full
        for k: wait for full, wgmma, wait for all but it, release the slot of the turn before
        arrive at turn[other]
        wait for the last wgmma, release its slot, skip the slots of the other's tile
        ...                                                 what stands behind the main loop

The turn is not only for speed: a wait for a parity cannot tell a phase from the one two before it, so a warpgroup may look at a
slot only when all fills before its own are known to be complete.  (PTX ISA, "mbarrier.try_wait": the phase parity.)
"""
from __future__ import annotations

from dataclasses import dataclass, field

from tilelang.errors import InternalError, Span
from tilelang.ir import device as d
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import BLOCK_IDX, i32, u32
from tilelang.ir.expr import INT32, UINT32, Expr, Var, binary, compare
from tilelang.layout.digits import WARP_THREADS
from tilelang.layout.fragments import WARPGROUP_THREADS
from tilelang.passes.lower_arith import add
from tilelang.passes.lower_consumer import CONSUMER_BARRIER, Consumer
from tilelang.passes.lower_order import lower_tile, tile_number
from tilelang.passes.lower_producer import Producer
from tilelang.passes.lower_ring import Barriers, Ring
from tilelang.passes.lower_role import start_rings
from tilelang.passes.plans import CONSUMER_GROUPS, PingPong, Plans


def make_turns() -> d.BarrierArray:
    """The mbarriers at which each warpgroup waits for its turn at the ring."""
    return d.BarrierArray(
        name="turn", count=CONSUMER_GROUPS, arrivals=WARPGROUP_THREADS // WARP_THREADS,
        text="every warp of the other warpgroup has seen its last slot full",
    )  # fmt: skip


def make_walk(kernel: tile.Kernel, plans: Plans) -> d.TileWalk:
    """The loop over tiles that every role has."""
    extents = [axis.extent for axis in kernel.grid if isinstance(axis.extent, int)]
    steps = [tuple(int(axis == at) for axis in range(len(extents))) for at in range(len(extents))]
    first, last = tuple(0 for _ in extents), tuple(extent - 1 for extent in extents)
    beside = [tuple(a + b for a, b in zip(first, step, strict=True)) for step in steps]
    beside += [tuple(a - b for a, b in zip(last, step, strict=True)) for step in steps]
    inside = [at for at in beside if all(0 <= index < extent for index, extent in zip(at, extents, strict=True))]
    numbers = (tile_number(tuple(extents), plans.order, at) for at in (first, *inside, last))
    axes = tuple(axis.var for axis in kernel.grid)
    return d.TileWalk(Var("tile", INT32), the_plan(plans).tiles, axes, tuple(dict.fromkeys(numbers)))


def ping_pong_roles(
    kernel: tile.Kernel, plans: Plans, barriers: tuple[Barriers, ...], turns: d.BarrierArray, walk: d.TileWalk
) -> list[d.Role]:
    """The consumers, and their producer."""
    consumers = [_consumer(kernel, plans, barriers, turns, walk, number) for number in range(CONSUMER_GROUPS)]
    return [*consumers, _producer(kernel, plans, barriers, walk)]


def the_plan(plans: Plans) -> PingPong:
    if plans.ping_pong is None:
        raise InternalError("warpgroups take tiles in turn without a plan", code="TL902")
    return plans.ping_pong


def _tiles(kernel: tile.Kernel, plans: Plans, walk: d.TileWalk, first: int, every: int, body: d.Body) -> d.Body:
    """`body` for every `every`-th of the block's tiles, from its `first` on."""
    blocks = the_plan(plans).blocks
    start, inside = add(BLOCK_IDX[0], i32(first * blocks)), (*lower_tile(kernel, plans.order, walk.tile), *body)
    return (d.For(var=walk.tile, start=start, stop=i32(walk.tiles), step=every * blocks, body=inside, span=kernel.span),)


def _producer(kernel: tile.Kernel, plans: Plans, barriers: tuple[Barriers, ...], walk: d.TileWalk) -> d.Role:
    roles = plans.roles
    producer = Producer(kernel, plans, start_rings(plans, barriers), {}, roles.consumer_threads, roles.producer_threads)
    work = producer.body(plans.body)
    body = _tiles(kernel, plans, walk, 0, 1, (*producer.scalars(), *work))
    registers = (d.SetMaxRegisters(count=roles.producer_registers, increase=False),) if roles.producer_registers else ()
    rings = tuple(stmt for ring in producer.rings for stmt in ring.declare())
    return d.Role(
        name="producer", first_thread=roles.consumer_threads, threads=roles.producer_threads,
        text="producer: one thread keeps the ring full, for one tile after the other",
        body=(*registers, d.Elected(warp=0, body=(*rings, *body))),
    )  # fmt: skip


def _consumer(
    kernel: tile.Kernel, plans: Plans, barriers: tuple[Barriers, ...], turns: d.BarrierArray, walk: d.TileWalk, number: int
) -> d.Role:
    taker = TurnTaker(
        kernel, plans, start_rings(plans, barriers), dict(plans.registers), number * WARPGROUP_THREADS, WARPGROUP_THREADS,
        number=number, turns=turns,
    )  # fmt: skip
    work = taker.body(plans.body)
    tiles = _tiles(kernel, plans, walk, number, CONSUMER_GROUPS, (*taker.scalars(), *taker.arrays_of_registers(), *work))
    count = plans.roles.consumer_registers
    increase = (d.SetMaxRegisters(count=count, increase=True),) if plans.roles.producer_registers else ()
    which = ("first", "second")[number]
    return d.Role(
        name=f"consumer_{number}", first_thread=number * WARPGROUP_THREADS, threads=WARPGROUP_THREADS,
        text=f"consumers of every {'other' if number else 'second'} tile, from the {which} on: compute and store",
        body=(*increase, *taker.position(), *taker.bases(), *tiles),
    )  # fmt: skip


@dataclass(slots=True)
class TurnTaker(Consumer):
    """The walk of one of the warpgroups: `number` 0 or 1."""

    number: int = field(kw_only=True)
    turns: d.BarrierArray = field(kw_only=True)
    turn: Var = field(init=False)
    behind: Var = field(init=False)

    def __post_init__(self) -> None:
        super(TurnTaker, self).__post_init__()
        self.turn, self.behind = Var("turn_phase", UINT32), Var("behind", UINT32)

    @property
    def main(self) -> Ring:
        """The ring of the main loop."""
        loop = the_plan(self.plans).loop
        return next(ring for ring in self.rings if ring.channel.sites[0].copies[0] in loop.body)

    def position(self) -> d.Body:
        """Where the warpgroup begins: at the fills for the block's tile of its number.  The first has its first turn without
        waiting: on a fresh barrier parity 1 counts as completed."""
        turns, main = the_plan(self.plans).turns, self.main
        rings = (stmt for ring in self.rings for stmt in ring.declare(self.number * (turns if ring is main else 1)))
        first = d.Declare(var=self.turn, value=u32(1 - self.number), mutable=True, text="parity of the next turn")
        behind = d.Declare(var=self.behind, value=u32(0), mutable=True, text="the slot of the turn before")
        return (*rings, first, behind)

    def work(self, stmt: tile.Stmt) -> d.Body:
        """The main loop in its turn, complete: what it read from other rings is released behind it."""
        work = super(TurnTaker, self).work(stmt)
        plan = the_plan(self.plans)
        return (*self._begin(stmt.span), *work, *self._end(plan, stmt.span)) if stmt is plan.loop else work

    def _begin(self, span: Span | None) -> d.Body:
        return (
            d.MbarrierWait(barrier=d.BarrierRef(self.turns, i32(self.number)), parity=self.turn, span=span),
            d.Assign(var=self.turn, value=binary("^", self.turn, u32(1)), span=span),
        )

    def _end(self, plan: PingPong, span: Span | None) -> d.Body:
        """The other's turn, then what is left of this one."""
        arrive = d.MbarrierArrive(barrier=d.BarrierRef(self.turns, i32(1 - self.number)), span=span)
        gemm = next(stmt for stmt in plan.loop.body if isinstance(stmt, tile.Gemm))
        return (
            d.Elected(warp=None, body=(arrive,), span=span),
            d.WgmmaWaitGroup(pending=0, span=gemm.span),
            d.FenceRegisters(registers=self.registers[gemm.c.buffer], span=gemm.span),
            self.main.release(gemm.span, self.behind),
            self.main.advance(span, plan.turns),
        )

    def _left_in_flight(self) -> int:
        return 1

    def _release(self, ring: Ring, stmt: tile.Stmt) -> d.Body:
        """In the main loop the slot of the turn before, whose gemm is done; there is none in the first turn."""
        if ring is not self.main:
            return super(TurnTaker, self)._release(ring, stmt)
        loop = the_plan(self.plans).loop
        release = d.If(
            condition=compare("!=", loop.var, loop.start), then=(ring.release(stmt.span, self.behind),), span=stmt.span
        )
        return (release, d.Assign(var=self.behind, value=ring.slot, span=stmt.span), ring.advance(stmt.span))

    def _advance(self, ring: Ring, stmt: tile.Stmt) -> d.Stmt:
        """Past the slot of the other's tile: what stands outside of the main loop fills one for each."""
        return ring.advance(stmt.span, CONSUMER_GROUPS)

    def _barrier(self, stmt: tile.Stmt) -> d.Stmt:
        return d.NamedBarrierSync(id=CONSUMER_BARRIER + self.number, threads=self.threads, span=stmt.span)

    def _first_byte(self, where: Buffer | tile.Copy) -> Expr:
        """Each warpgroup has a tile of its own to store from."""
        return add(super(TurnTaker, self)._first_byte(where), u32(self.number * self.plans.shared.arrays[where].stage_bytes))
