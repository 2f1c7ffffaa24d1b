"""A fragment that one loop needs spread over the threads in another way passes through shared memory on its way there and back.

    for i, j in T.Parallel(64, 64):          for i, j in T.Parallel(64, 64): staged[i, j] = b[i, j]
        a[i, j] = a[i, j] + b[j, i]    ->    for i, j in T.Parallel(64, 64): a[i, j] = a[i, j] + staged[j, i]

The first loop goes over b in b's own layout, the second over a in a's; shared memory takes any index.
"""
from __future__ import annotations

import dataclasses

from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Load
from tilelang.ir.types import Scope
from tilelang.ir.walk import rewrite
from tilelang.passes.access import reads, statements, sub_bodies, writes
from tilelang.passes.transform_elementwise import copy_loop


def transform_relayout(body: tile.Body, stmt: tile.Parallel | tile.Reduce, buffer: Buffer) -> tile.Body:
    """The body with a loop working on a shared copy of the fragment `buffer`, or a reduction into a fragment of its own that
    `buffer` gets through shared memory."""
    return _result_elsewhere(body, stmt) if isinstance(stmt, tile.Reduce) else _loop_on_copy(body, stmt, buffer)


def _result_elsewhere(body: tile.Body, reduce: tile.Reduce) -> tile.Body:
    dst = reduce.dst.buffer
    staged = Buffer(f"{dst.name}_staged", dst.shape, dst.dtype, Scope.SHARED, dst.span)
    result = Buffer(f"{dst.name}_result", dst.shape, dst.dtype, Scope.FRAGMENT, dst.span)
    old = copy_loop(dst.whole(), staged.whole(), reduce), copy_loop(staged.whole(), result.whole(), reduce)
    new = copy_loop(result.whole(), staged.whole(), reduce), copy_loop(staged.whole(), dst.whole(), reduce)
    changed = dataclasses.replace(reduce, dst=result.whole())
    return _replaced(body, reduce, (*(() if reduce.clear else old), changed, *new))


def _loop_on_copy(body: tile.Body, loop: tile.Parallel, buffer: Buffer) -> tile.Body:
    storage = buffer.storage
    staged = Buffer(f"{storage.name}_staged", storage.shape, storage.dtype, Scope.SHARED, storage.span)
    seen = staged if buffer is storage else dataclasses.replace(buffer, scope=Scope.SHARED, view_of=staged)
    inner = tuple(statements(loop.body))
    written = any(storage in writes(stmt) for stmt in inner)
    read = written or any(storage in reads(stmt) for stmt in inner)  # what the loop does not write must be there afterwards
    before = (copy_loop(storage.whole(), staged.whole(), loop),) if read else ()
    after = (copy_loop(staged.whole(), storage.whole(), loop),) if written else ()
    changed = dataclasses.replace(loop, body=_redirected(loop.body, buffer, seen))
    return _replaced(body, loop, (*before, changed, *after))


def _redirected(body: tile.Body, buffer: Buffer, staged: Buffer) -> tile.Body:
    def change(node: object) -> object:
        if isinstance(node, Load) and node.buffer is buffer:
            return Load(staged, node.indices)
        if isinstance(node, tile.Store) and node.buffer is buffer:
            return dataclasses.replace(node, buffer=staged)
        return node

    return rewrite(body, change)  # type: ignore[return-value]


def _replaced(body: tile.Body, old: tile.Stmt, new: tile.Body) -> tile.Body:
    """The body with one statement, wherever it is, replaced by others; lists without it stay the same objects."""
    found: list[tile.Stmt] = []
    for stmt in body:
        if stmt is old:
            found.extend(new)
        elif isinstance(stmt, tile.If):
            then, otherwise = (_replaced(inner, old, new) for inner in sub_bodies(stmt))
            same = then is stmt.then and otherwise is stmt.otherwise
            found.append(stmt if same else dataclasses.replace(stmt, then=then, otherwise=otherwise))
        elif isinstance(stmt, (tile.For, tile.While, tile.Warpgroups)):
            inner = _replaced(stmt.body, old, new)
            found.append(stmt if inner is stmt.body else dataclasses.replace(stmt, body=inner))
        else:
            found.append(stmt)
    return body if len(found) == len(body) and all(a is b for a, b in zip(found, body, strict=True)) else tuple(found)
