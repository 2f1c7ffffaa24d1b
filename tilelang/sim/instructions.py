"""One function per instruction of device IR: barriers, copies, tensor core, registers.

A function acts at once and returns None, or returns a generator that yields what it waits for.  (PTX ISA, the section of the
instruction's name.)
"""
from __future__ import annotations

from functools import partial

import numpy as np

from tilelang.errors import HazardError, InternalError
from tilelang.ir import device
from tilelang.ir.types import DType
from tilelang.sim import tma, wgmma
from tilelang.sim.strand import Group, Steps, Strand
from tilelang.sim.sync import AsyncOp, Mbarrier, Wait
from tilelang.sim.values import Value, bits_of

UINT64 = DType("uint64")


def no_effect(stmt: device.Stmt, strand: Strand) -> None:
    """Fences order memory between proxies, which a machine that runs by value does not see."""


# ---- barriers -----------------------------------------------------------------------------------------------------------------


def _mbarrier(ref: device.BarrierRef, strand: Strand) -> Mbarrier:
    return strand.block.mbarrier(ref.array, strand.uniform(ref.index, f"the index of {ref.array.name}"), strand.span)


def mbarrier_init(stmt: device.MbarrierInit, strand: Strand) -> None:
    barrier = _mbarrier(stmt.barrier, strand)
    for _ in strand.active():
        barrier.init(strand.span)


def mbarrier_expect_tx(stmt: device.MbarrierExpectTx, strand: Strand) -> None:
    barrier = _mbarrier(stmt.barrier, strand)
    for _ in strand.active():
        barrier.expect_tx(stmt.bytes, strand.span)
        barrier.arrive(1, strand.span)


def mbarrier_arrive(stmt: device.MbarrierArrive, strand: Strand) -> None:
    _mbarrier(stmt.barrier, strand).arrive(len(strand.active()), strand.span)


def mbarrier_wait(stmt: device.MbarrierWait, strand: Strand) -> Steps:
    strand.require_converged("a wait for an mbarrier is", elected=True)
    barrier = _mbarrier(stmt.barrier, strand)
    yield barrier.wait(strand.uniform(stmt.parity, f"the parity of a wait on {barrier.name}"), strand.span)


def sync_threads(stmt: device.SyncThreads, strand: Strand) -> Steps:
    strand.require_converged("bar.sync 0 is")
    yield strand.block.named.arrive(0, strand.block.kernel.threads, len(strand.threads), strand.span)


def named_barrier_sync(stmt: device.NamedBarrierSync, strand: Strand) -> Steps:
    strand.require_converged(f"bar.sync {stmt.id} is")
    if not 1 <= stmt.id <= 15:
        raise HazardError(f"{strand.name}: named barriers are numbered 1 to 15, not {stmt.id}", code="TL851", span=strand.span)
    yield strand.block.named.arrive(stmt.id, stmt.threads, len(strand.threads), strand.span)


# ---- bulk copies --------------------------------------------------------------------------------------------------------------


def _tma_operands(stmt: device.TmaLoad | device.TmaStore, strand: Strand, action: str) -> tuple[int, tuple[int, ...]]:
    """The shared address and the coordinates of a box, checked."""
    if not strand.block.tensors.knows(stmt.map):
        raise InternalError(f"tensor map {stmt.map.name} is not a parameter of the kernel", code="TL942", span=strand.span)
    if len(stmt.coordinates) != len(stmt.map.dims):
        raise InternalError(
            f"tensor map {stmt.map.name} has {len(stmt.map.dims)} dimensions and {len(stmt.coordinates)} coordinates came",
            code="TL942", span=strand.span,
        )  # fmt: skip
    address = strand.uniform(stmt.address, "a shared address")
    tma.check_address(stmt.map, address, strand.access(action))
    return address, tuple(strand.uniform(coordinate, "a coordinate") for coordinate in stmt.coordinates)


def tma_load(stmt: device.TmaLoad, strand: Strand) -> None:
    block, action = strand.block, f"TMA load of {stmt.map.tensor.name}"
    strand.only_thread(action)
    address, coordinates = _tma_operands(stmt, strand, action)
    barrier = _mbarrier(stmt.barrier, strand)
    barrier.require_init("a TMA load completes on", strand.span)
    access, span, phase = strand.access(action, asynchronous=True), strand.span, barrier.phase

    def effect() -> None:
        tma.load_box(stmt.map, block.tensors, block.shared, coordinates, address, access)
        barrier.complete_tx(stmt.map.box_bytes, phase, span)

    block.engine.issue(AsyncOp(f"{action}, completing on {barrier.name}", effect, object(), span))


def tma_store(stmt: device.TmaStore, strand: Strand) -> None:
    block, action = strand.block, f"TMA store of {stmt.map.tensor.name}"
    thread = strand.only_thread(action)
    address, coordinates = _tma_operands(stmt, strand, action)
    access = strand.access(action, asynchronous=True)
    effect = partial(tma.store_box, stmt.map, block.tensors, block.shared, coordinates, address, access)
    op = AsyncOp(action, effect, object(), strand.span)
    block.bulk[thread].uncommitted.append(op)
    block.engine.issue(op)


def bulk_commit_group(stmt: device.BulkCommitGroup, strand: Strand) -> None:
    for thread in strand.active():
        if int(thread) in strand.block.bulk:
            strand.block.bulk[int(thread)].commit()


def bulk_wait_group_read(stmt: device.BulkWaitGroupRead, strand: Strand) -> Steps:
    strand.require_converged("a wait for bulk groups is", elected=True)
    groups = [strand.block.bulk[int(thread)] for thread in strand.active() if int(thread) in strand.block.bulk]
    for group in groups:
        yield group.wait(stmt.pending, "cp.async.bulk.wait_group.read", strand.span)
    for group in groups:
        group.retire(stmt.pending)


# ---- ordinary stores ----------------------------------------------------------------------------------------------------------


def store_shared(stmt: device.StoreShared, strand: Strand) -> None:
    dtypes = {value.dtype for value in stmt.values}
    size = stmt.values[0].dtype.bytes * len(stmt.values)
    if len(dtypes) != 1 or len(stmt.values) not in (1, 2, 4) or size > 16:
        raise InternalError(f"st.shared of {len(stmt.values)} values of {', '.join(sorted(dtypes))}", code="TL942", span=strand.span)
    count, access = len(strand.threads), strand.access("st.shared")
    words = [np.broadcast_to(bits_of(strand.value(value), value.dtype), count) for value in stmt.values]
    data = np.ascontiguousarray(np.stack(words, axis=-1)).view(np.uint8).reshape(count, size)
    starts = np.broadcast_to(np.asarray(strand.value(stmt.address), np.int64), count)
    if strand.mask is not None:
        starts, data = starts[strand.mask], data[strand.mask]
    _check_conflict(starts, data, strand)
    strand.block.shared.write(starts, data, access)


def _check_conflict(starts: np.ndarray, data: np.ndarray, strand: Strand) -> None:
    """Raises HazardError TL813 where threads of one store write different bytes to one address."""
    _, first, inverse = np.unique(starts, return_index=True, return_inverse=True)
    if len(first) < len(starts) and (data[first][inverse.reshape(-1)] != data).any():
        raise HazardError(f"{strand.name}: threads store different values to one shared address", code="TL813", span=strand.span)


def store_matrix(stmt: device.StoreMatrix, strand: Strand) -> Steps:
    if len(stmt.values) != 4:
        raise InternalError(f"stmatrix.x4 takes four registers, not {len(stmt.values)}", code="TL942", span=strand.span)
    return strand.meet(stmt, (stmt.address, *stmt.values), partial(_stmatrix, strand))


def _stmatrix(strand: Strand, group: Group, operands: list[Value]) -> None:
    """All four 8 x 8 matrices of every warp: lane i gives the address of row i % 8 of matrix i // 8, and register r of lane l holds
    columns 2 * (l % 4) and the next of row l // 4 of matrix r."""
    if group.first_thread % 32 or group.threads % 32:
        raise HazardError(f"{strand.name}: stmatrix by part of a warp", code="TL821", span=strand.span)
    warps = group.threads // 32
    addresses, *registers = (np.broadcast_to(np.asarray(operand, np.int64), group.threads) for operand in operands)
    rows = np.stack([register.astype(np.uint32).reshape(warps, 8, 4) for register in registers], axis=1)
    strand.block.shared.write(addresses, rows.view(np.uint8).reshape(group.threads, 16), strand.access("stmatrix"))


# ---- tensor core --------------------------------------------------------------------------------------------------------------


def _warpgroups(group: Group, what: str, strand: Strand) -> tuple[int, ...]:
    found = group.warpgroups()
    if not found:
        raise HazardError(
            f"{strand.name}: {what} needs whole warpgroups of 128 aligned threads; the role has threads {group.first_thread} to "
            f"{group.first_thread + group.threads - 1}",
            code="TL821", span=strand.span,
        )  # fmt: skip
    return found


def wgmma_fence(stmt: device.WgmmaFence, strand: Strand) -> Steps:
    return strand.meet(stmt, (), lambda group, _: _warpgroups(group, "wgmma.fence", strand))


def wgmma_ss(stmt: device.WgmmaSS, strand: Strand) -> Steps:
    if stmt.dtype not in ("float16", "bfloat16") or stmt.n % 8 or not 8 <= stmt.n <= 256:
        raise InternalError(f"wgmma m64n{stmt.n}k16 of {stmt.dtype} is not modelled", code="TL942", span=strand.span)
    indices = tuple(strand.uniform(index, "a register index") for index in stmt.accumulator.indices)
    strand.block.registers.check_slice(stmt.accumulator.registers, indices, stmt.n // 2, strand.span)
    return strand.meet(stmt, (stmt.a, stmt.b, stmt.accumulate), partial(_issue_wgmma, stmt, strand, indices))


def _issue_wgmma(stmt: device.WgmmaSS, strand: Strand, indices: tuple[int, ...], group: Group, operands: list[Value]) -> None:
    for warpgroup in _warpgroups(group, "wgmma", strand):
        first = 128 * warpgroup - group.first_thread
        a, b, accumulate = (_agreed(operand, first, strand) for operand in operands)
        op = _wgmma_op(stmt, strand, indices, warpgroup, (a, b), bool(accumulate))
        strand.block.registers.begin(stmt.accumulator.registers, indices, warpgroup)
        strand.block.wgmma_groups[warpgroup].uncommitted.append(op)
        strand.block.engine.issue(op)


def _wgmma_op(
    stmt: device.WgmmaSS, strand: Strand, indices: tuple[int, ...], warpgroup: int, words: tuple[int, int], accumulate: bool
) -> AsyncOp:
    a, b = (wgmma.decode(word, strand.span) for word in words)
    block, span, registers = strand.block, strand.span, stmt.accumulator.registers
    access_a, access_b = (strand.access(f"wgmma's operand {side}", asynchronous=True) for side in "AB")

    def effect() -> None:
        left = wgmma.operand(block.shared, a, wgmma.M, stmt.a_mn_major, stmt.dtype, access_a)
        right = wgmma.operand(block.shared, b, stmt.n, stmt.b_mn_major, stmt.dtype, access_b)
        product = wgmma.accumulator_order(np.matmul(left, right.T))
        block.registers.accumulate(registers, indices, warpgroup, product, accumulate, span)

    release = partial(block.registers.end, registers, indices, warpgroup)
    return AsyncOp(f"wgmma into {registers.name}", effect, ("wgmma", warpgroup), span, release)


def _agreed(value: Value, first: int, strand: Strand) -> int:
    """An operand that the 128 threads of a warpgroup from `first` on must agree on."""
    if not isinstance(value, np.ndarray):
        return int(value)
    part = value[first : first + 128]
    if (part != part[0]).any():
        raise HazardError(f"{strand.name}: an operand of wgmma differs between threads of a warpgroup", code="TL842", span=strand.span)
    return int(part[0])


def wgmma_commit_group(stmt: device.WgmmaCommitGroup, strand: Strand) -> Steps:
    def commit(group: Group, _: list[Value]) -> None:
        for warpgroup in _warpgroups(group, "wgmma.commit_group", strand):
            strand.block.wgmma_groups[warpgroup].commit()

    return strand.meet(stmt, (), commit)


def wgmma_wait_group(stmt: device.WgmmaWaitGroup, strand: Strand) -> Steps:
    warpgroups = yield from strand.meet(stmt, (), lambda group, _: _warpgroups(group, "wgmma.wait_group", strand))
    groups = [strand.block.wgmma_groups[warpgroup] for warpgroup in warpgroups]
    for group in groups:
        yield group.wait(stmt.pending, "wgmma.wait_group", strand.span)
    for group in groups:
        for op in group.retire(stmt.pending):
            op.release()


def set_max_registers(stmt: device.SetMaxRegisters, strand: Strand) -> Steps:
    def change(group: Group, _: list[Value]) -> list[Wait]:
        pool, span = strand.block.register_pool, strand.span
        return [pool.set(each, stmt.count, stmt.increase, span) for each in _warpgroups(group, "setmaxnreg", strand)]

    yield from (yield from strand.meet(stmt, (), change))
