"""The producer's walk: control flow and loads, nothing else."""
from __future__ import annotations

from dataclasses import dataclass

from tilelang.errors import InternalError
from tilelang.ir import device as d
from tilelang.ir import tile
from tilelang.ir.buffer import Region
from tilelang.ir.text import render_statement
from tilelang.ir.types import Scope
from tilelang.passes.access import statements
from tilelang.passes.lower_copy import lower_tma_load
from tilelang.passes.lower_ring import Barriers, Ring
from tilelang.passes.lower_role import RoleWalk, start_rings
from tilelang.passes.plans import CopyKind, Plans, Site


def producer_role(kernel: tile.Kernel, plans: Plans, barriers: tuple[Barriers, ...]) -> d.Role:
    """Warps that give their registers away, of which one thread waits for empty slots and loads."""
    roles = plans.roles
    producer = Producer(kernel, plans, start_rings(plans, barriers), {}, roles.consumer_threads, roles.producer_threads)
    body = producer.body(plans.body)
    registers = (d.SetMaxRegisters(count=roles.producer_registers, increase=False),) if roles.producer_registers else ()
    return d.Role(
        name="producer", first_thread=roles.consumer_threads, threads=roles.producer_threads,
        text="producer: one thread keeps the rings full",
        body=(*registers, d.Elected(warp=0, body=(*producer.declarations(), *body))),
    )  # fmt: skip


@dataclass(slots=True)
class Producer(RoleWalk):
    """Fills the rings."""

    def keep(self, stmt: tile.Stmt) -> bool:
        """A loop with loads in it; in such a loop also a condition that leaves it, or sets a scalar."""
        inner = tuple(statements((stmt,)))
        if any(isinstance(s, tile.Copy) and self.plans.copies[s].kind is CopyKind.TMA_LOAD for s in inner):
            return True
        return isinstance(stmt, tile.If) and any(isinstance(s, (tile.Break, tile.Continue)) or _sets_scalar(s) for s in inner)

    def statement(self, stmt: tile.Stmt) -> d.Body:
        """Scalars whose values only the consumers know are not the producer's: no load depends on them."""
        known = self.plans.consumer_only
        if isinstance(stmt, tile.Let) and stmt.var in known:
            return ()
        if isinstance(stmt, tile.Store) and stmt.buffer in known:
            return ()
        return super(Producer, self).statement(stmt)

    def leaf(self, stmt: tile.Stmt) -> d.Body:
        """A whole group of loads at its last copy, by when every index is known."""
        if isinstance(stmt, tile.Copy):
            for ring in self.rings:
                for site in ring.channel.sites:
                    if site.copies[-1] is stmt:
                        return self._fill_slot(site, ring)
        return ()

    def _fill_slot(self, site: Site, ring: Ring) -> d.Body:
        span = site.copies[0].span
        loads = tuple(op for copy in site.copies for op in self._load(copy, ring))
        return (ring.wait_empty(span), ring.expect(span), *loads, ring.advance(span))

    def _load(self, copy: tile.Copy, ring: Ring) -> d.Body:
        plan, array = self.plans.copies[copy], self.plans.shared.arrays[copy.dst.buffer]
        if plan.tma is None:
            raise InternalError("a load without a tensor map", code="TL902", span=copy.span)
        before: list[d.Stmt] = []
        base = tuple(self.value(index, before, copy) for index in copy.src.base)
        source = Region(copy.src.buffer, base, copy.src.extents)
        full = d.BarrierRef(ring.barriers.full, ring.slot)
        body = lower_tma_load(plan.tma, source, array, ring.offset(array.stage_bytes), full, copy.span)
        return (d.TileOp(text=render_statement(copy).strip(), body=(*before, *body), span=copy.span),)


def _sets_scalar(stmt: tile.Stmt) -> bool:
    return isinstance(stmt, tile.Store) and stmt.buffer.scope is Scope.VAR
