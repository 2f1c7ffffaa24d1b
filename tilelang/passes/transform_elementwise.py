"""Copies that no instruction does as a whole, and fills, as element-wise loops.  Keeps the meaning, element for element.

`T.copy(A[i0 : i0 + 64, k], tile)` becomes `for i in T.Parallel(64): tile[i] = A[i0 + i, k]`.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Collection

from tilelang.errors import Unsupported
from tilelang.ir import tile
from tilelang.ir.arith import constant_difference
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Const, Expr, Load, Var, binary, is_const
from tilelang.ir.types import Scope
from tilelang.passes.access import sub_bodies

_AXES = "ijklmn"


def transform_elementwise(body: tile.Body, whole: Collection[tile.Stmt]) -> tile.Body:
    """The body with every copy and fill that is not in `whole` written as a `Parallel`."""
    return tuple(new for stmt in body for new in _statement(stmt, whole))


def _statement(stmt: tile.Stmt, whole: Collection[tile.Stmt]) -> tile.Body:
    if isinstance(stmt, tile.Copy) and stmt not in whole:
        return _copy(stmt)
    if isinstance(stmt, tile.Fill) and stmt not in whole:
        return (_fill(stmt),)
    if isinstance(stmt, tile.Reduce):
        return _reduce(stmt)
    if isinstance(stmt, tile.If):
        then, otherwise = (transform_elementwise(inner, whole) for inner in sub_bodies(stmt))
        return (dataclasses.replace(stmt, then=then, otherwise=otherwise),)
    if isinstance(stmt, (tile.For, tile.While, tile.Warpgroups)):
        return (dataclasses.replace(stmt, body=transform_elementwise(stmt.body, whole)),)
    return (stmt,)


def copy_loop(src: Region, dst: Region, stmt: tile.Stmt) -> tile.Parallel:
    """`dst = src`, element by element, on behalf of `stmt`."""
    variables = _variables(dst, stmt)
    value = Load(src.buffer, _indices(src, variables))
    store = tile.Store(buffer=dst.buffer, indices=_indices(dst, variables), value=value, span=stmt.span)
    return _loop(dst, variables, store)


def _copy(copy: tile.Copy) -> tile.Body:
    """One loop; or, where the two sides overlap, one that takes all elements up and one that puts them down."""
    if not _overlap(copy.src, copy.dst):
        return (copy_loop(copy.src, copy.dst, copy),)
    source = copy.src.buffer
    shape = copy.src.tile_shape or (1,)
    between = Buffer(f"{source.name}_between", shape, source.dtype, Scope.FRAGMENT, source.span).whole()
    return copy_loop(copy.src, between, copy), copy_loop(between, copy.dst, copy)


def _overlap(src: Region, dst: Region) -> bool:
    """Whether two regions may share elements without being the same."""
    if src.buffer.storage is not dst.buffer.storage:
        return False
    if src.buffer is not dst.buffer:
        return True
    distances = [constant_difference(a, b) for a, b in zip(src.base, dst.base, strict=True)]
    same = all(distance == 0 for distance in distances) and src.extents == dst.extents
    spans = zip(distances, src.extents, dst.extents, strict=True)
    apart = any(
        distance is not None and isinstance(a, int) and isinstance(b, int) and (distance >= b or -distance >= a)
        for distance, a, b in spans
    )
    return not same and not apart


def _reduce(reduce: tile.Reduce) -> tile.Body:
    """A reduction of fragments, with loops that bring shared operands into fragments and the result back."""
    src, dst = reduce.src, reduce.dst
    before: list[tile.Stmt] = []
    after: list[tile.Stmt] = []
    if src.buffer.scope is Scope.SHARED:
        src = _fragment_of(reduce.src)
        before.append(copy_loop(reduce.src, src, reduce))
    if dst.buffer.scope is Scope.SHARED:
        dst = _fragment_of(reduce.dst)
        after.append(copy_loop(dst, reduce.dst, reduce))
        if not reduce.clear:
            before.append(copy_loop(reduce.dst, dst, reduce))
    if src is reduce.src and dst is reduce.dst:
        return (reduce,)
    return (*before, dataclasses.replace(reduce, src=src, dst=dst), *after)


def _fragment_of(region: Region) -> Region:
    """A new fragment for the elements of a shared buffer."""
    buffer = region.buffer
    return Buffer(f"{buffer.name}_fragment", buffer.shape, buffer.dtype, Scope.FRAGMENT, buffer.span).whole()


def _fill(fill: tile.Fill) -> tile.Parallel:
    variables = _variables(fill.dst, fill)
    store = tile.Store(buffer=fill.dst.buffer, indices=_indices(fill.dst, variables), value=fill.value, span=fill.span)
    return _loop(fill.dst, variables, store)


def _variables(region: Region, stmt: tile.Stmt) -> tuple[Var, ...]:
    """One loop variable for each dimension of the tile; a single element still gets one."""
    if any(not isinstance(extent, int) for extent in region.extents):
        raise Unsupported(
            "a copy or fill of run-time extents runs on the CPU only so far", code="TL341", span=stmt.span,
            hint="copy a tile of constant extents; what lies outside of a tensor is read as 0 and not written",
        )  # fmt: skip
    return tuple(Var(name) for _, name in zip(region.tile_shape or (1,), _AXES, strict=False))


def _loop(region: Region, variables: tuple[Var, ...], store: tile.Store) -> tile.Parallel:
    extents: tuple[Expr, ...] = tuple(Const(int(extent)) for extent in region.tile_shape or (1,))  # type: ignore[arg-type]
    return tile.Parallel(vars=variables, extents=extents, body=(store,), span=store.span)


def _indices(region: Region, variables: tuple[Var, ...]) -> tuple[Expr, ...]:
    """The element of a region at a point of the loop: dimensions of extent 1 stay at their base."""
    rest = iter(variables)
    places = zip(region.base, region.extents, strict=True)
    return tuple(base if extent == 1 else _plus(base, next(rest)) for base, extent in places)


def _plus(base: Expr, var: Var) -> Expr:
    return var if is_const(base, 0) else binary("+", base, var)
