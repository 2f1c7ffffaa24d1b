"""The points of an element-wise loop that one thread does, as digits of the loop's layout.

Lanes and warps give a thread its part of each index; registers become unrolled loops around the body, except the innermost
register digit of one dimension, whose points are a *vector* and are lowered together so that they share wide accesses.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field

from tilelang.errors import InternalError
from tilelang.ir import device as d
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import i32
from tilelang.ir.expr import INT32, Const, Expr, Var, compare
from tilelang.layout.digits import WARP_THREADS, Axis, Digit, Layout, real_digits
from tilelang.passes.lower_arith import add, all_of, quotient, remainder, times
from tilelang.passes.lower_context import Context


@dataclass(frozen=True, slots=True)
class Points:
    """One thread's points, as many as `subs` has entries: the loop variables' values at each, the value of every register digit
    (by loop dimension and position among its digits of more than one value), what must hold for a point to be in the loop's
    box, what must hold for this thread to be the one that stores, and each point's own arrays."""

    loop_vars: tuple[Var, ...]
    layout: Layout | None
    subs: tuple[dict[Var, Expr], ...]
    digits: tuple[dict[tuple[int, int], Expr], ...]
    valid: Expr | None = None
    owner: Expr | None = None
    locals: tuple[dict[Buffer, d.Registers], ...] = ()

    @property
    def count(self) -> int:
        return len(self.subs)

    def only(self, e: int) -> Points:
        """The e-th point alone."""
        own = (self.locals[e],) if self.locals else ()
        return dataclasses.replace(self, subs=(self.subs[e],), digits=(self.digits[e],), locals=own)

    def with_values(self, var: Var, values: list[Expr]) -> None:
        """Makes `var` stand for a value of its own at each point, from here on."""
        for subs, value in zip(self.subs, values, strict=True):
            subs[var] = value

    def register(self, buffer: Buffer, indices: tuple[Expr, ...], home: d.Registers, layout: Layout, e: int) -> tuple[Expr, ...]:
        """Indices into `home` of the fragment element at the e-th point."""
        outer: Expr = i32(0)
        within: Expr = i32(0)
        row = home.shape[-1]
        for value, stride in self._register_digits(buffer, indices, layout, e):
            outer = add(outer, times(value, stride // row))
            within = add(within, times(value, stride % row))
        return (outer, within) if len(home.shape) > 1 else (within,)

    def _register_digits(
        self, buffer: Buffer, indices: tuple[Expr, ...], layout: Layout, e: int
    ) -> Iterator[tuple[Expr, int]]:
        """(value, stride) of each register digit of a fragment, matched by position with the digits of the loop."""
        loop = self.layout
        for index, dim in zip(indices, layout.dims, strict=True):
            if not isinstance(index, Var):
                continue  # 0, in a dimension of one element
            loop_dim, theirs = self.loop_vars.index(index), real_digits(dim)
            ours = real_digits(loop.dims[loop_dim]) if loop is not None else ()
            if [(x.size, x.axis) for x in ours] != [(x.size, x.axis) for x in theirs]:
                raise InternalError(f"the layouts of {buffer.name} and of the loop have different digits", code="TL903")
            for position, digit in enumerate(theirs):
                if digit.axis is Axis.REGISTER:
                    yield self.digits[e][loop_dim, position], digit.stride


def alone(owner: Expr | None = None) -> Points:
    """No loop's point: for what all threads of a role do together, or only the `owner`."""
    return Points((), None, ({},), ({},), owner=owner)


@dataclass(frozen=True, slots=True)
class Walk:
    """How a thread goes over its points: declarations before, unrolled loops (variable, turns, loop dimension) from the outside
    in, the points."""

    declare: tuple[d.Declare, ...]
    turns: tuple[tuple[Var, int, int], ...]
    points: Points


def walk_points(loop: tile.Parallel, layout: Layout, context: Context) -> Walk:
    """The walk of every thread of the role over `loop`, whose extents are constants."""
    walker = _Walker(loop, layout, context)
    bases = [walker.base(dim) for dim in range(len(loop.vars))]
    points = Points(loop.vars, layout, (), (), _valid(loop, layout, bases), _owner(layout, context))
    return Walk(tuple(walker.declare), tuple(walker.turns), _vector_points(points, layout, bases, walker.digits))


@dataclass(slots=True)
class _Walker:
    """Collects the declarations, the unrolled loops and the values of the register digits but the vector's."""

    loop: tile.Parallel
    layout: Layout
    context: Context
    declare: list[d.Declare] = field(default_factory=list)
    turns: list[tuple[Var, int, int]] = field(default_factory=list)
    digits: dict[tuple[int, int], Expr] = field(default_factory=dict)

    def base(self, dim: int) -> Expr:
        """The index of a thread's first point of a vector in a dimension."""
        var, digits = self.loop.vars[dim], self.layout.dims[dim]
        base = self._thread_part(var, digits)
        weight = 1
        real = real_digits(digits)
        for position in reversed(range(len(real))):
            digit = real[position]
            if digit.axis is Axis.REGISTER and (dim, position) != self.layout.vector_digit():
                turn = Var(f"{var.name}{position}" if dim or position else var.name, INT32)
                self.context.ranges[turn] = (0, digit.size - 1)
                self.turns.append((turn, digit.size, dim))
                self.digits[dim, position] = turn
                base = add(base, times(turn, weight))
            weight *= digit.size
        return base

    def _thread_part(self, var: Var, digits: tuple[Digit, ...]) -> Expr:
        """The share of an index that the thread's lane and warp give, as a variable unless it is nothing."""
        total: Expr = i32(0)
        weight = 1
        for digit in reversed(real_digits(digits)):
            if digit.axis is not Axis.REGISTER:
                total = add(total, times(_thread_digit(digit, self.context), weight))
            weight *= digit.size
        if isinstance(total, Const):
            return total
        part = Var(f"{var.name}_thread", INT32)
        self.declare.append(d.Declare(var=part, value=total, span=self.loop.span))
        self.context.note(part, total)
        return part


def _thread_digit(digit: Digit, context: Context) -> Expr:
    """One digit of the lane or of the warp; of the role's most significant one the number that is left is itself the digit."""
    if digit.axis is Axis.LANE:
        return remainder(quotient(context.thread, digit.stride), digit.size)
    stride = digit.stride * WARP_THREADS
    value = quotient(context.thread, stride)
    return value if stride * digit.size >= context.threads else remainder(value, digit.size)


def _vector_points(points: Points, layout: Layout, bases: list[Expr], digits: dict[tuple[int, int], Expr]) -> Points:
    """All points of a vector: the base, and the vector digit's values along its dimension."""
    vector = layout.vector_digit()
    count = real_digits(layout.dims[vector[0]])[-1].size if vector else 1
    subs, values = [], []
    for e in range(count):
        moved = [add(base, i32(e)) if vector and dim == vector[0] else base for dim, base in enumerate(bases)]
        subs.append(dict(zip(points.loop_vars, moved, strict=True)))
        values.append(digits | ({vector: i32(e)} if vector else {}))
    return dataclasses.replace(points, subs=tuple(subs), digits=tuple(values))


def _valid(loop: tile.Parallel, layout: Layout, bases: list[Expr]) -> Expr | None:
    """What keeps a padded layout inside the loop's box; the vector's dimension is padded by whole vectors only."""
    conditions = []
    for base, extent, covered in zip(bases, loop.extents, layout.shape, strict=True):
        if isinstance(extent, Const) and covered > int(extent.value):
            conditions.append(compare("<", base, int(extent.value)))
    return all_of(conditions)


def _owner(layout: Layout, context: Context) -> Expr | None:
    """True in one of the threads that hold copies of the same points, for stores to memory; None if there are no copies."""
    thread, warps = context.thread, context.threads // WARP_THREADS
    lane = _zero_gaps(layout, Axis.LANE, WARP_THREADS, remainder(thread, WARP_THREADS))
    warp = _zero_gaps(layout, Axis.WARP, warps, quotient(thread, WARP_THREADS))
    return all_of([*lane, *warp])


def _zero_gaps(layout: Layout, axis: Axis, extent: int, value: Expr) -> list[Expr]:
    """Conditions that `value`, a position on an axis of `extent`, is 0 in every part of it that no digit of the layout uses."""
    conditions = []
    reach = 1
    digits = [digit for dim in range(len(layout.dims)) for digit in layout.digits_on(dim, axis)]
    for digit in sorted(digits, key=lambda digit: digit.stride):
        if digit.stride > reach:
            conditions.append(compare("==", remainder(quotient(value, reach), digit.stride // reach), 0))
        reach = digit.stride * digit.size
    if reach < extent:
        conditions.append(compare("==", remainder(quotient(value, reach), extent // reach), 0))
    return conditions
