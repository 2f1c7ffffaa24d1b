"""Where the consumers must meet because of shared memory (or global memory) that they write themselves.

What TMA loads is guarded by the rings' mbarriers.  For everything else this pass follows what has been read and written since the
last barrier: a statement that reads what another thread may have written, or writes what another may still read, gets a barrier
in front.  Where tensor core or TMA read what ordinary stores wrote, the writers need a proxy fence before that barrier.  (PTX
ISA, "Async proxy" and fence.proxy.async.)
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilelang.ir import tile
from tilelang.ir.device import SharedArray
from tilelang.passes.access import leaves, statements, sub_bodies
from tilelang.passes.plan_guards import guarded_tensors
from tilelang.passes.plans import CopyKind, CopyPlan, Sync
from tilelang.passes.touched import Key, Memory


@dataclass(frozen=True, slots=True)
class _State:
    """Memory touched since the last barrier."""

    read: frozenset[Key] = frozenset()
    written: frozenset[Key] = frozenset()

    def __or__(self, other: _State) -> _State:
        return _State(self.read | other.read, self.written | other.written)


@dataclass(slots=True)
class _Planner:
    """`found` are the barriers so far; `async_reads` is what tensor core or TMA read anywhere; `seen` is the union of all states
    of the loop at hand."""

    memory: Memory
    async_reads: frozenset[Key]
    found: dict[tile.Stmt, Sync] = field(default_factory=dict)
    seen: _State = _State()

    def body(self, body: tile.Body, state: _State) -> _State:
        for stmt in body:
            state = self._statement(stmt, state)
            self.seen |= state
        return state

    def _statement(self, stmt: tile.Stmt, state: _State) -> _State:
        memory, touched = self.memory, self.memory.touched(stmt)
        read = touched.reads | touched.async_reads
        if memory.meet(touched.writes, state.read | state.written) or memory.meet(read, state.written):
            known = self.found.get(stmt)
            self.found[stmt] = Sync(memory.meet(state.written, self.async_reads) or (known is not None and known.fence))
        if stmt in self.found:
            state = _State()
        state |= _State(read, touched.writes)
        if isinstance(stmt, tile.Copy) and memory.copies[stmt].kind is CopyKind.FRAGMENT_TO_GLOBAL:
            # It meets on its own between writing its tile and storing that, so what is left is the store's read.
            state = _State(state.read | {stmt}, state.written - {stmt})
        if isinstance(stmt, tile.If):
            return self.body(stmt.then, state) | self.body(stmt.otherwise, state)
        if isinstance(stmt, (tile.For, tile.While)):
            return self.loop(stmt.body, state)
        return state

    def loop(self, body: tile.Body, entry: _State) -> _State:
        """Until what comes round the back edge is known; a break may leave from anywhere."""
        early, outer = any(leaves(stmt) for stmt in body), self.seen
        while True:
            self.seen = entry
            after = self.body(body, entry)
            after = entry | (self.seen if early else after)
            if after == entry:
                self.seen |= outer
                return after
            entry = after


def plan_sync(
    body: tile.Body, copies: Mapping[tile.Copy, CopyPlan], arrays: Mapping[Key, SharedArray], repeated: bool = False
) -> dict[tile.Stmt, Sync]:
    """The statements that need a barrier in front, with or without a proxy fence before it.  `repeated`: the same threads do the
    body again, for another tile."""
    memory = Memory(copies, arrays, guarded_tensors(body))
    leaf_statements = (stmt for stmt in statements(body) if not sub_bodies(stmt))
    planner = _Planner(memory, frozenset(key for stmt in leaf_statements for key in memory.touched(stmt).async_reads))
    if repeated:
        planner.loop(body, _State())
    else:
        planner.body(body, _State())
    return planner.found
