"""What a kernel that is synchronised by hand still gets from the compiler: barriers inside a team, and proxy fences.

Between teams order is the author's.  Within one, the threads of a tile op must meet where a later one reads what others of them
wrote to shared memory: there the team gets a barrier, as the consumers of an ordinary kernel do (`plan_sync`).  A statement of a
part of a team that follows one of the whole team needs the whole team to meet first, in front of the T.ws block.

What ordinary stores wrote and TMA or a tensor core reads needs a proxy fence by the writers before others learn of it.  So there
is one in front of each barrier above, and of each arrival and T.sync_threads by threads that have written so since their last
fence.  (PTX ISA, "Async proxy".)
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tilelang.ir import tile
from tilelang.ir.device import SharedArray
from tilelang.passes.access import leaves, statements
from tilelang.passes.plan_guards import guarded_tensors
from tilelang.passes.plans import CopyKind, CopyPlan, Sync
from tilelang.passes.teams import Team, by_team, team_of
from tilelang.passes.touched import Key, Memory, Touched


class _Seen(NamedTuple):
    """Memory that a team touched and has not met since, or wrote and has not fenced since."""

    key: Key
    team: Team
    kind: str  # read, written, unfenced


_State = frozenset[_Seen]


@dataclass(slots=True)
class _Planner:
    """`found` are the barriers and fences so far; `asynchronous` is what tensor core or TMA read or write anywhere; `seen` is the
    union of all states of the loop at hand."""

    memory: Memory
    asynchronous: frozenset[Key]
    found: dict[tile.Stmt, Sync] = field(default_factory=dict)
    seen: _State = frozenset()

    def conflicts(self, touched: Touched, team: Team, state: _State) -> _State:
        """What was touched before by threads of `team` and must be over before it touches this."""
        writing = touched.writes | touched.async_writes
        every = writing | touched.reads | touched.async_reads
        return frozenset(
            seen for seen in state
            if seen.kind != "unfenced" and seen.team.meets(team)
            and any(self.memory.overlap(seen.key, key) for key in (every if seen.kind == "written" else writing))
        )  # fmt: skip

    def unfenced(self, team: Team, state: _State) -> bool:
        """Whether threads of `team` wrote what is read asynchronously, and did not fence it."""
        mine = (seen.key for seen in state if seen.kind == "unfenced" and seen.team.meets(team))
        return any(self.memory.meet((key,), self.asynchronous) for key in mine)

    # ---- following the program -----------------------------------------------------------------------------------------------

    def body(self, body: tile.Body, team: Team, state: _State) -> _State:
        for stmt in body:
            state = self._statement(stmt, team, state)
            self.seen |= state
        return state

    def _statement(self, stmt: tile.Stmt, team: Team, state: _State) -> _State:
        match stmt:
            case tile.If():
                state = self._leaf(stmt, team, state)
                return self.body(stmt.then, team, state) | self.body(stmt.otherwise, team, state)
            case tile.For() | tile.While():
                return self._loop(stmt.body, team, self._leaf(stmt, team, state))
            case tile.Warpgroups():
                return self.body(stmt.body, team_of(stmt), self._parting(stmt, team, state))
            case tile.FenceProxyAsync():
                return _fenced(state, team)
            case tile.MbarrierArrive():
                return self._announced(stmt, team, state)
            case tile.SyncThreads():
                state = self._announced(stmt, team, state)
                return _met(state, team) if not stmt.barrier_id or stmt.threads >= team.threads else state
        return self._leaf(stmt, team, state)

    def _announced(self, stmt: tile.Stmt, team: Team, state: _State) -> _State:
        """In front of a statement that tells others of what was written: a fence, where one is needed."""
        if stmt in self.found or self.unfenced(team, state):
            self.found[stmt] = Sync(fence=True)
            return _fenced(state, team)
        return state

    def _leaf(self, stmt: tile.Stmt, team: Team, state: _State) -> _State:
        touched = self.memory.touched(stmt)
        state = self._meet(stmt, team, state, bool(self.conflicts(touched, team, state)))
        read = touched.reads | touched.async_reads
        if isinstance(stmt, tile.Copy) and self.memory.copies[stmt].kind is CopyKind.FRAGMENT_TO_GLOBAL:
            # It meets on its own between writing its tile and storing that, so what is left is the store's read.
            return state | {_Seen(stmt, team, "read")}
        new = {_Seen(key, team, "read") for key in read} | {_Seen(key, team, "written") for key in touched.writes}
        return state | new | {_Seen(key, team, "unfenced") for key in touched.writes}

    def _parting(self, stmt: tile.Warpgroups, team: Team, state: _State) -> _State:
        """In front of a T.ws block: those outside must meet where a part of them goes on with what others of them touched."""
        needed = any(
            seen.team not in inner
            for each, inner in by_team(stmt.body, team_of(stmt))
            for seen in self.conflicts(self.memory.touched(each), inner, state)
        )
        return self._meet(stmt, team, state, needed)

    def _meet(self, stmt: tile.Stmt, team: Team, state: _State, needed: bool) -> _State:
        """`state` behind a barrier of the team in front of `stmt`, if one is needed or was found to be."""
        if not needed and stmt not in self.found:
            return state
        known = self.found.get(stmt)
        fence = (known is not None and known.fence) or self.unfenced(team, state)
        self.found[stmt] = Sync(fence)
        return _met(_fenced(state, team) if fence else state, team)

    def _loop(self, body: tile.Body, team: Team, entry: _State) -> _State:
        """Until what comes round the back edge is known; a break may leave from anywhere."""
        early, outer = any(leaves(stmt) for stmt in body), self.seen
        while True:
            self.seen = entry
            after = self.body(body, team, entry)
            after = entry | (self.seen if early else after)
            if after == entry:
                self.seen |= outer
                return after
            entry = after


def _met(state: _State, team: Team) -> _State:
    return frozenset(seen for seen in state if seen.kind == "unfenced" or seen.team not in team)


def _fenced(state: _State, team: Team) -> _State:
    return frozenset(seen for seen in state if seen.kind != "unfenced" or seen.team not in team)


def plan_sync_by_hand(
    body: tile.Body, block: Team, copies: Mapping[tile.Copy, CopyPlan], arrays: Mapping[Key, SharedArray]
) -> dict[tile.Stmt, Sync]:
    """The statements that need a barrier of their team in front, with or without a proxy fence before it; for an arrival or a
    T.sync_threads the fence alone."""
    memory = Memory(copies, arrays, guarded_tensors(body))
    bulk = [memory.touched(stmt) for stmt in statements(body) if isinstance(stmt, (tile.Copy, tile.Gemm))]
    planner = _Planner(memory, frozenset(key for each in bulk for key in each.async_reads | each.async_writes))
    planner.body(body, block, frozenset())
    return planner.found
