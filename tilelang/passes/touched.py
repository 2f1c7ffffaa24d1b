"""What a statement does to memory that the block's threads share: by ordinary accesses, and by TMA and tensor core."""
from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import SharedArray
from tilelang.ir.types import Scope
from tilelang.passes.access import reads, statements, writes
from tilelang.passes.plans import CopyKind, CopyPlan

Key = Buffer | tile.Stmt
"""A buffer, or the tile that a copy or reduction has for itself."""


@dataclass(frozen=True, slots=True)
class Touched:
    """Of one statement.  What is read asynchronously may be among the ordinary reads, too."""

    reads: frozenset[Key] = frozenset()
    writes: frozenset[Key] = frozenset()
    async_reads: frozenset[Key] = frozenset()
    async_writes: frozenset[Key] = frozenset()


@dataclass(frozen=True, slots=True)
class Memory:
    """Where shared buffers lie, how copies are done, and which tensors are guarded as shared memory is."""

    copies: Mapping[tile.Copy, CopyPlan]
    arrays: Mapping[Key, SharedArray]
    guarded: Collection[Buffer]

    def touched(self, stmt: tile.Stmt) -> Touched:
        """By the statement itself, its own indices and conditions included; what is inside a T.Parallel counts, what is inside
        others does not."""
        inner = tuple(statements((stmt,))) if isinstance(stmt, tile.Parallel) else (stmt,)
        read = frozenset(buffer for each in inner for buffer in reads(each) if self._counts(buffer))
        if isinstance(stmt, tile.Copy):
            return self._copy(stmt, read)
        if isinstance(stmt, tile.Gemm):
            return Touched(read, async_reads=read & {stmt.a.buffer, stmt.b.buffer})
        return Touched(read, frozenset(buffer for each in inner for buffer in writes(each) if self._counts(buffer)))

    def _copy(self, copy: tile.Copy, read: frozenset[Key]) -> Touched:
        """By instructions: `read` holds the source and what the indices are loaded from."""
        match self.copies[copy].kind:
            case CopyKind.TMA_LOAD:
                return Touched(read, async_writes=frozenset((copy.dst.buffer,)))
            case CopyKind.TMA_STORE:
                return Touched(read, async_reads=frozenset((copy.src.buffer,)))
            case CopyKind.FRAGMENT_TO_SHARED:
                return Touched(read, frozenset((copy.dst.buffer,)))
            case CopyKind.FRAGMENT_TO_GLOBAL:
                return Touched(read, frozenset((copy,)))
        return Touched()  # a loop by now

    def _counts(self, buffer: Buffer) -> bool:
        return buffer.scope is Scope.SHARED or buffer in self.guarded

    def meet(self, a: Collection[Key], b: Collection[Key]) -> bool:
        """Whether any of `a` shares memory with any of `b`."""
        return any(self.overlap(x, y) for x in a for y in b)

    def overlap(self, a: Key, b: Key) -> bool:
        """Whether two keys share memory."""
        if a is b:
            return True
        if a not in self.arrays or b not in self.arrays:
            return False
        first, second = sorted((self.arrays[a], self.arrays[b]), key=lambda array: array.offset_bytes)
        return first.offset_bytes + first.stages * first.stage_bytes > second.offset_bytes
