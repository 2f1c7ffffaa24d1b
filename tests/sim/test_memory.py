"""Shared memory: bounds, alignment, written bits, and swizzles over their whole period."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.machine_kernels import raises
from tilelang.errors import InternalError, Span
from tilelang.ir.device import SharedArray
from tilelang.sim.memory import WINDOW_BASE, Access, SharedMemory, swizzle

HERE = Span("kernel.py", 3)
ACCESS = Access("consumer", "st.shared", HERE)
A = SharedArray(name="A", offset_bytes=0, stage_bytes=64, stages=2, swizzle_bytes=0)
B = SharedArray(name="B", offset_bytes=256, stage_bytes=64, stages=1, swizzle_bytes=0)


def memory() -> SharedMemory:
    return SharedMemory((A, B), 320)


def at(*offsets: int) -> np.ndarray:
    return np.array(offsets, np.int64) + WINDOW_BASE


@pytest.mark.parametrize("span_bytes", [32, 64, 128])
def test_swizzle_by_the_picture(span_bytes: int) -> None:
    """The ISA draws rows of `span_bytes`: within 8 rows of 128 bytes, the 16-byte chunk in column c of row r goes to column
    c ^ (r of the picture).  For 64 and 32 bytes, two or four rows of the picture share one line of 128 bytes."""
    columns = span_bytes // 16
    for address in range(0, 4096, 16):
        row, column = address // span_bytes, address // 16 % columns
        pattern = row // (128 // span_bytes) % columns
        expected = row * span_bytes + (column ^ pattern) * 16
        assert swizzle(np.array([address]), span_bytes)[0] == expected, address


@pytest.mark.parametrize("span_bytes", [0, 32, 64, 128])
def test_swizzle_is_a_permutation_that_keeps_chunks_together(span_bytes: int) -> None:
    addresses = np.arange(2048)
    moved = swizzle(addresses, span_bytes)
    assert sorted(moved) == list(addresses)
    assert (moved % 16 == addresses % 16).all()
    assert (swizzle(moved, span_bytes) == addresses).all()


def test_no_such_swizzle() -> None:
    with pytest.raises(InternalError):
        swizzle(np.array([0]), 16)


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_write_then_read(width: int) -> None:
    shared = memory()
    starts = at(64, 32, 256)
    data = np.arange(3 * width, dtype=np.uint8).reshape(3, width)
    shared.write(starts, data, ACCESS)
    assert np.array_equal(shared.read(starts, width, ACCESS), data)
    assert np.array_equal(shared.read(starts[:1], 1, ACCESS), data[:1, :1])


@pytest.mark.parametrize("width", [2, 4, 8, 16])
def test_misaligned(width: int) -> None:
    with raises("TL812"):
        memory().write(at(width // 2), np.zeros((1, width), np.uint8), ACCESS)


@pytest.mark.parametrize("offset", [-16, 320, 128, 240, 100000, -WINDOW_BASE])
def test_out_of_bounds(offset: int) -> None:
    """Before the window, after it, between the arrays, and an offset that was taken for an address."""
    shared = memory()
    with raises("TL811") as caught:
        shared.write(at(0, offset), np.zeros((2, 16), np.uint8), ACCESS)
    assert caught.value.span is HERE
    with raises("TL811"):
        shared.read(at(offset), 16, ACCESS)


def test_never_written_names_the_place() -> None:
    shared = memory()
    shared.write(at(64), np.zeros((1, 8), np.uint8), ACCESS)
    with raises("TL810") as caught:
        shared.read(at(64), 16, ACCESS)
    assert "consumer: st.shared reads 8 bytes" in str(caught.value)
    assert "A[stage 1] + 8 bytes (byte 72 of the shared window)" in str(caught.value)


def test_unneeded_bytes_may_be_unwritten() -> None:
    shared = memory()
    shared.write(at(0), np.full((1, 8), 5, np.uint8), ACCESS)
    needed = np.arange(16)[None, :] < 8
    assert (shared.read(at(0), 16, ACCESS, needed)[0, :8] == 5).all()
    with raises("TL810"):
        shared.read(at(0), 16, ACCESS, np.arange(16)[None, :] < 9)


def test_overlapping_arrays_are_both_named() -> None:
    shared = SharedMemory((A, SharedArray(name="C", offset_bytes=64, stage_bytes=64, stages=1, swizzle_bytes=0)), 128)
    assert shared.locate(WINDOW_BASE + 70).startswith("A[stage 1] + 6 bytes / C[stage 0] + 6 bytes")


def test_declarations_that_do_not_fit() -> None:
    with pytest.raises(InternalError):
        SharedMemory((B,), 300)
    with pytest.raises(InternalError):
        memory().address(SharedArray(name="D", offset_bytes=0, stage_bytes=16, stages=1, swizzle_bytes=0))
    with pytest.raises(InternalError):
        SharedMemory((), 1 << 18)


def test_the_window_holds_the_largest_block() -> None:
    assert WINDOW_BASE % 1024 == 0
    assert WINDOW_BASE > 0
    assert SharedMemory((), 227 * 1024).size_bytes == 227 * 1024
