"""One function per instruction of device IR: barriers and bulk copies.

A function acts at once and returns None, or returns a generator that yields what it waits for.  (PTX ISA, the section of the
instruction's name.)
"""

from __future__ import annotations

from functools import partial

from tilelang.errors import HazardError, InternalError
from tilelang.ir import device
from tilelang.ir.expr import INT32
from tilelang.sim import tma
from tilelang.sim.strand import Steps, Strand
from tilelang.sim.sync import AsyncOp, Mbarrier, Wait


def no_effect(stmt: device.Stmt, strand: Strand) -> None:
    """What tells the compiler something is no instruction."""


# ---- fences, and warps that meet ----------------------------------------------------------------------------------------------
# They change no value: they order memory, which only the vector clocks see.


def fence_proxy_async(stmt: device.FenceProxyAsync, strand: Strand) -> None:
    strand.block.watch.fence_async(strand)


def fence_mbarrier_init(stmt: device.FenceMbarrierInit, strand: Strand) -> None:
    strand.block.watch.fence_mbarrier_init(strand)


def sync_warp(stmt: device.SyncWarp, strand: Strand) -> Steps:
    return strand.meet(stmt, (), lambda group, _: strand.block.watch.sync_warps(group.all_threads()))


# ---- barriers -----------------------------------------------------------------------------------------------------------------


def _mbarrier(ref: device.BarrierRef, strand: Strand) -> Mbarrier:
    return strand.block.mbarrier(ref.array, strand.uniform(ref.index, f"the index of {ref.array.name}"), strand.span)


def mbarrier_init(stmt: device.MbarrierInit, strand: Strand) -> None:
    barrier = _mbarrier(stmt.barrier, strand)
    for _ in strand.active():
        barrier.init(strand.span)
    strand.block.watch.init(strand, barrier)


def mbarrier_expect_tx(stmt: device.MbarrierExpectTx, strand: Strand) -> None:
    barrier = _mbarrier(stmt.barrier, strand)
    strand.block.watch.arrives(strand, barrier, len(strand.active()))
    for _ in strand.active():
        barrier.expect_tx(stmt.bytes, strand.span)
        barrier.arrive(1, strand.span)
    strand.block.watch.arrived(strand, barrier)


def mbarrier_add_tx(stmt: device.MbarrierAddTx, strand: Strand) -> None:
    """It orders nothing (its semantics are relaxed), so the clocks need not know."""
    barrier = _mbarrier(stmt.barrier, strand)
    for _ in strand.active():
        barrier.expect_tx(stmt.bytes, strand.span)


def mbarrier_arrive(stmt: device.MbarrierArrive, strand: Strand) -> None:
    barrier = _mbarrier(stmt.barrier, strand)
    strand.block.watch.arrives(strand, barrier, len(strand.active()))
    barrier.arrive(len(strand.active()), strand.span)
    strand.block.watch.arrived(strand, barrier)


def mbarrier_wait(stmt: device.MbarrierWait, strand: Strand) -> Steps:
    strand.require_converged("a wait for an mbarrier is", elected=True)
    barrier, watch = _mbarrier(stmt.barrier, strand), strand.block.watch
    parity = strand.uniform(stmt.parity, f"the parity of a wait on {barrier.name}")
    wait = barrier.wait(parity, strand.span)

    def ready() -> bool:
        watch.waits(strand, barrier, parity)
        return wait.ready()

    yield Wait(ready, wait.describe, wait.span)
    watch.passed(strand, barrier, parity)


def sync_threads(stmt: device.SyncThreads, strand: Strand) -> Steps:
    strand.require_converged("bar.sync 0 is")
    yield _meet_at(0, strand.block.kernel.threads, strand)


def named_barrier_sync(stmt: device.NamedBarrierSync, strand: Strand) -> Steps:
    strand.require_converged(f"bar.sync {stmt.id} is")
    if not 1 <= stmt.id <= 15:
        raise HazardError(f"{strand.name}: named barriers are numbered 1 to 15, not {stmt.id}", code="TL851", span=strand.span)
    yield _meet_at(stmt.id, stmt.threads, strand)


def _meet_at(number: int, threads: int, strand: Strand) -> Wait:
    wait = strand.block.named.arrive(number, threads, len(strand.threads), strand.span)
    strand.block.watch.named(strand, number, threads)
    return wait


# ---- bulk copies --------------------------------------------------------------------------------------------------------------


def _tma_operands(stmt: device.TmaLoad | device.TmaStore, strand: Strand, action: str) -> tuple[int, tuple[int, ...]]:
    """The shared address and the coordinates of a box, checked."""
    if not strand.block.tensors.knows(stmt.map):
        why = "is empty" if 0 in stmt.map.dims else "is not a parameter of the kernel"
        raise InternalError(f"a copy uses tensor map {stmt.map.name}, which {why}", code="TL942", span=strand.span)
    if len(stmt.coordinates) != len(stmt.map.dims):
        raise InternalError(
            f"tensor map {stmt.map.name} has {len(stmt.map.dims)} dimensions and {len(stmt.coordinates)} coordinates came",
            code="TL942", span=strand.span,
        )  # fmt: skip
    address = strand.uniform(stmt.address, "a shared address")
    tma.check_address(stmt.map, address, strand.access(action))
    coordinates = tuple(strand.uniform(coordinate, "a coordinate") for coordinate in stmt.coordinates)
    low, high = INT32.limits
    outside = next((value for value in coordinates if not low <= value <= high), None)
    if outside is not None:
        raise HazardError(f"{action}: the coordinate {outside} is no int32", code="TL840", span=strand.span)
    return address, coordinates


def tma_load(stmt: device.TmaLoad, strand: Strand) -> None:
    block, action = strand.block, f"TMA load of {stmt.map.tensor.name}"
    strand.only_thread(action)
    address, coordinates = _tma_operands(stmt, strand, action)
    barrier = _mbarrier(stmt.barrier, strand)
    barrier.require_init("a TMA load completes on", strand.span)
    access, span, phase = strand.access(action, asynchronous=True), strand.span, barrier.phase
    block.watch.tma_load(strand, tma.box_chunks(stmt.map, address), barrier, access)
    if block.watch.wants(stmt.map.tensor):
        block.watch.box(strand, stmt.map.tensor, block.tensors.cells(stmt.map, coordinates), access, barrier)

    def effect() -> None:
        tma.load_box(stmt.map, block.tensors, block.shared, coordinates, address, access)
        barrier.complete_tx(stmt.map.box_bytes, phase, span)

    block.engine.issue(AsyncOp(f"{action}, completing on {barrier.name}", effect, object(), span))


def tma_store(stmt: device.TmaStore, strand: Strand) -> None:
    block, action = strand.block, f"TMA store of {stmt.map.tensor.name}"
    thread = strand.only_thread(action)
    address, coordinates = _tma_operands(stmt, strand, action)
    access = strand.access(action, asynchronous=True)
    block.watch.tma_store(strand, tma.box_chunks(stmt.map, address), access)
    if block.watch.wants(stmt.map.tensor):
        block.watch.box(strand, stmt.map.tensor, block.tensors.cells(stmt.map, coordinates), access, None)
    effect = partial(tma.store_box, stmt.map, block.tensors, block.shared, coordinates, address, access)
    op = AsyncOp(action, effect, object(), strand.span)
    block.bulk[thread].uncommitted.append(op)
    block.engine.issue(op)


def bulk_commit_group(stmt: device.BulkCommitGroup, strand: Strand) -> None:
    for thread in strand.active():
        if int(thread) in strand.block.bulk:
            strand.block.bulk[int(thread)].commit()
            strand.block.watch.bulk_committed(int(thread))


def bulk_wait_group_read(stmt: device.BulkWaitGroupRead, strand: Strand) -> Steps:
    yield from _bulk_wait(stmt.pending, "cp.async.bulk.wait_group.read", strand)


def bulk_wait_group(stmt: device.BulkWaitGroup, strand: Strand) -> Steps:
    yield from _bulk_wait(stmt.pending, "cp.async.bulk.wait_group", strand)
    for thread in strand.active():
        strand.block.watch.bulk_completed(int(thread), stmt.pending)


def _bulk_wait(pending: int, name: str, strand: Strand) -> Steps:
    strand.require_converged("a wait for bulk groups is", elected=True)
    threads = [int(thread) for thread in strand.active() if int(thread) in strand.block.bulk]
    for thread in threads:
        yield strand.block.bulk[thread].wait(pending, name, strand.span)
    for thread in threads:
        strand.block.bulk[thread].retire(pending)
        strand.block.watch.bulk_waited(thread, pending)
