"""The producer's walk: control flow and loads, nothing else."""
from __future__ import annotations

from dataclasses import dataclass

from tilelang.errors import InternalError
from tilelang.ir import device as d
from tilelang.ir import tile
from tilelang.ir.text import render_statement
from tilelang.ir.walk import walk
from tilelang.passes.lower_copy import lower_tma_load
from tilelang.passes.lower_ring import Barriers, Ring
from tilelang.passes.plans import Plans, Site


def producer_role(kernel: tile.Kernel, plans: Plans, barriers: tuple[Barriers, ...]) -> d.Role:
    """A warpgroup that gives its registers away, of which one thread waits for empty slots and loads."""
    producer = _Producer(plans, tuple(Ring.start(channel, pair) for channel, pair in zip(plans.channels, barriers, strict=True)))
    declare = tuple(stmt for ring in producer.rings for stmt in ring.declare())
    return d.Role(
        name="producer", first_thread=plans.roles.consumer_threads, threads=plans.roles.producer_threads,
        text="producer warpgroup: one thread keeps the rings full",
        body=(
            d.SetMaxRegisters(count=plans.roles.producer_registers, increase=False),
            d.Elected(warp=0, body=(*declare, *producer.body(kernel.body))),
        ),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Producer:
    plans: Plans
    rings: tuple[Ring, ...]

    def body(self, body: tile.Body) -> d.Body:
        """The loads of a statement list; a let only where something after it uses it."""
        lowered: d.Body = ()
        for stmt in reversed(body):
            lowered = self._statement(stmt, lowered) + lowered
        return lowered

    def _statement(self, stmt: tile.Stmt, after: d.Body) -> d.Body:
        match stmt:
            case tile.Copy():
                return self._copy(stmt)
            case tile.For():
                return lower_for(stmt, self.body(stmt.body))
            case tile.Let():
                return lower_let(stmt, after)
            case tile.Gemm() | tile.Fill():
                return ()
        raise InternalError(f"no lowering for {type(stmt).__name__}", code="TL902", span=stmt.span)

    def _copy(self, copy: tile.Copy) -> d.Body:
        """A whole group of loads at its last copy, by when every index is known."""
        for ring in self.rings:
            for site in ring.channel.sites:
                if site.copies[-1] is copy:
                    return self._fill_slot(site, ring)
        return ()

    def _fill_slot(self, site: Site, ring: Ring) -> d.Body:
        span = site.copies[0].span
        loads = tuple(self._load(copy, ring) for copy in site.copies)
        return (ring.wait_empty(span), ring.expect(span), *loads, ring.advance(span))

    def _load(self, copy: tile.Copy, ring: Ring) -> d.Stmt:
        plan, array = self.plans.copies[copy], self.plans.shared.arrays[copy.dst.buffer]
        if plan.tma is None:
            raise InternalError("a load without a tensor map", code="TL902", span=copy.span)
        full = d.BarrierRef(ring.barriers.full, ring.slot)
        body = lower_tma_load(plan.tma, copy.src, array, ring.offset(array.stage_bytes), full, copy.span)
        return d.TileOp(text=render_statement(copy).strip(), body=body, span=copy.span)


def lower_for(loop: tile.For, body: d.Body) -> d.Body:
    """The loop around what is left of its body; nothing around nothing."""
    if not body:
        return ()
    return (d.For(var=loop.var, start=loop.start, stop=loop.stop, step=loop.step, body=body, span=loop.span),)


def lower_let(let: tile.Let, after: d.Body) -> d.Body:
    """A declaration, if what follows uses it."""
    used = any(node is let.var for node in walk(after))
    return (d.Declare(var=let.var, value=let.value, span=let.span),) if used else ()
