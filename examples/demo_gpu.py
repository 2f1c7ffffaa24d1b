"""A GPU without PyTorch: arrays and timing through the CUDA driver, as far as the demo needs them."""
from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np


def _ok(result: Any) -> Any:
    """The value of a driver call; raises RuntimeError where it failed."""
    status, *values = result
    if int(status) != 0:
        raise RuntimeError(f"CUDA driver: {status.name}")
    return values[0] if values else None


class GpuArray:
    """A copy of a NumPy array in GPU memory, seen by others through `__cuda_array_interface__` (version 3)."""

    def __init__(self, array: np.ndarray) -> None:
        from cuda.bindings import driver
        from cuda.core import Device

        Device(0).set_current()
        self.array = np.ascontiguousarray(array)
        self.pointer = int(_ok(driver.cuMemAlloc(self.array.nbytes)))
        _ok(driver.cuMemcpyHtoD(self.pointer, self.array.ctypes.data, self.array.nbytes))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        data = (self.pointer, False)
        return {"shape": self.array.shape, "typestr": self.array.dtype.str, "data": data, "strides": None, "version": 3}

    def numpy(self) -> np.ndarray:
        """The values now in GPU memory; waits for what runs there."""
        from cuda.bindings import driver

        _ok(driver.cuCtxSynchronize())
        host = np.empty_like(self.array)
        _ok(driver.cuMemcpyDtoH(host.ctypes.data, self.pointer, host.nbytes))
        return host

    def free(self) -> None:
        from cuda.bindings import driver

        _ok(driver.cuMemFree(self.pointer))


def median_seconds(launch: Callable[[], object], repeat: int = 30) -> float:
    """Median time of one launch on the default stream, between two CUDA events, after three launches that do not count."""
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
        seconds.append(_ok(driver.cuEventElapsedTime_v2(start, end) if hasattr(driver, "cuEventElapsedTime_v2")
                           else driver.cuEventElapsedTime(start, end)) / 1e3)  # fmt: skip
    return statistics.median(seconds)
