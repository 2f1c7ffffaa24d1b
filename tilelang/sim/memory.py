"""Shared memory of one block: bytes at addresses, each byte undeclared, unwritten or written.

Every access of every agent, ordinary or asynchronous, goes through `SharedMemory.read` or `SharedMemory.write`, so that bounds,
alignment and the written bits are checked in one place.  Swizzles act on absolute byte addresses, as in the hardware: the
16-byte chunk number (address bits 4-6) is XORed with bits 7-9, of which the span of the swizzle decides how many count.
(PTX ISA, "Swizzling modes" of tensors in shared memory.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tilelang.errors import HazardError, InternalError, Span
from tilelang.ir.device import SharedArray

WINDOW_BASE = 5 * 1024
"""Byte address where the window starts.  Not zero, so that an offset used as an address is caught; a multiple of 1024, so that
no address bit which a swizzle reads differs between the two; low enough for every byte to have an 18-bit address, which is all
that a wgmma matrix descriptor holds."""

CHUNK_BYTES = 16
SWIZZLE_PERIOD_BYTES = 1024
"""The pattern of every swizzle repeats after this many bytes."""

_UNDECLARED, _UNWRITTEN, _WRITTEN = 0, 1, 2
_SWIZZLE_MASK = {0: 0, 32: 1, 64: 3, 128: 7}


@dataclass(frozen=True, slots=True)
class Access:
    """Who touches memory, for reports: the agent, what it does, where the source says so, and through which proxy."""

    agent: str
    action: str
    span: Span | None
    asynchronous: bool = False


def swizzle(addresses: np.ndarray, swizzle_bytes: int) -> np.ndarray:
    """Byte addresses after the XOR of a 32-, 64- or 128-byte swizzle (0: none)."""
    mask = _SWIZZLE_MASK.get(swizzle_bytes)
    if mask is None:
        raise InternalError(f"there is no swizzle of {swizzle_bytes} bytes; the modes are 0, 32, 64 and 128", code="TL921")
    return addresses ^ ((addresses >> 7 & mask) << 4)


class SharedMemory:
    """The dynamic shared window of one block, `size_bytes` long, with the arrays declared in it."""

    def __init__(self, arrays: Iterable[SharedArray], size_bytes: int) -> None:
        self.arrays = tuple(arrays)
        self.size_bytes = size_bytes
        if WINDOW_BASE + size_bytes > 1 << 18:
            raise InternalError(f"{size_bytes} bytes of shared memory are more than an 18-bit address reaches", code="TL922")
        capacity = -(-size_bytes // CHUNK_BYTES) * CHUNK_BYTES
        self._data = np.full(capacity, 0x7F, np.uint8)
        self._state = np.zeros(capacity, np.uint8)
        self.defers = False
        """Whether a read of bytes that were never written is kept for later rather than raised: a write that comes after it may
        show it to be a race, of which there is more to say."""
        self.deferred: HazardError | None = None
        for array in self.arrays:
            self._declare(array)

    def _declare(self, array: SharedArray) -> None:
        stop = array.offset_bytes + array.stage_bytes * array.stages
        if not 0 <= array.offset_bytes <= stop <= self.size_bytes:
            raise InternalError(
                f"{array.name} is at bytes {array.offset_bytes} to {stop} of a window of {self.size_bytes}",
                code="TL922",
                span=array.span,
            )
        self._state[array.offset_bytes : stop] = _UNWRITTEN

    def address(self, array: SharedArray) -> int:
        """The byte address of the first byte of `array`."""
        if not any(array is known for known in self.arrays):
            raise InternalError(f"{array.name} is not among the shared arrays of the kernel", code="TL922", span=array.span)
        return WINDOW_BASE + array.offset_bytes

    def read(self, starts: np.ndarray, width: int, access: Access, needed: np.ndarray | None = None) -> np.ndarray:
        """The `width` bytes (1, 2, 4, 8 or 16) at each byte address of `starts`: uint8, shape (*starts.shape, width).

        All of them must have been written, or those where `needed`, of the same shape, is true.  Raises HazardError TL810
        (never written), TL811 (out of bounds), TL812 (misaligned)."""
        index = self._index(starts, width, access)
        state = self._state.reshape(-1, width)[index]
        if state.min(initial=_WRITTEN) < _WRITTEN:
            self._check_state(starts, state, access, needed)
        return self._data.reshape(-1, width)[index]

    def write(self, starts: np.ndarray, data: np.ndarray, access: Access) -> None:
        """Writes `data`, uint8 of shape (*starts.shape, width), at the byte addresses `starts`.

        Raises HazardError TL811 (out of bounds), TL812 (misaligned)."""
        width = data.shape[-1]
        index = self._index(starts, width, access)
        if self._state.reshape(-1, width)[index].min(initial=_WRITTEN) == _UNDECLARED:
            self._out_of_bounds(starts, width, access)
        self._data.reshape(-1, width)[index] = data
        self._state.reshape(-1, width)[index] = _WRITTEN

    def locate(self, address: int) -> str:
        """The place of a byte address in words: every array that holds it, with the stage and the offset in bytes."""
        offset = address - WINDOW_BASE
        places = []
        for array in self.arrays:
            within = offset - array.offset_bytes
            if 0 <= within < array.stage_bytes * array.stages:
                stage, rest = divmod(within, array.stage_bytes)
                places.append(f"{array.name}[stage {stage}] + {rest} bytes")
        text = " / ".join(places) or "no array"
        return f"{text} (byte {offset} of the shared window)"

    # ---- checks ---------------------------------------------------------------------------------------------------------------

    def _index(self, starts: np.ndarray, width: int, access: Access) -> np.ndarray:
        """Addresses as indices of units of `width` bytes, checked for alignment and for the window's bounds."""
        if (starts % width).any():
            address = int(starts[starts % width != 0].flat[0])
            raise HazardError(
                f"{access.agent}: {access.action} at byte address {address}, {self.locate(address)}, which is not a multiple of "
                f"{width}",
                code="TL812", span=access.span, hint=f"align the address to {width} bytes",
            )  # fmt: skip
        index = (starts - WINDOW_BASE) // width
        if index.size and (index.min() < 0 or (int(index.max()) + 1) * width > self.size_bytes):
            self._out_of_bounds(starts, width, access)
        return index

    def _out_of_bounds(self, starts: np.ndarray, width: int, access: Access) -> None:
        offsets = (starts - WINDOW_BASE).reshape(-1)
        for offset in offsets.tolist():
            outside = offset < 0 or offset + width > self.size_bytes
            if outside or (self._state[offset : offset + width] == _UNDECLARED).any():
                raise HazardError(
                    f"{access.agent}: {access.action} touches byte address {offset + WINDOW_BASE}, which belongs to "
                    f"{self.locate(offset + WINDOW_BASE)} of {self.size_bytes} bytes",
                    code="TL811", span=access.span,
                )  # fmt: skip
        raise InternalError("an access was out of bounds and no byte of it is", code="TL923", span=access.span)

    def _check_state(self, starts: np.ndarray, state: np.ndarray, access: Access, needed: np.ndarray | None) -> None:
        width = state.shape[-1]
        if (state == _UNDECLARED).any():
            self._out_of_bounds(starts, width, access)
        bad = state < _WRITTEN
        if needed is not None:
            bad &= needed.reshape(bad.shape)
        if not bad.any():
            return
        if self.deferred is not None:
            return
        addresses = (starts[..., None] + np.arange(width))[bad]
        error = HazardError(
            f"{access.agent}: {access.action} reads {int(bad.sum())} bytes that were never written, the first at "
            f"{self.locate(int(addresses.min()))}",
            code="TL810", span=access.span,
            hint="wait for the copy that fills them before reading",
        )  # fmt: skip
        if not self.defers:
            raise error
        self.deferred = error
