"""From tile IR and its plans to device IR: the same program walked once by the producer and once by each kind of consumers.

The producer's walk keeps the control flow and the loads, the consumers' walk keeps everything else and waits for a slot before
its first reader and frees it after the last one.  Lowering decides nothing: what is not in a plan is an InternalError.
"""
from __future__ import annotations

from tilelang.ir import device as d
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import i32
from tilelang.ir.expr import Expr, Var
from tilelang.ir.walk import walk
from tilelang.layout.fragments import WARPGROUP_THREADS
from tilelang.passes.lower_consumer import consumer_role
from tilelang.passes.lower_order import lower_order
from tilelang.passes.lower_ping_pong import make_turns, make_walk, ping_pong_roles
from tilelang.passes.lower_producer import producer_role
from tilelang.passes.lower_ring import Barriers, make_barriers
from tilelang.passes.plans import PingPong, Plans
from tilelang.target import Target


def lower(kernel: tile.Kernel, plans: Plans, target: Target) -> d.DeviceKernel:
    """The device kernel that the plans describe."""
    if plans.ping_pong is not None:
        return _walking(kernel, plans, plans.ping_pong, target)
    barriers = tuple(make_barriers(channel, plans.roles.consumer_threads) for channel in plans.channels)
    roles = [consumer_role(kernel, plans, barriers, dict(plans.registers))]
    if plans.roles.producer_threads:
        roles.append(producer_role(kernel, plans, barriers))
    arrays = _arrays(barriers)
    grid = tuple(axis.extent for axis in kernel.grid)
    return _device_kernel(kernel, plans, target, grid, arrays, lower_order(kernel, plans.order), roles)


def _walking(kernel: tile.Kernel, plans: Plans, plan: PingPong, target: Target) -> d.DeviceKernel:
    """As many blocks as the plan wants, each of which walks over its tiles."""
    barriers = tuple(make_barriers(channel, WARPGROUP_THREADS) for channel in plans.channels)
    turns, walk = make_turns(), make_walk(kernel, plans)
    roles = ping_pong_roles(kernel, plans, barriers, turns, walk)
    return _device_kernel(kernel, plans, target, (plan.blocks,), (*_arrays(barriers), turns), (), roles, walk)


def _arrays(barriers: tuple[Barriers, ...]) -> tuple[d.BarrierArray, ...]:
    return tuple(dict.fromkeys(array for pair in barriers for array in (pair.full, pair.empty)))


def _device_kernel(
    kernel: tile.Kernel, plans: Plans, target: Target, grid: tuple[int | Expr, ...], arrays: tuple[d.BarrierArray, ...],
    indices: d.Body, roles: list[d.Role], walk: d.TileWalk | None = None,
) -> d.DeviceKernel:  # fmt: skip
    """The kernel around its roles; `indices` declares the author's block indices for all of them."""
    maps = dict.fromkeys(plan.tma.map for plan in plans.copies.values() if plan.tma)
    return d.DeviceKernel(
        name=f"{kernel.name}_kernel", arch=target.arch, title=_title(kernel, plans, target, arrays), grid=grid,
        threads=plans.roles.threads, min_blocks_per_sm=plans.roles.min_blocks_per_sm, tensor_maps=tuple(maps),
        pointers=pointers(kernel, roles), scalars=tuple(param for param in kernel.params if isinstance(param, Var)),
        shared=tuple(plans.shared.arrays.values()), shared_bytes=plans.shared.bytes, barriers=arrays,
        setup=(*indices, *setup(arrays)), roles=tuple(roles), walk=walk, span=kernel.span,
    )  # fmt: skip


def pointers(kernel: tile.Kernel, roles: list[d.Role]) -> tuple[Buffer, ...]:
    """The tensors that are reached by ordinary loads and stores, in the order of the parameters."""
    used = {node.tensor for role in roles for node in walk(role.body) if isinstance(node, (d.LoadGlobal, d.StoreGlobal))}
    return tuple(tensor for tensor in kernel.tensors if tensor in used)


def _title(kernel: tile.Kernel, plans: Plans, target: Target, arrays: tuple[d.BarrierArray, ...]) -> str:
    roles = plans.roles
    producers = f" + {roles.producer_threads} producer" if roles.producer_threads else ""
    who = f"{roles.consumer_threads} consumer{producers} threads"
    if plans.ping_pong is not None:
        who = f"{plans.ping_pong.blocks} block{'s' * (plans.ping_pong.blocks > 1)} that take its tiles in turn, {who}"
    return title_lines(kernel, plans, target, who, sum(array.count for array in arrays))


def title_lines(kernel: tile.Kernel, plans: Plans, target: Target, threads: str, mbarriers: int) -> str:
    """What the text of a kernel begins with."""
    where = f" ({kernel.span.short})" if kernel.span else ""
    grid = " x ".join(str(axis.extent) for axis in kernel.grid)
    blocks = plans.roles.min_blocks_per_sm
    return (
        f"{kernel.name}{where} for {target.arch}: grid {grid}, {threads}, {blocks} block{'s' * (blocks > 1)} per SM,\n"
        f"{plans.shared.bytes} bytes of dynamic shared memory, {mbarriers} mbarriers"
    )


def setup(arrays: tuple[d.BarrierArray, ...]) -> d.Body:
    """Barriers that every thread and the TMA unit can see."""
    if not arrays:
        return ()
    inits = tuple(d.MbarrierInit(barrier=d.BarrierRef(array, i32(i))) for array in arrays for i in range(array.count))
    return (d.Elected(warp=0, body=(*inits, d.FenceMbarrierInit())), d.SyncThreads())
