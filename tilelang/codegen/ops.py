"""One function per device IR statement: the line or lines of CUDA it is."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tilelang.codegen.emit import Names, Text
from tilelang.codegen.expressions import TL_TYPES, Printer, bare, c_type
from tilelang.ir import device as d
from tilelang.ir.expr import Expr, Var


class Out:
    """Where a kernel's statements are written: the text, the names, the expression printer, the role being printed."""

    def __init__(self) -> None:
        self.text = Text()
        self.names = Names()
        self.printer = Printer(self.names)
        self.first_warp = 0

    def expr(self, value: Expr) -> str:
        return self.printer.text(value)

    def name(self, thing: Var | d.SharedArray | d.BarrierArray | d.Registers | d.TensorMap) -> str:
        return self.names.of(thing, thing.name)

    def barrier(self, ref: d.BarrierRef) -> str:
        return f"{self.name(ref.array)}[{self.expr(ref.index)}]"

    def registers(self, part: d.RegisterSlice) -> str:
        return self.name(part.registers) + "".join(f"[{self.expr(index)}]" for index in part.indices)

    def body(self, statements: d.Body) -> None:
        for statement in statements:
            EMIT[type(statement)](statement, self)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """A C++ block: a level of indentation and a scope of names."""
        with self.text.block(opening), self.names.scope():
            yield


def _tile_op(op: d.TileOp, out: Out) -> None:
    where = f"  ({op.span.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{op.span.line})" if op.span else ""
    out.text.line(f"// {op.text}{where}")
    out.body(op.body)


def _declare(op: d.Declare, out: Out) -> None:
    const = "" if op.mutable else "const "
    note = f"  // {op.text}" if op.text else ""
    value = out.expr(bare(op.value, op.var))
    out.text.line(f"{const}{c_type(op.var.dtype)} {out.name(op.var)} = {value};{note}")


def _assign(op: d.Assign, out: Out) -> None:
    out.text.line(f"{out.name(op.var)} = {out.expr(op.value)};")


def _declare_registers(op: d.DeclareRegisters, out: Out) -> None:
    shape = "".join(f"[{extent}]" for extent in op.registers.shape)
    out.text.line(f"{c_type(op.registers.dtype)} {out.name(op.registers)}{shape};")


def _register_store(op: d.RegisterStore, out: Out) -> None:
    indices = "".join(f"[{out.expr(index)}]" for index in op.indices)
    out.text.line(f"{out.name(op.registers)}{indices} = {out.expr(op.value)};")


def _for(op: d.For, out: Out) -> None:
    start, stop = out.expr(op.start), out.printer.text(op.stop, 11)
    out.text.line("#pragma unroll 1")
    with out.names.scope():
        name = out.name(op.var)
        step = f"++{name}" if op.step == 1 else f"{name} += {op.step}"
        with out.block(f"for ({c_type(op.var.dtype)} {name} = {start}; {name} {'<' if op.step > 0 else '>'} {stop}; {step})"):
            out.body(op.body)


def _unroll(op: d.Unroll, out: Out) -> None:
    out.text.line("#pragma unroll")
    with out.names.scope():
        name = out.name(op.var)
        with out.block(f"for (int {name} = 0; {name} < {op.count}; ++{name})"):
            out.body(op.body)


def _if(op: d.If, out: Out) -> None:
    with out.block(f"if ({out.expr(op.condition)})"):
        out.body(op.then)
    if op.otherwise:
        with out.block("else"):
            out.body(op.otherwise)


def _elected(op: d.Elected, out: Out) -> None:
    which = "" if op.warp is None else f"warp == {out.first_warp + op.warp} && "
    with out.block(f"if ({which}tl::elect_one())"):
        out.body(op.body)


def _ring_advance(op: d.RingAdvance, out: Out) -> None:
    phase = out.name(op.phase)
    if op.stage is None:
        out.text.line(f"{phase} ^= 1;")
        return
    stage = out.name(op.stage)
    out.text.line(f"if (++{stage} == {op.stages}) {{ {stage} = 0; {phase} ^= 1; }}")


def _mbarrier_init(op: d.MbarrierInit, out: Out) -> None:
    out.text.line(f"tl::mbarrier_init({out.barrier(op.barrier)}, {op.barrier.array.arrivals});")


def _expect_tx(op: d.MbarrierExpectTx, out: Out) -> None:
    out.text.line(f"tl::mbarrier_arrive_expect_tx({out.barrier(op.barrier)}, {op.bytes});")


def _arrive(op: d.MbarrierArrive, out: Out) -> None:
    out.text.line(f"tl::mbarrier_arrive({out.barrier(op.barrier)});")


def _wait(op: d.MbarrierWait, out: Out) -> None:
    out.text.line(f"while (!tl::mbarrier_try_wait({out.barrier(op.barrier)}, {out.expr(op.parity)})) {{}}")


def _named_barrier(op: d.NamedBarrierSync, out: Out) -> None:
    out.text.line(f"tl::named_barrier_sync<{op.id}, {op.threads}>();")


def _tma_load(op: d.TmaLoad, out: Out) -> None:
    coordinates = ", ".join(out.expr(c) for c in op.coordinates)
    out.text.line(f"tl::tma_load({out.name(op.map)}, {out.barrier(op.barrier)}, {out.expr(op.address)}, {coordinates});")


def _tma_store(op: d.TmaStore, out: Out) -> None:
    coordinates = ", ".join(out.expr(c) for c in op.coordinates)
    out.text.line(f"tl::tma_store({out.name(op.map)}, {out.expr(op.address)}, {coordinates});")


def _wait_group_read(op: d.BulkWaitGroupRead, out: Out) -> None:
    out.text.line(f"tl::tma_store_wait_group_read<{op.pending}>();")


def _store_matrix(op: d.StoreMatrix, out: Out) -> None:
    out.text.line(f"tl::stmatrix_x4({out.expr(op.address)},")
    with out.text.indented(), out.text.indented():
        for i, value in enumerate(op.values):
            out.text.line(f"{out.expr(value)}{');' if i == len(op.values) - 1 else ','}")


def _store_shared(op: d.StoreShared, out: Out) -> None:
    out.text.line(f"tl::store_shared({out.expr(op.address)}, {', '.join(out.expr(value) for value in op.values)});")


def _wgmma_wait(op: d.WgmmaWaitGroup, out: Out) -> None:
    out.text.line(f"tl::wgmma_wait_group<{op.pending}>();")


def _wgmma_ss(op: d.WgmmaSS, out: Out) -> None:
    majors = ", ".join("tl::MN_MAJOR" if mn else "tl::K_MAJOR" for mn in (op.a_mn_major, op.b_mn_major))
    out.text.line(f"tl::wgmma_ss<{op.n}, tl::{TL_TYPES[op.dtype]}, {majors}>({out.registers(op.accumulator)},")
    with out.text.indented(), out.text.indented():
        out.text.line(f"{out.expr(op.a)},")
        out.text.line(f"{out.expr(op.b)}, {out.expr(op.accumulate)});")


def _fence_registers(op: d.FenceRegisters, out: Out) -> None:
    out.text.line(f"tl::fence_registers({out.name(op.registers)});")


def _set_max_registers(op: d.SetMaxRegisters, out: Out) -> None:
    out.text.line(f"tl::warpgroup_reg_{'alloc' if op.increase else 'dealloc'}<{op.count}>();")


def _plain(call: str) -> Callable[[d.Stmt, Out], None]:
    return lambda _, out: out.text.line(call)


EMIT: dict[type, Callable[..., None]] = {
    d.TileOp: _tile_op,
    d.Declare: _declare,
    d.Assign: _assign,
    d.DeclareRegisters: _declare_registers,
    d.RegisterStore: _register_store,
    d.For: _for,
    d.Unroll: _unroll,
    d.If: _if,
    d.Elected: _elected,
    d.RingAdvance: _ring_advance,
    d.MbarrierInit: _mbarrier_init,
    d.FenceMbarrierInit: _plain("tl::fence_mbarrier_init();"),
    d.MbarrierExpectTx: _expect_tx,
    d.MbarrierArrive: _arrive,
    d.MbarrierWait: _wait,
    d.SyncThreads: _plain("__syncthreads();"),
    d.NamedBarrierSync: _named_barrier,
    d.TmaLoad: _tma_load,
    d.TmaStore: _tma_store,
    d.BulkCommitGroup: _plain("tl::tma_store_commit_group();"),
    d.BulkWaitGroupRead: _wait_group_read,
    d.StoreMatrix: _store_matrix,
    d.StoreShared: _store_shared,
    d.FenceProxyAsync: _plain("tl::fence_proxy_async();"),
    d.WgmmaFence: _plain("tl::wgmma_fence();"),
    d.WgmmaCommitGroup: _plain("tl::wgmma_commit_group();"),
    d.WgmmaWaitGroup: _wgmma_wait,
    d.WgmmaSS: _wgmma_ss,
    d.FenceRegisters: _fence_registers,
    d.SetMaxRegisters: _set_max_registers,
}
