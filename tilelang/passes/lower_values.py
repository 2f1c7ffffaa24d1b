"""Tile expressions as device expressions, for all points of a vector at once, with the loads that they need in front.

A load of memory becomes a vector access into a small register array, guarded by what is not proved about its indices (outside a
buffer there are zeros); a load of a fragment is a register of this thread.
"""
from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from tilelang.errors import InternalError, Span, Unsupported
from tilelang.ir import device as d
from tilelang.ir import expr as x
from tilelang.ir.arith import bounds, simplify, widened
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import RegisterLoad, i32
from tilelang.ir.expr import INT32, Expr, Var
from tilelang.ir.packed import part_of
from tilelang.ir.types import Scope
from tilelang.passes.extents import sizes
from tilelang.passes.lower_access import Run, global_offset, in_storage, inside, run_of, shared_address, width
from tilelang.passes.lower_arith import add, all_of, powers_of_two, times
from tilelang.passes.lower_context import Context
from tilelang.passes.lower_points import Points, alone


@dataclass(slots=True)
class Values:
    """Lowers expressions at `points`; the statements that must come first are appended to `before`."""

    context: Context
    before: list[d.Stmt]
    span: Span | None
    points: Points = field(default_factory=alone)

    def one(self, value: Expr) -> Expr:
        """The value at the only point."""
        (result,) = self.vector(value)
        return result

    def vector(self, value: Expr) -> list[Expr]:
        """The value at every point."""
        match value:
            case x.Const():
                return [value] * self.points.count
            case Var():
                return [subs.get(value, value) for subs in self.points.subs]
            case x.Load():
                return self._load(value)
            case x.Unary():
                return [dataclasses.replace(value, value=v) for v in self.vector(value.value)]
            case x.Cast() | x.Reinterpret():
                return [type(value)(v, value.dtype) for v in self.vector(value.value)]
            case x.Binary() | x.Compare():
                return [type(value)(value.op, a, b) for a, b in zip(self.vector(value.a), self.vector(value.b), strict=True)]
            case x.Select():
                parts = (self.vector(part) for part in (value.condition, value.then, value.otherwise))
                return [x.Select(*three) for three in zip(*parts, strict=True)]
            case x.Call():
                columns = [self.vector(arg) for arg in value.args]
                return [x.Call(value.fn, args, value.dtype) for args in zip(*columns, strict=True)]
        raise InternalError(f"no lowering for the expression {type(value).__name__}", code="TL904", span=self.span)

    def indices(self, indices: tuple[Expr, ...]) -> list[tuple[Expr, ...]]:
        """The indices of an access at every point, simplified."""
        columns = [[self._index(v) for v in self.vector(index)] for index in indices]
        return list(zip(*columns, strict=True)) if columns else [()] * self.points.count

    def _index(self, index: Expr) -> Expr:
        """Simplified, and in 64 bits where 32 are not proved enough."""
        simple = powers_of_two(simplify(index, self.context.ranges))
        found = bounds(simple, self.context.ranges)
        low, high = INT32.limits
        return simple if found is None or (found[0] >= low and found[1] <= high) else widened(simple)

    # ---- loads ---------------------------------------------------------------------------------------------------------------

    def _load(self, load: x.Load) -> list[Expr]:
        buffer, context = load.buffer, self.context
        if buffer.scope is Scope.VAR:
            return [context.variables[buffer]] * self.points.count
        if buffer.scope is Scope.FRAGMENT:
            places = (self.register(buffer, load.indices, e) for e in range(self.points.count))
            return [RegisterLoad(context.registers[buffer.storage], place) for place in places]
        if buffer.scope in (Scope.GLOBAL, Scope.SHARED):
            return self._memory_load(load)
        return [RegisterLoad(*self._local(buffer, at, e)) for e, at in enumerate(self.indices(load.indices))]

    def _local(self, buffer: Buffer, indices: tuple[Expr, ...], e: int) -> tuple[d.Registers, tuple[Expr, ...]]:
        """The e-th point's own array, and the row-major index into it."""
        home = self.points.locals[e][buffer]
        flat: Expr = i32(0)
        for index, extent in zip(indices, sizes(buffer.shape), strict=True):
            flat = add(times(flat, extent), index)
        return home, (flat,)

    def register(self, buffer: Buffer, indices: tuple[Expr, ...], e: int) -> tuple[Expr, ...]:
        """Indices of a fragment's element into its register array."""
        home = self.context.registers.get(buffer.storage)
        if home is None or self.points.layout is None:
            raise Unsupported(
                f"{buffer.name} is a fragment; its elements are read in T.Parallel loops", code="TL344", span=self.span,
                hint="copy the value to a shared buffer first",
            )  # fmt: skip
        return self.points.register(buffer, indices, home, self.context.fragment_layouts[buffer], e)

    def _memory_load(self, load: x.Load) -> list[Expr]:
        buffer, count = load.buffer, self.points.count
        indices = self.indices(load.indices)
        run = self._run(buffer, indices)
        same = count > 1 and run.step == 0
        step = 1 if same else width(run, count, self.context.alignment_bytes(buffer.storage), self.context.ranges)
        elements = 1 if same else count
        packed = buffer.dtype.bits < 32 and step > 1
        target = d.Registers(name=f"{buffer.name}_value", dtype=buffer.dtype, shape=(elements,), packed=packed)
        self.before.append(d.DeclareRegisters(registers=target, span=self.span))
        for first in range(0, elements, step):
            self.before.append(self._access(buffer, indices[first], target, first, step))
        return [RegisterLoad(target, (i32(0 if same else e),)) for e in range(count)]

    def _run(self, buffer: Buffer, indices: list[tuple[Expr, ...]]) -> Run:
        """How the elements of a vector lie, with declared variables looked through."""
        return run_of(buffer, [tuple(self.context.expand(index) for index in point) for point in indices])

    def _access(self, buffer: Buffer, indices: tuple[Expr, ...], target: d.Registers, first: int, count: int) -> d.Stmt:
        predicate = all_of([self.points.valid, *inside(buffer, indices, self.context.ranges)])
        if buffer.scope is Scope.GLOBAL:
            offset = global_offset(buffer, indices, self.context.ranges)
            return d.LoadGlobal(
                tensor=buffer.storage, offset=offset, target=target, first=(i32(first),), count=count, predicate=predicate,
                constant=buffer.storage not in self.context.written, span=self.span,
            )  # fmt: skip
        address = self.shared_address(buffer, indices)
        return d.LoadShared(address=address, target=target, first=(i32(first),), count=count, predicate=predicate, span=self.span)

    def shared_address(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
        """The byte address of an element of a shared buffer."""
        storage = buffer.storage
        start, layout = self.context.shared_start(storage), self.context.shared_layouts[storage]
        return shared_address(layout, start, sizes(storage.shape), in_storage(buffer, indices), self.context.ranges)

    # ---- stores --------------------------------------------------------------------------------------------------------------

    def store(self, buffer: Buffer, indices: tuple[Expr, ...], value: Expr) -> None:
        """`buffer[indices] = value` at every point, converted to the buffer's dtype; appended to `before`."""
        self.put(buffer, indices, self.vector(x.convert(value, buffer.dtype)))

    def put(self, buffer: Buffer, indices: tuple[Expr, ...], values: list[Expr]) -> None:
        """The same with a device expression of the buffer's dtype for each point."""
        if buffer.scope is Scope.FRAGMENT:
            self._store_registers(buffer, indices, values)
        elif buffer.scope is Scope.VAR:
            self.before.append(d.Assign(var=self.context.variables[buffer], value=values[0], span=self.span))
        elif buffer.scope in (Scope.GLOBAL, Scope.SHARED):
            self._store_memory(buffer, indices, values)
        else:
            for e, (at, value) in enumerate(zip(self.indices(indices), values, strict=True)):
                home, place = self._local(buffer, at, e)
                self.before.append(d.RegisterStore(registers=home, indices=place, value=value, span=self.span))

    def _store_registers(self, buffer: Buffer, indices: tuple[Expr, ...], values: list[Expr]) -> None:
        home = self.context.registers.get(buffer.storage)
        places = [self.register(buffer, indices, e) for e in range(len(values))]
        if home is not None and home.packed:
            self._store_packed(home, places, values)
            return
        for place, value in zip(places, values, strict=True):
            self.before.append(d.RegisterStore(registers=home, indices=place, value=value, span=self.span))  # type: ignore[arg-type]

    def _store_packed(self, home: d.Registers, places: list[tuple[Expr, ...]], values: list[Expr]) -> None:
        """Whole registers where the points cover them, else one element into a register whose others stay."""
        per_word = 32 // home.dtype.bits
        if len(values) % per_word == 0:
            for first in range(0, len(values), per_word):
                word = tuple(values[first : first + per_word])
                self.before.append(d.RegisterStoreWord(registers=home, indices=places[first], values=word, span=self.span))
            return
        (place,), (value,) = places, values
        *outer, last = place
        part = part_of(last, per_word)
        first = (*outer, add(last, i32(-part)))
        word = tuple(
            value if other == part else RegisterLoad(home, (*outer, add(last, i32(other - part)))) for other in range(per_word)
        )
        self.before.append(d.RegisterStoreWord(registers=home, indices=first, values=word, span=self.span))

    def _store_memory(self, buffer: Buffer, indices: tuple[Expr, ...], values: list[Expr]) -> None:
        at = self.indices(indices)
        run = self._run(buffer, at)
        step = width(run, len(at), self.context.alignment_bytes(buffer.storage), self.context.ranges)
        for first in range(0, len(at), step):
            predicate = all_of([self.points.owner, self.points.valid, *inside(buffer, at[first], self.context.ranges)])
            chunk = tuple(values[first : first + step])
            if buffer.scope is Scope.GLOBAL:
                offset = global_offset(buffer, at[first], self.context.ranges)
                self.before.append(
                    d.StoreGlobal(tensor=buffer.storage, offset=offset, values=chunk, predicate=predicate, span=self.span)
                )
            else:
                address = self.shared_address(buffer, at[first])
                self.before.append(d.StoreShared(address=address, values=chunk, predicate=predicate, span=self.span))
