"""The register array of every fragment: accumulators in rows of one instruction, all others flat, narrow elements packed where
neighbours share a thread."""
from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilelang.errors import Unsupported
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import Registers
from tilelang.ir.tile import Body, Gemm, Parallel, Reduce
from tilelang.layout.digits import Axis, Layout, real_digits
from tilelang.passes.access import statements
from tilelang.passes.fragment_access import Access, kept_dims, loop_accesses
from tilelang.passes.plans import GemmPlan

REGISTER_BITS = 32


def plan_registers(
    body: Body, layouts: Mapping[Buffer, Layout], loops: Mapping[Parallel, Layout], accumulators: Mapping[Buffer, GemmPlan]
) -> dict[Buffer, Registers]:
    """One array for each fragment that is no view.  Raises Unsupported for an operand of wgmma that some loop cannot write in
    pairs."""
    operands = {stmt.a.buffer for stmt in statements(body) if isinstance(stmt, Gemm)}
    found = {}
    for buffer, layout in layouts.items():
        if buffer.view_of is None:
            packed = _packs(buffer, layout) and _walked_by_vectors(buffer, body, layouts, loops)
            if buffer in operands and not packed:
                raise Unsupported(
                    f"{buffer.name} is read by T.gemm from registers, in pairs along a row, and some loop goes over it the other "
                    "way",
                    code="TL340", span=buffer.span,
                    hint=f"let the innermost variable of every loop be the last index of {buffer.name}",
                )  # fmt: skip
            found[buffer] = _registers(buffer, layout, accumulators.get(buffer), packed)
    return found


def _registers(buffer: Buffer, layout: Layout, plan: GemmPlan | None, packed: bool) -> Registers:
    if plan is not None:
        return Registers(name=buffer.name, dtype=buffer.dtype, shape=(plan.m_tiles * plan.n_tiles, plan.n // 2))
    return Registers(name=buffer.name, dtype=buffer.dtype, shape=(layout.extent(Axis.REGISTER),), packed=packed)


def _packs(buffer: Buffer, layout: Layout) -> bool:
    """Whether every 32-bit register holds whole neighbours: the innermost register digit counts in multiples of them."""
    if buffer.dtype.bits >= REGISTER_BITS:
        return False
    vector = layout.vector_digit()
    return vector is not None and real_digits(layout.dims[vector[0]])[-1].size % (REGISTER_BITS // buffer.dtype.bits) == 0


def _walked_by_vectors(
    buffer: Buffer, body: Body, layouts: Mapping[Buffer, Layout], loops: Mapping[Parallel, Layout]
) -> bool:
    """Whether every loop and reduction that touches the fragment does its innermost digit as a vector, so that whole registers
    come and go."""
    for walk, accesses in _walks(body, layouts, loops):
        vector = walk.vector_digit()
        for access in accesses:
            if access.buffer.storage is buffer:
                inner = layouts[access.buffer].vector_digit()
                if inner is None or vector is None or access.dims[inner[0]] != vector[0]:
                    return False
    return True


def _walks(
    body: Body, layouts: Mapping[Buffer, Layout], loops: Mapping[Parallel, Layout]
) -> Iterator[tuple[Layout, tuple[Access, ...]]]:
    """(layout of the points, fragments touched at them) of every loop and reduction."""
    for stmt in statements(body):
        if isinstance(stmt, Parallel):
            yield loops[stmt], loop_accesses(stmt)
        elif isinstance(stmt, Reduce):
            source = Access(stmt.src.buffer, tuple(range(stmt.src.buffer.rank)))
            yield layouts[stmt.src.buffer], (source, Access(stmt.dst.buffer, kept_dims(stmt)))
