"""The points of an element-wise loop that one thread does: as digits of the loop's layout.

Lanes and warps give a thread its part of each index; registers become unrolled loops around the body, except the innermost register
digit of the last dimension, whose points are a *vector* and are lowered together so that they share wide accesses.
"""
from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tilelang.errors import InternalError, Span
from tilelang.ir import device as d
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import i32
from tilelang.ir.expr import INT32, Const, Expr, Var, binary, compare
from tilelang.layout.digits import Axis, Digit, Layout
from tilelang.passes.lower_access import all_of
from tilelang.passes.lower_context import Context
from tilelang.passes.lower_copy import add


@dataclass(frozen=True, slots=True)
class Points:
    """One thread's points, as many as `subs` has entries: the loop variables' values at each, the value of every register digit
    (by loop dimension and position; one entry per point), what must hold for a point to be in the loop's box, what must hold for
    this thread to be the one that stores, and each point's own arrays."""

    loop_vars: tuple[Var, ...]
    layout: Layout
    subs: tuple[dict[Var, Expr], ...]
    digits: tuple[dict[tuple[int, int], Expr], ...]
    valid: Expr | None
    owner: Expr | None
    locals: tuple[dict[Buffer, d.Registers], ...] = ()

    @property
    def count(self) -> int:
        return len(self.subs)

    def only(self, e: int) -> Points:
        """The e-th point alone."""
        own = (self.locals[e],) if self.locals else ()
        return dataclasses.replace(self, subs=(self.subs[e],), digits=(self.digits[e],), locals=own)

    def with_values(self, var: Var, values: list[Expr]) -> None:
        """Makes `var` stand for a value of its own at each point."""
        for subs, value in zip(self.subs, values, strict=True):
            subs[var] = value

    def register(self, buffer: Buffer, indices: tuple[Expr, ...], home: d.Registers, layout: Layout, e: int) -> tuple[Expr, ...]:
        """Indices into `home` of the fragment element at the e-th point."""
        flat: list[tuple[Expr, int]] = []
        for index, dim in zip(indices, layout.dims, strict=True):
            if not isinstance(index, Var):
                continue
            loop_dim = self.loop_vars.index(index)
            flat += _matched(self, buffer, loop_dim, dim, e)
        row = home.shape[-1]
        last: Expr = i32(0)
        outer: Expr = i32(0)
        for value, stride in flat:
            last = add(last, _times(value, stride % row if len(home.shape) > 1 else stride))
            outer = add(outer, _times(value, stride // row)) if len(home.shape) > 1 else outer
        return (outer, last) if len(home.shape) > 1 else (last,)


def _matched(points: Points, buffer: Buffer, loop_dim: int, dim: tuple[Digit, ...], e: int) -> list[tuple[Expr, int]]:
    """(value, stride) of each register digit of a fragment's dimension, matched by position with the loop's digits."""
    ours = _real(points.layout.dims[loop_dim])
    theirs = _real(dim)
    if [(x.size, x.axis) for x in ours] != [(x.size, x.axis) for x in theirs]:
        raise InternalError(f"the layouts of {buffer.name} and of the loop have different digits", code="TL903")
    return [
        (points.digits[e][loop_dim, position], digit.stride)
        for position, digit in enumerate(theirs)
        if digit.axis is Axis.REGISTER
    ]  # fmt: skip


def _real(dim: tuple[Digit, ...]) -> tuple[Digit, ...]:
    return tuple(digit for digit in dim if digit.size > 1)


def _times(value: Expr, factor: int) -> Expr:
    if factor == 0 or (isinstance(value, Const) and value.value == 0):
        return i32(0)
    return value if factor == 1 else binary("*", value, factor)


@dataclass(frozen=True, slots=True)
class Walk:
    """How a thread goes over its points: declarations before, unrolled loops (variable, turns, loop dimension) from the outside in,
    the points."""

    declare: d.Body
    turns: tuple[tuple[Var, int, int], ...]
    points: Points


def walk_points(loop: tile.Parallel, layout: Layout, context: Context) -> Walk:
    """The walk of every thread of the role over `loop`, whose extents are constants."""
    declare: list[d.Stmt] = []
    loops: list[tuple[Var, int, int]] = []
    bases: list[Expr] = []
    digit_values: dict[tuple[int, int], Expr] = {}
    vector = vector_digit(layout)
    for dim, (var, digits) in enumerate(zip(loop.vars, layout.dims, strict=True)):
        base = _thread_part(var, digits, context, declare, loop.span)
        bases.append(_register_part(var, _real(digits), dim, vector, base, context, loops, digit_values))
    points = Points(loop.vars, layout, (), (), _valid(loop, layout, bases), _owner(layout, context))
    return Walk(tuple(declare), tuple(loops), _vector_points(points, bases, vector, digit_values))


def vector_digit(layout: Layout) -> tuple[int, int] | None:
    """(dimension, position among its digits of more than one) of the digit whose values are neighbouring registers of a thread and
    neighbours in their dimension; None if there is none."""
    for dim, digits in enumerate(layout.dims):
        real = _real(digits)
        if real and real[-1].axis is Axis.REGISTER and real[-1].stride == 1:
            return dim, len(real) - 1
    return None


def _vector_points(
    points: Points, bases: list[Expr], vector: tuple[int, int] | None, digit_values: dict[tuple[int, int], Expr]
) -> Points:
    count = _real(points.layout.dims[vector[0]])[-1].size if vector else 1
    subs, digits = [], []
    for e in range(count):
        moved = {dim: add(base, i32(e)) if vector and dim == vector[0] else base for dim, base in enumerate(bases)}
        subs.append({var: moved[dim] for dim, var in enumerate(points.loop_vars)})
        digits.append(digit_values | ({vector: i32(e)} if vector else {}))
    return dataclasses.replace(points, subs=tuple(subs), digits=tuple(digits))


def _thread_part(var: Var, digits: tuple[Digit, ...], context: Context, declare: list[d.Stmt], span: Span | None) -> Expr:
    """The share of an index that the thread's lane and warp give, as a variable unless it is nothing."""
    total: Expr = i32(0)
    weight = 1
    for digit in reversed(digits):
        if digit.axis is not Axis.REGISTER and digit.size > 1:
            total = add(total, _times(_thread_digit(digit, context), weight))
        weight *= digit.size
    if isinstance(total, Const):
        return total
    part = Var(f"{var.name}_thread", INT32)
    declare.append(d.Declare(var=part, value=total, span=span))
    context.note(part, total)
    return part


def _thread_digit(digit: Digit, context: Context) -> Expr:
    """One digit of the lane or of the warp."""
    stride = digit.stride if digit.axis is Axis.LANE else digit.stride * 32
    whole = 32 if digit.axis is Axis.LANE else context.threads
    value = context.thread if stride == 1 else _shift_down(context.thread, stride)
    if stride * digit.size >= whole and digit.axis is Axis.WARP:
        return value
    return binary("&", value, digit.size - 1) if digit.size & (digit.size - 1) == 0 else binary("%", value, digit.size)


def _shift_down(value: Expr, divisor: int) -> Expr:
    if divisor & (divisor - 1) == 0:
        return binary(">>", value, divisor.bit_length() - 1)
    return binary("//", value, divisor)


def _register_part(
    var: Var, digits: tuple[Digit, ...], dim: int, vector: tuple[int, int] | None, base: Expr, context: Context, loops: list[tuple[Var, int, int]],
    digit_values: dict[tuple[int, int], Expr],
) -> Expr:  # fmt: skip
    """Adds the register digits of one dimension to `base`, each an unrolled loop; the vector digit is left to the points."""
    weight = 1
    for position in reversed(range(len(digits))):
        digit = digits[position]
        if digit.axis is Axis.REGISTER and (dim, position) != vector:
            turn = Var(f"{var.name}{position}" if dim or position else var.name, INT32)
            context.ranges[turn] = (0, digit.size - 1)
            loops.append((turn, digit.size, dim))
            digit_values[dim, position] = turn
            base = add(base, _times(turn, weight))
        weight *= digit.size
    return base


def _valid(loop: tile.Parallel, layout: Layout, bases: list[Expr]) -> Expr | None:
    """What keeps a padded layout inside the loop's box; the last dimension is padded by whole vectors only."""
    conditions = []
    for base, extent, covered in zip(bases, loop.extents, layout.shape, strict=True):
        if isinstance(extent, Const) and covered > int(extent.value):
            conditions.append(compare("<", base, int(extent.value)))
    return all_of(conditions)


def _owner(layout: Layout, context: Context) -> Expr | None:
    """True in one of the threads that hold copies of the same points, for stores to memory; None if there are no copies."""
    warps = context.threads // 32
    conditions = []
    for axis, whole, value in (
        (Axis.LANE, 32, binary("&", context.thread, 31)),
        (Axis.WARP, warps, binary(">>", context.thread, 5)),
    ):  # fmt: skip
        digits = sorted((x for dim in layout.dims for x in dim if x.axis is axis and x.size > 1), key=lambda x: x.stride)
        reach = 1
        for digit in digits:
            if digit.stride > reach:
                conditions.append(compare("==", _field(value, reach, digit.stride // reach), 0))
            reach = digit.stride * digit.size
        if reach < whole:
            conditions.append(compare("==", _field(value, reach, whole // reach), 0))
    return all_of(conditions)


def _field(value: Expr, stride: int, size: int) -> Expr:
    moved = _shift_down(value, stride) if stride > 1 else value
    return binary("&", moved, size - 1) if size & (size - 1) == 0 else binary("%", moved, size)

