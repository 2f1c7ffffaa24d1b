"""The tensor core: wgmma, its groups and its fences."""
from __future__ import annotations

from tilelang.codegen.c_types import TL_TYPES
from tilelang.codegen.out import Emit, Out, plain
from tilelang.ir import device as d
from tilelang.ir.packed import register_of


def _wgmma_wait(op: d.WgmmaWaitGroup, out: Out) -> None:
    out.text.line(f"tl::wgmma_wait_group<{op.pending}>();")


def _accumulator(op: d.WgmmaSS | d.WgmmaRS, out: Out) -> str:
    return out.printer.element(op.accumulator.registers, op.accumulator.indices)


def _wgmma_ss(op: d.WgmmaSS, out: Out) -> None:
    majors = ", ".join("tl::MN_MAJOR" if mn else "tl::K_MAJOR" for mn in (op.a_mn_major, op.b_mn_major))
    out.text.line(f"tl::wgmma_ss<{op.n}, tl::{TL_TYPES[op.dtype]}, {majors}>({_accumulator(op, out)},")
    with out.text.indented(), out.text.indented():
        out.text.line(f"{out.expr(op.a)},")
        out.text.line(f"{out.expr(op.b)}, {out.expr(op.accumulate)});")


def _wgmma_rs(op: d.WgmmaRS, out: Out) -> None:
    major = "tl::MN_MAJOR" if op.b_mn_major else "tl::K_MAJOR"
    *rest, last = op.a_first
    a = f"&{out.printer.element(op.a, (*rest, register_of(last, 2)))}"
    out.text.line(f"tl::wgmma_rs<{op.n}, tl::{TL_TYPES[op.dtype]}, {major}>({_accumulator(op, out)}, {a},")
    with out.text.indented(), out.text.indented():
        out.text.line(f"{out.expr(op.b)}, {out.expr(op.accumulate)});")


def _fence_registers(op: d.FenceRegisters, out: Out) -> None:
    out.text.line(f"tl::fence_registers({out.name(op.registers)});")


TENSOR_CORE: dict[type, Emit] = {
    d.WgmmaFence: plain("tl::wgmma_fence();"),
    d.WgmmaCommitGroup: plain("tl::wgmma_commit_group();"),
    d.WgmmaWaitGroup: _wgmma_wait,
    d.WgmmaSS: _wgmma_ss,
    d.WgmmaRS: _wgmma_rs,
    d.FenceRegisters: _fence_registers,
}
