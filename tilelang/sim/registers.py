"""Registers of a block: every register array, one column for each thread, with what is defined and what wgmma may still write."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from tilelang.errors import HazardError, InternalError, Span
from tilelang.ir.device import Registers
from tilelang.sim.values import Value, plain

Columns = int | slice | np.ndarray
"""Threads of the block: one, a run, or any set of them."""


class RegisterFile:
    """Arrays of shape (*registers.shape, threads).  Undefined elements hold a pattern of 0x7f and are never read unnoticed.

    `of_wgmma` are the arrays that wgmma uses: of these the file knows when each row was last touched by ordinary instructions, so
    that it can demand a wgmma.fence after it."""

    def __init__(self, threads: int, of_wgmma: frozenset[Registers] = frozenset()) -> None:
        self._threads = threads
        self.of_wgmma = of_wgmma
        self._events = 0
        self._touched: dict[tuple[Registers, tuple[int, ...], int], tuple[int, Span | None]] = {}
        self._shapes: dict[tuple[Registers, tuple[int, ...], int], tuple[int, tuple[int, str]]] = {}
        self._fenced: dict[int, int] = {}
        self._data: dict[Registers, np.ndarray] = {}
        self._defined: dict[Registers, np.ndarray] = {}
        self._in_flight: Counter[tuple[Registers, tuple[int, ...], int]] = Counter()

    def declare(self, registers: Registers, columns: Columns, warpgroups: tuple[int, ...], span: Span | None) -> None:
        """Makes the array, undefined, for these threads."""
        if registers not in self._data:
            shape = (*registers.shape, self._threads)
            count = math.prod(shape) * registers.dtype.bytes
            self._data[registers] = np.full(count, 0x7F, np.uint8).view(registers.dtype.numpy).reshape(shape)
            self._defined[registers] = np.zeros(shape, bool)
        self._check_in_flight(registers, None, warpgroups, span)
        self._defined[registers][..., columns] = False

    def load(
        self, registers: Registers, indices: tuple[int, ...], columns: Columns, mask: np.ndarray | None,
        warpgroups: tuple[int, ...], span: Span | None,
    ) -> Value:  # fmt: skip
        """One element for each of these threads.  Raises HazardError TL811, TL814 (undefined), TL820 (in flight)."""
        self._check(registers, indices, warpgroups, span)
        if registers in self.of_wgmma:
            self._touch(registers, indices, warpgroups, span)
        defined = self._defined[registers][indices][columns]
        if not (defined if mask is None else defined | ~mask).all():
            raise HazardError(f"{_element(registers, indices)} is read before anything is written to it", code="TL814", span=span)
        return plain(np.array(self._data[registers][indices][columns]), registers.dtype)

    def store(
        self, registers: Registers, indices: tuple[int, ...], columns: Columns, mask: np.ndarray | None,
        warpgroups: tuple[int, ...], value: Value, span: Span | None,
    ) -> None:  # fmt: skip
        """Writes one element for each of these threads (where `mask`).  Raises HazardError TL811, TL820."""
        self._check(registers, indices, warpgroups, span)
        if registers in self.of_wgmma:
            self._touch(registers, indices, warpgroups, span)
        row, defined = self._data[registers][indices], self._defined[registers][indices]
        if mask is None:
            row[columns], defined[columns] = value, True
        else:
            row[columns] = np.where(mask, value, row[columns])
            defined[columns] |= mask

    def check_slice(self, registers: Registers, indices: tuple[int, ...], count: int, span: Span | None) -> None:
        """Raises InternalError TL933 unless the slice is a row of `count` float32 registers."""
        self._known(registers, span)
        row = registers.shape[len(indices) :]
        if registers.dtype != "float32" or row != (count,) or not _inside(indices, registers.shape[: len(indices)]):
            raise InternalError(
                f"an accumulator of {count} float32 registers is to be {registers.name}{list(indices)} of shape "
                f"{registers.shape}, {registers.dtype}",
                code="TL933", span=span,
            )  # fmt: skip

    def begin(self, registers: Registers, indices: tuple[int, ...], warpgroup: int) -> None:
        """A wgmma that writes the slice is on its way."""
        self._in_flight[registers, indices, warpgroup] += 1

    def end(self, registers: Registers, indices: tuple[int, ...], warpgroup: int) -> None:
        """A wgmma that writes the slice was waited for."""
        self._in_flight[registers, indices, warpgroup] -= 1
        if not self._in_flight[registers, indices, warpgroup]:
            del self._in_flight[registers, indices, warpgroup]

    # ---- wgmma.fence ----------------------------------------------------------------------------------------------------------

    def fence(self, warpgroup: int) -> None:
        """wgmma.fence by a warpgroup."""
        self._events += 1
        self._fenced[warpgroup] = self._events

    def require_fence(
        self, registers: Registers, indices: tuple[int, ...], warpgroup: int, shape: tuple[int, str] | None, span: Span | None
    ) -> None:
        """Raises HazardError TL824 unless a wgmma.fence came before the warpgroup's first wgmma and after the last access to the
        registers, wgmmas of another `shape` (None for an operand) included.  (PTX ISA, "wgmma.fence".)"""
        fenced = self._fenced.get(warpgroup)
        key = (registers, _row(registers, indices), warpgroup)
        touched, place = self._touched.get(key, (0, None))
        chained, last = self._shapes.get(key, (0, shape))
        reason = ""
        if fenced is None:
            reason = "no wgmma.fence comes before the first wgmma of the warpgroup"
        elif touched > fenced:
            where = f" at {place}" if place else ""
            reason = f"no wgmma.fence stands between an access to {registers.name}{where} and the wgmma that uses it"
        elif last != shape and chained > fenced:
            reason = f"no wgmma.fence stands between wgmmas of different shapes that accumulate in {registers.name}"
        if reason:
            raise HazardError(reason, code="TL824", span=span, hint="put wgmma.fence in front of the first wgmma that follows")
        if shape is not None:
            self._events += 1
            self._shapes[key] = (self._events, shape)

    def _touch(self, registers: Registers, indices: tuple[int, ...], warpgroups: tuple[int, ...], span: Span | None) -> None:
        self._events += 1
        row = _row(registers, indices)
        for warpgroup in warpgroups:
            self._touched[registers, row, warpgroup] = (self._events, span)

    def accumulate(
        self, registers: Registers, indices: tuple[int, ...], warpgroup: int, values: np.ndarray, add: bool, span: Span | None
    ) -> None:
        """Writes, or adds in float32, `values` (registers, 128) to a slice.  Raises HazardError TL814 (adds to undefined)."""
        columns = slice(128 * warpgroup, 128 * warpgroup + 128)
        data, defined = self._data[registers][indices][:, columns], self._defined[registers][indices][:, columns]
        if not add:
            data[...] = values
            defined[...] = True
            return
        if not defined.all():
            raise HazardError(
                f"wgmma adds to {registers.name}{list(indices) or ''}, which nothing was written to", code="TL814", span=span,
                hint="clear the accumulator, or let the first wgmma overwrite it",
            )  # fmt: skip
        data += values

    # ---- checks ---------------------------------------------------------------------------------------------------------------

    def _known(self, registers: Registers, span: Span | None) -> None:
        if registers not in self._data:
            raise InternalError(f"registers {registers.name} are used before they are declared", code="TL931", span=span)

    def _check(self, registers: Registers, indices: tuple[int, ...], warpgroups: tuple[int, ...], span: Span | None) -> None:
        self._known(registers, span)
        if not _inside(indices, registers.shape) or len(indices) != len(registers.shape):
            raise HazardError(f"{_element(registers, indices)} is outside its shape {registers.shape}", code="TL811", span=span)
        if self._in_flight:
            self._check_in_flight(registers, indices, warpgroups, span)

    def _check_in_flight(
        self, registers: Registers, indices: tuple[int, ...] | None, warpgroups: tuple[int, ...], span: Span | None
    ) -> None:
        for other, prefix, warpgroup in self._in_flight:
            if other is registers and warpgroup in warpgroups and (indices is None or indices[: len(prefix)] == prefix):
                name = registers.name if indices is None else _element(registers, indices)
                raise HazardError(
                    f"{name} is touched while a wgmma that writes it may be on its way",
                    code="TL820", span=span, hint="commit the wgmma and wait for its group first",
                )  # fmt: skip


def _row(registers: Registers, indices: tuple[int, ...]) -> tuple[int, ...]:
    """The part of an array that is followed as one: a row of its first dimension."""
    return indices[:1] if len(registers.shape) > 1 else ()


def _inside(indices: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return len(indices) <= len(shape) and all(0 <= index < extent for index, extent in zip(indices, shape, strict=False))


def _element(registers: Registers, indices: tuple[int, ...]) -> str:
    return f"{registers.name}[{', '.join(map(str, indices))}]"
