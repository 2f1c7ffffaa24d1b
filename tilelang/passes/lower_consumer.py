"""The consumers' walk: everything but the loads, with a wait before a slot's first reader and a release after its last."""
from __future__ import annotations

from dataclasses import dataclass, field

from tilelang.errors import InternalError, Unsupported
from tilelang.ir import device as d
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.device import SharedAddress
from tilelang.ir.expr import UINT32, Expr, Var, compare
from tilelang.ir.text import render_statement
from tilelang.ir.types import Scope
from tilelang.passes.access import ordinary_reads, reads, statements
from tilelang.passes.lower_arith import add
from tilelang.passes.lower_copy import lower_tma_store
from tilelang.passes.lower_gemm import DESCRIPTOR_UNIT_BYTES, Operand, RegisterOperand, base_low, lower_gemm
from tilelang.passes.lower_parallel import lower_parallel
from tilelang.passes.lower_points import alone
from tilelang.passes.lower_reduce import lower_reduce
from tilelang.passes.lower_ring import Barriers, Ring
from tilelang.passes.lower_role import RoleWalk, start_rings
from tilelang.passes.lower_store import lower_store
from tilelang.passes.lower_values import Values
from tilelang.passes.plans import CopyKind, GemmPlan, Plans

CONSUMER_BARRIER = 1  # the named barrier at which the threads of the (first) consumers meet; 0 is the whole block's
TITLE_COLUMNS = 100


def consumer_role(
    kernel: tile.Kernel, plans: Plans, barriers: tuple[Barriers, ...], registers: dict[Buffer, d.Registers]
) -> d.Role:
    """The threads that compute and store."""
    roles = plans.roles
    consumer = Consumer(kernel, plans, start_rings(plans, barriers), registers, 0, roles.consumer_threads)
    body = consumer.body(plans.body)
    increase = (d.SetMaxRegisters(count=roles.consumer_registers, increase=True),) if roles.producer_registers else ()
    return d.Role(
        name="consumer", first_thread=0, threads=roles.consumer_threads, text="consumers: compute and store",
        body=(*increase, *consumer.declarations(), *body),
    )  # fmt: skip


@dataclass(slots=True)
class Consumer(RoleWalk):
    """Computes; also knows the low words of the matrix descriptors at slot 0, made once at the top."""

    descriptors: dict[tuple[Buffer, bool], Var] = field(default_factory=dict)

    def keep(self, stmt: tile.Stmt) -> bool:
        return True

    def declarations(self) -> d.Body:
        return (*super(Consumer, self).declarations(), *self.bases(), *self.arrays_of_registers())

    def bases(self) -> d.Body:
        """The descriptors at slot 0 that the walk has asked for."""
        return tuple(
            d.Declare(var=var, value=base_low(self.plans.shared.arrays[buffer], self.plans.shared_layouts[buffer], mn_major))
            for (buffer, mn_major), var in self.descriptors.items()
        )

    def arrays_of_registers(self) -> d.Body:
        return tuple(d.DeclareRegisters(registers=registers) for registers in self.registers.values())

    def statement(self, stmt: tile.Stmt) -> d.Body:
        """A statement between the waits it needs and the releases it allows, behind a barrier if its plan has one."""
        sites = [(site, ring) for ring in self.rings for site in ring.channel.sites]
        waits = tuple(ring.wait_full(stmt.span) for site, ring in sites if site.first_reader is stmt)
        work = self.work(stmt)
        done = [ring for site, ring in sites if site.last_reader is stmt]
        releases = tuple(op for ring in done for op in self._release(ring, stmt))
        body = (*self._meet(stmt), *waits, *work, *releases)
        plain = isinstance(stmt, (tile.Copy, tile.Gemm, tile.Fill, tile.Parallel, tile.Reduce))
        return (d.TileOp(text=_title(stmt), body=body, span=stmt.span),) if plain and body else body

    def work(self, stmt: tile.Stmt) -> d.Body:
        """The statement itself."""
        return super(Consumer, self).statement(stmt)

    def _meet(self, stmt: tile.Stmt) -> d.Body:
        """The barrier, with its fence, that a plan has in front of a statement."""
        sync = self.plans.syncs.get(stmt)
        if sync is None:
            return ()
        fence = (d.FenceProxyAsync(span=stmt.span),) if sync.fence else ()
        return (*fence, self._barrier(stmt))

    def _barrier(self, stmt: tile.Stmt) -> d.Stmt:
        if not self.plans.roles.producer_threads:
            return d.SyncThreads(span=stmt.span)
        return d.NamedBarrierSync(id=CONSUMER_BARRIER, threads=self.threads, span=stmt.span)

    def _release(self, ring: Ring, stmt: tile.Stmt) -> d.Body:
        """One arrival a warp; ordinary reads by its other lanes must be done first, wgmma's are for the whole warp."""
        buffers = ring.channel.buffers
        ordinary = any(not ordinary_reads(reader).isdisjoint(buffers) for reader in statements(self.plans.body))
        stored = isinstance(stmt, tile.Copy) and self.plans.copies[stmt].kind is CopyKind.FRAGMENT_TO_GLOBAL
        met = stored and ordinary_reads(stmt).isdisjoint(buffers)  # in its barriers, behind which its own indices are read
        sync = (d.SyncWarp(span=stmt.span),) if ordinary and not met else ()
        return (*sync, ring.release(stmt.span), self._advance(ring, stmt))

    def _advance(self, ring: Ring, stmt: tile.Stmt) -> d.Stmt:
        """To the slot that comes next for these threads."""
        return ring.advance(stmt.span)

    def leaf(self, stmt: tile.Stmt) -> d.Body:
        match stmt:
            case tile.Copy():
                return self._copy(stmt)
            case tile.Gemm():
                return self._gemm(stmt)
            case tile.Fill():
                return ()  # what is left as a fill is a clear that its gemm takes over
            case tile.Parallel():
                return lower_parallel(stmt, self.context)
            case tile.Reduce():
                return lower_reduce(stmt, self.context, self.plans.shared.arrays.get(stmt), self._barrier(stmt))
            case tile.Store():
                return self._store(stmt)
            case tile.SyncThreads():
                return (self._barrier(stmt),)
            case tile.FenceProxyAsync():
                return (d.FenceProxyAsync(span=stmt.span),)
        raise InternalError(f"no lowering for the statement {type(stmt).__name__}", code="TL904", span=stmt.span)

    def _store(self, store: tile.Store) -> d.Body:
        """One element, outside of any loop over points: one thread's business."""
        if store.buffer.scope is Scope.FRAGMENT:
            raise Unsupported(
                f"{store.buffer.name} is a fragment; its elements are written in T.Parallel loops", code="TL344", span=store.span,
                hint="write the element in a T.Parallel over the fragment, with an if, or use a shared buffer",
            )  # fmt: skip
        first = compare("==", self.context.thread, 0)
        before: list[d.Stmt] = []
        if store.buffer.scope in (Scope.GLOBAL, Scope.SHARED) and store.buffer.storage in reads(store):
            # The others may not even load: what they would read is being written.
            Values(self.context, before, store.span, alone(None)).store(store.buffer, store.indices, store.value)
            return (d.If(condition=first, then=tuple(before), uniform=False, span=store.span),)
        Values(self.context, before, store.span, alone(first)).store(store.buffer, store.indices, store.value)
        return tuple(before)

    # ---- gemm ----------------------------------------------------------------------------------------------------------------

    def _gemm(self, gemm: tile.Gemm) -> d.Body:
        plan = self.plans.gemms[gemm]
        before: list[d.Stmt] = []
        a: Operand | RegisterOperand
        if plan.a_in_registers:
            a = RegisterOperand(self.registers[gemm.a.buffer])
        else:
            a = self._operand(gemm.a, plan.a_mn_major, before)
        b = self._operand(gemm.b, plan.b_mn_major, before)
        clear = next((clear for clear in self.plans.clears if clear.gemm is gemm), None)
        cleared = self.value(gemm.clear_accum, before, gemm) if isinstance(gemm.clear_accum, Expr) else gemm.clear_accum
        accumulator, thread = self.registers[gemm.c.buffer], self.context.thread
        return (*before, *lower_gemm(gemm, plan, a, b, accumulator, clear, cleared, thread, self._left_in_flight()))

    def _left_in_flight(self) -> int:
        """How many gemms may still run when the statements behind one are done."""
        return 0

    def _operand(self, operand: Region, mn_major: bool, before: list[d.Stmt]) -> Operand:
        """The operand with its descriptor at the current slot."""
        buffer = operand.buffer
        base = self.descriptors.setdefault((buffer, mn_major), Var(f"{buffer.name}_desc", UINT32))
        layout, array, ring = self.plans.shared_layouts[buffer], self.plans.shared.arrays[buffer], self.ring_of(buffer)
        if ring is None or ring.stage is None:
            return Operand(base, layout, mn_major)
        low = Var(f"{buffer.name}_slot", UINT32)
        before.append(d.Declare(var=low, value=add(base, ring.offset(array.stage_bytes // DESCRIPTOR_UNIT_BYTES))))
        return Operand(low, layout, mn_major)

    # ---- copies --------------------------------------------------------------------------------------------------------------

    def _copy(self, copy: tile.Copy) -> d.Body:
        match self.plans.copies[copy].kind:
            case CopyKind.TMA_LOAD:
                return ()
            case CopyKind.FRAGMENT_TO_SHARED:
                return self._to_shared(copy, copy.dst.buffer)
            case CopyKind.FRAGMENT_TO_GLOBAL:
                meet = (d.FenceProxyAsync(span=copy.span), self._barrier(copy))
                stored = self._to_global(copy, self._first_byte(copy))
                return (*self._to_shared(copy, copy), *meet, *stored)
            case CopyKind.TMA_STORE:
                return self._to_global(copy, self.slot_address(copy.src.buffer))
        raise InternalError("a copy that is done element by element is a loop by now", code="TL902", span=copy.span)

    def _to_shared(self, copy: tile.Copy, where: Buffer | tile.Copy) -> d.Body:
        """An accumulator, by stmatrix or 8-byte stores, to the tile of a shared buffer or to the copy's own."""
        layout = self.plans.copies[copy].staging or self.plans.shared_layouts[copy.dst.buffer]
        before: list[d.Stmt] = []
        source, dtype, start = copy.src.buffer, copy.dst.buffer.dtype, self._start(copy, where, before)
        gemm, registers = self._accumulator_plan(source), self.registers[source]
        return (*before, *lower_store(registers, gemm, layout, start, dtype, self.context.thread, copy.span))

    def _start(self, copy: tile.Copy, where: Buffer | tile.Copy, before: list[d.Stmt]) -> Expr:
        """The first byte of the tile that the copy writes, with what is needed to know it in front."""
        return self._first_byte(where)

    def _first_byte(self, where: Buffer | tile.Copy) -> Expr:
        """The address of a shared buffer, or of the tile that a copy has to itself."""
        return SharedAddress(self.plans.shared.arrays[where])

    def _accumulator_plan(self, buffer: Buffer) -> GemmPlan:
        return next(plan for gemm, plan in self.plans.gemms.items() if gemm.c.buffer is buffer)

    def _to_global(self, copy: tile.Copy, address: Expr) -> d.Body:
        """A shared tile from `address` on, by TMA."""
        tma = self.plans.copies[copy].tma
        if tma is None:
            raise InternalError("a store without a tensor map", code="TL902", span=copy.span)
        before: list[d.Stmt] = []
        base = tuple(self.value(index, before, copy) for index in copy.dst.base)
        region = Region(copy.dst.buffer, base, copy.dst.extents)
        return (*before, *lower_tma_store(tma, region, address, copy in self.plans.ordered_stores, copy.span))


def _title(stmt: tile.Stmt) -> str:
    """The statement's text on one line, cut where a reader would stop reading."""
    lines = [line.strip() for line in render_statement(stmt).strip().splitlines()]
    text = lines[0] if len(lines) == 1 else f"{lines[0]} {lines[1]}" + (" ..." if len(lines) > 2 else "")
    return text if len(text) <= TITLE_COLUMNS else text[: TITLE_COLUMNS - 4].rstrip() + " ..."
