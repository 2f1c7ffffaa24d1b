"""Statements without an instruction of their own: declarations, assignments, control flow, rings."""
from __future__ import annotations

from tilelang.codegen.c_types import c_type
from tilelang.codegen.expressions import Binding, bare
from tilelang.codegen.out import Emit, Out, plain
from tilelang.codegen.words import word
from tilelang.ir import device as d
from tilelang.ir.packed import register_of


def _tile_op(op: d.TileOp, out: Out) -> None:
    where = f"  ({op.span.short})" if op.span else ""
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
    out.text.line(f"{out.printer.element(op.registers, op.indices)} = {out.expr(op.value)};")


def _register_store_word(op: d.RegisterStoreWord, out: Out) -> None:
    *rest, last = op.indices
    target = out.printer.element(op.registers, (*rest, register_of(last, len(op.values))))
    out.text.line(f"{target} = {word(op.values, out)};")


def _while(op: d.While, out: Out) -> None:
    with out.block(f"while ({out.expr(op.condition)})"):
        out.body(op.body)


def _for(op: d.For, out: Out) -> None:
    start, stop = out.expr(op.start), out.printer.text(op.stop, Binding.SHIFT)
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
    out.text.line(f"if ({out.expr(op.condition)}) {{")
    with out.inner():
        out.body(op.then)
    if op.otherwise:
        out.text.line("} else {")
        with out.inner():
            out.body(op.otherwise)
    out.text.line("}")


def _elected(op: d.Elected, out: Out) -> None:
    which = "" if op.warp is None else f"warp == {out.first_warp + op.warp} && "
    with out.block(f"if ({which}tl::elect_one())"):
        out.body(op.body)


def _ring_advance(op: d.RingAdvance, out: Out) -> None:
    phase = out.name(op.phase)
    laps, slots = divmod(op.slots, op.stages)
    if laps % 2:
        out.text.line(f"{phase} ^= 1;")
    if op.stage is None or not slots:
        return
    stage = out.name(op.stage)
    if slots == 1:
        out.text.line(f"if (++{stage} == {op.stages}) {{ {stage} = 0; {phase} ^= 1; }}")
    else:
        out.text.line(f"if (({stage} += {slots}) >= {op.stages}) {{ {stage} -= {op.stages}; {phase} ^= 1; }}")


STRUCTURE: dict[type, Emit] = {
    d.TileOp: _tile_op,
    d.Declare: _declare,
    d.Assign: _assign,
    d.DeclareRegisters: _declare_registers,
    d.RegisterStore: _register_store,
    d.RegisterStoreWord: _register_store_word,
    d.For: _for,
    d.While: _while,
    d.Break: plain("break;"),
    d.Continue: plain("continue;"),
    d.Unroll: _unroll,
    d.If: _if,
    d.Elected: _elected,
    d.RingAdvance: _ring_advance,
}
