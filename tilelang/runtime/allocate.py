"""New arrays for results, in the framework and on the device of the caller's first array."""
from __future__ import annotations

import sys
from typing import Any

from tilelang.errors import ArgumentError
from tilelang.runtime.args import TensorParam
from tilelang.runtime.arrays import framework_of
from tilelang.runtime.device import probe


def empty(param: TensorParam, like: Any) -> Any:
    """An array for `param`, contents undefined; `like` is an array of the call, or None where there is none.

    With no array to go by, it is a torch tensor on the current GPU where torch is imported and a GPU is there, else a NumPy
    array.
    Raises ArgumentError (TL546) for a framework in which we cannot allocate.
    """
    framework = framework_of(like) if like is not None else _default_framework()
    maker = _MAKERS.get(framework)
    if maker is None:
        raise ArgumentError(
            f"parameter {param.name}: results cannot be allocated as arrays of {framework}",
            code="TL546",
            hint="compile the kernel without out_idx and pass the array to be written",
        )
    return maker(param, like)


def _default_framework() -> str:
    return "torch" if "torch" in sys.modules and probe().gpus else "numpy"


def _torch(param: TensorParam, like: Any) -> Any:
    torch = sys.modules["torch"]
    device = like.device if like is not None else torch.device("cuda", torch.cuda.current_device())
    return torch.empty(param.shape, dtype=getattr(torch, param.dtype), device=device)


def _numpy(param: TensorParam, like: Any) -> Any:
    import numpy as np

    return np.empty(param.shape, param.dtype.numpy)


def _cupy(param: TensorParam, like: Any) -> Any:
    cupy = sys.modules["cupy"]
    with like.device:
        return cupy.empty(param.shape, param.dtype.numpy)


def _jax(param: TensorParam, like: Any) -> Any:
    """A fresh JAX buffer: nobody else has seen it, so writing it in place cannot be noticed."""
    jax = sys.modules["jax"]
    (device,) = like.devices()
    fresh = jax.device_put(jax.numpy.empty(param.shape, param.dtype.numpy), device)
    return fresh.block_until_ready()


_MAKERS = {"torch": _torch, "numpy": _numpy, "cupy": _cupy, "jax": _jax}
