"""Who executes which statement of a kernel that divides its warpgroups by hand.

A *team* is the warpgroups of a T.ws block, or all of the block's: they share the statement's tiles and loops, whose layouts count
threads from the team's first.  A *role* is a run of neighbouring warpgroups that are in the same teams throughout, so that one
walk over the program serves them.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilelang.ir import tile
from tilelang.passes.access import sub_bodies

WARPGROUP_THREADS = 128


@dataclass(frozen=True, slots=True)
class Team:
    """Warpgroups, ascending, and how many threads they have together (a block that is no whole warpgroups is a single team)."""

    groups: tuple[int, ...]
    threads: int

    def __contains__(self, other: Team) -> bool:
        return set(other.groups) <= set(self.groups)

    def meets(self, other: Team) -> bool:
        """Whether a warpgroup is in both."""
        return not set(self.groups).isdisjoint(other.groups)

    @property
    def first_thread(self) -> int:
        return WARPGROUP_THREADS * self.groups[0]

    def offset(self, role: Team) -> int:
        """What is subtracted from the number of a thread of `role`, a run of warpgroups of this team, to count within the
        team."""
        before = sum(group < role.groups[0] for group in self.groups)
        return WARPGROUP_THREADS * (role.groups[0] - before)

    def leads(self, role: Team) -> bool:
        """Whether `role`, which is in this team, has its first warp."""
        return role.groups[0] == self.groups[0]

    def __str__(self) -> str:
        names = " and ".join(map(str, self.groups)) if len(self.groups) < 3 else ", ".join(map(str, self.groups))
        return f"warpgroup{'s' * (len(self.groups) > 1)} {names}"


def whole_block(kernel: tile.Kernel) -> Team:
    """All threads of the block."""
    return Team(tuple(range(-(-kernel.threads // WARPGROUP_THREADS))), kernel.threads)


def team_of(stmt: tile.Warpgroups) -> Team:
    return Team(stmt.groups, WARPGROUP_THREADS * len(stmt.groups))


def by_team(body: tile.Body, team: Team) -> Iterator[tuple[tile.Stmt, Team]]:
    """Every statement of a body and of the bodies inside it, with who executes it; points of a T.Parallel are not statements."""
    for stmt in body:
        yield stmt, team
        if not isinstance(stmt, tile.Parallel):
            inner = team_of(stmt) if isinstance(stmt, tile.Warpgroups) else team
            for part in sub_bodies(stmt):
                yield from by_team(part, inner)


def roles_of(body: tile.Body, block: Team) -> tuple[Team, ...]:
    """The block in runs of warpgroups that are together in every T.ws."""
    teams = [team_of(stmt) for stmt, _ in by_team(body, block) if isinstance(stmt, tile.Warpgroups)]
    runs: list[list[int]] = []
    for group in block.groups:
        if runs and all((group in team.groups) == (runs[-1][-1] in team.groups) for team in teams):
            runs[-1].append(group)
        else:
            runs.append([group])
    if len(runs) == 1:
        return (block,)
    return tuple(Team(tuple(run), WARPGROUP_THREADS * len(run)) for run in runs)
