"""One function per device IR statement: the line or lines of CUDA it is."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tilelang.codegen.emit import Names, Text
from tilelang.codegen.expressions import TL_TYPES, Printer, bare, c_type, is_narrow, storage_name
from tilelang.ir import device as d
from tilelang.ir.buffer import Buffer
from tilelang.ir.arith import constant_difference
from tilelang.ir.expr import Cast, Const, Expr, Var
from tilelang.ir.packed import part_of, register_of


class Out:
    """Where a kernel's statements are written: the text, the names, the expression printer, the role being printed."""

    def __init__(self) -> None:
        self.text = Text()
        self.names = Names()
        self.printer = Printer(self.names)
        self.first_warp = 0

    def expr(self, value: Expr) -> str:
        return self.printer.text(value)

    def name(self, thing: Var | Buffer | d.SharedArray | d.BarrierArray | d.Registers | d.TensorMap) -> str:
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
    if not op.mutable and op.var.dtype.is_int:
        out.printer.note(op.var, op.value, op.value)
    out.text.line(f"{const}{c_type(op.var.dtype)} {out.name(op.var)} = {value};{note}")


def _assign(op: d.Assign, out: Out) -> None:
    out.text.line(f"{out.name(op.var)} = {out.expr(op.value)};")


def _declare_registers(op: d.DeclareRegisters, out: Out) -> None:
    registers = op.registers
    per_word = 32 // registers.dtype.bits if registers.packed else 1
    shape = "".join(f"[{extent}]" for extent in (*registers.shape[:-1], registers.shape[-1] // per_word))
    note = f"  // {per_word} {registers.dtype} each" if registers.packed else ""
    out.text.line(f"{_register_type(registers)} {out.name(registers)}{shape};{note}")


def _register_type(registers: d.Registers) -> str:
    return "uint32_t" if registers.packed else c_type(registers.dtype)


def _register_store(op: d.RegisterStore, out: Out) -> None:
    indices = "".join(f"[{out.expr(index)}]" for index in op.indices)
    out.text.line(f"{out.name(op.registers)}{indices} = {out.expr(op.value)};")


def _register_store_word(op: d.RegisterStoreWord, out: Out) -> None:
    *rest, last = op.indices
    target = out.printer.element(op.registers, (*rest, register_of(last, len(op.values))))
    out.text.line(f"{target} = {_word(op.values, out)};")


def _word(values: tuple[Expr, ...], out: Out) -> str:
    """One 32-bit word of the values: one of 32 bits, or 2 or 4 narrow ones, whose rounding the packing does."""
    dtype = values[0].dtype
    if len(values) == 1:
        return out.printer.exact(values[0])
    if _is_register(values):
        *rest, last = values[0].indices  # type: ignore[attr-defined]
        return out.printer.element(values[0].registers, (*rest, register_of(last, len(values))))  # type: ignore[attr-defined]
    return f"tl::pack_{storage_name(dtype)}({', '.join(_unrounded(value, out) for value in values)})"


def _is_register(values: tuple[Expr, ...]) -> bool:
    """Whether the values are all the elements of one packed register, which then need no unpacking and packing."""
    first = values[0]
    if not (isinstance(first, d.RegisterLoad) and first.registers.packed and part_of(first.indices[-1], len(values)) == 0):
        return False
    return all(
        isinstance(value, d.RegisterLoad)
        and value.registers is first.registers
        and value.indices[:-1] == first.indices[:-1]
        and constant_difference(value.indices[-1], first.indices[-1]) == i
        for i, value in enumerate(values)
    )


def _unrounded(value: Expr, out: Out) -> str:
    rounds = isinstance(value, Cast) and is_narrow(value.dtype) and value.value.dtype == "float32"
    return out.expr(value.value) if rounds else out.expr(value)  # type: ignore[attr-defined]


def _while(op: d.While, out: Out) -> None:
    with out.block(f"while ({out.expr(op.condition)})"):
        out.body(op.body)


def _for(op: d.For, out: Out) -> None:
    start, stop = out.expr(op.start), out.printer.text(op.stop, 11)
    out.text.line("#pragma unroll 1")
    if op.step > 0:
        out.printer.note(op.var, op.start, op.stop)
    with out.names.scope():
        name = out.name(op.var)
        step = f"++{name}" if op.step == 1 else f"{name} += {op.step}"
        with out.block(f"for ({c_type(op.var.dtype)} {name} = {start}; {name} {'<' if op.step > 0 else '>'} {stop}; {step})"):
            out.body(op.body)


def _unroll(op: d.Unroll, out: Out) -> None:
    out.text.line("#pragma unroll")
    out.printer.ranges[op.var] = (0, op.count - 1)
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


def _tma_load(op: d.TmaLoad, out: Out) -> None:
    coordinates = ", ".join(out.expr(c) for c in op.coordinates)
    out.text.line(f"tl::tma_load({out.name(op.map)}, {out.barrier(op.barrier)}, {out.expr(op.address)}, {coordinates});")


def _tma_store(op: d.TmaStore, out: Out) -> None:
    coordinates = ", ".join(out.expr(c) for c in op.coordinates)
    out.text.line(f"tl::tma_store({out.name(op.map)}, {out.expr(op.address)}, {coordinates});")


def _wait_group_read(op: d.BulkWaitGroupRead, out: Out) -> None:
    out.text.line(f"tl::tma_store_wait_group_read<{op.pending}>();")


def _wait_group(op: d.BulkWaitGroup, out: Out) -> None:
    out.text.line(f"tl::tma_store_wait_group<{op.pending}>();")


def _store_matrix(op: d.StoreMatrix, out: Out) -> None:
    out.text.line(f"tl::stmatrix_x4({out.expr(op.address)},")
    with out.text.indented(), out.text.indented():
        for i, value in enumerate(op.values):
            out.text.line(f"{out.expr(value)}{');' if i == len(op.values) - 1 else ','}")


def _words(values: tuple[Expr, ...], out: Out) -> str:
    """The 32-bit words of a vector store."""
    per_word = max(32 // values[0].dtype.bits, 1)
    return ", ".join(_word(values[i : i + per_word], out) for i in range(0, len(values), per_word))


def _guard(predicate: Expr | None, out: Out) -> str:
    return f"if ({out.expr(predicate)}) " if predicate is not None else ""


def _element(value: Expr, out: Out) -> str:
    """One element as it lies in memory."""
    if is_narrow(value.dtype):
        return f"tl::bits_{storage_name(value.dtype)}({_unrounded(value, out)})"
    return out.expr(value)


def _store_shared(op: d.StoreShared, out: Out) -> None:
    guard, address, dtype = _guard(op.predicate, out), out.expr(op.address), op.values[0].dtype
    if len(op.values) * dtype.bits >= 32 and dtype.bits < 64:
        out.text.line(f"{guard}tl::store_shared({address}, {_words(op.values, out)});")
    else:
        out.text.line(f"{guard}tl::store_shared_b{dtype.bits}({address}, {_element(op.values[0], out)});")


def _store_global(op: d.StoreGlobal, out: Out) -> None:
    guard, tensor = _guard(op.predicate, out), out.name(op.tensor)
    if len(op.values) == 1:
        out.text.line(f"{guard}{tensor}[{out.expr(op.offset)}] = {_element(op.values[0], out)};")
    else:
        out.text.line(f"{guard}tl::store_global({tensor} + {out.printer.text(op.offset, 13)}, {_words(op.values, out)});")


def _load_global(op: d.LoadGlobal, out: Out) -> None:
    tensor, dtype = out.name(op.tensor), op.target.dtype
    if op.count == 1 and not op.target.packed:
        element = f"{tensor}[{out.expr(op.offset)}]"
        _load_one(op, f"tl::from_bits_{storage_name(dtype)}({element})" if is_narrow(dtype) else element, out)
    else:
        _load_words(op, "tl::load_global", f"{tensor} + {out.printer.text(op.offset, 13)}", out)


def _load_shared(op: d.LoadShared, out: Out) -> None:
    address, dtype = out.expr(op.address), op.target.dtype
    if op.count == 1 and dtype.bits != 32:
        kind = f"<{c_type(dtype)}>" if dtype.bits == 64 else ""
        element = f"tl::load_shared_b{dtype.bits}{kind}({address})"
        _load_one(op, f"tl::from_bits_{storage_name(dtype)}({element})" if is_narrow(dtype) else element, out)
    else:
        _load_words(op, "tl::load_shared", address, out)


def _load_one(op: d.LoadGlobal | d.LoadShared, element: str, out: Out) -> None:
    value = f"{out.expr(op.predicate)} ? {element} : 0" if op.predicate is not None else element
    out.text.line(f"{out.printer.element(op.target, op.first)} = {value};")


def _load_words(op: d.LoadGlobal | d.LoadShared, call: str, source: str, out: Out) -> None:
    """A vector load into consecutive registers; where the predicate fails they become zero."""
    per_word = 32 // op.target.dtype.bits if op.target.packed else 1
    *rest, last = op.first
    first = register_of(last, per_word) if per_word > 1 else last
    where = f"&{out.printer.element(op.target, (*rest, first))}"
    predicate = f", {out.expr(op.predicate)}" if op.predicate is not None else ""
    out.text.line(f"{call}<{op.count // per_word}>({where}, {source}{predicate});")


def _shuffle(op: d.ShuffleXor, out: Out) -> None:
    value = out.expr(op.value)
    out.text.line(f"const {c_type(op.var.dtype)} {out.name(op.var)} = __shfl_xor_sync(0xffffffff, {value}, {op.lane_mask});")


def _wgmma_wait(op: d.WgmmaWaitGroup, out: Out) -> None:
    out.text.line(f"tl::wgmma_wait_group<{op.pending}>();")


def _wgmma_ss(op: d.WgmmaSS, out: Out) -> None:
    majors = ", ".join("tl::MN_MAJOR" if mn else "tl::K_MAJOR" for mn in (op.a_mn_major, op.b_mn_major))
    out.text.line(f"tl::wgmma_ss<{op.n}, tl::{TL_TYPES[op.dtype]}, {majors}>({out.registers(op.accumulator)},")
    with out.text.indented(), out.text.indented():
        out.text.line(f"{out.expr(op.a)},")
        out.text.line(f"{out.expr(op.b)}, {out.expr(op.accumulate)});")


def _wgmma_rs(op: d.WgmmaRS, out: Out) -> None:
    major = "tl::MN_MAJOR" if op.b_mn_major else "tl::K_MAJOR"
    *rest, last = op.a_first
    a = f"&{out.printer.element(op.a, (*rest, register_of(last, 2)))}"
    out.text.line(f"tl::wgmma_rs<{op.n}, tl::{TL_TYPES[op.dtype]}, {major}>({out.registers(op.accumulator)}, {a},")
    with out.text.indented(), out.text.indented():
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
    d.RegisterStoreWord: _register_store_word,
    d.For: _for,
    d.While: _while,
    d.Break: _plain("break;"),
    d.Continue: _plain("continue;"),
    d.Unroll: _unroll,
    d.If: _if,
    d.Elected: _elected,
    d.RingAdvance: _ring_advance,
    d.MbarrierInit: _mbarrier_init,
    d.FenceMbarrierInit: _plain("tl::fence_mbarrier_init();"),
    d.MbarrierExpectTx: _expect_tx,
    d.MbarrierAddTx: _add_tx,
    d.MbarrierArrive: _arrive,
    d.MbarrierWait: _wait,
    d.SyncThreads: _plain("__syncthreads();"),
    d.SyncWarp: _plain("__syncwarp();"),
    d.NamedBarrierSync: _named_barrier,
    d.TmaLoad: _tma_load,
    d.TmaStore: _tma_store,
    d.BulkCommitGroup: _plain("tl::tma_store_commit_group();"),
    d.BulkWaitGroupRead: _wait_group_read,
    d.BulkWaitGroup: _wait_group,
    d.StoreMatrix: _store_matrix,
    d.LoadGlobal: _load_global,
    d.StoreGlobal: _store_global,
    d.LoadShared: _load_shared,
    d.StoreShared: _store_shared,
    d.ShuffleXor: _shuffle,
    d.FenceProxyAsync: _plain("tl::fence_proxy_async();"),
    d.WgmmaFence: _plain("tl::wgmma_fence();"),
    d.WgmmaCommitGroup: _plain("tl::wgmma_commit_group();"),
    d.WgmmaWaitGroup: _wgmma_wait,
    d.WgmmaSS: _wgmma_ss,
    d.WgmmaRS: _wgmma_rs,
    d.FenceRegisters: _fence_registers,
    d.SetMaxRegisters: _set_max_registers,
}
