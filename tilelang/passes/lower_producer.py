"""The producer's walk: control flow and loads, nothing else."""
from __future__ import annotations

from dataclasses import dataclass

from tilelang.errors import InternalError
from tilelang.ir import device as d
from tilelang.ir import tile
from tilelang.ir.buffer import Region
from tilelang.ir.text import render_statement
from tilelang.passes.access import leaves, statements
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
        """What has loads in it, sets a scalar that loads depend on, or leaves the loop that it is in."""
        return leaves(stmt) or any(self._is_load(inner) or self._sets_needed(inner) for inner in statements((stmt,)))

    def _is_load(self, stmt: tile.Stmt) -> bool:
        return isinstance(stmt, tile.Copy) and self.plans.copies[stmt].kind is CopyKind.TMA_LOAD

    def _sets_needed(self, stmt: tile.Stmt) -> bool:
        return isinstance(stmt, tile.Store) and stmt.buffer in self.plans.producer_scalars

    def statement(self, stmt: tile.Stmt) -> d.Body:
        """Scalars that no load depends on are the consumers' business."""
        if isinstance(stmt, tile.Let) and stmt.var not in self.plans.producer_scalars:
            return ()
        if isinstance(stmt, tile.Store) and not self._sets_needed(stmt):
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
