"""wgmma and setmaxnreg: what a warpgroup of 128 aligned threads issues as one.  (PTX ISA, "wgmma.mma_async", "setmaxnreg".)"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from tilelang.errors import HazardError, InternalError
from tilelang.ir import device
from tilelang.sim import wgmma
from tilelang.sim.convert import Value
from tilelang.sim.strand import Group, Steps, Strand
from tilelang.sim.sync import AsyncOp, Wait

Element = tuple[device.Registers, tuple[int, ...]]
"""An element of a register array, or all elements below its leading indices."""


def _warpgroups(group: Group, what: str, strand: Strand) -> tuple[int, ...]:
    found = group.warpgroups()
    if not found:
        raise HazardError(
            f"{strand.name}: {what} needs whole warpgroups of 128 aligned threads; the role has threads {group.first_thread} to "
            f"{group.first_thread + group.threads - 1}",
            code="TL821", span=strand.span,
        )  # fmt: skip
    return found


# ---- multiply -----------------------------------------------------------------------------------------------------------------


def wgmma_ss(stmt: device.WgmmaSS, strand: Strand) -> Steps:
    """Both operands from shared memory."""
    indices = _accumulator(stmt, strand)

    def issue(group: Group, operands: list[Value]) -> None:
        for warpgroup in _warpgroups(group, "wgmma", strand):
            a, b, accumulate = (_agreed(operand, warpgroup, group, strand) for operand in operands)
            left = _from_shared(a, wgmma.M, stmt.a_mn_major, "A", stmt, strand, warpgroup)
            _issue(stmt, strand, warpgroup, [(stmt.accumulator.registers, indices)], left, b, bool(accumulate))

    return strand.meet(stmt, (stmt.a, stmt.b, stmt.accumulate), issue)


def wgmma_rs(stmt: device.WgmmaRS, strand: Strand) -> Steps:
    """A from registers, which stay untouched until a wait has covered the instruction; B from shared memory."""
    indices = _accumulator(stmt, strand)
    if stmt.a.dtype != stmt.dtype:
        raise InternalError(f"wgmma of {stmt.dtype} takes A from {stmt.a.name} of {stmt.a.dtype}", code="TL942", span=strand.span)
    *rest, last = (strand.uniform(index, "a register index") for index in stmt.a_first)
    fragment = [(*rest, last + i) for i in range(8)]

    def issue(group: Group, operands: list[Value]) -> None:
        for warpgroup in _warpgroups(group, "wgmma", strand):
            b, accumulate = (_agreed(operand, warpgroup, group, strand) for operand in operands)
            columns = slice(128 * warpgroup, 128 * warpgroup + 128)
            load = strand.block.registers.load
            values = [load(stmt.a, each, columns, None, (), strand.span) for each in fragment]
            tile = wgmma.tile_order(np.stack(values).astype(np.float32))
            held: list[Element] = [(stmt.accumulator.registers, indices), *((stmt.a, each) for each in fragment)]
            _issue(stmt, strand, warpgroup, held, lambda tile=tile: tile, b, bool(accumulate))

    return strand.meet(stmt, (stmt.b, stmt.accumulate), issue)


def _accumulator(stmt: device.WgmmaSS | device.WgmmaRS, strand: Strand) -> tuple[int, ...]:
    """Indices of the accumulator's row, with the shape and dtype of the instruction checked."""
    if stmt.dtype not in ("float16", "bfloat16") or stmt.n % 8 or not 8 <= stmt.n <= 256:
        raise InternalError(f"wgmma m64n{stmt.n}k16 of {stmt.dtype} is not modelled", code="TL942", span=strand.span)
    indices = tuple(strand.uniform(index, "a register index") for index in stmt.accumulator.indices)
    strand.block.registers.check_slice(stmt.accumulator.registers, indices, stmt.n // 2, strand.span)
    return indices


def _agreed(value: Value, warpgroup: int, group: Group, strand: Strand) -> int:
    """An operand on which the 128 threads of a warpgroup must agree."""
    if not isinstance(value, np.ndarray):
        return int(value)
    first = 128 * warpgroup - group.first_thread
    part = value[first : first + 128]
    if (part != part[0]).any():
        raise HazardError(
            f"{strand.name}: an operand of wgmma differs between threads of a warpgroup", code="TL842", span=strand.span
        )
    return int(part[0])


def _from_shared(
    word: int, extent: int, mn_major: bool, side: str, stmt: device.WgmmaSS | device.WgmmaRS, strand: Strand, warpgroup: int
) -> Callable[[], np.ndarray]:
    """Reads an operand, once the instruction takes effect: float32, shape (extent, 16)."""
    descriptor = wgmma.decode(word, strand.span)
    access = strand.access(f"wgmma that reads operand {side}", asynchronous=True)
    starts = wgmma.operand_chunks(descriptor, extent, mn_major)
    strand.block.watch.wgmma(strand, warpgroup, starts, wgmma.warps_of_a(mn_major) if side == "A" else None, access)
    return partial(wgmma.operand, strand.block.shared, descriptor, extent, mn_major, stmt.dtype, access)


def _issue(
    stmt: device.WgmmaSS | device.WgmmaRS, strand: Strand, warpgroup: int, held: list[Element],
    left: Callable[[], np.ndarray], b: int, accumulate: bool,
) -> None:  # fmt: skip
    """Sends one wgmma of a warpgroup on its way; the registers in `held`, the accumulator first, are in flight until a wait."""
    block, span = strand.block, strand.span
    right = _from_shared(b, stmt.n, stmt.b_mn_major, "B", stmt, strand, warpgroup)
    accumulator, indices = held[0]

    def effect() -> None:
        product = wgmma.accumulator_order(np.matmul(left(), right().T))
        block.registers.accumulate(accumulator, indices, warpgroup, product, accumulate, span)

    def release() -> None:
        for registers, element in held:
            block.registers.end(registers, element, warpgroup)

    for registers, element in held:
        if block.launch is not None:
            shape = (stmt.n, str(stmt.dtype)) if registers is accumulator else None
            block.registers.require_fence(registers, element, warpgroup, shape, span)
        block.registers.begin(registers, element, warpgroup)
    op = AsyncOp(f"wgmma into {accumulator.name}", effect, ("wgmma", warpgroup), span, release)
    block.wgmma_groups[warpgroup].uncommitted.append(op)
    block.engine.issue(op)


# ---- groups -------------------------------------------------------------------------------------------------------------------


def wgmma_fence(stmt: device.WgmmaFence, strand: Strand) -> Steps:
    def fence(group: Group, _: list[Value]) -> None:
        for warpgroup in _warpgroups(group, "wgmma.fence", strand):
            strand.block.registers.fence(warpgroup)

    return strand.meet(stmt, (), fence)


def wgmma_commit_group(stmt: device.WgmmaCommitGroup, strand: Strand) -> Steps:
    def commit(group: Group, _: list[Value]) -> None:
        for warpgroup in _warpgroups(group, "wgmma.commit_group", strand):
            strand.block.wgmma_groups[warpgroup].commit()
            strand.block.watch.wgmma_committed(warpgroup)

    return strand.meet(stmt, (), commit)


def wgmma_wait_group(stmt: device.WgmmaWaitGroup, strand: Strand) -> Steps:
    warpgroups = yield from strand.meet(stmt, (), lambda group, _: _warpgroups(group, "wgmma.wait_group", strand))
    groups = [strand.block.wgmma_groups[warpgroup] for warpgroup in warpgroups]
    for group in groups:
        yield group.wait(stmt.pending, "wgmma.wait_group", strand.span)
    for warpgroup, group in zip(warpgroups, groups, strict=True):
        for op in group.retire(stmt.pending):
            op.release()
        strand.block.watch.wgmma_waited(warpgroup, stmt.pending)


# ---- registers ----------------------------------------------------------------------------------------------------------------


def set_max_registers(stmt: device.SetMaxRegisters, strand: Strand) -> Steps:
    def change(group: Group, _: list[Value]) -> list[Wait]:
        pool, span = strand.block.register_pool, strand.span
        return [pool.set(each, stmt.count, stmt.increase, span) for each in _warpgroups(group, "setmaxnreg", strand)]

    yield from (yield from strand.meet(stmt, (), change))
