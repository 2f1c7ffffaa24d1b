"""A warning for tiles that are read although nothing wrote them, such as an accumulator without T.clear before T.gemm."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from tilelang.ir import tile
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Load
from tilelang.ir.types import Scope
from tilelang.ir.walk import children, walk


def warn_unwritten(kernel: tile.Kernel) -> None:
    """One `UserWarning` per buffer, at the statement that reads it first.

    A write counts if it comes earlier in the text or anywhere in a loop around the read, and does not itself need the old
    value (as an accumulating T.gemm does)."""
    warned: set[Buffer] = set()
    for statement, buffer in _unwritten(kernel.body, set()):
        if buffer.storage in warned or statement.span is None:
            continue
        warned.add(buffer.storage)
        advice = (
            "T.clear it first, or pass clear_accum=True" if isinstance(statement, tile.Gemm) else "fill or copy into it first"
        )
        message = f"{buffer.name} is read here and nothing has written it; {advice}"
        warnings.warn_explicit(message, UserWarning, statement.span.file, statement.span.line)


def _unwritten(body: tile.Body, written: set[Buffer]) -> Iterator[tuple[tile.Stmt, Buffer]]:
    """(statement, buffer) for each read of a buffer outside `written` (no views), which grows on the way."""
    for statement in body:
        inner = [part for part in (getattr(statement, name, ()) for name in ("body", "then", "otherwise")) if part]
        if isinstance(statement, (tile.For, tile.While)):
            written |= {buffer for inside in walk(statement.body) for buffer in _written(inside)}
        for buffer in _reads(statement):
            if buffer.storage not in written and buffer.scope is not Scope.GLOBAL:
                yield statement, buffer
        for part in inner:
            yield from _unwritten(part, written)
        written |= set(_written(statement))


def _reads(statement: tile.Stmt) -> Iterator[Buffer]:
    """Buffers whose values the statement itself needs, bodies excluded."""
    for child in children(statement):
        if not isinstance(child, (tile.Stmt, Region)):
            yield from (node.buffer for node in walk(child) if isinstance(node, Load))
    match statement:
        case tile.Copy(src=src) | tile.Reduce(src=src, clear=True):
            yield src.buffer
        case tile.Reduce(src=src, dst=dst):
            yield from (src.buffer, dst.buffer)
        case tile.Gemm(a=a, b=b, c=c, clear_accum=clear):
            yield from (a.buffer, b.buffer)
            if clear is False:
                yield c.buffer


def _written(statement: object) -> Iterator[Buffer]:
    """The buffer (what it is a view of, for a view) that the statement writes without needing its old value."""
    match statement:
        case tile.Copy(dst=dst) | tile.Fill(dst=dst) | tile.Reduce(dst=dst, clear=True):
            yield dst.buffer.storage
        case tile.Gemm(c=c, clear_accum=clear) if clear is not False:
            yield c.buffer.storage
        case tile.Store(buffer=buffer, indices=indices) if _needs_no_old_value(statement, buffer, indices):
            yield buffer.storage


def _needs_no_old_value(store: tile.Store, buffer: Buffer, indices: tuple[object, ...]) -> bool:
    """Whether the store reads nothing of its buffer but other elements than the one it writes, as a recurrence does."""
    return all(
        node.buffer.storage is not buffer.storage or (node.buffer is buffer and node.indices != indices)
        for child in children(store) for node in walk(child) if isinstance(node, Load)
    )  # fmt: skip
