"""Block-level GPU kernels in Python: one program, a Hopper pipeline in readable CUDA, and a CPU to run it on.

    import tilelang
    import tilelang.language as T

Everything below is imported when it is first used: `import tilelang` alone loads neither NumPy nor CUDA nor the compiler.
"""
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tilelang import language
    from tilelang.runtime.cache import disable_cache, enable_cache, is_cache_enabled
    from tilelang.runtime.jit import cdiv, compile, jit, next_power_of_2  # noqa: A004
    from tilelang.runtime.kernel import JITKernel
    from tilelang.runtime.log import set_log_level
    from tilelang.runtime.options import PassConfigKey
    from tilelang.target import Target

__all__ = [
    "JITKernel", "PassConfigKey", "Target", "__version__", "cdiv", "compile", "disable_cache", "enable_cache", "is_cache_enabled",
    "jit", "language", "next_power_of_2", "set_log_level",
]  # fmt: skip

_HOMES = {
    "JITKernel": "tilelang.runtime.kernel",
    "PassConfigKey": "tilelang.runtime.options",
    "Target": "tilelang.target",
    "cdiv": "tilelang.runtime.jit",
    "compile": "tilelang.runtime.jit",
    "disable_cache": "tilelang.runtime.cache",
    "enable_cache": "tilelang.runtime.cache",
    "is_cache_enabled": "tilelang.runtime.cache",
    "jit": "tilelang.runtime.jit",
    "next_power_of_2": "tilelang.runtime.jit",
    "set_log_level": "tilelang.runtime.log",
}
_ROOMS = ("codegen", "errors", "frontend", "ir", "language", "layout", "passes", "runtime", "sim", "target", "trace")

# names that programs for this language use and that are not there, and what is
_ABSENT = {
    "DataType": "dtypes are strings, T.float16 and the like",
    "Fragment": "layouts of fragments are chosen by the compiler",
    "Layout": "layouts are chosen by the compiler",
    "Profiler": "time calls of a kernel with the tools of the arrays' framework",
    "TensorSupplyType": "make the arrays with their own framework",
    "autotune": "compile the kernel once per configuration and time it",
    "autotuner": "compile the kernel once per configuration and time it",
    "carver": "compile the kernel once per configuration and time it",
    "dtypes": "dtypes are strings, T.float16 and the like",
    "engine": "tilelang.compile",
    "env": "environment variables named TILELANG_* are read where they matter",
    "lower": "tilelang.compile(...).get_kernel_source() is the CUDA text",
    "math": "tilelang.next_power_of_2 and tilelang.cdiv are there",
    "par_compile": "call tilelang.compile once per kernel",
    "profiler": "time calls of a kernel with the tools of the arrays' framework",
    "register_cuda_postproc": "get_kernel_source() is the text that is compiled",
    "register_cuda_postproc_callback": "get_kernel_source() is the text that is compiled",
    "testing": "pytest and numpy.testing",
    "tools": "kernel.explain() and kernel.resources describe a kernel",
    "transform": "tilelang.PassConfigKey holds the pass configurations",
    "tvm": "there is no TVM below this package",
}


def __getattr__(name: str) -> Any:
    """A public name, imported now.  Raises Unsupported (TL360) for one that this language has and this package has not."""
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _ROOMS:
        value = import_module(f"tilelang.{name}")
    elif name in _ABSENT:
        from tilelang.errors import Unsupported

        raise Unsupported(f"tilelang.{name} does not exist here", code="TL360", hint=_ABSENT[name])
    else:
        raise AttributeError(f"module 'tilelang' has no attribute {name!r}{_nearest(name)}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    close = [] if name.startswith("__") else get_close_matches(name, (*__all__, *_ROOMS), n=3)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
