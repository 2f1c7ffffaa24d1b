"""Loading a cubin and launching it.

The steady state of a launch is one dictionary look-up, one question about the current context and cuLaunchKernel, all through
`cuda.bindings.driver`.

A parameter block - encoded tensor maps, pointers, scalars, and the array of addresses that cuLaunchKernel takes - is built once
per set of addresses and scalars and never changed afterwards, so any number of threads may launch at once.  cuLaunchKernel copies
it before it returns, which is also what CUDA graph capture relies on.
"""
from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tilelang.errors import ArchMismatch, InternalError
from tilelang.ir.device import DeviceKernel
from tilelang.ir.expr import Binary, Cast, Const, Expr, Var, binary
from tilelang.ir.rounding import nearest
from tilelang.ir.types import DType
from tilelang.runtime import tensormap
from tilelang.runtime.device import Gpu, probe
from tilelang.runtime.driver import bindings, call, failed
from tilelang.target import Target

_BLOCKS_LIMIT = 1024
_SCALAR_BYTES = 8
_INT64 = DType("int64")
_FORMATS = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
    "float16": "e", "float32": "f", "float64": "d",
}  # fmt: skip

Values = tuple[int | bytes, ...]


class Launcher:
    """One compiled kernel, loaded on one GPU (`device`, an ordinal).

    `name` is that of the CUDA function.  `tensors` gives for each tensor map the position of its address, `scalars` for each
    scalar of the CUDA function the position of its bytes, and `pointers` for each of its pointers the position of the address, in
    the values of a call.  Raises ToolchainFailed (TL622) where the driver cannot load it.
    """

    def __init__(
        self, image: bytes, name: str, kernel: DeviceKernel, device: int, tensors: Sequence[int], scalars: Sequence[int],
        pointers: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self._kernel, self._device = kernel, device
        self._tensors, self._pointers, self._scalars = tuple(tensors), tuple(pointers), tuple(scalars)
        self._blocks: dict[Values, ParameterBlock] = {}
        driver = bindings()
        self._library = call(driver.cuLibraryLoadData, image, [], [], 0, [], [], 0)
        function = call(driver.cuLibraryGetKernel, self._library, name.encode())
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        call(driver.cuKernelSetAttribute, attribute, kernel.shared_bytes, function, call(driver.cuDeviceGet, device))
        # a CUkernel belongs to no context: the launch takes the stream's or the current one
        self._handle = driver.CUfunction(int(function))
        self._current_device, self._start = driver.cuCtxGetDevice, driver.cuLaunchKernel

    def block(self, values: Values) -> ParameterBlock | None:
        """The parameter block of these addresses and scalars, if it was built before."""
        return self._blocks.get(values)

    def build(self, values: Values) -> ParameterBlock:
        """A new parameter block, kept.  Raises InternalError (TL953) where the driver refuses a tensor map."""
        with _context(self._device):  # the driver encodes a map only under a context
            places = (self._tensors, self._pointers, self._scalars)
            block = ParameterBlock(self._kernel, *([values[i] for i in part] for part in places))
        if len(self._blocks) >= _BLOCKS_LIMIT:
            self._blocks.clear()
        self._blocks[values] = block
        return block

    def launch(self, stream: int, block: ParameterBlock) -> None:
        """Launches on a stream by handle.  Raises ToolchainFailed (TL622) for what the driver reports."""
        if block.empty:
            return
        status, current = self._current_device()
        if status or int(current) != self._device:
            with _context(self._device):
                self._launch(stream, block)
        else:
            self._launch(stream, block)

    def _launch(self, stream: int, block: ParameterBlock) -> None:
        x, y, z = block.grid
        kernel = self._kernel
        (status,) = self._start(self._handle, x, y, z, kernel.threads, 1, 1, kernel.shared_bytes, stream, block.address, 0)
        if status:
            raise failed(f"cuLaunchKernel of {kernel.name}", status)


class ParameterBlock:
    """The parameters of one launch in memory, and its grid: maps of 128 bytes, pointers and scalars of 8, then the addresses of
    all of them.  The pointer to a tensor of no elements is null.

    `address` is the array of pointers that cuLaunchKernel takes.  Nothing changes after construction.
    """

    __slots__ = ("_memory", "address", "empty", "grid")

    def __init__(
        self, kernel: DeviceKernel, tensors: Sequence[int | bytes], pointers: Sequence[int | bytes],
        scalars: Sequence[int | bytes],
    ) -> None:  # fmt: skip
        self.grid = _grid(kernel.grid, dict(zip(kernel.scalars, map(bytes, scalars), strict=True)))
        self.empty = 0 in self.grid
        maps = [] if self.empty else [tensormap.encode(m, int(a)) for m, a in zip(kernel.tensor_maps, tensors, strict=True)]
        data_of = [0 if 0 in t.shape else int(a) for t, a in zip(kernel.pointers, pointers, strict=True)]
        parts = [*maps, *(a.to_bytes(8, "little") for a in data_of), *(bytes(raw).ljust(_SCALAR_BYTES, b"\0") for raw in scalars)]
        data = b"".join(parts)
        size = len(data) + ctypes.sizeof(ctypes.c_void_p) * len(parts)
        self._memory = ctypes.create_string_buffer(size + tensormap.ALIGNMENT_BYTES)
        base = -(-ctypes.addressof(self._memory) // tensormap.ALIGNMENT_BYTES) * tensormap.ALIGNMENT_BYTES
        ctypes.memmove(base, data, len(data))
        self.address = base + len(data)
        places = (ctypes.c_void_p * len(parts)).from_address(self.address)
        places[:] = [base + sum(map(len, parts[:i])) for i in range(len(parts))]


def pack(dtype: DType, value: int | float) -> bytes:
    """The bytes of a number of `dtype` as a parameter of a CUDA function, little-endian; a float is rounded once, as a constant
    is."""
    if dtype.is_float:
        value = nearest(float(value), dtype)
    if dtype in _FORMATS:
        return struct.pack("<" + _FORMATS[dtype], value)
    import numpy as np

    return np.array(value).astype(dtype.numpy).tobytes()


def check_architecture(kernel: str, target: Target, device: int) -> None:
    """Raises ArchMismatch (TL641) unless the GPU with ordinal `device` runs code for `target`."""
    gpu = _gpu(device)
    if gpu is not None and target.runs_on(gpu.capability):
        return
    found = probe().reason or "not there"
    if gpu is not None:
        found = f"{gpu.name} of compute capability {gpu.capability[0]}.{gpu.capability[1]}"
    raise ArchMismatch(
        f"{kernel} was compiled for {target.arch}, and cuda:{device} is not one: {found}",
        code="TL641",
        hint="run it on a GPU of the target's architecture, or pass arrays that live on the CPU",
    )


def _gpu(device: int) -> Gpu | None:
    return next((gpu for gpu in probe().gpus if gpu.index == device), None)


_contexts: dict[int, Any] = {}


@contextmanager
def _context(device: int) -> Iterator[None]:
    """The primary context of a GPU, which the CUDA runtime and every framework use, as the current one; it stays retained for the
    life of the process."""
    driver = bindings()
    if device not in _contexts:
        _contexts[device] = call(driver.cuDevicePrimaryCtxRetain, call(driver.cuDeviceGet, device))
    call(driver.cuCtxPushCurrent, _contexts[device])
    try:
        yield
    finally:
        call(driver.cuCtxPopCurrent)


def _grid(extents: Sequence[int | Expr], scalars: Mapping[Var, bytes]) -> tuple[int, int, int]:
    x, y, z = ([_evaluate(extent, scalars) for extent in extents] + [1, 1, 1])[:3]
    return x, y, z


def _evaluate(value: int | Expr, scalars: Mapping[Var, bytes]) -> int:
    """An extent of the grid as a number."""
    match value:
        case int():
            return value
        case Const():
            return int(value.value)
        case Var() if value in scalars:
            return int.from_bytes(scalars[value], "little", signed=value.dtype.kind == "int")
        case Cast():
            return _evaluate(value.value, scalars)
        case Binary():
            folded = binary(value.op, Const(_evaluate(value.a, scalars), _INT64), Const(_evaluate(value.b, scalars), _INT64))
            if isinstance(folded, Const):
                return int(folded.value)
    raise InternalError(f"an extent of the grid is not arithmetic on the kernel's scalars: {value!r}", code="TL954")


def synchronize(device: int, stream: int) -> None:
    """Waits for a stream; for arrays of frameworks that do not order their own work after ours."""
    with _context(device):
        call(bindings().cuStreamSynchronize, stream)
