"""Views: a second name, with other extents, for the elements of a buffer."""

from __future__ import annotations

from math import prod

from tilelang.errors import ShapeProblem, Unsupported
from tilelang.frontend.builder import Builder
from tilelang.frontend.describe import place_text, shape_text, tile_text
from tilelang.frontend.dtypes import as_dtype
from tilelang.frontend.operands import as_operand, require_scope
from tilelang.frontend.specs import as_shape
from tilelang.ir.buffer import Buffer, Extent
from tilelang.ir.types import Scope

_SCOPES = (Scope.GLOBAL, Scope.SHARED, Scope.FRAGMENT)


def view(builder: Builder, src: object, shape: object, dtype: object, what: str) -> Buffer:
    """The elements of `src` in row-major order under `shape` (elements; None: src's own).

    Raises ShapeProblem TL207 for extents that are none and TL209 where the number of elements differs, TypeProblem TL212 and
    TL213 for what cannot be viewed, Unsupported TL302 for views of slices and TL303 for another dtype."""
    operand = as_operand(src, f"the source of {what}")
    if not isinstance(operand, Buffer):
        raise Unsupported(
            f"{what} of the part {tile_text(operand)} is not there yet; it takes whole buffers", code="TL302",
            hint=f"view {operand.buffer.name} and slice the view, or copy the part to a tile of its own first",
        )  # fmt: skip
    require_scope(operand, f"the source of {what}", _SCOPES, "index the array itself")
    _require_dtype(operand, dtype, what)
    name = builder.wanted_name("view")
    smallest = 0 if operand.scope is Scope.GLOBAL else 1
    extents = operand.shape if shape is None else as_shape(shape, f"{what} of {operand.name}", smallest)
    if prod(extents) != prod(operand.shape):  # type: ignore[arg-type, type-var]
        raise ShapeProblem(
            f"{what} of {_sized(operand.name + ', ', operand.shape)} as {_sized('', extents)}", code="TL209",
            hint="a view has as many elements as its source", notes=(place_text(operand),),
        )  # fmt: skip
    return builder.alias(name, operand.storage, extents)


def _sized(name: str, shape: tuple[Extent, ...]) -> str:
    return f"{name}{shape_text(shape)} ({prod(shape)} elements)"  # type: ignore[arg-type]


def _require_dtype(source: Buffer, dtype: object, what: str) -> None:
    wanted = source.dtype if dtype is None else as_dtype(dtype)
    if wanted != source.dtype:
        raise Unsupported(
            f"{what} of {source.name} with another dtype ({source.dtype} as {wanted}) is not there yet", code="TL303",
            hint="read single elements by T.reinterpret(value, dtype); T.copy converts values",
        )  # fmt: skip
