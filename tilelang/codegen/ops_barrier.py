"""mbarriers, meetings of threads, fences, registers moved between warpgroups."""
from __future__ import annotations

from tilelang.codegen.out import Emit, Out, plain
from tilelang.ir import device as d
from tilelang.ir.expr import Const


def _mbarrier_init(op: d.MbarrierInit, out: Out) -> None:
    array, index = op.barrier.array, op.barrier.index
    arrivals = array.arrivals_of(int(index.value)) if isinstance(index, Const) else array.arrivals
    out.text.line(f"tl::mbarrier_init({out.barrier(op.barrier)}, {arrivals});")


def _expect_tx(op: d.MbarrierExpectTx, out: Out) -> None:
    out.text.line(f"tl::mbarrier_arrive_expect_tx({out.barrier(op.barrier)}, {op.bytes});")


def _add_tx(op: d.MbarrierAddTx, out: Out) -> None:
    out.text.line(f"tl::mbarrier_expect_tx({out.barrier(op.barrier)}, {op.bytes});")


def _arrive(op: d.MbarrierArrive, out: Out) -> None:
    out.text.line(f"tl::mbarrier_arrive({out.barrier(op.barrier)});")


def _wait(op: d.MbarrierWait, out: Out) -> None:
    out.text.line(f"while (!tl::mbarrier_try_wait({out.barrier(op.barrier)}, {out.expr(op.parity)})) {{}}")


def _named_barrier(op: d.NamedBarrierSync, out: Out) -> None:
    out.text.line(f"tl::named_barrier_sync<{op.id}, {op.threads}>();")


def _set_max_registers(op: d.SetMaxRegisters, out: Out) -> None:
    out.text.line(f"tl::warpgroup_reg_{'alloc' if op.increase else 'dealloc'}<{op.count}>();")


BARRIERS: dict[type, Emit] = {
    d.MbarrierInit: _mbarrier_init,
    d.FenceMbarrierInit: plain("tl::fence_mbarrier_init();"),
    d.MbarrierExpectTx: _expect_tx,
    d.MbarrierAddTx: _add_tx,
    d.MbarrierArrive: _arrive,
    d.MbarrierWait: _wait,
    d.SyncThreads: plain("__syncthreads();"),
    d.SyncWarp: plain("__syncwarp();"),
    d.NamedBarrierSync: _named_barrier,
    d.FenceProxyAsync: plain("tl::fence_proxy_async();"),
    d.SetMaxRegisters: _set_max_registers,
}
