"""The pipeline by hand: which warpgroups do what, mbarriers between them, and loads by TMA that they start themselves.

    full, empty = T.alloc_barrier([128] * 2), T.alloc_barrier([128] * 2)
    with T.ws(1):
        for k in range(steps):
            T.mbarrier_wait_parity(empty[k % 2], (k // 2) & 1 ^ 1)
            T.tma_copy(A[by * 128, k * 64], A_shared[k % 2, :, :], barrier=full[k % 2])
            T.mbarrier_arrive(full[k % 2])
    with T.ws(0):
        for k in range(steps):
            T.mbarrier_wait_parity(full[k % 2], (k // 2) & 1)
            T.gemm(A_shared[k % 2, :, :], B_shared, acc)
            T.mbarrier_arrive(empty[k % 2])

In a kernel that has mbarriers or T.ws nothing is divided or overlapped but by its author.  docs/explicit.md is the long form.
"""

from __future__ import annotations

import dataclasses

from tilelang.errors import TypeProblem, Unsupported
from tilelang.frontend import explicit
from tilelang.frontend.builder import current
from tilelang.frontend.threads import THREAD
from tilelang.ir.buffer import Mbarriers
from tilelang.ir.expr import Expr


def alloc_barrier(arrive_count: object) -> Mbarriers:
    """mbarriers in shared memory: one for an int, as many as a list has counts.  Each completes a phase when that many arrivals,
    and all bytes that T.tma_copy promised it, have come; then its next phase begins.  Raises TypeProblem TL223."""
    return explicit.alloc_barrier(current("T.alloc_barrier"), arrive_count)


def mbarrier_arrive(mbarrier: object, cta_id: object = None) -> None:
    """Every thread that executes it arrives once: 128 arrivals by a warpgroup.  What the threads wrote before is seen by whoever
    waits for the phase; where TMA or a tensor core reads it, a proxy fence is put in front.

    Raises TypeProblem TL224, ShapeProblem TL203, Unsupported TL302 for another block's barrier."""
    explicit.refuse_options("T.mbarrier_arrive", {"cta_id": cta_id})
    explicit.arrive(current("T.mbarrier_arrive"), mbarrier)


def mbarrier_wait_parity(mbarrier: object, parity: object) -> None:
    """Waits until the phase of this parity has completed.  Phases count from 0; on a fresh barrier a wait for parity 1 returns at
    once. Raises TypeProblem TL224 and TL225, ShapeProblem TL203."""
    explicit.wait(current("T.mbarrier_wait_parity"), mbarrier, parity)


barrier_arrive = mbarrier_arrive
barrier_wait = mbarrier_wait_parity


def ws(*warp_group_idx: object) -> explicit.WarpgroupSpec:
    """`with T.ws(0):` - a block that only the warpgroups listed execute; 128 threads are a warpgroup, counted from 0.  Its tiles
    and loops are spread over those threads.  Raises TypeProblem TL226 where it is entered."""
    return explicit.WarpgroupSpec(warp_group_idx)


WarpSpecialize = ws


def get_thread_binding(dim: int = 0) -> Expr:
    """The number of the thread in its block, for conditions that divide whole warpgroups as T.ws does: `if tx < 128:`.

    Raises Unsupported TL302 for another dimension, and where it is used for anything else."""
    builder = current("T.get_thread_binding")
    builder.require_kernel("T.get_thread_binding")
    if dim != 0:
        hint = "leave dim out: threads=(x, y) have one number, x fastest"
        raise Unsupported(f"T.get_thread_binding(dim={dim!r}) is not there", code="TL302", hint=hint)
    return THREAD


def tma_copy(
    src: object, dst: object, *, barrier: object = None, cluster_mask: object = None, leader_scope_threads: object = None,
    eviction_policy: str | None = None,
) -> None:  # fmt: skip
    """A copy that TMA does as a whole, started by one thread.

    Into shared memory: `barrier` expects the tile's bytes and the copy starts; nobody waits here, and nobody arrives: the phase
    also needs its T.mbarrier_arrive.  Into global memory, without a barrier: when it returns the source may be written again.
    Out of bounds, reads give 0 and writes are dropped.  Raises ShapeProblem TL205, TypeProblem TL212 and TL224; when it is
    compiled, Unsupported TL349 for a tile that TMA cannot move, with the reason."""
    explicit.refuse_options("T.tma_copy", {"cluster_mask": cluster_mask, "leader_scope_threads": leader_scope_threads})
    explicit.tma_copy(current("T.tma_copy"), src, dst, barrier)


def sync_threads(barrier_id: object = None, arrive_count: object = None) -> None:
    """All threads of the block meet here, or `arrive_count` of them at the named barrier `barrier_id`.  Raises TypeProblem
    TL216."""
    explicit.sync_threads(current("T.sync_threads"), barrier_id, arrive_count)


def fence_proxy_async() -> None:
    """What the threads wrote to shared memory comes before what TMA and tensor core read there afterwards."""
    explicit.fence_proxy_async(current("T.fence_proxy_async"))


def set_max_nreg(reg_count: object, is_inc: object) -> None:
    """Each warpgroup takes (is_inc=1) or gives back (0) registers until its threads have `reg_count`.  Raises TypeProblem
    TL216."""
    if isinstance(is_inc, bool) or is_inc in (0, 1):
        explicit.set_max_nreg(current("T.set_max_nreg"), reg_count, bool(is_inc), "T.set_max_nreg")
        return
    raise TypeProblem(f"is_inc={is_inc!r} of T.set_max_nreg; it must be 1 to take registers or 0 to give them back", code="TL216")


def inc_max_nreg(reg_count: object) -> None:
    """T.set_max_nreg(reg_count, 1)."""
    explicit.set_max_nreg(current("T.inc_max_nreg"), reg_count, True, "T.inc_max_nreg")


def dec_max_nreg(reg_count: object) -> None:
    """T.set_max_nreg(reg_count, 0)."""
    explicit.set_max_nreg(current("T.dec_max_nreg"), reg_count, False, "T.dec_max_nreg")


def annotate_producer_reg_dealloc(reg_count: object = 24) -> None:
    """Registers for a thread of the warpgroups that load.  Raises TypeProblem TL216."""
    builder, what = current("T.annotate_producer_reg_dealloc"), "T.annotate_producer_reg_dealloc"
    builder.require_kernel(what)
    builder.registers = dataclasses.replace(builder.registers, producer=explicit.register_count(reg_count, "reg_count", what))


def annotate_consumer_reg_alloc(reg_count: object = 240) -> None:
    """Registers for a thread of the warpgroups that compute.  Raises TypeProblem TL216."""
    builder, what = current("T.annotate_consumer_reg_alloc"), "T.annotate_consumer_reg_alloc"
    builder.require_kernel(what)
    builder.registers = dataclasses.replace(builder.registers, consumer=explicit.register_count(reg_count, "reg_count", what))


def disable_warp_group_reg_alloc() -> None:
    """No registers are moved between warpgroups."""
    builder = current("T.disable_warp_group_reg_alloc")
    builder.require_kernel("T.disable_warp_group_reg_alloc")
    builder.registers = dataclasses.replace(builder.registers, fixed=True)


no_set_max_nreg = disable_warp_group_reg_alloc

__all__ = [
    "WarpSpecialize",
    "alloc_barrier",
    "annotate_consumer_reg_alloc",
    "annotate_producer_reg_dealloc",
    "barrier_arrive",
    "barrier_wait",
    "dec_max_nreg",
    "disable_warp_group_reg_alloc",
    "fence_proxy_async",
    "get_thread_binding",
    "inc_max_nreg",
    "mbarrier_arrive",
    "mbarrier_wait_parity",
    "no_set_max_nreg",
    "set_max_nreg",
    "sync_threads",
    "tma_copy",
    "ws",
]
