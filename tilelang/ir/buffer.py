"""Buffers and regions of them.

A `Buffer` is a named array in one memory scope, compared by identity.  `A[i, j]` is an element (`Load`), `A[i:j, k]` a
`Region`; a tile op also takes a bare element as the base of a region whose extents come from its other operand.
"""
from __future__ import annotations

from dataclasses import dataclass

from tilelang.errors import ShapeProblem, Span
from tilelang.ir.expr import Expr, Load, as_expr
from tilelang.ir.types import DType, Scope

Extent = int | Expr


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """A named array: row-major logical `shape` in elements; its physical layout is a plan's business.

    `view_of`: another name for the elements of that buffer (which is no view itself, and has the same dtype, scope and number of
    elements), in the same row-major order."""

    name: str
    shape: tuple[Extent, ...]
    dtype: DType
    scope: Scope
    span: Span | None = None
    view_of: Buffer | None = None

    @property
    def storage(self) -> Buffer:
        """The buffer whose elements these are: itself, or what it is a view of."""
        return self.view_of or self

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __getitem__(self, key: object) -> Load | Region:
        """An element, or a region if any index is a slice (missing trailing indices are whole dimensions)."""
        indices = key if isinstance(key, tuple) else (key,)
        if any(index is Ellipsis for index in indices):
            at = next(i for i, index in enumerate(indices) if index is Ellipsis)
            whole = (slice(None),) * (self.rank - len(indices) + 1)
            indices = indices[:at] + whole + indices[at + 1 :]
        if len(indices) > self.rank:
            raise ShapeProblem(f"{self.name} has {self.rank} dimensions and {len(indices)} indices came", code="TL201")
        if len(indices) == self.rank and not any(isinstance(index, slice) for index in indices):
            return Load(self, tuple(_index(index, extent) for index, extent in zip(indices, self.shape, strict=True)))
        indices += (slice(None),) * (self.rank - len(indices))
        pairs = [_bounds(index, extent, self.name) for index, extent in zip(indices, self.shape, strict=True)]
        return Region(self, tuple(base for base, _ in pairs), tuple(extent for _, extent in pairs))

    def whole(self) -> Region:
        """The region that is this whole buffer."""
        return Region(self, tuple(as_expr(0) for _ in self.shape), self.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Mbarriers(Buffer):
    """mbarriers of the block: one dimension, scope BARRIER, elements that are no values; the i-th completes a phase after
    `arrivals[i]` arrivals and all bytes that are expected of it."""

    arrivals: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Region:
    """A box of a buffer: per dimension the first index and the extent, in elements.  Dimensions of extent 1 do not count as
    dimensions of the tile."""

    buffer: Buffer
    base: tuple[Expr, ...]
    extents: tuple[Extent, ...]

    @property
    def tile_shape(self) -> tuple[Extent, ...]:
        """The extents that are not 1."""
        return tuple(extent for extent in self.extents if not (isinstance(extent, int) and extent == 1))


def _index(index: object, extent: Extent) -> Expr:
    """An index as an expression; a constant negative one counts from the end, as in Python."""
    if isinstance(index, int) and not isinstance(index, bool) and index < 0:
        return as_expr(extent) + index
    return as_expr(index)  # type: ignore[arg-type]


def _bounds(index: object, extent: Extent, name: str) -> tuple[Expr, Extent]:
    """(first index, extent) of one dimension of a slice expression."""
    if not isinstance(index, slice):
        return _index(index, extent), 1
    if index.step not in (None, 1):
        raise ShapeProblem(f"a slice of {name} has step {index.step}; tiles are contiguous, so the step must be 1", code="TL202")
    start = as_expr(0) if index.start is None else _index(index.start, extent)
    stop = as_expr(extent) if index.stop is None else _index(index.stop, extent)
    return start, _difference(stop, start)


def _difference(stop: Expr, start: Expr) -> Extent:
    """`stop - start` as an int where the symbols cancel, e.g. (by + 1) * 128 - by * 128."""
    from tilelang.ir.arith import constant_difference

    constant = constant_difference(stop, start)
    return constant if constant is not None else stop - start
