"""Running bodies of device IR: variables, loops, conditions, and the table from every kind of statement to what it does."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from tilelang.errors import InternalError
from tilelang.ir import device
from tilelang.ir.expr import Expr, Var
from tilelang.ir.types import DType
from tilelang.sim import accesses, instructions, tensor_core
from tilelang.sim.clocks import WARP_LANES
from tilelang.sim.convert import Value, convert
from tilelang.sim.strand import Steps, Strand
from tilelang.sim.sync import Wait


def run_strand(strand: Strand) -> Steps:
    """Setup, then the role's body."""
    yield from run_body(strand.block.kernel.setup, strand)
    strand.group = strand.role
    yield from run_body(strand.role_body, strand)


def run_body(body: device.Body, strand: Strand) -> Steps:
    """The statements in order; a statement without a span has that of the statement around it."""
    outer = strand.span
    for stmt in body:
        strand.span = stmt.span or outer
        strand.block.count_step(strand)
        step = STEP.get(type(stmt))
        if step is None:
            raise InternalError(f"the machine cannot run a {type(stmt).__name__}", code="TL930", span=strand.span)
        waits = step(stmt, strand)
        if waits is not None:
            yield from waits
    strand.span = outer


# ---- variables and registers --------------------------------------------------------------------------------------------------


def _converted(expr: Expr, dtype: DType, strand: Strand) -> Value:
    return convert(strand.value(expr), expr.dtype, dtype)


def _declare(stmt: device.Declare, strand: Strand) -> None:
    strand.env[stmt.var] = _converted(stmt.value, stmt.var.dtype, strand)
    if stmt.mutable:
        strand.mutable.add(stmt.var)


def _assign(stmt: device.Assign, strand: Strand) -> None:
    _set(stmt.var, _converted(stmt.value, stmt.var.dtype, strand), strand)


def _set(var: Var, value: Value, strand: Strand) -> None:
    """Gives a mutable variable a new value in the active threads."""
    if var not in strand.mutable:
        raise InternalError(f"{var.name} is assigned and was not declared mutable", code="TL931", span=strand.span)
    if strand.mask is not None:
        numpy = var.dtype.numpy
        value = np.where(strand.mask, np.asarray(value, numpy), np.asarray(strand.env[var], numpy))
    strand.env[var] = value


def _declare_registers(stmt: device.DeclareRegisters, strand: Strand) -> None:
    strand.block.registers.declare(stmt.registers, strand.columns, strand.warpgroups, strand.span)


def _register_store(stmt: device.RegisterStore, strand: Strand) -> None:
    indices = tuple(strand.value(index) for index in stmt.indices)
    strand.store_register(stmt.registers, indices, _converted(stmt.value, stmt.registers.dtype, strand))


def _register_store_word(stmt: device.RegisterStoreWord, strand: Strand) -> None:
    *rest, first = (strand.uniform(index, "a register index") for index in stmt.indices)
    dtype, count = stmt.registers.dtype, len(stmt.values)
    if not stmt.registers.packed or count * dtype.bits != 32 or first % count:
        raise InternalError(
            f"{count} elements from {first} on are no whole register of {stmt.registers.name}", code="TL933", span=strand.span
        )
    for i, value in enumerate([_converted(value, dtype, strand) for value in stmt.values]):
        strand.store_register(stmt.registers, (*rest, first + i), value)


def _ring_advance(stmt: device.RingAdvance, strand: Strand) -> None:
    stage = 0 if stmt.stage is None else strand.uniform(stmt.stage, "the stage of a ring")
    laps, stage = divmod(stage + stmt.slots, stmt.stages)
    if stmt.stage is not None:
        _set(stmt.stage, stage, strand)
    if laps % 2:
        _set(stmt.phase, strand.uniform(stmt.phase, "the phase of a ring") ^ 1, strand)


# ---- structure ----------------------------------------------------------------------------------------------------------------


def _tile_op(stmt: device.TileOp, strand: Strand) -> Steps:
    return run_body(stmt.body, strand)


def _for(stmt: device.For, strand: Strand) -> Steps:
    if stmt.step == 0:
        raise InternalError(f"the loop over {stmt.var.name} has step 0", code="TL933", span=strand.span)
    bounds = (strand.uniform(stmt.start, "a loop bound"), strand.uniform(stmt.stop, "a loop bound"))
    strand.claim(stmt, bounds)
    depth = len(strand.loops)
    for value in range(*bounds, stmt.step):
        strand.env[stmt.var] = value
        strand.loops[depth:] = ((stmt.var.name, value),)
        if (yield from _turn(stmt.body, strand)):
            break
    del strand.loops[depth:]


def _while(stmt: device.While, strand: Strand) -> Steps:
    while True:
        holds = bool(strand.uniform(stmt.condition, "the condition of a while"))
        strand.claim(stmt, (int(holds),))
        strand.block.count_step(strand)
        if not holds or (yield from _turn(stmt.body, strand)):
            break


class _Leave(Exception):
    """A break or continue on its way to the loop around it."""

    def __init__(self, ends_loop: bool) -> None:
        self.ends_loop = ends_loop


def _turn(body: device.Body, strand: Strand) -> Generator[Wait, None, bool]:
    """One turn of a loop; whether a break ended it."""
    span = strand.span
    try:
        yield from run_body(body, strand)
    except _Leave as leave:
        strand.span = span
        return leave.ends_loop
    return False


def _leave(stmt: device.Break | device.Continue, strand: Strand) -> None:
    strand.require_converged(f"a {type(stmt).__name__.lower()} is", elected=True)
    raise _Leave(isinstance(stmt, device.Break))


def _unroll(stmt: device.Unroll, strand: Strand) -> Steps:
    for value in range(stmt.count):
        strand.env[stmt.var] = value
        yield from run_body(stmt.body, strand)


def _if(stmt: device.If, strand: Strand) -> Steps:
    if not stmt.uniform:
        return _if_per_thread(stmt, strand)
    taken = bool(strand.uniform(stmt.condition, "the condition of a uniform if"))
    strand.claim(stmt, (int(taken),))
    return run_body(stmt.then if taken else stmt.otherwise, strand)


def _if_per_thread(stmt: device.If, strand: Strand) -> Steps:
    """Both branches, each with only its threads active."""
    condition, outer = strand.value(stmt.condition), strand.mask
    strand.divergence += 1
    for body, taken in ((stmt.then, True), (stmt.otherwise, False)):
        if not isinstance(condition, np.ndarray):
            if bool(condition) is taken:
                yield from run_body(body, strand)
            continue
        chosen = condition if taken else ~condition
        mask: np.ndarray = chosen if outer is None else chosen & outer
        strand.mask = mask
        if mask.any():
            yield from run_body(body, strand)
    strand.mask = outer
    strand.divergence -= 1


def _elected(stmt: device.Elected, strand: Strand) -> Steps:
    strand.require_converged("a thread is elected")
    if strand.group.threads == WARP_LANES and len(strand.group.strands) > 1:
        # elect.sync waits for the whole warp.  In a role of several warps the others keep its strands in step.
        yield from strand.meet(stmt, (), lambda group, operands: None)
    if stmt.warp is None:
        yield from _lane_zero_of_each_warp(stmt, strand)
        return
    if stmt.warp < 0 or 32 * stmt.warp >= strand.group.threads:
        raise InternalError(f"{strand.group.name} has no warp {stmt.warp}", code="TL933", span=strand.span)
    if len(strand.threads) > 1 or strand.threads[0] != strand.group.first_thread + 32 * stmt.warp:
        return
    strand.elected = True
    try:
        yield from run_body(stmt.body, strand)
    except _Leave:
        raise InternalError("an elected thread leaves a loop that the others are in", code="TL933", span=strand.span) from None
    strand.elected = False


def _lane_zero_of_each_warp(stmt: device.Elected, strand: Strand) -> Steps:
    """The body in one lane of each warp; it does not wait, so no thread needs to be a strand of its own."""
    chosen = strand.threads % 32 == 0
    if not chosen.any():
        return
    strand.mask = chosen if len(strand.threads) > 1 else None
    strand.divergence += 1
    yield from run_body(stmt.body, strand)
    strand.divergence -= 1
    strand.mask = None


STEP: dict[type[device.Stmt], Callable[[Any, Strand], Steps | None]] = {
    device.TileOp: _tile_op,
    device.Declare: _declare,
    device.Assign: _assign,
    device.DeclareRegisters: _declare_registers,
    device.RegisterStore: _register_store,
    device.RegisterStoreWord: _register_store_word,
    device.For: _for,
    device.While: _while,
    device.Break: _leave,
    device.Continue: _leave,
    device.Unroll: _unroll,
    device.If: _if,
    device.Elected: _elected,
    device.RingAdvance: _ring_advance,
    device.MbarrierInit: instructions.mbarrier_init,
    device.FenceMbarrierInit: instructions.fence_mbarrier_init,
    device.SyncWarp: instructions.sync_warp,
    device.MbarrierExpectTx: instructions.mbarrier_expect_tx,
    device.MbarrierAddTx: instructions.mbarrier_add_tx,
    device.MbarrierArrive: instructions.mbarrier_arrive,
    device.MbarrierWait: instructions.mbarrier_wait,
    device.SyncThreads: instructions.sync_threads,
    device.NamedBarrierSync: instructions.named_barrier_sync,
    device.TmaLoad: instructions.tma_load,
    device.TmaStore: instructions.tma_store,
    device.BulkCommitGroup: instructions.bulk_commit_group,
    device.BulkWaitGroupRead: instructions.bulk_wait_group_read,
    device.BulkWaitGroup: instructions.bulk_wait_group,
    device.StoreMatrix: accesses.store_matrix,
    device.LoadGlobal: accesses.load_global,
    device.StoreGlobal: accesses.store_global,
    device.LoadShared: accesses.load_shared,
    device.StoreShared: accesses.store_shared,
    device.ShuffleXor: accesses.shuffle_xor,
    device.FenceProxyAsync: instructions.fence_proxy_async,
    device.WgmmaFence: tensor_core.wgmma_fence,
    device.WgmmaCommitGroup: tensor_core.wgmma_commit_group,
    device.WgmmaWaitGroup: tensor_core.wgmma_wait_group,
    device.WgmmaSS: tensor_core.wgmma_ss,
    device.WgmmaRS: tensor_core.wgmma_rs,
    device.FenceRegisters: instructions.no_effect,
    device.SetMaxRegisters: tensor_core.set_max_registers,
}
"""What each kind of statement does."""
