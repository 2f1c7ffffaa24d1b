"""Arrays of any framework, recognised by protocol; frameworks are found in `sys.modules` and never imported here.

torch tensors are read by their own methods, NumPy arrays by theirs, everything else by `__cuda_array_interface__`, DLPack or
`__array_interface__`.
"""
from __future__ import annotations

import sys
from dataclasses import dataclass
from math import prod
from typing import Any

from tilelang.runtime import dlpack

CPU = -1
ELSEWHERE = -2
LEGACY_STREAM = 1  # CU_STREAM_LEGACY, the default stream of the driver API


@dataclass(frozen=True, slots=True)
class ArrayView:
    """What a launch needs to know about one array.

    `device` is the GPU's ordinal, CPU or ELSEWHERE; `strides` are in elements, None for a row-major array; `stream` is the CUDA
    stream (a handle) on which the array is ready, None where its framework has a current stream or needs none; `keep` holds what
    keeps the memory alive.
    """

    framework: str
    device: int
    device_name: str
    pointer: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[float, ...] | None
    readonly: bool = False
    stream: int | None = None
    keep: Any = None


def framework_of(value: object) -> str:
    """The name of the top package that defines the type of `value`: "torch", "numpy", "cupy", "jax", ..."""
    for kind in type(value).__mro__:
        name = kind.__module__.partition(".")[0]
        if name in ("torch", "numpy", "cupy"):
            return name
        if name in ("jax", "jaxlib"):
            return "jax"
    return type(value).__module__.partition(".")[0]


def view(value: Any) -> ArrayView | None:
    """The array that `value` is, or None if it is none.  Nothing is copied."""
    framework = framework_of(value)
    if framework == "torch" and hasattr(value, "data_ptr"):
        return _torch(value)
    if framework == "numpy" and hasattr(value, "flags"):
        return _numpy(value)
    if framework != "jax" and hasattr(value, "__cuda_array_interface__"):
        return _cuda_interface(value, framework)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _dlpack(value, framework)
    return None


def is_array(value: object) -> bool:
    """Whether `value` looks like an array, judged by its type alone."""
    return any(hasattr(value, name) for name in ("data_ptr", "__array_interface__", "__cuda_array_interface__", "__dlpack__"))


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, in elements, of a contiguous array."""
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def in_elements(strides_bytes: tuple[int, ...], size: int) -> tuple[float, ...]:
    """Strides in elements of `size` bytes; one that is not a whole number of elements stays a fraction."""
    return tuple(stride // size if stride % size == 0 else stride / size for stride in strides_bytes)


def compact(shape: tuple[int, ...], strides: tuple[float, ...] | None) -> tuple[float, ...] | None:
    """`strides`, or None if the array is row-major: the stride of a dimension of extent 1 or of an empty array says nothing."""
    if strides is None or 0 in shape:
        return None
    differs = any(extent != 1 and a != b for extent, a, b in zip(shape, strides, row_major(shape), strict=True))
    return strides if differs else None


def _torch(tensor: Any) -> ArrayView:
    shape, device = tuple(tensor.shape), tensor.device
    index = {"cpu": CPU, "cuda": device.index}.get(device.type, ELSEWHERE)
    dense = str(getattr(tensor, "layout", "torch.strided")) == "torch.strided"
    strides = compact(shape, tuple(tensor.stride())) if dense and not tensor.is_contiguous() else None
    return ArrayView(
        framework="torch",
        device=index if dense else ELSEWHERE,
        device_name=str(device) if dense else f"{device} ({tensor.layout})",
        pointer=tensor.data_ptr() if dense and index != ELSEWHERE else 0,
        dtype=str(tensor.dtype).removeprefix("torch."),
        shape=shape,
        strides=strides,
    )


def _numpy(array: Any) -> ArrayView:
    dtype, shape = array.dtype, tuple(array.shape)
    name = dtype.name if dtype.isnative else f"{dtype.name} in foreign byte order"
    size = dtype.itemsize or 1  # 0 for an empty string type
    strides = None if array.flags.c_contiguous else compact(shape, in_elements(array.strides, size))
    pointer = array.__array_interface__["data"][0]
    return ArrayView("numpy", CPU, "cpu", pointer, name, shape, strides, not array.flags.writeable)


def _cuda_interface(array: Any, framework: str) -> ArrayView:
    face = array.__cuda_array_interface__
    shape, (pointer, readonly) = tuple(face["shape"]), face["data"]
    dtype, size = _typestr(face["typestr"], getattr(array, "dtype", None))
    strides = face.get("strides")
    strides = compact(shape, None if strides is None else in_elements(strides, size))
    device = _device_of_pointer(pointer, array)
    return ArrayView(framework, device, f"cuda:{device}", pointer, dtype, shape, strides, readonly, face.get("stream"), keep=face)


def _typestr(text: str, dtype: Any) -> tuple[str, int]:
    """(dtype name, bytes) of a type string of the array interface; "V" types take the name from the array's own dtype."""
    size = int(text[2:])
    kinds = {"f": "float", "i": "int", "u": "uint", "c": "complex"}
    if text[0] == ">" and size > 1:
        return f"{text} (foreign byte order)", size
    if text[1] == "b":
        return "bool", size
    if text[1] in kinds:
        return f"{kinds[text[1]]}{8 * size}", size
    return str(getattr(dtype, "name", dtype or text)), size


def _device_of_pointer(pointer: int, array: Any) -> int:
    """The ordinal of the GPU whose memory `pointer` is; asked of the driver, since the interface does not say."""
    device = getattr(getattr(array, "device", None), "id", None)
    if isinstance(device, int):
        return device
    from tilelang.runtime.driver import bindings

    driver = bindings()
    status, ordinal = driver.cuPointerGetAttribute(driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer)
    return int(ordinal) if int(status) == 0 else 0


def _dlpack(array: Any, framework: str) -> ArrayView | None:
    kind, index = (int(part) for part in array.__dlpack_device__())
    if kind not in (dlpack.CPU, dlpack.CUDA, dlpack.CUDA_HOST, dlpack.CUDA_MANAGED):
        return ArrayView(framework, ELSEWHERE, f"DLPack device type {kind}", 0, "", (), None)
    on_gpu = kind in (dlpack.CUDA, dlpack.CUDA_MANAGED)
    try:
        tensor = dlpack.read(array, LEGACY_STREAM if on_gpu else None)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:  # what producers raise where they cannot share
        return ArrayView(framework, ELSEWHERE, f"memory that it does not share ({error})", 0, "", (), None)
    return ArrayView(
        framework=framework,
        device=index if on_gpu else CPU,
        device_name=f"cuda:{index}" if on_gpu else "cpu",
        pointer=tensor.pointer,
        dtype=tensor.dtype,
        shape=tensor.shape,
        strides=compact(tensor.shape, tensor.strides),
        readonly=framework == "jax",
        stream=LEGACY_STREAM if on_gpu else None,
        keep=tensor.capsule,
    )


def current_stream(framework: str, device: int) -> int | None:
    """The handle of the framework's current stream on a GPU, or None for a framework without one."""
    if framework == "torch":
        torch = sys.modules["torch"]
        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        return raw(device) if raw is not None else torch.cuda.current_stream(device).cuda_stream
    if framework == "cupy":
        return sys.modules["cupy"].cuda.get_current_stream().ptr
    return None


def as_numpy(array: ArrayView) -> Any:
    """The memory of a CPU array as a NumPy array: no copy, valid while its owner lives."""
    import ctypes

    import numpy as np

    from tilelang.ir.types import DType

    dtype = DType(array.dtype).numpy
    count = prod(array.shape)
    if count == 0:
        return np.empty(array.shape, dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(array.pointer)
    return np.frombuffer(memoryview(memory), dtype=dtype).reshape(array.shape)
