"""A statement about a fragment is done by the team that has the fragment.

    T.clear(acc)                          with T.ws(0):
    with T.ws(0):                             T.clear(acc)
        T.gemm(A_shared, B_shared, acc)   ->  with T.ws(0):
                                                  T.gemm(A_shared, B_shared, acc)

A fragment lies in the registers of one team: the smallest that uses it, if all others that do are larger.  Two teams that exclude
each other cannot share one.  Keeps the meaning, since nobody else could read what the others would write to their registers.
"""
from __future__ import annotations

import dataclasses

from tilelang.errors import Unsupported
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.types import Scope
from tilelang.passes.access import reads, statements, sub_bodies, writes
from tilelang.passes.teams import Team, by_team, team_of


def transform_teams(body: tile.Body, block: Team) -> tuple[tile.Body, dict[Buffer, Team]]:
    """The body with every leaf in the hands of its fragments' team, and the teams of all fragments.  Raises Unsupported TL351."""
    owners: dict[Buffer, tuple[Team, tile.Stmt]] = {}
    for stmt, team in by_team(body, block):
        if not _is_leaf(stmt):
            continue
        for buffer in _fragments(stmt):
            known, first = owners.setdefault(buffer, (team, stmt))
            if team not in known and known not in team:
                raise _shared_registers(buffer, first, known, stmt, team)
            if team in known:
                owners[buffer] = (team, stmt)
    teams = {buffer: team for buffer, (team, _) in owners.items()}
    return _narrowed(body, block, teams), teams


def _narrowed(body: tile.Body, team: Team, teams: dict[Buffer, Team]) -> tile.Body:
    return tuple(_statement(stmt, team, teams) for stmt in body)


def _statement(stmt: tile.Stmt, team: Team, teams: dict[Buffer, Team]) -> tile.Stmt:
    if _is_leaf(stmt):
        wanted = team
        for buffer in _fragments(stmt):
            if teams[buffer] not in wanted and wanted not in teams[buffer]:
                raise _two_teams(stmt, teams)
            wanted = teams[buffer] if teams[buffer] in wanted else wanted
        return stmt if wanted == team else tile.Warpgroups(groups=wanted.groups, body=(stmt,), span=stmt.span)
    if isinstance(stmt, tile.If):
        then, otherwise = (_narrowed(part, team, teams) for part in sub_bodies(stmt))
        return dataclasses.replace(stmt, then=then, otherwise=otherwise)
    inner = team_of(stmt) if isinstance(stmt, tile.Warpgroups) else team
    return dataclasses.replace(stmt, body=_narrowed(stmt.body, inner, teams))  # type: ignore[attr-defined]


def _is_leaf(stmt: tile.Stmt) -> bool:
    return not isinstance(stmt, (tile.If, tile.For, tile.While, tile.Warpgroups))


def _fragments(stmt: tile.Stmt) -> list[Buffer]:
    """The fragments a statement touches, points of a T.Parallel included, in the order of their names."""
    touched = {buffer for inner in statements((stmt,)) for buffer in reads(inner) | writes(inner)}
    return sorted((buffer for buffer in touched if buffer.scope is Scope.FRAGMENT), key=lambda buffer: buffer.name)


def _shared_registers(buffer: Buffer, first: tile.Stmt, known: Team, stmt: tile.Stmt, team: Team) -> Unsupported:
    return Unsupported(
        f"{buffer.name} is a fragment of {known}, and {team} cannot reach its registers", code="TL351", span=stmt.span,
        notes=(f"{known} {'use' if len(known.groups) > 1 else 'uses'} it here: {first.span}",) if first.span else (),
        hint="give each its own fragment, and pass values on in a shared buffer",
    )  # fmt: skip


def _two_teams(stmt: tile.Stmt, teams: dict[Buffer, Team]) -> Unsupported:
    named = ", ".join(f"{buffer.name} of {teams[buffer]}" for buffer in _fragments(stmt))
    return Unsupported(
        f"one statement uses fragments of different warpgroups: {named}", code="TL351", span=stmt.span,
        hint="pass values on in a shared buffer",
    )  # fmt: skip
