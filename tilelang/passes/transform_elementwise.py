"""Copies that no instruction does as a whole, and fills, as element-wise loops.  Keeps the meaning, element for element.

`T.copy(A[i0 : i0 + 64, k], tile)` becomes `for i in T.Parallel(64): tile[i] = A[i0 + i, k]`.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Collection

from tilelang.errors import Unsupported
from tilelang.ir import tile
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Const, Expr, Load, Var, binary, is_const
from tilelang.passes.access import sub_bodies

_AXES = "ijklmn"


def transform_elementwise(body: tile.Body, whole: Collection[tile.Stmt]) -> tile.Body:
    """The body with every copy and fill that is not in `whole` written as a `Parallel`."""
    return tuple(_statement(stmt, whole) for stmt in body)


def _statement(stmt: tile.Stmt, whole: Collection[tile.Stmt]) -> tile.Stmt:
    if isinstance(stmt, tile.Copy) and stmt not in whole:
        return _copy(stmt)
    if isinstance(stmt, tile.Fill) and stmt not in whole:
        return _fill(stmt)
    if isinstance(stmt, tile.If):
        then, otherwise = (transform_elementwise(inner, whole) for inner in sub_bodies(stmt))
        return dataclasses.replace(stmt, then=then, otherwise=otherwise)
    if isinstance(stmt, (tile.For, tile.While)):
        return dataclasses.replace(stmt, body=transform_elementwise(stmt.body, whole))
    return stmt


def _copy(copy: tile.Copy) -> tile.Parallel:
    variables = _variables(copy.dst, copy)
    value = Load(copy.src.buffer, _indices(copy.src, variables))
    store = tile.Store(buffer=copy.dst.buffer, indices=_indices(copy.dst, variables), value=value, span=copy.span)
    return _loop(copy.dst, variables, store)


def _fill(fill: tile.Fill) -> tile.Parallel:
    variables = _variables(fill.dst, fill)
    store = tile.Store(buffer=fill.dst.buffer, indices=_indices(fill.dst, variables), value=fill.value, span=fill.span)
    return _loop(fill.dst, variables, store)


def _variables(region: Region, stmt: tile.Stmt) -> tuple[Var, ...]:
    """One loop variable for each dimension of the tile; a single element still gets one."""
    if any(not isinstance(extent, int) for extent in region.extents):
        raise Unsupported("a copy or fill of run-time extents runs on the CPU only so far", code="TL341", span=stmt.span)
    return tuple(Var(name) for _, name in zip(region.tile_shape or (1,), _AXES, strict=False))


def _loop(region: Region, variables: tuple[Var, ...], store: tile.Store) -> tile.Parallel:
    extents: tuple[Expr, ...] = tuple(Const(int(extent)) for extent in region.tile_shape or (1,))  # type: ignore[arg-type]
    return tile.Parallel(vars=variables, extents=extents, body=(store,), span=store.span)


def _indices(region: Region, variables: tuple[Var, ...]) -> tuple[Expr, ...]:
    """The element of a region at a point of the loop: dimensions of extent 1 stay at their base."""
    rest = iter(variables)
    return tuple(base if extent == 1 else _plus(base, next(rest)) for base, extent in zip(region.base, region.extents, strict=True))


def _plus(base: Expr, var: Var) -> Expr:
    return var if is_const(base, 0) else binary("+", base, var)
