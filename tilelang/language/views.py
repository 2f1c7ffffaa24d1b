"""Views of tiles and tensors."""

from __future__ import annotations

from tilelang.errors import Unsupported
from tilelang.frontend.builder import current
from tilelang.ir.buffer import Buffer


def reshape(src: object, shape: object) -> Buffer:
    """The elements of `src` (a tensor, a shared tile or a fragment) under another `shape`, in the same row-major order.

    Nothing is copied: what is written through one name is read through the other.  Raises ShapeProblem TL209 where the numbers of
    elements differ, TypeProblem TL212 and TL213 for what cannot be viewed, and Unsupported TL302 for slices."""
    from tilelang.frontend import views

    return views.view(current("T.reshape"), src, shape, None, "T.reshape")


def view(src: object, shape: object = None, dtype: object = None, strides: object = None) -> Buffer:
    """As `reshape`; without a `shape`, another name for `src`.  Raises Unsupported TL303 for another dtype, TL302 for strides."""
    builder = current("T.view")
    if strides is not None:
        raise Unsupported(
            "T.view(..., strides=...) is not there yet; views are row-major", code="TL302", hint="leave strides out"
        )
    from tilelang.frontend import views

    return views.view(builder, src, shape, dtype, "T.view")


__all__ = ["reshape", "view"]
