"""Arrays of frameworks we know nothing about, by their protocols."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.runtime.kernels import add, fake_torch
from tilelang.errors import ArgumentError
from tilelang.runtime import arrays, dlpack
from tilelang.runtime.args import signature
from tilelang.runtime.arrays import CPU, LEGACY_STREAM, as_numpy, current_stream, framework_of, view


class Shared:
    """An array of an unknown framework that lends a NumPy array's memory by DLPack, from a device it claims."""

    def __init__(self, array: np.ndarray, device: tuple[int, int] = (dlpack.CPU, 0), error: Exception | None = None) -> None:
        self.array, self.device, self.error, self.streams = array, device, error, []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, stream: int | None = None) -> Any:
        self.streams.append(stream)
        if self.error is not None:
            raise self.error
        return self.array.__dlpack__()


class CudaArray:
    """An array of an unknown framework with `__cuda_array_interface__`."""

    def __init__(self, device: int = 0, **changes: Any) -> None:
        self.device = type("Device", (), {"id": device})
        base = {"shape": (4, 8), "typestr": "<f2", "data": (0x7000, False), "strides": None, "version": 3, "stream": None}
        self.__cuda_array_interface__ = {**base, **changes}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int64", "uint16", "bool", "complex64"])
def test_dlpack_on_the_cpu(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    shared = Shared(array)
    found = view(shared)
    assert found is not None
    assert (found.device, found.dtype, found.shape, found.strides) == (CPU, dtype, (2, 3), None)
    assert (found.pointer, shared.streams, found.stream) == (array.ctypes.data, [None], None)
    if dtype != "complex64":
        assert as_numpy(found).tolist() == array.tolist()


def test_dlpack_strides_and_offsets():
    array = np.arange(24, dtype=np.float16).reshape(4, 6)
    found = view(Shared(array[1:, 2:4]))
    assert found is not None
    assert (found.strides, found.pointer) == ((6, 1), array.ctypes.data + 2 * 8)


def test_dlpack_keeps_its_memory_alive():
    found = view(Shared(np.full((64, 64), 3.0, np.float32)))
    assert found is not None
    assert as_numpy(found).sum() == 3 * 64 * 64


def test_dlpack_on_a_gpu_is_made_ready_on_the_default_stream():
    shared = Shared(np.zeros((4, 8), np.float16), (dlpack.CUDA, 3))
    found = view(shared)
    assert found is not None
    assert (found.device, found.device_name, found.stream, shared.streams) == (3, "cuda:3", LEGACY_STREAM, [LEGACY_STREAM])


def refusal(argument: object) -> str:
    with pytest.raises(ArgumentError) as caught:
        signature(add(), 2).bind((np.zeros((4, 8), np.float16), argument))
    return caught.value.message


def test_memory_that_is_not_shared_is_refused():
    half = np.zeros((4, 8), np.float16)
    expected = "add: parameter B: expected an array on the CPU or a CUDA device, got one on "
    assert refusal(Shared(half, error=BufferError("busy"))) == expected + "memory that it does not share (busy)"
    assert refusal(Shared(half, (10, 0))) == expected + "DLPack device type 10"


def test_cuda_array_interface():
    found = view(CudaArray(device=2, stream=5))
    assert found is not None
    assert (found.device, found.dtype, found.shape, found.strides, found.stream) == (2, "float16", (4, 8), None, 5)
    assert (found.pointer, found.readonly) == (0x7000, False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"typestr": "<f4"}, "dtype float16, got float32"),
        ({"typestr": "|b1"}, "dtype float16, got bool"),
        ({"typestr": ">f2"}, "dtype float16, got >f2 (foreign byte order)"),
        ({"strides": (2, 8)}, "row-major strides (8, 1), got (1, 4)"),
        ({"shape": (4, 4)}, "8 in dimension 1 of shape (4, 8), got 4 in (4, 4)"),
    ],
)
def test_cuda_array_refusals(changes, message):
    with pytest.raises(ArgumentError) as caught:
        signature(add(), 2).bind((CudaArray(**changes), CudaArray()))
    assert caught.value.message == f"add: parameter A: expected {message}"


def test_explicit_row_major_strides_are_fine():
    found = view(CudaArray(strides=(16, 2)))
    assert found is not None
    assert found.strides is None


def test_a_type_without_a_letter_takes_its_name_from_the_array():
    array = CudaArray(typestr="<V2")
    array.dtype = type("Dtype", (), {"name": "bfloat16"})
    found = view(array)
    assert found is not None
    assert found.dtype == "bfloat16"


def test_frameworks():
    assert framework_of(np.zeros(1)) == "numpy"
    assert framework_of(Shared(np.zeros(1))) == __name__.partition(".")[0]
    assert framework_of(type("Array", (), {"__module__": "jaxlib._jax"})()) == "jax"
    assert framework_of(type("Own", (type("ndarray", (), {"__module__": "cupy"}),), {"__module__": "mine"})()) == "cupy"
    assert view("text") is None
    assert view([1.0]) is None


def test_streams(monkeypatch):
    torch = fake_torch(monkeypatch)
    assert current_stream("torch", 1) == 71
    torch._C = object()
    torch.cuda = type(
        "cuda", (), {"current_stream": staticmethod(lambda device: type("Stream", (), {"cuda_stream": 90 + device}))}
    )
    assert current_stream("torch", 1) == 91
    assert current_stream("jax", 0) is None


def test_nothing_is_imported_to_recognise_an_array(run_python):
    code = (
        "import sys; from tilelang.runtime.arrays import view; view(object()); view([1]);"
        "print(sorted({'numpy', 'torch', 'cupy', 'jax', 'cuda'} & set(sys.modules)))"
    )
    assert run_python("-c", code).stdout == "[]\n"


def test_looking_like_an_array():
    assert arrays.is_array(np.zeros(1))
    assert arrays.is_array(Shared(np.zeros(1)))
    assert not arrays.is_array(3)
    assert not arrays.is_array((1, 2))
