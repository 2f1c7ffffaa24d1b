"""Who executes what: teams, the roles that the block falls into, and statements handed to the team that has their fragments."""
from __future__ import annotations

import pytest

from tests.passes.maker import Maker
from tests.passes.programs import BX, K
from tilelang.ir import tile
from tilelang.ir.text import render_statement
from tilelang.ir.verify import verify
from tilelang.passes.teams import Team, by_team, roles_of, whole_block
from tilelang.passes.transform_teams import transform_teams


def team(*groups: int) -> Team:
    return Team(groups, 128 * len(groups))


def only(*groups: int, body: tile.Body = ()) -> tile.Warpgroups:
    return tile.Warpgroups(groups=groups, body=body)


@pytest.mark.parametrize(
    ("teams", "warpgroups", "roles"),
    [
        ((), 3, ["warpgroups 0, 1, 2"]),
        (((0, 1), (2,)), 3, ["warpgroups 0 and 1", "warpgroup 2"]),
        (((0, 2),), 3, ["warpgroup 0", "warpgroup 1", "warpgroup 2"]),
        (((0, 1), (1, 2)), 4, ["warpgroup 0", "warpgroup 1", "warpgroup 2", "warpgroup 3"]),
        (((0, 1, 2, 3),), 4, ["warpgroups 0, 1, 2, 3"]),
    ],
)
def test_roles_are_runs_of_warpgroups_that_are_always_together(
    teams: tuple[tuple[int, ...], ...], warpgroups: int, roles: list[str]
) -> None:
    mk = Maker()
    kernel = mk.kernel({BX: 1}, mk.loop(K, 2, *(only(*groups) for groups in teams)), threads=128 * warpgroups)
    found = roles_of(kernel.body, whole_block(kernel))
    assert [str(role) for role in found] == roles
    assert sum(role.threads for role in found) == kernel.threads


def test_a_block_of_no_whole_warpgroups_is_one_role() -> None:
    mk = Maker()
    kernel = mk.kernel({BX: 1}, threads=96)
    assert roles_of(kernel.body, whole_block(kernel)) == (Team((0,), 96),)


def test_threads_count_from_the_first_of_their_team() -> None:
    """By brute force: the threads of a team get the numbers 0, 1, 2 and so on."""
    for groups in ((0,), (2,), (0, 1), (1, 2), (0, 2), (1, 3), (0, 1, 3), (0, 1, 2, 3)):
        mine = team(*groups)
        numbers = [thread - mine.offset(team(group)) for group in groups for thread in range(128 * group, 128 * group + 128)]
        assert numbers == list(range(mine.threads))
        assert [mine.leads(team(group)) for group in groups] == [True] + [False] * (len(groups) - 1)


def test_everything_with_who_does_it() -> None:
    mk = Maker()
    fence, meet = tile.FenceProxyAsync(), tile.SyncThreads()
    body = (mk.loop(K, 2, only(0, 1, body=(only(1, body=(fence,)), meet))),)
    found = {type(stmt).__name__: str(who) for stmt, who in by_team(body, team(0, 1, 2))}
    assert found == {
        "For": "warpgroups 0, 1, 2", "Warpgroups": "warpgroups 0 and 1", "FenceProxyAsync": "warpgroup 1",
        "SyncThreads": "warpgroups 0 and 1",
    }  # fmt: skip


def test_a_statement_goes_to_the_team_of_its_fragments() -> None:
    mk = Maker()
    c, x, y, s = mk.tensor("C", 64, 64), mk.fragment("x", 64, 64), mk.fragment("y", 64, 64), mk.shared("s", 64, 64)
    part = only(1, 2, body=(mk.clear(y), only(2, body=(mk.copy(x, s),))))
    kernel = mk.kernel({BX: 1}, mk.clear(x), mk.clear(s), part, mk.copy(y, c), threads=384)
    body, teams = transform_teams(kernel.body, whole_block(kernel))
    assert {buffer.name: str(who) for buffer, who in teams.items()} == {"x": "warpgroup 2", "y": "warpgroups 1 and 2"}
    text = "\n".join(render_statement(stmt) for stmt in body)
    assert text == """\
with T.ws(2):
    T.clear(x)
T.clear(s)
with T.ws(1, 2):
    T.clear(y)
    with T.ws(2):
        T.copy(x, s)
with T.ws(1, 2):
    T.copy(y, C)"""
    verify(mk.kernel({BX: 1}, *body, threads=384))
