"""Copies between global and shared memory as TMA instructions."""
from __future__ import annotations

from tilelang.errors import Span
from tilelang.ir import device as d
from tilelang.ir.buffer import Region
from tilelang.ir.device import SharedAddress, u32
from tilelang.ir.expr import INT32, Expr, convert
from tilelang.passes.lower_arith import add
from tilelang.passes.plans import Box, TmaPlan


def coordinates(region: Region, box: Box) -> tuple[Expr, ...]:
    """Where a box starts in the tensor, innermost dimension first."""
    return tuple(add(convert(base, INT32), step) for base, step in zip(reversed(region.base), reversed(box.steps), strict=True))


def lower_tma_load(
    plan: TmaPlan, region: Region, array: d.SharedArray, slot_offset: Expr, barrier: d.BarrierRef, span: Span | None
) -> d.Body:
    """The loads of one tile into one slot, which begins `slot_offset` bytes behind the start of `array`."""
    slot = add(SharedAddress(array), slot_offset)
    at = [(add(slot, u32(box.offset_bytes)), coordinates(region, box)) for box in plan.boxes]
    return tuple(d.TmaLoad(map=plan.map, address=to, barrier=barrier, coordinates=begin, span=span) for to, begin in at)


def lower_tma_store(plan: TmaPlan, region: Region, address: Expr, ordered: bool, span: Span | None) -> d.Body:
    """One thread stores a tile that lies complete in shared memory from `address` on, and waits until the memory may be written
    again; if `ordered`, after its earlier stores are complete."""
    stores = tuple(
        d.TmaStore(map=plan.map, address=add(address, u32(box.offset_bytes)), coordinates=coordinates(region, box), span=span)
        for box in plan.boxes
    )
    earlier = (d.BulkWaitGroup(pending=0, span=span),) if ordered else ()
    body = (*earlier, *stores, d.BulkCommitGroup(span=span), d.BulkWaitGroupRead(pending=0, span=span))
    return (d.Elected(warp=0, body=body, span=span),)
