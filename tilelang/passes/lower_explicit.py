"""A kernel divided by hand in device IR: one walk over the program for each role, which keeps what the role's teams execute."""
from __future__ import annotations

from dataclasses import dataclass, field

from tilelang.errors import InternalError
from tilelang.ir import device as d
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer, Mbarriers, Region
from tilelang.ir.expr import UINT32, Expr, Var, convert, is_const
from tilelang.ir.walk import walk
from tilelang.passes.lower_access import slot_offset
from tilelang.passes.lower_consumer import DESCRIPTOR_UNIT_BYTES, Consumer
from tilelang.passes.lower_copy import add, lower_tma_load
from tilelang.passes.lower_gemm import Operand
from tilelang.passes.lower_kernel import pointers, setup, title_lines
from tilelang.passes.lower_order import lower_order
from tilelang.passes.lower_values import Values
from tilelang.passes.plan_explicit import ExplicitPlans
from tilelang.passes.plans import CopyKind
from tilelang.passes.slots import corner
from tilelang.passes.teams import Team, team_of
from tilelang.target import Target


def lower_explicit(kernel: tile.Kernel, explicit: ExplicitPlans, target: Target) -> d.DeviceKernel:
    """The device kernel that the plans describe."""
    plans = explicit.plans
    arrays = {buffer: _barriers(buffer) for buffer in kernel.buffers if isinstance(buffer, Mbarriers)}
    roles = [_role(kernel, explicit, role, arrays) for role in explicit.roles]
    maps = dict.fromkeys(plan.tma.map for plan in plans.copies.values() if plan.tma)
    who = f"{kernel.threads} threads divided by hand" if len(roles) > 1 else f"{kernel.threads} threads"
    title = title_lines(kernel, plans, target, who, sum(array.count for array in arrays.values()))
    return d.DeviceKernel(
        name=f"{kernel.name}_kernel", arch=target.arch, title=title, grid=tuple(axis.extent for axis in kernel.grid),
        threads=kernel.threads, min_blocks_per_sm=plans.roles.min_blocks_per_sm, tensor_maps=tuple(maps),
        pointers=pointers(kernel, roles), scalars=tuple(param for param in kernel.params if isinstance(param, Var)),
        shared=tuple(plans.shared.arrays.values()), shared_bytes=plans.shared.bytes, barriers=tuple(arrays.values()),
        setup=(*lower_order(kernel, plans.order), *setup(tuple(arrays.values()))), roles=tuple(roles), span=kernel.span,
    )  # fmt: skip


def _barriers(buffer: Mbarriers) -> d.BarrierArray:
    counts = buffer.arrivals
    same = len(set(counts)) == 1
    text = f"{counts[0] if same else ', '.join(map(str, counts))} arrivals{' each' * (same and len(counts) > 1)}"
    return d.BarrierArray(name=buffer.name, count=len(counts), arrivals=max(counts), text=text, each=() if same else counts)


def _role(kernel: tile.Kernel, explicit: ExplicitPlans, role: Team, arrays: dict[Mbarriers, d.BarrierArray]) -> d.Role:
    plans = explicit.plans
    owners = explicit.fragments
    mine = {buffer: home for buffer, home in plans.registers.items() if buffer in owners and role in owners[buffer]}
    walker = ExplicitRole(kernel, plans, (), mine, role.first_thread, role.threads, explicit=explicit, role=role, arrays=arrays)
    body = walker.body(plans.body)
    count = explicit.registers_at_start[role]
    start = (d.SetMaxRegisters(count=count, increase=count > plans.roles.consumer_registers),) if count else ()
    return d.Role(
        name=f"warpgroup_{'_'.join(map(str, role.groups))}", first_thread=role.first_thread, threads=role.threads, text=str(role),
        body=(*start, *walker.declarations_for(body), *body),
    )  # fmt: skip


@dataclass(slots=True)
class ExplicitRole(Consumer):
    """The walk of one role; `team` is that of the statements at hand."""

    explicit: ExplicitPlans = field(kw_only=True)
    role: Team = field(kw_only=True)
    arrays: dict[Mbarriers, d.BarrierArray] = field(kw_only=True)
    team: Team = field(init=False)

    def __post_init__(self) -> None:
        super(ExplicitRole, self).__post_init__()
        self._join(self.explicit.block)

    def _join(self, team: Team) -> None:
        """From here on statements are the team's: its tiles are spread over its threads, counted from its first."""
        self.team = team
        self.context.first_thread, self.context.threads = team.offset(self.role), team.threads

    @property
    def leads(self) -> bool:
        """Whether the role has the team's first warp, one of whose threads starts bulk copies."""
        return self.team.leads(self.role)

    # ---- control flow --------------------------------------------------------------------------------------------------------

    def declarations_for(self, body: d.Body) -> d.Body:
        """What the role's body names of scalars, descriptors and registers."""
        nodes = list(walk(body))
        used = {node for node in nodes if isinstance(node, Var)} | {node.var for node in nodes if isinstance(node, d.Assign)}
        return tuple(
            stmt for stmt in self.declarations()
            if (isinstance(stmt, d.Declare) and stmt.var in used)
            or (isinstance(stmt, d.DeclareRegisters) and _names(stmt.registers, body))
        )  # fmt: skip

    def body(self, body: tile.Body) -> d.Body:
        return _joined(super(ExplicitRole, self).body(body))

    def statement(self, stmt: tile.Stmt) -> d.Body:
        """A statement, unless nothing of it is this role's."""
        if isinstance(stmt, tile.Warpgroups):
            return (*self._meet(stmt), *self._part(stmt))
        lowered = super(ExplicitRole, self).statement(stmt)
        if isinstance(stmt, tile.For) and not _does_anything(lowered, (d.Break, d.Continue)):
            return ()
        return () if isinstance(stmt, tile.If) and not _does_anything(lowered, ()) else lowered

    def _part(self, stmt: tile.Warpgroups) -> d.Body:
        team = team_of(stmt)
        if self.role not in team:
            return ()
        outside = self.team
        self._join(team)
        body = self.body(stmt.body)
        self._join(outside)
        return body

    def _meet(self, stmt: tile.Stmt) -> d.Body:
        sync = self.plans.syncs.get(stmt)
        if sync is None:
            return ()
        fence = (d.FenceProxyAsync(span=stmt.span),) if sync.fence else ()
        announces = isinstance(stmt, (tile.MbarrierArrive, tile.SyncThreads))
        return fence if announces else (*fence, self._barrier(stmt))

    def _barrier(self, stmt: tile.Stmt) -> d.Stmt:
        number = self.explicit.barriers[self.team]
        named = d.NamedBarrierSync(id=number, threads=self.team.threads, span=stmt.span)
        return named if number else d.SyncThreads(span=stmt.span)

    # ---- what the author synchronises ----------------------------------------------------------------------------------------

    def leaf(self, stmt: tile.Stmt) -> d.Body:
        match stmt:
            case tile.MbarrierArrive():
                before: list[d.Stmt] = []
                barrier = self._barrier_ref(stmt.barriers, stmt.index, before, stmt)
                return (*before, d.MbarrierArrive(barrier=barrier, span=stmt.span))
            case tile.MbarrierWait():
                return self._wait(stmt)
            case tile.SyncThreads(barrier_id=number, threads=threads):
                named = d.NamedBarrierSync(id=number, threads=threads, span=stmt.span)
                return (named if number else d.SyncThreads(span=stmt.span),)
            case tile.SetMaxRegisters():
                return (d.SetMaxRegisters(count=stmt.count, increase=stmt.increase, span=stmt.span),)
        return super(ExplicitRole, self).leaf(stmt)

    def _wait(self, stmt: tile.MbarrierWait) -> d.Body:
        before: list[d.Stmt] = []
        barrier = self._barrier_ref(stmt.barriers, stmt.index, before, stmt)
        parity = convert(self.value(stmt.parity, before, stmt), UINT32)
        return (*before, d.MbarrierWait(barrier=barrier, parity=parity, span=stmt.span))

    def _barrier_ref(self, barriers: Mbarriers, index: Expr, before: list[d.Stmt], stmt: tile.Stmt) -> d.BarrierRef:
        return d.BarrierRef(self.arrays[barriers], self.value(index, before, stmt))

    # ---- tiles in slots ------------------------------------------------------------------------------------------------------

    def _operand(self, operand: Region, mn_major: bool, before: list[d.Stmt]) -> Operand:
        """The operand's descriptor at its slot, and at its first row or column."""
        base = super(ExplicitRole, self)._operand(operand, mn_major, before)
        row, column = corner(operand)
        offset = add(self._slot(operand, before, DESCRIPTOR_UNIT_BYTES), d.u32(base.mn_step(column if mn_major else row)))
        if is_const(offset, 0):
            return base
        low = Var(f"{operand.buffer.name}_slot", UINT32)
        before.append(d.Declare(var=low, value=add(base.low, offset)))
        return Operand(low, base.layout, mn_major)

    def _slot(self, region: Region, before: list[d.Stmt], unit_bytes: int = 1) -> Expr:
        """Where the region's slot begins in its buffer."""
        layout, shape = self.plans.shared_layouts[region.buffer], region.buffer.shape
        if layout.slots == 1:
            return d.u32(0)
        indices = tuple(Values(self.context, before, None).one(index) for index in region.base)
        return slot_offset(layout, shape, indices, self.context.ranges, unit_bytes)  # type: ignore[arg-type]

    # ---- copies --------------------------------------------------------------------------------------------------------------

    def _copy(self, copy: tile.Copy) -> d.Body:
        match self.plans.copies[copy].kind:
            case CopyKind.TMA_LOAD:
                return self._load(copy)
            case CopyKind.TMA_STORE:
                before: list[d.Stmt] = []
                address = add(self.slot_address(copy.src.buffer), self._slot(copy.src, before))
                return (*before, *self._to_global(copy, address))
        return super(ExplicitRole, self)._copy(copy)

    def _start(self, copy: tile.Copy, where: Buffer | tile.Copy, before: list[d.Stmt]) -> Expr:
        start = super(ExplicitRole, self)._start(copy, where, before)
        return add(start, self._slot(copy.dst, before)) if where is copy.dst.buffer else start

    def _load(self, copy: tile.Copy) -> d.Body:
        """One thread promises the bytes and starts the boxes."""
        plan = self.plans.copies[copy].tma
        if plan is None or not isinstance(copy, tile.TmaCopy) or copy.barriers is None or copy.index is None:
            raise InternalError("a load by TMA that nobody asked for", code="TL902", span=copy.span)
        if not self.leads:
            return ()
        before: list[d.Stmt] = []
        base = tuple(self.value(index, before, copy) for index in copy.src.base)
        barrier = self._barrier_ref(copy.barriers, copy.index, before, copy)
        source = Region(copy.src.buffer, base, copy.src.extents)
        offset, array = self._slot(copy.dst, before), self.plans.shared.arrays[copy.dst.buffer]
        loads = lower_tma_load(plan, source, array, offset, barrier, copy.span)
        promise = d.MbarrierAddTx(barrier=barrier, bytes=plan.bytes, span=copy.span)
        return (d.Elected(warp=0, body=(*before, promise, *loads), span=copy.span),)

    def _to_global(self, copy: tile.Copy, address: Expr) -> d.Body:
        return super(ExplicitRole, self)._to_global(copy, address) if self.leads else ()


def _joined(body: d.Body) -> d.Body:
    """Neighbouring tile ops that one thread does, in the hands of that thread at once."""
    found: list[d.Stmt] = []
    for stmt in body:
        work = _elected_work(stmt)
        last = _elected_work(found[-1]) if found else None
        if work is not None and last is not None and isinstance(found[-1], (d.TileOp, d.Elected)):
            found[-1] = d.Elected(warp=0, body=(*last, *work), span=found[-1].span)
        else:
            found.append(stmt)
    return tuple(found)


def _elected_work(stmt: d.Stmt) -> d.Body | None:
    """What a statement has thread 0 do, if that is all it is: loads, which do not wait."""
    if isinstance(stmt, d.Elected) and stmt.warp == 0 and all(isinstance(each, d.TileOp) for each in stmt.body):
        return stmt.body
    if isinstance(stmt, d.TileOp) and len(stmt.body) == 1 and isinstance(stmt.body[0], d.Elected):
        inner = stmt.body[0]
        if inner.warp == 0 and any(isinstance(each, d.TmaLoad) for each in inner.body):
            return (d.TileOp(text=stmt.text, body=inner.body, span=stmt.span),)
    return None


def _does_anything(body: d.Body, but: tuple[type[d.Stmt], ...]) -> bool:
    """Whether a body has any effect beside names of values, and statements of the kinds `but`."""
    idle = (d.Declare, d.DeclareRegisters, d.For, d.While, d.If, d.Unroll, d.TileOp, *but)
    return any(isinstance(node, d.Stmt) and not isinstance(node, idle) for node in walk(body))


def _names(registers: d.Registers, body: d.Body) -> bool:
    """Whether a body uses a register array."""
    for node in walk(body):
        for name in ("registers", "target", "a"):
            if getattr(node, name, None) is registers:
                return True
        if getattr(getattr(node, "accumulator", None), "registers", None) is registers:
            return True
    return False
