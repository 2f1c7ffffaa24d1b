"""`compile` and `jit`: from a tile program to a kernel object."""
from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, overload

from tilelang.errors import TypeProblem, Unsupported
from tilelang.ir import tile
from tilelang.runtime.args import signature
from tilelang.runtime.arrays import is_array
from tilelang.runtime.device import probe
from tilelang.runtime.kernel import JITKernel
from tilelang.runtime.log import logger
from tilelang.runtime.options import PassConfigKey, normalise, nvrtc_options
from tilelang.runtime.program import make_program
from tilelang.target import Target

# other names for "compile with NVRTC, launch from Python", which is the only way here
_BACKENDS = (None, "auto", "nvrtc", "tvm_ffi", "cython", "ctypes")
_TRUE = ("1", "true", "yes", "on")

TargetLike = Target | str | Mapping[str, object]


def compile(  # noqa: A001 - the public name
    func: tile.Kernel,
    out_idx: int | Sequence[int] | None = None,
    execution_backend: str | None = None,
    target: TargetLike | None = None,
    target_host: object = None,
    verbose: bool | None = None,
    pass_configs: Mapping[str, object] | None = None,
    compile_flags: str | Sequence[str] | None = None,
) -> JITKernel:
    """A `T.prim_func` as a kernel that can be called.

    The parameters at `out_idx` (an index or several, negative ones from the end) become results.  `target` is what `Target.parse`
    takes.  Where a GPU of the target's architecture is present the cubin is made at once, so that a first call compiles nothing.
    `target_host` is accepted and has no meaning: there is no host code.

    Raises KernelError for a program that cannot be compiled (TL521: a bad `out_idx`), PlatformError, and InternalError for a
    fault of this compiler, with a file that reproduces it.
    """
    if not isinstance(func, tile.Kernel):
        raise TypeProblem(
            f"compile takes a T.prim_func, not {type(func).__name__}", code="TL221",
            hint="decorate the kernel with @T.prim_func and pass what the decorator returns",
        )  # fmt: skip
    if execution_backend not in _BACKENDS:
        raise Unsupported(f"execution backend {execution_backend!r} does not exist here", code="TL363", hint='there is "nvrtc"')
    configs = normalise(pass_configs)
    found = signature(func, out_idx)
    chip = target if isinstance(target, Target) else _at_hand(Target.parse(target, _capability()))
    program = make_program(func, chip, configs, nvrtc_options(configs, compile_flags), {})
    kernel = JITKernel(program, found, configs)
    if any(program.target.runs_on(gpu.capability) for gpu in probe().gpus):
        _compile_now(kernel, _verbose(verbose) or bool(configs.get(PassConfigKey.TL_ENABLE_PTXAS_VERBOSE_OUTPUT)))
    return kernel


def _compile_now(kernel: JITKernel, verbose: bool) -> None:
    start = time.perf_counter()
    size = len(kernel.cubin)
    if verbose:
        milliseconds = (time.perf_counter() - start) * 1e3
        used = kernel.resources
        logger().info(
            "%s: cubin for %s, %d bytes, %d registers, %d bytes spilled, in %.0f ms",
            kernel.prim_func.name, kernel.target.arch, size, used.registers, used.spill_store_bytes, milliseconds,
        )  # fmt: skip


def _verbose(verbose: bool | None) -> bool:
    return os.environ.get("TILELANG_VERBOSE", "0").lower() in _TRUE if verbose is None else verbose


def _capability() -> tuple[int, int] | None:
    gpus = probe().gpus
    return gpus[0].capability if gpus else None


def _at_hand(target: Target) -> Target:
    """The target with as many multiprocessors as the first GPU of its kind here has, which not all chips of one name share."""
    gpu = next((gpu for gpu in probe().gpus if target.runs_on(gpu.capability)), None)
    return target if gpu is None else dataclasses.replace(target, multiprocessors=gpu.multiprocessors)


class JITImpl:
    """A function that returns a `T.prim_func`, as a function that returns the compiled kernel.

    One kernel is made for each set of arguments and of what the function takes from its surroundings (closure values, and globals
    that are numbers, strings or tuples of them), so that `f(4, 5) is f(4, 5)`.
    """

    mode = "lazy"

    def __init__(self, func: Callable[..., Any], options: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, func)
        self._func, self._options = func, dict(options)
        self._signature = inspect.signature(func)
        self._kernels: dict[Any, JITKernel] = {}
        self._lock = threading.RLock()

    def __call__(self, *arguments: Any, **keywords: Any) -> JITKernel:
        """The kernel for these arguments.  Raises what `compile` and the function itself raise."""
        self._refuse_arrays((*arguments, *keywords.values()))
        key = self._key(arguments, keywords)
        with self._lock:
            kernel = self._kernels.get(key) if key is not None else None
            if kernel is None:
                kernel = compile(self.get_tir(*arguments, **keywords), **self._options)
                if key is not None:
                    self._kernels[key] = kernel
            return kernel

    def compile(self, *arguments: Any, **keywords: Any) -> JITKernel:
        """The kernel for these arguments."""
        return self(*arguments, **keywords)

    def get_kernel_source(self, *arguments: Any, **keywords: Any) -> str:
        """The CUDA text for these arguments."""
        return self(*arguments, **keywords).get_kernel_source()

    def get_tir(self, *arguments: Any, **keywords: Any) -> tile.Kernel:
        """The tile program for these arguments."""
        made = self._func(*arguments, **keywords)
        if not isinstance(made, tile.Kernel):
            raise TypeProblem(
                f"{self._func.__qualname__} returned {type(made).__name__}, not a T.prim_func", code="TL222",
                hint="a function under @tilelang.jit defines a T.prim_func and returns it",
            )  # fmt: skip
        return made

    def __getattr__(self, name: str) -> Any:
        if name == "par_compile":
            raise Unsupported("jit.par_compile does not exist here", code="TL362", hint="call the function per configuration")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def _refuse_arrays(self, values: Sequence[Any]) -> None:
        if any(is_array(value) for value in values):
            raise Unsupported(
                f"{self.__name__} was called with arrays: the eager style (T.const, T.empty) does not exist here", code="TL364",
                hint="return a T.prim_func from the function, and call the kernel: f(M, N, K)(A, B)",
            )  # fmt: skip

    def _key(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """What the kernel depends on; None where that cannot be compared."""
        try:
            bound = self._signature.bind(*arguments, **keywords)
        except TypeError:
            return None  # the call itself says what is wrong
        bound.apply_defaults()
        key = (_frozen(bound.arguments), _frozen(_surroundings(self._func)), os.environ.get("TILELANG_DEFAULT_TARGET"))
        try:
            hash(key)
        except TypeError:
            return None
        return key


@overload
def jit(func: Callable[..., Any]) -> JITImpl: ...
@overload
def jit(
    func: None = None,
    *,
    out_idx: int | Sequence[int] | None = None,
    target: TargetLike | None = None,
    target_host: object = None,
    execution_backend: str | None = None,
    verbose: bool | None = None,
    pass_configs: Mapping[str, object] | None = None,
    compile_flags: str | Sequence[str] | None = None,
) -> Callable[[Callable[..., Any]], JITImpl]: ...
def jit(func: Any = None, **options: Any) -> Any:
    """Decorates a function that returns a `T.prim_func`; calling it gives the compiled kernel.

    Written `@tilelang.jit` or `@tilelang.jit(out_idx=, target=, pass_configs=, ...)` with the options of `compile`.
    Raises Unsupported (TL365) for an option that does not exist and TypeProblem (TL222) for something that is no function.
    """
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise Unsupported(f"jit option {unknown[0]!r} does not exist here", code="TL365", hint=f"there are {', '.join(_OPTIONS)}")
    if func is None:
        return lambda function: jit(function, **options)
    if isinstance(func, tile.Kernel) or not callable(func):
        raise TypeProblem(
            f"jit decorates a function that returns a T.prim_func, not {type(func).__name__}", code="TL222",
            hint="pass a T.prim_func to tilelang.compile",
        )  # fmt: skip
    return JITImpl(func, options)


_OPTIONS = tuple(name for name in inspect.signature(compile).parameters if name != "func")


def _frozen(value: Any) -> Any:
    """A value as something that can be hashed and that tells 1 from 1.0 and True."""
    if isinstance(value, Mapping):
        return dict, tuple((_frozen(key), _frozen(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(_frozen(item) for item in value)
    return type(value), repr(value) if isinstance(value, float) else value


def _surroundings(func: Any) -> list[tuple[str, Any]]:
    """Names and values that a function takes from outside, where they are plain: closure values, and globals that it or a
    function defined inside it uses."""
    code = getattr(func, "__code__", None)
    if code is None:
        return []
    cells = zip(code.co_freevars, func.__closure__ or (), strict=True)
    found = [(name, cell.cell_contents) for name, cell in cells if _filled(cell)]
    names = dict.fromkeys(name for inner in _codes(code) for name in inner.co_names)
    found += [(name, func.__globals__[name]) for name in names if name in func.__globals__]
    return [(name, value) for name, value in found if _plain(value)]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _plain(value: Any) -> bool:
    """Whether a value is a number, a string, None or a list or tuple of such."""
    if isinstance(value, (list, tuple)):
        return all(_plain(item) for item in value)
    return value is None or isinstance(value, (int, float, str))


def cdiv(a: int, b: int) -> int:
    """a / b rounded up, for Python integers of any sign."""
    return -(-a // b)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least `n`; 1 for n below 1."""
    return 1 if n < 1 else 1 << (n - 1).bit_length()
