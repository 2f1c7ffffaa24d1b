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
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import SharedArray
from tilelang.ir.types import Scope
from tilelang.passes.access import reads, statements, sub_bodies, writes
from tilelang.passes.plans import CopyKind, CopyPlan, Sync

Key = Buffer | tile.Stmt


@dataclass(frozen=True, slots=True)
class _State:
    """Memory touched since the last barrier."""

    read: frozenset[Key] = frozenset()
    written: frozenset[Key] = frozenset()

    def __or__(self, other: _State) -> _State:
        return _State(self.read | other.read, self.written | other.written)


@dataclass(slots=True)
class _Planner:
    copies: Mapping[tile.Copy, CopyPlan]
    arrays: Mapping[Key, SharedArray]
    guarded: frozenset[Buffer]
    read_async: frozenset[Key] = frozenset()
    found: dict[tile.Stmt, Sync] = field(default_factory=dict)
    seen: _State = _State()

    # ---- what a statement touches -------------------------------------------------------------------------------------------

    def touched(self, stmt: tile.Stmt) -> tuple[set[Key], set[Key], set[Key]]:
        """(ordinary reads, ordinary writes, reads by tensor core or TMA) of the statement and what is inside a Parallel."""
        if isinstance(stmt, tile.Copy):
            return self._copy(stmt)
        if isinstance(stmt, tile.Gemm):
            return set(), set(), {b for b in (stmt.a.buffer, stmt.b.buffer) if b.scope is Scope.SHARED}
        inner = tuple(statements((stmt,))) if isinstance(stmt, tile.Parallel) else (stmt,)
        return (
            {b for s in inner for b in reads(s) if self._counts(b)},
            {b for s in inner for b in writes(s) if self._counts(b)},
            set(),
        )  # fmt: skip

    def _copy(self, copy: tile.Copy) -> tuple[set[Key], set[Key], set[Key]]:
        match self.copies[copy].kind:
            case CopyKind.FRAGMENT_TO_SHARED:
                return set(), {copy.dst.buffer}, set()
            case CopyKind.TMA_STORE:
                return set(), set(), {copy.src.buffer}
            case CopyKind.FRAGMENT_TO_GLOBAL:
                return set(), {copy}, set()
        return set(), set(), set()

    def _counts(self, buffer: Buffer) -> bool:
        return buffer.scope is Scope.SHARED or buffer in self.guarded

    def _meet(self, a: frozenset[Key] | set[Key], b: frozenset[Key] | set[Key]) -> bool:
        return any(self._overlap(x, y) for x in a for y in b)

    def _overlap(self, a: Key, b: Key) -> bool:
        if a is b:
            return True
        if a not in self.arrays or b not in self.arrays:
            return False
        first, second = sorted((self.arrays[a], self.arrays[b]), key=lambda array: array.offset_bytes)
        return first.offset_bytes + first.stages * first.stage_bytes > second.offset_bytes

    # ---- following the program -----------------------------------------------------------------------------------------------

    def body(self, body: tile.Body, state: _State) -> _State:
        for stmt in body:
            state = self._statement(stmt, state)
            self.seen |= state
        return state

    def _statement(self, stmt: tile.Stmt, state: _State) -> _State:
        read, write, read_async = self.touched(stmt)
        if self._meet(write, state.read | state.written) or self._meet(read | read_async, state.written):
            fence = self._meet(state.written, self.read_async)
            known = self.found.get(stmt)
            self.found[stmt] = Sync(fence or (known is not None and known.fence))
        if stmt in self.found:
            state = _State()
        state |= _State(frozenset(read | read_async), frozenset(write))
        if isinstance(stmt, tile.Copy) and self.copies[stmt].kind is CopyKind.FRAGMENT_TO_GLOBAL:
            # It meets on its own between writing its tile and storing that, so what is left is the store's read.
            state = _State(state.read | {stmt}, state.written - {stmt})
        if isinstance(stmt, tile.If):
            return self.body(stmt.then, state) | self.body(stmt.otherwise, state)
        if isinstance(stmt, (tile.For, tile.While)):
            return self._loop(stmt.body, state)
        return state

    def _loop(self, body: tile.Body, entry: _State) -> _State:
        """Until what comes round the back edge is known; a break may leave from anywhere."""
        leaves = any(isinstance(stmt, (tile.Break, tile.Continue)) for stmt in statements(body))
        while True:
            self.seen = entry
            after = self.body(body, entry)
            after = entry | (self.seen if leaves else after)
            if after == entry:
                return after
            entry = after


def plan_sync(
    body: tile.Body, copies: Mapping[tile.Copy, CopyPlan], arrays: Mapping[Key, SharedArray]
) -> dict[tile.Stmt, Sync]:
    """The statements that need a barrier in front, with or without a proxy fence before it."""
    every = tuple(statements(body))
    written = {b for stmt in every for b in writes(stmt) if b.scope is Scope.GLOBAL}
    guarded = frozenset(b for stmt in every for b in reads(stmt) if b in written)
    planner = _Planner(copies, arrays, guarded)
    planner.read_async = frozenset(key for stmt in every if not sub_bodies(stmt) for key in planner.touched(stmt)[2])
    planner.body(body, _State())
    return planner.found

