"""Arrays on a GPU and the time of a launch: by PyTorch where it is installed, otherwise by the CUDA driver alone."""
from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np


def torch_with_gpu() -> Any:
    """The module torch if it is installed and sees a GPU, else None."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def upload(array: np.ndarray) -> Any:
    """A copy in GPU memory: a PyTorch tensor, or a `GpuArray` without PyTorch."""
    torch = torch_with_gpu()
    return GpuArray(array) if torch is None else torch.from_numpy(array).cuda()


def download(array: Any) -> np.ndarray:
    """The values of an uploaded array, once everything before has run."""
    return array.numpy() if isinstance(array, GpuArray) else array.cpu().numpy()


class GpuArray:
    """A copy of a NumPy array in GPU memory, which others see through `__cuda_array_interface__` (version 3)."""

    def __init__(self, array: np.ndarray) -> None:
        from cuda.bindings import driver

        _ok(driver.cuInit(0))
        _ok(driver.cuCtxSetCurrent(_ok(driver.cuDevicePrimaryCtxRetain(_ok(driver.cuDeviceGet(0))))))
        self.shape, self.dtype = array.shape, array.dtype
        host = np.ascontiguousarray(array)
        self._driver = driver
        self.pointer = int(_ok(driver.cuMemAlloc(host.nbytes)))
        _ok(driver.cuMemcpyHtoD(self.pointer, host.ctypes.data, host.nbytes))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.pointer, False), "strides": None, "version": 3}

    def numpy(self) -> np.ndarray:
        host = np.empty(self.shape, self.dtype)
        _ok(self._driver.cuCtxSynchronize())
        _ok(self._driver.cuMemcpyDtoH(host.ctypes.data, self.pointer, host.nbytes))
        return host

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the interpreter's end the driver may be gone
            self._driver.cuMemFree(self.pointer)


def _ok(result: Any) -> Any:
    """The value of a driver call; raises RuntimeError where it failed."""
    status, *values = result
    if int(status) != 0:
        raise RuntimeError(f"CUDA driver: {status.name}")
    return values[0] if values else None


def median_seconds(launch: Callable[[], object], repeat: int = 30) -> float:
    """Median time of one launch between two CUDA events on the default stream, after three that do not count.

    Without PyTorch a call of a kernel returns when the kernel is done, so some time of the host is in it."""
    from cuda.bindings import driver

    for _ in range(3):
        launch()
    start, end = (_ok(driver.cuEventCreate(0)) for _ in range(2))
    seconds = []
    for _ in range(repeat):
        _ok(driver.cuEventRecord(start, 0))
        launch()
        _ok(driver.cuEventRecord(end, 0))
        _ok(driver.cuEventSynchronize(end))
        seconds.append(_ok(driver.cuEventElapsedTime(start, end)) / 1e3)
    return statistics.median(seconds)
