"""Small tile kernels made by hand, a stand-in for torch, and one for the reference."""
from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Var, as_expr
from tilelang.ir.types import DType, Scope


def tensor(name: str, *shape: int, dtype: str = "float16") -> Buffer:
    return Buffer(name, shape, DType(dtype), Scope.GLOBAL)


def kernel(*params: Buffer | Var, writes: int = 1, name: str = "add") -> tile.Kernel:
    """A kernel that copies its first tensor to each of its last `writes` tensors."""
    tensors = [param for param in params if isinstance(param, Buffer)]
    body = tuple(tile.Copy(src=tensors[0].whole(), dst=target.whole()) for target in tensors[len(tensors) - writes :])
    return tile.Kernel(name=name, params=params, grid=(tile.GridAxis(Var("bx"), 1),), threads=128, buffers=(), body=body)


def add(*shape: int, dtype: str = "float16") -> tile.Kernel:
    """C from A and B, of one shape and dtype."""
    return kernel(*(tensor(name, *(shape or (4, 8)), dtype=dtype) for name in "ABC"))


def fill(*shape: int) -> tile.Kernel:
    """A kernel whose only parameter is written."""
    out = tensor("C", *(shape or (4, 8)))
    body = (tile.Fill(dst=out.whole(), value=as_expr(1.0)),)
    return tile.Kernel(name="fill", params=(out,), grid=(tile.GridAxis(Var("bx"), 1),), threads=128, buffers=(), body=body)


class _Dtype:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


class _Device:
    def __init__(self, type: str, index: int | None = None) -> None:  # noqa: A002 - torch's own name
        self.type, self.index = type, index

    def __repr__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


class _Tensor:
    """What is used of torch.Tensor; the memory is NumPy's whatever the device claims to be."""

    def __init__(self, array: np.ndarray, dtype: _Dtype, device: _Device) -> None:
        self.array, self.dtype, self.device, self.layout = array, dtype, device, "torch.strided"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def stride(self) -> tuple[int, ...]:
        return tuple(stride // self.array.itemsize for stride in self.array.strides)

    def is_contiguous(self) -> bool:
        return self.array.flags.c_contiguous

    def data_ptr(self) -> int:
        return self.array.__array_interface__["data"][0]

    def get_device(self) -> int:
        return -1 if self.device.index is None else self.device.index


_Tensor.__module__ = "torch"
_Tensor.__qualname__ = _Tensor.__name__ = "Tensor"


def aligned(shape: tuple[int, ...], dtype: Any, offset_bytes: int = 0) -> np.ndarray:
    """An array of zeros whose address is a multiple of 256 bytes plus `offset_bytes`."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 512, np.uint8)
    start = -raw.__array_interface__["data"][0] % 256 + offset_bytes
    return raw[start : start + size].view(dtype).reshape(shape)


def fake_torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module `torch` that is imported, as far as this package looks at it."""
    torch: Any = types.ModuleType("torch")
    for name in ("float16", "bfloat16", "float32", "int32", "complex64"):
        setattr(torch, name, _Dtype(name))

    def empty(shape: tuple[int, ...], dtype: _Dtype, device: _Device) -> _Tensor:
        return _Tensor(aligned(tuple(shape), DType(str(dtype)).numpy), dtype, device)

    def zeros(*shape: int, dtype: str = "float16", device: str = "cpu", index: int | None = None) -> _Tensor:
        kind = np.complex64 if dtype == "complex64" else DType(dtype).numpy
        return _Tensor(aligned(shape, kind), getattr(torch, dtype), _Device(device, index if device == "cpu" else index or 0))

    torch.Tensor, torch.Size, torch.device, torch.empty, torch.zeros = _Tensor, tuple, _Device, empty, zeros
    torch._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 70 + device)
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


def fake_reference(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stands in for the reference: the last array becomes the sum of the others; returns the list of calls."""
    calls: list[Any] = []

    def run(program: tile.Kernel, arrays: list[Any]) -> None:
        calls.append((program, arrays))
        arrays[-1][...] = sum(array.astype(np.float64) for array in arrays[:-1])

    import tilelang.sim

    module: Any = types.ModuleType("tilelang.sim.reference")
    module.run = run
    monkeypatch.setitem(sys.modules, "tilelang.sim.reference", module)
    monkeypatch.setattr(tilelang.sim, "reference", module, raising=False)
    return calls
