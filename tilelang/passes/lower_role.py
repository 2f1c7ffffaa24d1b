"""What both walks share: control flow, scalars, and values that are needed outside of tile ops."""
from __future__ import annotations

from dataclasses import dataclass, field

from tilelang.errors import InternalError
from tilelang.ir import device as d
from tilelang.ir import tile
from tilelang.ir.arith import simplify
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import SharedAddress
from tilelang.ir.expr import BOOL, Const, Expr, Var, convert, is_const
from tilelang.ir.types import LoopKind, Scope
from tilelang.ir.walk import walk
from tilelang.passes.access import leaves, statements, writes
from tilelang.passes.lower_arith import add, powers_of_two
from tilelang.passes.lower_context import Context, role_ranges
from tilelang.passes.lower_ring import Barriers, Ring
from tilelang.passes.lower_values import Values
from tilelang.passes.plans import Plans


@dataclass(slots=True)
class RoleWalk:
    """One role's walk over the kernel.  A subclass says what each tile op becomes (`leaf`) and which control flow is worth
    keeping (`keep`)."""

    kernel: tile.Kernel
    plans: Plans
    rings: tuple[Ring, ...]
    registers: dict[Buffer, d.Registers]
    first_thread: int
    threads: int
    context: Context = field(init=False)

    def __post_init__(self) -> None:
        plans = self.plans
        self.context = Context(
            first_thread=self.first_thread, threads=self.threads, shared_layouts=plans.shared_layouts,
            shared_start=self.slot_address, registers=self.registers, fragment_layouts=plans.fragment_layouts,
            loop_layouts=plans.loop_layouts,
            variables={b: Var(b.name, b.dtype) for b in self.kernel.buffers if b.scope is Scope.VAR}, alignments=plans.alignments,
            written={buffer for stmt in statements(plans.body) for buffer in writes(stmt)},
            ranges=role_ranges(self.kernel, self.first_thread, self.threads),
        )  # fmt: skip

    # ---- for subclasses ------------------------------------------------------------------------------------------------------

    def leaf(self, stmt: tile.Stmt) -> d.Body:
        """The statements of a tile op, a Parallel or a store."""
        raise NotImplementedError

    def keep(self, stmt: tile.Stmt) -> bool:
        """Whether a loop or condition has anything in it for this role."""
        raise NotImplementedError

    # ---- shared --------------------------------------------------------------------------------------------------------------

    def declarations(self) -> d.Body:
        """Ring positions and mutable scalars, at the top of the role."""
        return (*(stmt for ring in self.rings for stmt in ring.declare()), *self.scalars())

    def scalars(self) -> d.Body:
        """Mutable scalars."""
        return tuple(
            d.Declare(var=var, value=convert(Const(0), var.dtype), mutable=True, span=buffer.span)
            for buffer, var in self.context.variables.items()
        )

    def ring_of(self, buffer: Buffer) -> Ring | None:
        """The ring that a shared buffer is filled in, if it is."""
        return next((ring for ring in self.rings if buffer in ring.channel.buffers), None)

    def slot_address(self, buffer: Buffer) -> Expr:
        """Where a shared buffer begins: the current slot of its ring, if it has one."""
        array, ring = self.plans.shared.arrays[buffer], self.ring_of(buffer)
        return add(SharedAddress(array), ring.offset(array.stage_bytes)) if ring else SharedAddress(array)

    def body(self, body: tile.Body) -> d.Body:
        """A statement list, without the lets that nothing in it uses."""
        lowered = [(stmt, self.statement(stmt)) for stmt in body]
        kept: d.Body = ()
        for stmt, made in reversed(lowered):
            if isinstance(stmt, tile.Let) and not any(node is stmt.var for node in walk(kept)) and _is_value(made):
                continue
            kept = made + kept
        return kept

    def statement(self, stmt: tile.Stmt) -> d.Body:
        """One statement of any kind."""
        match stmt:
            case tile.Let():
                return self._let(stmt)
            case tile.Store() if stmt.buffer.scope is Scope.VAR:
                return self._assign(stmt)
            case tile.For():
                return self._for(stmt)
            case tile.If():
                return self._if(stmt)
            case tile.While():
                return self._while(stmt)
            case tile.Break():
                return (d.Break(span=stmt.span),)
            case tile.Continue():
                return (d.Continue(span=stmt.span),)
        return self.leaf(stmt)

    def value(self, value: Expr, before: list[d.Stmt], stmt: tile.Stmt) -> Expr:
        """A value that all threads of the role agree on, with what it loads in front."""
        lowered = Values(self.context, before, stmt.span).one(value)
        return powers_of_two(simplify(lowered, self.context.ranges)) if value.dtype.is_int else lowered

    def _let(self, let: tile.Let) -> d.Body:
        before: list[d.Stmt] = []
        value = self.value(let.value, before, let)
        self.context.note(let.var, value)
        return (*before, d.Declare(var=let.var, value=value, span=let.span))

    def _assign(self, store: tile.Store) -> d.Body:
        before: list[d.Stmt] = []
        Values(self.context, before, store.span).store(store.buffer, (), store.value)
        return tuple(before)

    def _for(self, loop: tile.For) -> d.Body:
        if not self.keep(loop):
            return ()
        before: list[d.Stmt] = []
        start, stop = (self.value(bound, before, loop) for bound in (loop.start, loop.stop))
        self.context.enter_loop(loop)
        stays = not any(leaves(stmt) for stmt in loop.body)  # a round that is left has to be a round
        if loop.kind is LoopKind.UNROLL and is_const(start, 0) and isinstance(stop, Const) and loop.step == 1 and stays:
            return (d.Unroll(var=loop.var, count=max(int(stop.value), 0), body=self.body(loop.body), span=loop.span),)
        body = self.body(loop.body)
        return (*before, d.For(var=loop.var, start=start, stop=stop, step=loop.step, body=body, span=loop.span))

    def _if(self, stmt: tile.If) -> d.Body:
        if not self.keep(stmt):
            return ()
        before: list[d.Stmt] = []
        condition = self.value(stmt.condition, before, stmt)
        then, otherwise = self.body(stmt.then), self.body(stmt.otherwise)
        return (*before, d.If(condition=condition, then=then, otherwise=otherwise, span=stmt.span))

    def _while(self, loop: tile.While) -> d.Body:
        """Where the condition needs loads they are repeated before every turn."""
        if not self.keep(loop):
            return ()
        before: list[d.Stmt] = []
        condition = self.value(loop.condition, before, loop)
        body = self.body(loop.body)
        if not before:
            return (d.While(condition=condition, body=body, span=loop.span),)
        leave = d.If(condition=condition, then=(), otherwise=(d.Break(span=loop.span),), span=loop.span)
        return (d.While(condition=Const(True, BOOL), body=(*before, leave, *body), span=loop.span),)


def _is_value(made: d.Body) -> bool:
    """Whether statements do nothing but compute: no wait or release stands among them."""
    kinds = (d.Declare, d.DeclareRegisters, d.LoadGlobal, d.LoadShared, d.TileOp)
    return all(isinstance(node, kinds) for node in walk(made) if isinstance(node, d.Stmt))


def start_rings(plans: Plans, barriers: tuple[Barriers, ...]) -> tuple[Ring, ...]:
    """A role's positions in all channels."""
    if len(barriers) != len(plans.channels):
        raise InternalError("every channel has its barriers", code="TL902")
    return tuple(Ring.start(channel, pair) for channel, pair in zip(plans.channels, barriers, strict=True))
