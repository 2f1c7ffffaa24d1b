"""Reading a DLPack capsule without any framework: the fields of DLManagedTensor (dlpack.h, versions before 1.0).

The capsule is never consumed: whoever holds it keeps the memory alive, and its own destructor releases the tensor.
"""
from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool", 10: "float8_e4m3fn", 12: "float8_e5m2"}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("type_code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class DLTensor:
    """A tensor that a capsule describes: `strides` in elements, None for row-major; `capsule` keeps the memory alive."""

    pointer: int
    device_type: int
    device_id: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    capsule: Any


def read(array: Any, stream: int | None) -> DLTensor:
    """The tensor of an object with `__dlpack__`; its producer makes it ready on `stream` (None: the array is not on a GPU)."""
    capsule = array.__dlpack__() if stream is None else array.__dlpack__(stream=stream)
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _Tensor.from_address(get(capsule, b"dltensor"))
    shape = tuple(tensor.shape[i] for i in range(tensor.rank))
    strides = tuple(tensor.strides[i] for i in range(tensor.rank)) if tensor.strides else None
    return DLTensor(
        (tensor.data or 0) + tensor.byte_offset, tensor.device_type, tensor.device_id, _dtype(tensor), shape, strides, capsule
    )


def _dtype(tensor: _Tensor) -> str:
    """The name of the element type, e.g. "bfloat16", or a description of one that has no name here."""
    kind = _KINDS.get(tensor.type_code, f"dlpack type {tensor.type_code} of ")
    if tensor.lanes != 1:
        return f"{kind}{tensor.bits}x{tensor.lanes}"
    return kind if kind == "bool" or kind.startswith("float8") else f"{kind}{tensor.bits}"
