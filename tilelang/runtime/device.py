"""What GPUs there are, found out without raising and without making a CUDA context."""
from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from functools import cache

from tilelang.errors import Unavailable

_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
# CUdevice_attribute of the driver API
_CAPABILITY_MAJOR, _CAPABILITY_MINOR, _MULTIPROCESSORS = 75, 76, 16


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: its ordinal, name, compute capability, and how many multiprocessors it has."""

    index: int
    name: str
    capability: tuple[int, int]
    multiprocessors: int


@dataclass(frozen=True, slots=True)
class Probe:
    """The GPUs of this process; where there is none, `reason` says why."""

    gpus: tuple[Gpu, ...]
    reason: str = ""

    @property
    def count(self) -> int:
        return len(self.gpus)


class _Refused(Exception):
    """A driver call did not succeed."""


@cache
def probe() -> Probe:
    """The GPUs that the CUDA driver shows to this process; asked once."""
    try:
        driver = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        return Probe((), f"no CUDA driver: {error}")
    try:
        _ask(driver, "cuInit", 0)
        count = ctypes.c_int()
        _ask(driver, "cuDeviceGetCount", ctypes.byref(count))
        gpus = tuple(_gpu(driver, index) for index in range(count.value))
    except _Refused as refused:
        return Probe((), str(refused))
    return Probe(gpus, "" if gpus else "the CUDA driver shows no GPU")


def require_gpu() -> Probe:
    """`probe()`; raises Unavailable (TL611) with its reason where there is no GPU."""
    found = probe()
    if not found.gpus:
        raise Unavailable(
            f"there is no GPU to run on: {found.reason}", code="TL611", hint="arrays that live on the CPU run on the CPU"
        )
    return found


def _gpu(driver: ctypes.CDLL, index: int) -> Gpu:
    handle, name = ctypes.c_int(), ctypes.create_string_buffer(256)
    _ask(driver, "cuDeviceGet", ctypes.byref(handle), index)
    _ask(driver, "cuDeviceGetName", name, len(name), handle)
    numbers = []
    for attribute in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR, _MULTIPROCESSORS):
        value = ctypes.c_int()
        _ask(driver, "cuDeviceGetAttribute", ctypes.byref(value), attribute, handle)
        numbers.append(value.value)
    return Gpu(index, name.value.decode(errors="replace"), (numbers[0], numbers[1]), numbers[2])


def _ask(driver: ctypes.CDLL, function: str, *arguments: object) -> None:
    """Calls the driver; a status other than CUDA_SUCCESS becomes `_Refused` with the driver's own name for it."""
    status = getattr(driver, function)(*arguments)
    if status != 0:
        text = ctypes.c_char_p()
        driver.cuGetErrorName(status, ctypes.byref(text))
        raise _Refused(f"{function}: {(text.value or b'').decode() or f'error {status}'}")
