"""Data movement: TMA, stmatrix, ordinary loads and stores, shuffles."""
from __future__ import annotations

from tilelang.codegen.c_types import c_type, is_narrow, wrapper_name
from tilelang.codegen.expressions import Binding
from tilelang.codegen.out import Emit, Out, plain
from tilelang.codegen.words import element, words
from tilelang.ir import device as d
from tilelang.ir.packed import register_of


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


def _store_shared(op: d.StoreShared, out: Out) -> None:
    guard, address, dtype = out.guard(op.predicate), out.expr(op.address), op.values[0].dtype
    if len(op.values) * dtype.bits >= 32 and dtype.bits < 64:
        out.text.line(f"{guard}tl::store_shared({address}, {words(op.values, out)});")
    else:
        out.text.line(f"{guard}tl::store_shared_b{dtype.bits}({address}, {element(op.values[0], out)});")


def _store_global(op: d.StoreGlobal, out: Out) -> None:
    guard, tensor = out.guard(op.predicate), out.name(op.tensor)
    if len(op.values) == 1:
        out.text.line(f"{guard}{tensor}[{out.expr(op.offset)}] = {element(op.values[0], out)};")
    else:
        address = f"{tensor} + {out.printer.text(op.offset, Binding.PRODUCT)}"
        out.text.line(f"{guard}tl::store_global({address}, {words(op.values, out)});")


def _load_global(op: d.LoadGlobal, out: Out) -> None:
    tensor = out.name(op.tensor)
    if op.count == 1 and not op.target.packed:
        _load_one(op, f"{tensor}[{out.expr(op.offset)}]", out)
    else:
        wrapper = "tl::load_global_constant" if op.constant else "tl::load_global"
        _load_words(op, wrapper, f"{tensor} + {out.printer.text(op.offset, Binding.PRODUCT)}", out)


def _load_shared(op: d.LoadShared, out: Out) -> None:
    address, dtype = out.expr(op.address), op.target.dtype
    if op.count == 1 and dtype.bits != 32:
        kind = f"<{c_type(dtype)}>" if dtype.bits == 64 else ""
        _load_one(op, f"tl::load_shared_b{dtype.bits}{kind}({address})", out)
    else:
        _load_words(op, "tl::load_shared", address, out)


def _load_one(op: d.LoadGlobal | d.LoadShared, stored: str, out: Out) -> None:
    """An element that is no whole register; where the predicate fails it is zero."""
    dtype = op.target.dtype
    value = f"tl::from_bits_{wrapper_name(dtype)}({stored})" if is_narrow(dtype) else stored
    if op.predicate is not None:
        value = f"{out.printer.text(op.predicate, Binding.OR)} ? {value} : 0"
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


MEMORY: dict[type, Emit] = {
    d.TmaLoad: _tma_load,
    d.TmaStore: _tma_store,
    d.BulkCommitGroup: plain("tl::tma_store_commit_group();"),
    d.BulkWaitGroupRead: _wait_group_read,
    d.BulkWaitGroup: _wait_group,
    d.StoreMatrix: _store_matrix,
    d.LoadGlobal: _load_global,
    d.StoreGlobal: _store_global,
    d.LoadShared: _load_shared,
    d.StoreShared: _store_shared,
    d.ShuffleXor: _shuffle,
}
