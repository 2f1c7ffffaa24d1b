"""The consumers' walk: everything but the loads, with a wait before a slot's first reader and a release after its last."""
from __future__ import annotations

from dataclasses import dataclass

from tilelang.errors import InternalError
from tilelang.ir import device as d
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import SharedAddress
from tilelang.ir.expr import INT32, UINT32, Expr, Var, convert
from tilelang.ir.text import render_statement
from tilelang.passes.lower_copy import add, lower_tma_store
from tilelang.passes.lower_gemm import Operand, base_low, lower_gemm
from tilelang.passes.lower_producer import lower_for, lower_let
from tilelang.passes.lower_ring import Barriers, Ring
from tilelang.passes.lower_store import lower_store
from tilelang.passes.plans import CopyKind, GemmPlan, Plans

CONSUMER_BARRIER = 1  # the named barrier at which all consumer threads meet; 0 is the whole block's


def consumer_role(kernel: tile.Kernel, plans: Plans, barriers: tuple[Barriers, ...]) -> d.Role:
    """The threads that compute and store."""
    consumer = _Consumer.of(plans, barriers)
    roles = plans.roles
    registers = (d.SetMaxRegisters(count=roles.consumer_registers, increase=True),) if roles.producer_threads else ()
    return d.Role(
        name="consumer", first_thread=0, threads=roles.consumer_threads, text="consumer warpgroup: computes and stores",
        body=(*registers, *consumer.declarations(), *consumer.body(kernel.body)),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Consumer:
    """The consumers' ring positions, the low words of their matrix descriptors at slot 0, and their accumulators."""

    plans: Plans
    rings: tuple[Ring, ...]
    descriptors: dict[tuple[Buffer, bool], Var]
    accumulators: dict[Buffer, d.Registers]
    gemm_plans: dict[Buffer, GemmPlan]

    @staticmethod
    def of(plans: Plans, barriers: tuple[Barriers, ...]) -> _Consumer:
        rings = tuple(Ring.start(channel, pair) for channel, pair in zip(plans.channels, barriers, strict=True))
        descriptors: dict[tuple[Buffer, bool], Var] = {}
        accumulators: dict[Buffer, d.Registers] = {}
        gemm_plans: dict[Buffer, GemmPlan] = {}
        for gemm, plan in plans.gemms.items():
            for buffer, mn_major in ((gemm.a.buffer, plan.a_mn_major), (gemm.b.buffer, plan.b_mn_major)):
                descriptors.setdefault((buffer, mn_major), Var(f"{buffer.name}_desc", UINT32))
            c = gemm.c.buffer
            accumulators.setdefault(c, d.Registers(name=c.name, dtype=c.dtype, shape=(plan.m_tiles * plan.n_tiles, plan.n // 2)))
            gemm_plans.setdefault(c, plan)
        return _Consumer(plans, rings, descriptors, accumulators, gemm_plans)

    def declarations(self) -> d.Body:
        rings = tuple(stmt for ring in self.rings for stmt in ring.declare())
        descriptors = tuple(
            d.Declare(var=var, value=base_low(self.plans.shared.arrays[buffer], self.plans.shared_layouts[buffer], mn_major))
            for (buffer, mn_major), var in self.descriptors.items()
        )
        return (*rings, *descriptors, *(d.DeclareRegisters(registers=registers) for registers in self.accumulators.values()))

    def body(self, body: tile.Body) -> d.Body:
        """A statement list; a let only where something after it uses it."""
        lowered: d.Body = ()
        for stmt in reversed(body):
            lowered = (lower_let(stmt, lowered) if isinstance(stmt, tile.Let) else self._statement(stmt)) + lowered
        return lowered

    def _statement(self, stmt: tile.Stmt) -> d.Body:
        """A statement between the waits it needs and the releases it allows."""
        sites = [(site, ring) for ring in self.rings for site in ring.channel.sites]
        waits = tuple(ring.wait_full(stmt.span) for site, ring in sites if site.first_reader is stmt)
        done = [ring for site, ring in sites if site.last_reader is stmt]
        releases = tuple(op for ring in done for op in (ring.release(stmt.span), ring.advance(stmt.span)))
        body = (*waits, *self._work(stmt), *releases)
        if isinstance(stmt, tile.For) or not body:
            return body
        return (d.TileOp(text=render_statement(stmt).strip(), body=body, span=stmt.span),)

    def _work(self, stmt: tile.Stmt) -> d.Body:
        match stmt:
            case tile.Copy():
                return self._copy(stmt)
            case tile.Gemm():
                return self._gemm(stmt)
            case tile.Fill():
                return self._fill(stmt)
            case tile.For():
                return lower_for(stmt, self.body(stmt.body))
        raise InternalError(f"no lowering for {type(stmt).__name__}", code="TL902", span=stmt.span)

    # ---- gemm and fill -------------------------------------------------------------------------------------------------------

    def _gemm(self, gemm: tile.Gemm) -> d.Body:
        plan = self.plans.gemms[gemm]
        a, declare_a = self._operand(gemm.a.buffer, plan.a_mn_major)
        b, declare_b = self._operand(gemm.b.buffer, plan.b_mn_major)
        clear = next((clear for clear in self.plans.clears if clear.gemm is gemm), None)
        return (*declare_a, *declare_b, *lower_gemm(gemm, plan, a, b, self.accumulators[gemm.c.buffer], clear))

    def _operand(self, buffer: Buffer, mn_major: bool) -> tuple[Operand, d.Body]:
        """The operand with its descriptor at the current slot, and the declaration of that."""
        base, layout, array = self.descriptors[buffer, mn_major], self.plans.shared_layouts[buffer], self.plans.shared.arrays[buffer]
        ring = next((ring for ring in self.rings if buffer in ring.channel.buffers), None)
        if ring is None or ring.stage is None:
            return Operand(base, layout, mn_major), ()
        low = Var(f"{buffer.name}_slot", UINT32)
        return Operand(low, layout, mn_major), (d.Declare(var=low, value=add(base, ring.offset(array.stage_bytes // 16))),)

    def _fill(self, fill: tile.Fill) -> d.Body:
        if any(clear.fill is fill for clear in self.plans.clears):
            return ()
        registers = self.accumulators[fill.dst.buffer]
        indices = tuple(Var(name, INT32) for name in ("i", "r"))
        value = convert(fill.value, registers.dtype)
        body: d.Body = (d.RegisterStore(registers=registers, indices=indices, value=value, span=fill.span),)
        for var, count in reversed(list(zip(indices, registers.shape, strict=True))):
            body = (d.Unroll(var=var, count=count, body=body, span=fill.span),)
        return body

    # ---- copies --------------------------------------------------------------------------------------------------------------

    def _copy(self, copy: tile.Copy) -> d.Body:
        plan = self.plans.copies[copy]
        match plan.kind:
            case CopyKind.TMA_LOAD:
                return ()
            case CopyKind.FRAGMENT_TO_SHARED:
                return self._to_shared(copy, copy.dst.buffer)
            case CopyKind.FRAGMENT_TO_GLOBAL:
                return (*self._to_shared(copy, copy), *self._to_global(copy, SharedAddress(self.plans.shared.arrays[copy])))
            case CopyKind.TMA_STORE:
                return self._to_global(copy, self._slot_address(copy.src.buffer))

    def _to_shared(self, copy: tile.Copy, where: Buffer | tile.Copy) -> d.Body:
        """The accumulator into shared memory that every consumer has stopped using, and then visible to the async proxy."""
        plan = self.plans.copies[copy]
        layout = plan.staging if plan.staging else self.plans.shared_layouts[copy.dst.buffer]
        source, start = copy.src.buffer, SharedAddress(self.plans.shared.arrays[where])
        store = lower_store(self.accumulators[source], self.gemm_plans[source], layout, start, copy.dst.buffer.dtype, 0, copy.span)
        meet = d.NamedBarrierSync(id=CONSUMER_BARRIER, threads=self.plans.roles.consumer_threads, span=copy.span)
        return (meet, *store, d.FenceProxyAsync(span=copy.span), meet)

    def _to_global(self, copy: tile.Copy, address: Expr) -> d.Body:
        tma = self.plans.copies[copy].tma
        if tma is None:
            raise InternalError("a store without a tensor map", code="TL902", span=copy.span)
        return lower_tma_store(tma, copy.dst, address, copy.span)

    def _slot_address(self, buffer: Buffer) -> Expr:
        array = self.plans.shared.arrays[buffer]
        ring = next((ring for ring in self.rings if buffer in ring.channel.buffers), None)
        return add(SharedAddress(array), ring.offset(array.stage_bytes)) if ring else SharedAddress(array)

