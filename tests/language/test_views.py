"""T.reshape and T.view: one memory under several names."""
# ruff: noqa: F841 - kernels are written as their authors would

import warnings
from typing import Any

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import ArgumentError, HazardError
from tilelang.ir import tile
from tilelang.ir.types import Scope
from tilelang.ir.verify import verify
from tilelang.passes.pipeline import compile_kernel
from tilelang.sim import machine, reference
from tilelang.target import SM_90A

SHAPES = [((64, 64), (128, 32)), ((32, 64), (2048,)), ((2048,), (4, 8, 64)), ((1, 64, 32), (64, 32)), ((16, 8, 8), (64, 16))]
ALLOCATE = {"fragment": T.alloc_fragment, "shared": T.alloc_shared}


def doubled(scope: str, before: tuple[int, ...], after: tuple[int, ...]) -> tile.Kernel:
    """Copies a tensor into a tile, doubles it through a view of another shape and copies the view out."""

    @T.prim_func
    def kernel(A: T.Tensor(before, "float32"), B: T.Tensor(after, "float32")):
        with T.Kernel(1) as bx:
            own = ALLOCATE[scope](before, "float32")
            other = T.reshape(own, after)
            T.copy(A, own)
            for at in T.Parallel(*after):
                index = at if isinstance(at, tuple) else (at,)
                other[index] = other[index] * 2
            T.copy(other, B)

    return kernel


@pytest.mark.parametrize(("before", "after"), SHAPES)
@pytest.mark.parametrize("scope", ["fragment", "shared"])
def test_a_view_is_the_same_memory(scope: str, before: tuple[int, ...], after: tuple[int, ...]) -> None:
    kernel = doubled(scope, before, after)
    verify(kernel)
    own, other = kernel.buffers
    assert (other.name, other.shape, other.scope, other.view_of, other.storage) == ("other", after, Scope(scope), own, own)
    data = np.arange(np.prod(before), dtype=np.float32).reshape(before)
    result = np.zeros(after, np.float32)
    reference.run(kernel, [data, result])
    np.testing.assert_array_equal(result.ravel(), 2 * data.ravel())


@pytest.mark.parametrize("scope", ["fragment", "shared"])
def test_the_device_kernel_agrees(scope: str) -> None:
    kernel = doubled(scope, (64, 64), (128, 32))
    data, result = np.arange(4096, dtype=np.float32).reshape(64, 64), np.zeros((128, 32), np.float32)
    source, target = kernel.tensors
    machine.run(compile_kernel(kernel, SM_90A).device, {source: data, target: result})
    np.testing.assert_array_equal(result.ravel(), 2 * data.ravel())


def test_a_view_of_a_view_is_a_view_of_the_storage() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8, 8), "int32")):
        flat = T.view(A, (64,))
        with T.Kernel(1) as bx:
            pairs = T.view(flat, [32, 2])
            same = T.view(pairs)
            pairs[31, 1] = 5
            same[0, 0] = 6
            T.view(A, dtype=T.int32)[0, 1] = 7

    verify(kernel)
    assert [(view.name, view.shape, view.view_of) for view in kernel.buffers] == [
        ("flat", (64,), kernel.tensors[0]), ("pairs", (32, 2), kernel.tensors[0]), ("same", (32, 2), kernel.tensors[0]),
        ("view", (8, 8), kernel.tensors[0]),
    ]  # fmt: skip
    array = np.zeros((8, 8), np.int32)
    reference.run(kernel, [array])
    assert (array[7, 7], array[0, 0], array[0, 1], array.sum()) == (5, 6, 7, 18)


def test_views_of_tensors_differ_from_block_to_block_in_nothing() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, 16), "float32"), B: T.Tensor((16, 4), "float32")):
        with T.Kernel(4) as bx:
            rows = T.reshape(B, (4, 16))
            T.copy(A[bx, :], rows[bx, :])

    data, result = np.arange(64, dtype=np.float32).reshape(4, 16), np.zeros((16, 4), np.float32)
    reference.run(kernel, [data, result])
    np.testing.assert_array_equal(result.ravel(), data.ravel())
    turned = np.zeros((4, 16), np.float32).T
    with pytest.raises(ArgumentError, match="not contiguous") as caught:
        reference.run(kernel, [data, turned])
    assert caught.value.code == "TL541"
    result.setflags(write=False)
    with pytest.raises(ArgumentError, match="read-only"):
        reference.run(kernel, [data, result])


def race(second: Any) -> tile.Kernel:
    """Points that write one name and read or write the other."""

    @T.prim_func
    def kernel(A: T.Tensor((8, 8), "int32")):
        with T.Kernel(1) as bx:
            flat = T.reshape(A, (64,))
            for i, j in T.Parallel(8, 8):
                A[i, j] = 1
                second(A, flat, i, j)

    return kernel


@T.macro
def reads_another(A, flat, i, j):
    A[i, j] = flat[63 - i * 8 - j]


@T.macro
def reads_its_own(A, flat, i, j):
    A[i, j] = flat[i * 8 + j] + 1


@T.macro
def writes_another(A, flat, i, j):
    flat[j * 8 + i] = i


def test_points_that_meet_through_two_names_race() -> None:
    array = np.zeros((8, 8), np.int32)
    reference.run(race(reads_its_own), [array])
    assert (array == 2).all()
    for second in (reads_another, writes_another):
        with pytest.raises(HazardError) as caught:
            reference.run(race(second), [array])
        assert caught.value.code == "TL860"


def warnings_of(fill: str) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")

        @T.prim_func
        def kernel(A: T.Tensor((64, 64), "float32")):
            with T.Kernel(1) as bx:
                own = T.alloc_fragment((64, 64), "float32")
                flat = T.reshape(own, (4096,))
                if fill == "own":
                    T.clear(own)
                if fill == "view":
                    T.clear(flat)
                for i in T.Parallel(4096):
                    flat[i] += 1
                T.copy(own, A)

    return [str(warning.message) for warning in seen]


def test_what_one_name_wrote_the_other_may_read() -> None:
    assert warnings_of("own") == warnings_of("view") == []
    (message,) = warnings_of("")
    assert message.startswith("flat is read here and nothing has written it")
