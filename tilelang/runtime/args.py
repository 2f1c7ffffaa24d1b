"""The arguments of a kernel call: what is expected is worked out once per kernel, and every fault is an error that names it.

A call passes the parameters in order without those that `out_idx` makes results.  Checked, in this order: count, None, being an
array, dtype, rank, shape, strides (row-major, contiguous), one device for all, write access, pointer alignment, overlap.  Codes:

    TL501 count   TL502 None or no array   TL503 dtype   TL504 rank   TL505 shape   TL506 read-only   TL507 scalar
    TL541 strides   TL542 device   TL543 alignment to the dtype   TL544 overlap   TL545 keyword   TL546 no way to allocate
"""
from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tilelang.errors import ArgumentError, KernelError, Span, Unsupported
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Load, Var
from tilelang.ir.types import DType
from tilelang.ir.walk import walk
from tilelang.runtime.arrays import CPU, ELSEWHERE, ArrayView, row_major, view

# what kernels are compiled for; a call with less takes a variant of the kernel
POINTER_ALIGNMENT_BYTES = 16

# (position, bytes) of the tensors of a call whose addresses are multiples of fewer than 16 bytes
Alignments = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class TensorParam:
    """A tensor parameter: its position in the kernel, and what an argument must be.  `shape` is in elements."""

    position: int
    name: str
    dtype: DType
    shape: tuple[int, ...]
    read: bool
    written: bool

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.bytes

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class ScalarParam:
    """A scalar parameter."""

    position: int
    name: str
    dtype: DType

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}"


Param = TensorParam | ScalarParam


@dataclass(frozen=True, slots=True)
class Bound:
    """Checked arguments of one call, by the kernel's parameters: an `ArrayView` or a number; None for a result.

    `device` is that of the arrays, `like` the caller's first array (None where there is none).
    """

    values: tuple[ArrayView | int | float | None, ...]
    device: int
    like: Any


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a kernel, and which of them are results (`outputs`, positions in the order asked for)."""

    kernel: str
    params: tuple[Param, ...]
    outputs: tuple[int, ...]

    @property
    def inputs(self) -> tuple[Param, ...]:
        """The parameters that a call passes, in order."""
        return tuple(param for param in self.params if param.position not in self.outputs)

    @property
    def tensors(self) -> tuple[TensorParam, ...]:
        return tuple(param for param in self.params if isinstance(param, TensorParam))

    def tensor(self, position: int) -> TensorParam:
        """The tensor parameter at a position."""
        return next(param for param in self.tensors if param.position == position)

    def __str__(self) -> str:
        text = f"{self.kernel}({', '.join(map(str, self.inputs))})"
        return text + (f" -> {', '.join(str(self.params[i]) for i in self.outputs)}" if self.outputs else "")

    def bind(self, arguments: Sequence[Any]) -> Bound:
        """The arguments, checked but for what depends on addresses (`check_memory`).  Raises ArgumentError."""
        got = len(arguments)
        if got != len(self.inputs):
            raise self.error(f"expected {_count(len(self.inputs))}, got {got}", "TL501", self._count_hint(got))
        values: list[ArrayView | int | float | None] = [None] * len(self.params)
        like = None
        for param, argument in zip(self.inputs, arguments, strict=True):
            if isinstance(param, ScalarParam):
                values[param.position] = self.scalar(param, argument)
                continue
            values[param.position] = self._tensor(param, argument)
            like = argument if like is None else like
        return Bound(tuple(values), self._device(values), like)

    def _tensor(self, param: TensorParam, argument: Any) -> ArrayView:
        """One array, checked on its own."""
        if argument is None:
            raise self.mismatch(param, f"an array of {param.dtype}{list(param.shape)}", "None", "TL502")
        found = view(argument)
        if found is None:
            kind = type(argument)
            raise self.mismatch(
                param, f"an array of {param.dtype}{list(param.shape)}", f"{kind.__module__}.{kind.__qualname__}", "TL502",
                "NumPy arrays, torch tensors and arrays with DLPack or __cuda_array_interface__ are taken",
            )  # fmt: skip
        if found.device == ELSEWHERE:
            raise self.mismatch(param, "an array on the CPU or a CUDA device", f"one on {found.device_name}", "TL542")
        if found.dtype != param.dtype:
            call = f"to(torch.{param.dtype})" if found.framework == "torch" else f"astype({str(param.dtype)!r})"
            hint = f"convert it: {param.name}.{call}" if found.framework in ("torch", "numpy") else ""
            raise self.mismatch(param, f"dtype {param.dtype}", found.dtype, "TL503", hint)
        self._shape(param, found)
        if found.strides is not None:
            expected = f"row-major strides {row_major(param.shape)}"
            call = f"{param.name}.contiguous()" if found.framework == "torch" else f"numpy.ascontiguousarray({param.name})"
            raise self.mismatch(param, expected, str(found.strides), "TL541", f"pass {call}")
        if param.written and found.readonly:
            raise self.mismatch(param, "an array that can be written", "a read-only one", "TL506", self._readonly_hint(param))
        return found

    def _shape(self, param: TensorParam, found: ArrayView) -> None:
        if found.shape == param.shape:
            return
        if len(found.shape) != len(param.shape):
            expected, got = f"{_dimensions(param.shape)}", f"{_dimensions(found.shape)}"
            raise self.mismatch(param, expected, got, "TL504")
        at = next(i for i, (a, b) in enumerate(zip(param.shape, found.shape, strict=True)) if a != b)
        raise self.mismatch(
            param, f"{param.shape[at]} in dimension {at} of shape {param.shape}", f"{found.shape[at]} in {found.shape}", "TL505"
        )

    def scalar(self, param: ScalarParam, argument: Any) -> int | float:
        """One number, checked to be one that the parameter's dtype holds."""
        got = f"{type(argument).__name__} {argument!r}"
        if argument is None or isinstance(argument, (str, bytes)):
            raise self.mismatch(param, f"a number of dtype {param.dtype}", got, "TL507")
        try:
            value = operator.index(argument) if not param.dtype.is_float else float(argument)
        except (TypeError, ValueError, OverflowError):
            kind = "an integer" if not param.dtype.is_float else "a number"
            raise self.mismatch(param, f"{kind} of dtype {param.dtype}", got, "TL507") from None
        if not param.dtype.is_float:
            low, high = param.dtype.limits
            if not low <= value <= high:
                raise self.mismatch(param, f"{param.dtype}, {low} to {high}", got, "TL507")
            return bool(value) if param.dtype == "bool" else value
        if math.isfinite(value) and abs(value) > _largest(param.dtype):
            raise self.mismatch(param, f"{param.dtype}, at most {_largest(param.dtype):g} in size", got, "TL507")
        return value

    def _device(self, values: Iterable[Any]) -> int:
        """The device that all arrays are on; CPU where there is none."""
        pairs = [(param, value) for param, value in zip(self.params, values, strict=True) if isinstance(value, ArrayView)]
        for param, value in pairs[1:]:
            first, other = pairs[0]
            if value.device != other.device:
                expected = f"an array on {other.device_name}, where {first.name} is"
                raise self.mismatch(param, expected, f"one on {value.device_name}", "TL542")
        return pairs[0][1].device if pairs else CPU

    def alignments(self, values: Sequence[Any]) -> Alignments:
        """What the addresses of a call (`values` by parameter) are multiples of, where that is less than 16 bytes."""
        found = []
        for param in self.tensors:
            address = values[param.position]
            if address % POINTER_ALIGNMENT_BYTES and param.size_bytes:
                found.append((param.position, address & -address))
        return tuple(found)

    def check_memory(self, values: Sequence[Any], device: int) -> None:
        """What depends on addresses (`values` by parameter; None where there is none): on a GPU whole elements, and results that
        share bytes with another argument."""
        spans = [(p, at, at + p.size_bytes) for p in self.tensors if (at := values[p.position]) is not None and p.size_bytes]
        for param, start, _ in spans:
            if device != CPU and start % param.dtype.bytes:
                raise self.mismatch(
                    param, f"an address that is a multiple of {param.dtype.bytes} bytes, the size of {param.dtype}",
                    f"{start:#x}, a multiple of {start & -start}", "TL543", f"pass a copy: {param.name}.clone()",
                )  # fmt: skip
        for param, start, end in spans:
            for other, other_start, other_end in spans:
                if param.written and param is not other and start < other_end and other_start < end:
                    raise self.mismatch(
                        param, "memory of its own, since the kernel writes it", f"memory that {other.name} uses too", "TL544",
                        f"pass a copy of {other.name}, or write a kernel with one parameter that is read and written",
                    )  # fmt: skip

    def mismatch(self, param: Param, expected: str, got: str, code: str, hint: str = "") -> ArgumentError:
        """The error for one parameter."""
        return self.error(f"parameter {param.name}: expected {expected}, got {got}", code, hint)

    def error(self, message: str, code: str, hint: str = "") -> ArgumentError:
        return ArgumentError(f"{self.kernel}: {message}", code=code, hint=hint, notes=(f"call: {self}",))

    def _count_hint(self, got: int) -> str:
        if self.outputs and got == len(self.params):
            names = ", ".join(self.params[i].name for i in self.outputs)
            return f"{names} {'is a result' if len(self.outputs) == 1 else 'are results'} (out_idx) and not passed"
        if not self.outputs and got < len(self.params):
            return "without out_idx every parameter is passed, the ones that the kernel writes included"
        return ""

    def _readonly_hint(self, param: TensorParam) -> str:
        return f"name it as a result: out_idx=[{param.position}]"


def signature(kernel: tile.Kernel, out_idx: int | Sequence[int] | None) -> Signature:
    """The signature of a kernel whose parameters at `out_idx` (an index, several, negative ones from the end) are results.

    Raises KernelError (TL521) for an index that is out of range, comes twice, or names a scalar or a tensor that is not written,
    and Unsupported (TL361) for a tensor whose shape is not constant.
    """
    read, written = _uses(kernel)
    params = tuple(_param(i, param, read, written) for i, param in enumerate(kernel.params))
    return Signature(kernel.name, params, _outputs(kernel.name, params, out_idx, kernel.span))


def _param(position: int, param: Buffer | Var, read: set[int], written: set[int]) -> Param:
    if isinstance(param, Var):
        return ScalarParam(position, param.name, param.dtype)
    shape: list[int] = []
    for extent in param.shape:
        if not isinstance(extent, int):
            raise Unsupported(
                f"parameter {param.name} has a dimension that is known only when the kernel is called", code="TL361",
                span=param.span, hint="shapes of parameters are numbers; compile the kernel once per shape",
            )  # fmt: skip
        shape.append(extent)
    return TensorParam(position, param.name, param.dtype, tuple(shape), id(param) in read, id(param) in written)


def _uses(kernel: tile.Kernel) -> tuple[set[int], set[int]]:
    """Identities of the buffers that the body reads, and of those it writes, views counted as what they are views of."""
    read: set[int] = set()
    written: set[int] = set()
    for node in walk(kernel.body):
        if isinstance(node, Load):
            read.add(id(node.buffer.storage))
        elif isinstance(node, tile.Store):
            written.add(id(node.buffer.storage))
        elif isinstance(node, (tile.Copy, tile.Reduce)):
            _note(read, node.src)
            _note(written, node.dst)
        elif isinstance(node, tile.Fill):
            _note(written, node.dst)
        elif isinstance(node, tile.Gemm):
            for region in (node.a, node.b, node.c):
                _note(read, region)
            _note(written, node.c)
    return read, written


def _note(found: set[int], region: Region) -> None:
    found.add(id(region.buffer.storage))


def _outputs(name: str, params: tuple[Param, ...], out_idx: int | Sequence[int] | None, span: Span | None) -> tuple[int, ...]:
    """`out_idx` as positions."""
    if out_idx is None:
        return ()
    chosen: list[Any] = list(out_idx) if isinstance(out_idx, (list, tuple)) else [out_idx]
    table = tuple(f"parameter {i}: {param}" for i, param in enumerate(params))
    found: list[int] = []
    for index in chosen:
        fault, hint = "", ""
        if not _is_index(index):
            fault = f"holds {index!r}, which is no index"
        elif not -len(params) <= operator.index(index) < len(params):
            fault, hint = f"holds {index}, out of range", f"an index is {-len(params)} to {len(params) - 1}"
        else:
            param = params[operator.index(index)]
            if param.position in found:
                fault = f"names parameter {param.name} twice"
            elif isinstance(param, ScalarParam):
                fault = f"names the scalar {param.name}; only a tensor can be a result"
            elif not param.written:
                fault = f"names {param.name}, which the kernel does not write"
            else:
                found.append(param.position)
        if fault:
            raise KernelError(f"out_idx of {name} {fault}", code="TL521", span=span, hint=hint, notes=table)
    return tuple(found)


def _is_index(value: object) -> bool:
    """Whether `value` is an integer, of Python or another library."""
    try:
        operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return not isinstance(value, bool)


def _count(number: int) -> str:
    return f"{number} argument{'' if number == 1 else 's'}"


def _dimensions(shape: tuple[int, ...]) -> str:
    return f"{len(shape)} dimension{'' if len(shape) == 1 else 's'} {shape}"


@cache
def _largest(dtype: DType) -> float:
    """The largest finite number of a float dtype."""
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype.numpy).max)
