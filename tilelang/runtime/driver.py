"""`cuda.bindings.driver`, imported on first use, with failures as this package's errors."""
from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from tilelang.errors import ToolchainFailed, Unavailable
from tilelang.runtime.device import require_gpu


@cache
def bindings() -> Any:
    """The module `cuda.bindings.driver`, initialised.  Raises Unavailable (TL601, TL611) where it or a GPU is missing."""
    require_gpu()
    try:
        driver = import_module("cuda.bindings.driver")
    except ImportError as error:
        raise Unavailable(
            f"cuda.bindings.driver cannot be imported: {error}", code="TL601", hint='pip install "cuda-bindings>=13,<14"'
        ) from error
    call(driver.cuInit, 0)
    return driver


def call(function: Any, *arguments: Any) -> Any:
    """What a driver function returns besides its status: None, one value or a tuple.

    Raises ToolchainFailed (TL622) naming the function and the driver's own word for the failure.
    """
    status, *results = function(*arguments)
    if int(status) != 0:
        raise failed(function.__name__, status)
    return results[0] if len(results) == 1 else (tuple(results) or None)


def failed(function: str, status: Any) -> ToolchainFailed:
    """The error for a driver call that did not succeed."""
    return ToolchainFailed(
        f"{function}: {getattr(status, 'name', status)}",
        code="TL622",
        hint="an earlier kernel may have failed: errors of a kernel that ran are reported by later calls",
    )
