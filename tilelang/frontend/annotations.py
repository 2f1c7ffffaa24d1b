"""Parameter annotations: `T.Tensor(shape, dtype)` for a tensor, a dtype for a scalar, `T.Ref` for a macro's mutable scalar."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import FrameType, FunctionType
from typing import Any

from tilelang.errors import NameProblem, Span, TypeProblem, Unsupported
from tilelang.frontend.dtypes import as_dtype
from tilelang.frontend.problems import caller_span, close_match
from tilelang.frontend.specs import as_shape
from tilelang.ir.types import DType

_FUTURE_ANNOTATIONS = 0x1000000  # the code flag of `from __future__ import annotations`


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor parameter: extents in elements, row-major and contiguous, and a dtype."""

    shape: tuple[int, ...]
    dtype: DType


class Tensor:
    """`T.Tensor(shape, dtype="float32")` or `T.Tensor[shape, dtype]`: the annotation of a tensor parameter.

    `shape` is an int or a sequence of ints.  Raises TypeProblem TL210 for a dtype that is none, ShapeProblem TL207 for extents
    that are no whole numbers and Unsupported TL303 for run-time extents."""

    def __new__(
        cls, shape: object, dtype: object = "float32", data: object = None, scope: object = None, **options: object
    ) -> TensorSpec:  # type: ignore[misc]
        for name, value in {"data": data, **options}.items():
            if value not in (None, 0, ()) and not (name == "elem_offset" and value == 0):
                raise Unsupported(
                    f"T.Tensor(..., {name}=...) is not there yet; tensors are row-major", code="TL302", span=caller_span()
                )
        if scope not in (None, "global"):
            raise TypeProblem(f"a tensor parameter lives in global memory, not {scope!r}", code="TL212", span=caller_span())
        return _tensor_spec(shape, dtype)

    def __class_getitem__(cls, key: object) -> TensorSpec:
        shape, dtype = key if isinstance(key, tuple) and len(key) == 2 and not _is_extent(key[1]) else (key, "float32")
        return _tensor_spec(shape, dtype)


class Ref:
    """`T.Ref`: the annotation of a macro's parameter that the macro may assign to; `T.Ref[dtype]` says the same."""

    def __class_getitem__(cls, dtype: object) -> type[Ref]:
        return cls


def _is_extent(value: object) -> bool:
    return not isinstance(value, (str, DType, type)) and hasattr(value, "__index__")


def _tensor_spec(shape: object, dtype: object) -> TensorSpec:
    from tilelang.errors import TileError

    try:
        return TensorSpec(as_shape(shape, "T.Tensor", 0), as_dtype(dtype))
    except TileError as error:
        error.span = error.span or caller_span()
        raise


def annotation_values(function: FunctionType, file: str) -> dict[str, Any]:
    """The values of a function's annotations, evaluated where `from __future__ import annotations` made them text."""
    found = dict(function.__annotations__)
    if not function.__code__.co_flags & _FUTURE_ANNOTATIONS:
        return found
    names = _visible(function)
    for name, text in found.items():
        if isinstance(text, str):
            found[name] = _evaluated(text, function.__globals__, names, name)
    return found


def _evaluated(text: str, globals_: dict[str, Any], names: dict[str, Any], parameter: str) -> object:
    try:
        return eval(text, globals_, names)
    except NameError as error:
        missing = error.name or ""
        found = close_match(missing, {*globals_, *names} - {missing})
        hint = (
            f"did you mean {found!r}?"
            if found
            else "annotations are text here, by `from __future__ import annotations`; remove that line"
        )
        raise NameProblem(
            f"the annotation of {parameter} uses {missing!r}, which is not defined", code="TL102", hint=hint
        ) from error


def _visible(function: FunctionType) -> dict[str, Any]:
    """Local names an annotation may use: of the functions that ran when the kernel was defined, and its closure's."""
    names: dict[str, Any] = {}
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == function.__code__.co_filename:
            frames.append(frame)
        frame = frame.f_back
    for outer in reversed(frames):
        names.update(outer.f_locals)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            continue
    return names


def scalar_dtype(annotation: object, parameter: str, span: Span | None) -> DType:
    """The dtype of a scalar parameter; TypeProblem TL113 for an annotation that says neither tensor nor dtype."""
    if isinstance(annotation, (str, DType)) or annotation in (int, float, bool):
        return as_dtype(annotation)
    try:
        return as_dtype(annotation)
    except TypeProblem as error:
        if annotation is Tensor:
            message, hint = (
                f"the annotation of {parameter} is T.Tensor without a shape",
                "write T.Tensor((rows, columns), 'float16')",
            )
        else:
            message = f"the annotation of {parameter} is {annotation!r}, neither a tensor nor a dtype"
            hint = "write T.Tensor(shape, dtype) for a tensor, T.int32 or another dtype for a scalar"
        raise TypeProblem(message, code="TL113", span=span, hint=hint) from error
