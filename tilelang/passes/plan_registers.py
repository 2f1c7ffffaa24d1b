"""The register array of every fragment: accumulators in rows of one instruction, all others flat, narrow elements packed where
neighbours share a thread."""
from __future__ import annotations

from collections.abc import Mapping

from tilelang.ir.buffer import Buffer
from tilelang.ir.device import Registers
from tilelang.layout.digits import Axis, Digit, Layout
from tilelang.passes.plans import GemmPlan

REGISTER_BITS = 32


def plan_registers(layouts: Mapping[Buffer, Layout], accumulators: Mapping[Buffer, GemmPlan]) -> dict[Buffer, Registers]:
    """One array for each fragment that is no view."""
    return {
        buffer: _registers(buffer, layout, accumulators.get(buffer)) for buffer, layout in layouts.items() if buffer.view_of is None
    }


def _registers(buffer: Buffer, layout: Layout, plan: GemmPlan | None) -> Registers:
    if plan is not None:
        return Registers(name=buffer.name, dtype=buffer.dtype, shape=(plan.m_tiles * plan.n_tiles, plan.n // 2))
    count = layout.extent(Axis.REGISTER)
    return Registers(name=buffer.name, dtype=buffer.dtype, shape=(count,), packed=_packs(buffer, layout))


def _packs(buffer: Buffer, layout: Layout) -> bool:
    """Whether every 32-bit register holds whole neighbours: the innermost register digit counts in multiples of them."""
    if buffer.dtype.bits >= REGISTER_BITS:
        return False
    inner = _innermost(layout)
    return inner is not None and inner.size % (REGISTER_BITS // buffer.dtype.bits) == 0


def _innermost(layout: Layout) -> Digit | None:
    """The register digit of stride 1, if it is the last digit of its dimension."""
    for dim in layout.dims:
        real = [digit for digit in dim if digit.size > 1]
        if real and real[-1].axis is Axis.REGISTER and real[-1].stride == 1:
            return real[-1]
    return None
