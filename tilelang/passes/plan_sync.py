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
from tilelang.passes.access import leaves, reads, statements, sub_bodies, writes
from tilelang.passes.plan_guards import guarded_tensors
from tilelang.passes.plans import CopyKind, CopyPlan, Sync

Key = Buffer | tile.Stmt
"""What is written or read: a buffer, or the tile that a copy or reduction has for itself."""


@dataclass(frozen=True, slots=True)
class _State:
    """Memory touched since the last barrier."""

    read: frozenset[Key] = frozenset()
    written: frozenset[Key] = frozenset()

    def __or__(self, other: _State) -> _State:
        return _State(self.read | other.read, self.written | other.written)


@dataclass(frozen=True, slots=True)
class _Touched:
    """What one statement reads and writes by ordinary accesses, and reads by tensor core or TMA."""

    read: frozenset[Key] = frozenset()
    written: frozenset[Key] = frozenset()
    read_async: frozenset[Key] = frozenset()


@dataclass(slots=True)
class _Planner:
    """`found` are the barriers so far; `read_async` is what tensor core or TMA read anywhere; `seen` is the union of all states
    of the loop at hand."""

    copies: Mapping[tile.Copy, CopyPlan]
    arrays: Mapping[Key, SharedArray]
    guarded: frozenset[Buffer]
    read_async: frozenset[Key] = frozenset()
    found: dict[tile.Stmt, Sync] = field(default_factory=dict)
    seen: _State = _State()

    # ---- what a statement touches --------------------------------------------------------------------------------------------

    def touched(self, stmt: tile.Stmt) -> _Touched:
        """Of the statement itself, and of what is inside a Parallel."""
        inner = tuple(statements((stmt,))) if isinstance(stmt, tile.Parallel) else (stmt,)
        read = frozenset(b for s in inner for b in reads(s) if self._counts(b))
        if isinstance(stmt, tile.Copy):
            return self._copy(stmt, read)
        if isinstance(stmt, tile.Gemm):
            return _Touched(read, read_async=read & {stmt.a.buffer, stmt.b.buffer})
        return _Touched(read, frozenset(b for s in inner for b in writes(s) if self._counts(b)))

    def _copy(self, copy: tile.Copy, read: frozenset[Key]) -> _Touched:
        """By instructions: `read` holds the source and what the indices are loaded from."""
        match self.copies[copy].kind:
            case CopyKind.FRAGMENT_TO_SHARED:
                return _Touched(read, frozenset((copy.dst.buffer,)))
            case CopyKind.TMA_STORE:
                return _Touched(read, read_async=frozenset((copy.src.buffer,)))
            case CopyKind.FRAGMENT_TO_GLOBAL:
                return _Touched(read, frozenset((copy,)))
        return _Touched()  # a load in a ring is the producer's

    def _counts(self, buffer: Buffer) -> bool:
        return buffer.scope is Scope.SHARED or buffer in self.guarded

    def _meet(self, a: frozenset[Key], b: frozenset[Key]) -> bool:
        """Whether any of `a` shares memory with any of `b`."""
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
        touched = self.touched(stmt)
        read = touched.read | touched.read_async
        if self._meet(touched.written, state.read | state.written) or self._meet(read, state.written):
            known = self.found.get(stmt)
            self.found[stmt] = Sync(self._meet(state.written, self.read_async) or (known is not None and known.fence))
        if stmt in self.found:
            state = _State()
        state |= _State(read, touched.written)
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
    body: tile.Body, copies: Mapping[tile.Copy, CopyPlan], arrays: Mapping[Key, SharedArray]
) -> dict[tile.Stmt, Sync]:
    """The statements that need a barrier in front, with or without a proxy fence before it."""
    planner = _Planner(copies, arrays, guarded_tensors(body))
    leaf_statements = (stmt for stmt in statements(body) if not sub_bodies(stmt))
    planner.read_async = frozenset(key for stmt in leaf_statements for key in planner.touched(stmt).read_async)
    planner.body(body, _State())
    return planner.found

