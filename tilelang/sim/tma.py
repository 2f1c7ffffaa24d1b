"""Global memory, tensor maps and their boxes: what cp.async.bulk.tensor moves between a tensor and shared memory.

A box lies in shared memory row-major, innermost dimension first, without gaps, its 16-byte chunks swizzled on their absolute
addresses.  Elements outside the tensor read as zero and are not written.  (PTX ISA, "Tensors"; CUDA driver API,
cuTensorMapEncodeTiled.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from tilelang.errors import ArgumentError, HazardError, InternalError
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import TensorMap
from tilelang.sim.memory import CHUNK_BYTES, SWIZZLE_PERIOD_BYTES, Access, SharedMemory, swizzle

BOX_ALIGNMENT_BYTES = 128
"""Alignment of a box's shared address."""


class GlobalMemory:
    """The tensors of a launch, reached through tensor maps and through pointers.  A pointer is aligned to 16 bytes."""

    def __init__(self, arrays: Mapping[Buffer, np.ndarray], maps: Sequence[TensorMap], pointers: Sequence[Buffer] = ()) -> None:
        for buffer, array in arrays.items():
            _check_array(buffer, array)
        self._views: dict[TensorMap, np.ndarray] = {}
        self._arrays = dict(arrays)
        for record in maps:
            if 0 in record.dims:
                continue  # an empty tensor has no map: the launcher passes zeros, and a copy through it is a fault
            check_map(record)
            self._views[record] = _view(record, _array_of(record.tensor, arrays))
        self._flat = {buffer: _flat(buffer, _array_of(buffer, arrays)) for buffer in pointers}

    def size(self, tensor: Buffer) -> int:
        """Elements of a tensor."""
        return self._arrays[tensor].size

    def cells(self, record: TensorMap, coordinates: Sequence[int]) -> np.ndarray:
        """The elements of the tensor, as row-major numbers, that the box at `coordinates` covers."""
        inside, _ = _overlap(record, coordinates)
        strides = (1, *(stride // record.dtype.bytes for stride in record.strides_bytes))[::-1]
        cells = np.zeros(1, np.int64)
        for part, stride in zip(inside, strides, strict=True):
            cells = (cells[:, None] + np.arange(part.start, part.stop, dtype=np.int64) * stride).reshape(-1)
        return cells

    def knows(self, record: TensorMap) -> bool:
        return record in self._views

    def read(self, tensor: Buffer, offsets: np.ndarray, count: int, access: Access) -> np.ndarray:
        """The `count` elements from each of `offsets` (row-major, elements) on: the tensor's dtype, shape (offsets, count).

        Raises HazardError TL811 (out of bounds), TL812 (misaligned)."""
        index = self._elements(tensor, offsets, count, access)
        return self._flat[tensor][index]

    def write(self, tensor: Buffer, offsets: np.ndarray, data: np.ndarray, access: Access) -> None:
        """Writes `data`, of the tensor's dtype and shape (offsets, count).  Raises as `read`."""
        index = self._elements(tensor, offsets, data.shape[1], access)
        self._flat[tensor][index] = data

    def _elements(self, tensor: Buffer, offsets: np.ndarray, count: int, access: Access) -> np.ndarray:
        if tensor not in self._flat:
            raise InternalError(f"{tensor.name} is not a pointer parameter of the kernel", code="TL942", span=access.span)
        size = self._flat[tensor].size
        outside = offsets[(offsets < 0) | (offsets + count > size)]
        if outside.size:
            raise HazardError(
                f"{access.agent}: {access.action} of {count} elements from {outside[0]} on of {tensor.name}, which has {size}",
                code="TL811", span=access.span,
            )  # fmt: skip
        if (offsets % count).any():
            raise HazardError(
                f"{access.agent}: {access.action} of {count} elements of {tensor.name} starts at element "
                f"{offsets[offsets % count != 0][0]}, which is not a multiple of {count}",
                code="TL812", span=access.span,
            )  # fmt: skip
        return offsets[:, None] + np.arange(count)

    def read_box(self, record: TensorMap, coordinates: Sequence[int]) -> np.ndarray:
        """The box at `coordinates` (innermost first, elements), zero outside the tensor: the map's dtype, shape box reversed."""
        box = np.zeros(record.box[::-1], record.dtype.numpy)
        inside, part = _overlap(record, coordinates)
        box[part] = self._views[record][inside]
        return box

    def write_box(self, record: TensorMap, coordinates: Sequence[int], box: np.ndarray) -> None:
        """Writes the part of `box` that lies inside the tensor."""
        inside, part = _overlap(record, coordinates)
        self._views[record][inside] = box[part]


def load_box(
    record: TensorMap, tensors: GlobalMemory, shared: SharedMemory, coordinates: Sequence[int], address: int, access: Access
) -> None:
    """Moves one box from the tensor to shared memory at byte `address`."""
    box = tensors.read_box(record, coordinates)
    starts = box_chunks(record, address)
    shared.write(starts, box.reshape(-1).view(np.uint8).reshape(-1, CHUNK_BYTES), access)


def store_box(
    record: TensorMap, tensors: GlobalMemory, shared: SharedMemory, coordinates: Sequence[int], address: int, access: Access
) -> None:
    """Moves the part of one box that lies inside the tensor from shared memory at byte `address`."""
    _, part = _overlap(record, coordinates)
    needed = np.zeros(record.box[::-1], bool)
    needed[part] = True
    needed_bytes = np.repeat(needed.reshape(-1), record.dtype.bytes).reshape(-1, CHUNK_BYTES)
    data = shared.read(box_chunks(record, address), CHUNK_BYTES, access, needed_bytes)
    tensors.write_box(record, coordinates, data.reshape(-1).view(record.dtype.numpy).reshape(record.box[::-1]))


def check_address(record: TensorMap, address: int, access: Access) -> None:
    """Raises HazardError TL812 where a box's shared address is not a multiple of 128."""
    if address % BOX_ALIGNMENT_BYTES:
        raise HazardError(
            f"{access.agent}: {access.action} has shared address {address}, which is not a multiple of {BOX_ALIGNMENT_BYTES}",
            code="TL812", span=access.span, hint=f"align the tile of {record.tensor.name} in shared memory",
        )  # fmt: skip


def box_chunks(record: TensorMap, address: int) -> np.ndarray:
    """Byte addresses of a box's 16-byte chunks in shared memory, in row-major order of the box."""
    phase = address % SWIZZLE_PERIOD_BYTES
    return _chunks(record.box_bytes // CHUNK_BYTES, record.swizzle_bytes, phase) + (address - phase)


@lru_cache(maxsize=1024)
def _chunks(count: int, swizzle_bytes: int, phase: int) -> np.ndarray:
    """`box_chunks` relative to the last multiple of the swizzle's period."""
    return swizzle(phase + CHUNK_BYTES * np.arange(count, dtype=np.int64), swizzle_bytes)


def _overlap(record: TensorMap, coordinates: Sequence[int]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """The part of a box inside the tensor: as slices of the tensor and as slices of the box, outermost first."""
    inside, part = [], []
    for base, extent, size in zip(coordinates, record.box, record.dims, strict=True):
        start, stop = min(max(base, 0), size), max(min(base + extent, size), 0)
        stop = max(stop, start)
        inside.append(slice(start, stop))
        part.append(slice(start - base, stop - base) if stop > start else slice(0, 0))
    return tuple(inside[::-1]), tuple(part[::-1])


# ---- checks -------------------------------------------------------------------------------------------------------------------


def check_map(record: TensorMap) -> None:
    """Raises InternalError TL940 where cuTensorMapEncodeTiled would refuse the record."""
    size = record.dtype.bytes
    inner_bytes = record.box[0] * size if record.box else 0
    rules = (
        (1 <= len(record.dims) <= 5, f"has {len(record.dims)} dimensions; 1 to 5 are possible"),
        (len(record.box) == len(record.dims), f"has a box of {len(record.box)} dimensions for {len(record.dims)}"),
        (
            len(record.strides_bytes) == len(record.dims) - 1,
            f"has {len(record.strides_bytes)} strides for {len(record.dims)} dimensions",
        ),
        (all(1 <= dim <= 1 << 32 for dim in record.dims), f"has dimensions {record.dims}; each is 1 to 2**32"),
        (all(1 <= extent <= 256 for extent in record.box), f"has box {record.box}; each extent is 1 to 256"),
        (
            all(stride % 16 == 0 and 0 < stride < 1 << 40 for stride in record.strides_bytes),
            f"has strides {record.strides_bytes} bytes; each is a multiple of 16 below 2**40",
        ),
        (record.swizzle_bytes in (0, 32, 64, 128), f"has a swizzle of {record.swizzle_bytes} bytes"),
        (inner_bytes % 16 == 0, f"has rows of {inner_bytes} bytes in its box; they are multiples of 16"),
        (
            record.swizzle_bytes == 0 or inner_bytes <= record.swizzle_bytes,
            f"has rows of {inner_bytes} bytes in its box, more than its swizzle of {record.swizzle_bytes}",
        ),
    )
    for holds, text in rules:
        if not holds:
            raise InternalError(f"tensor map {record.name} {text}", code="TL940", span=record.tensor.span)


def _array_of(buffer: Buffer, arrays: Mapping[Buffer, np.ndarray]) -> np.ndarray:
    if buffer not in arrays:
        raise ArgumentError(f"no array came for {buffer.name}", code="TL510", span=buffer.span)
    return arrays[buffer]


def _flat(buffer: Buffer, array: np.ndarray) -> np.ndarray:
    """The elements of an array in memory order, in place."""
    if not array.flags.c_contiguous:
        raise ArgumentError(f"the array for {buffer.name} is not contiguous", code="TL510", span=buffer.span)
    return array.reshape(-1)


def _check_array(buffer: Buffer, array: np.ndarray) -> None:
    shape = tuple(buffer.shape)
    if all(isinstance(extent, int) for extent in shape) and array.shape != shape:
        raise ArgumentError(
            f"{buffer.name} has shape {shape} and the array that came has {array.shape}", code="TL510", span=buffer.span
        )
    if array.dtype != buffer.dtype.numpy:
        raise ArgumentError(
            f"{buffer.name} is {buffer.dtype} and the array that came is {array.dtype}", code="TL510", span=buffer.span
        )


def _view(record: TensorMap, array: np.ndarray) -> np.ndarray:
    """The array as the map sees it, dimensions outermost first.  Raises InternalError TL941 where the two do not agree."""
    strides = (record.dtype.bytes, *record.strides_bytes)
    if record.dtype != record.tensor.dtype:
        raise InternalError(
            f"tensor map {record.name} is {record.dtype} and {record.tensor.name} {record.tensor.dtype}", code="TL941"
        )
    if _merged(record.dims, strides) != _merged(array.shape, array.strides):
        raise InternalError(
            f"tensor map {record.name} has dimensions {record.dims} with strides {strides} bytes (innermost first), and the "
            f"array {record.tensor.name} shape {array.shape} with strides {array.strides}",
            code="TL941", span=record.tensor.span,
        )  # fmt: skip
    words = array.view(f"u{record.dtype.bytes}")  # as_strided does not know every dtype of ml_dtypes
    return np.lib.stride_tricks.as_strided(words, record.dims[::-1], strides[::-1]).view(array.dtype)


def _merged(dims: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """(stride, extent) pairs by stride, those that run on into each other merged: equal for equal sets of addresses."""
    merged: list[tuple[int, int]] = []
    for stride, extent in sorted((stride, extent) for stride, extent in zip(strides, dims, strict=True) if extent != 1):
        if merged and merged[-1][0] * merged[-1][1] == stride:
            merged[-1] = (merged[-1][0], merged[-1][1] * extent)
        else:
            merged.append((stride, extent))
    return merged
