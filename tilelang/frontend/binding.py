"""Which dimensions of a buffer a tile covers when the author gave only a base: `T.copy(Q[bz, bx * 64, by, 0], Q_shared)`.

Candidates are all order-preserving choices of buffer dimensions for the tile dimensions of extent > 1; other dimensions get
extent 1.  Each pair of a base b, a tile extent e and a dimension's size d is judged:

    aligned   b holds a variable and, as written, its constant and every coefficient are multiples of e
    inside    0 <= b and b + e <= d over the ranges of the variables
    unknown   b has no known range
    spills    otherwise

Then: (1) the only candidate; (2) the right-most one, if nothing in it spills; (3) the only candidate that is aligned or inside
throughout, or if there is none, the only one that does not spill; several are an error; (4) the right-most one, its overhang
reading as zero and not being written.

Example: Q is (1, 1024, 8, 64) in (batch, seq, heads, dim) and the tile 64 x 64.  Right-most would be (heads, dim), but `by`
runs to 7 and 64 rows from there spill over 8 heads; `bx * 64` is aligned in seq, so the tile covers (seq, dim).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from tilelang.errors import ShapeProblem, Span
from tilelang.frontend.describe import expr_text, shape_text, tile_text
from tilelang.frontend.facts import Facts
from tilelang.ir.buffer import Extent, Region
from tilelang.ir.expr import Expr, Load
from tilelang.trace import ONLY_CHOICE, Decision, Rejection


class Fit(StrEnum):
    """How a tile dimension sits in a buffer dimension."""

    ALIGNED = "aligned"
    INSIDE = "inside"
    UNKNOWN = "unknown"
    SPILLS = "spills"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One choice: the buffer dimension of each tile dimension, and how well each pair fits."""

    dims: tuple[int, ...]
    fits: tuple[Fit, ...]

    @property
    def spills(self) -> bool:
        return Fit.SPILLS in self.fits

    @property
    def is_certain(self) -> bool:
        return all(fit in (Fit.ALIGNED, Fit.INSIDE) for fit in self.fits)


def judge(base: Expr, extent: int, size: Extent, facts: Facts) -> Fit:
    """How `extent` elements from `base` on fit a dimension of `size` elements."""
    constant, terms = facts.as_written(base)
    if terms and constant % extent == 0 and all(coefficient % extent == 0 for coefficient in terms.values()):
        return Fit.ALIGNED
    found = facts.range_of(base)
    if found is None or not isinstance(size, int):
        return Fit.UNKNOWN
    return Fit.INSIDE if found[0] >= 0 and found[1] + extent <= size else Fit.SPILLS


def bind(element: Load, tile: tuple[int, ...], facts: Facts, span: Span | None) -> tuple[Region, Decision]:
    """The region of `element`'s buffer that a tile of extents `tile` (each > 1) covers, and why.

    Raises ShapeProblem TL205 where the buffer has too few dimensions and TL206 where several choices are as good."""
    candidates = _candidates(element, tile, facts)
    if not candidates:
        buffer = element.buffer
        raise ShapeProblem(
            f"a {shape_text(tile)} tile needs {len(tile)} dimensions, and {buffer.name} has {buffer.rank}",
            code="TL205",
            span=span,
        )
    chosen, reason = _choose(element, tile, candidates, span)
    decision = Decision(
        span,
        subject=f"dimensions of {tile_text(element)} that a {shape_text(tile)} tile covers",
        chosen=f"{_dims_text(chosen.dims)}: {tile_text(_region(element, tile, chosen))}",
        reason=reason,
        rejected=tuple(_rejection(element, tile, other, facts) for other in candidates if other is not chosen),
    )
    return _region(element, tile, chosen), decision


def _candidates(element: Load, tile: tuple[int, ...], facts: Facts) -> list[Candidate]:
    """All choices, the right-most first."""
    shape = element.buffer.shape
    fits = {
        (axis, at): judge(element.indices[axis], extent, shape[axis], facts)
        for axis in range(len(shape))
        for at, extent in enumerate(tile)
    }
    choices = list(combinations(range(len(shape)), len(tile)))
    return [Candidate(dims, tuple(fits[axis, at] for at, axis in enumerate(dims))) for dims in reversed(choices)]


def _choose(element: Load, tile: tuple[int, ...], candidates: list[Candidate], span: Span | None) -> tuple[Candidate, str]:
    rightmost = candidates[0]
    if len(candidates) == 1:
        return rightmost, ONLY_CHOICE
    if not rightmost.spills:
        return rightmost, f"right-most, and nothing spills ({_fits_text(rightmost)})"
    for label, good in (
        ("aligned or inside", [candidate for candidate in candidates if candidate.is_certain]),
        ("not spilling", [candidate for candidate in candidates if not candidate.spills]),
    ):
        if len(good) == 1:
            return good[0], f"the only choice that is {label} throughout ({_fits_text(good[0])}); right-most spills"
        if good:
            raise _ambiguous(element, tile, good, span)
    return rightmost, "right-most; every choice spills, so what lies outside reads as zero and is not written"


def _ambiguous(element: Load, tile: tuple[int, ...], good: list[Candidate], span: Span | None) -> ShapeProblem:
    options = [tile_text(_region(element, tile, candidate)) for candidate in good]
    return ShapeProblem(
        f"a {shape_text(tile)} tile can start at {tile_text(element)} in {len(good)} ways",
        code="TL206",
        span=span,
        hint="say which by slices",
        notes=tuple(f"{_dims_text(candidate.dims)}: {option}" for candidate, option in zip(good, options, strict=True)),
    )


def _region(element: Load, tile: tuple[int, ...], candidate: Candidate) -> Region:
    extents = dict(zip(candidate.dims, tile, strict=True))
    return Region(element.buffer, element.indices, tuple(extents.get(axis, 1) for axis in range(element.buffer.rank)))


def _rejection(element: Load, tile: tuple[int, ...], candidate: Candidate, facts: Facts) -> Rejection:
    """Why one choice was not taken: its first pair that spills, else that the choice made goes before it."""
    worst = next((at for at, fit in enumerate(candidate.fits) if fit is Fit.SPILLS), None)
    slices = f"write {tile_text(_region(element, tile, candidate))}"
    if worst is None:
        return Rejection(_dims_text(candidate.dims), "right-most, or certain to fit", _fits_text(candidate), slices)
    axis, extent = candidate.dims[worst], tile[worst]
    base, size = element.indices[axis], element.buffer.shape[axis]
    found = facts.range_of(base)
    value = f"{expr_text(base)} is {found[0]} to {found[1]}" if found and found[0] != found[1] else f"{expr_text(base)}"
    return Rejection(
        _dims_text(candidate.dims),
        f"{expr_text(base)} + {extent} <= {expr_text(size)} in dimension {axis}",
        f"{value}, so the tile ends at up to {found[1] + extent if found else '?'}",
        slices,
    )


def _dims_text(dims: tuple[int, ...]) -> str:
    return f"dimensions ({', '.join(map(str, dims))})" if dims else "one element"


def _fits_text(candidate: Candidate) -> str:
    return ", ".join(f"dimension {axis} {fit}" for axis, fit in zip(candidate.dims, candidate.fits, strict=True))
