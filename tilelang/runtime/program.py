"""A kernel in all its forms, and the step from tile IR to CUDA text with the compiler's own failures made reports."""
from __future__ import annotations

import platform
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tilelang.errors import InternalError, TileError
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import DeviceKernel
from tilelang.runtime.saved import save
from tilelang.target import Target
from tilelang.trace import Decision

_PACKAGE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel in all its forms but the compiled one: device IR, decisions and CUDA text, with how to compile it."""

    prim_func: tile.Kernel
    target: Target
    device: DeviceKernel
    decisions: tuple[Decision, ...]
    text: str
    options: tuple[str, ...]


def make_program(
    func: tile.Kernel, target: Target, configs: Mapping[str, object], options: tuple[str, ...], alignments: Mapping[Buffer, int]
) -> Program:
    """The program of a kernel.  `options` are those of the CUDA compiler; `alignments` holds, in bytes, what the addresses of
    tensors are multiples of where that is less than 16.

    Raises what the passes raise for the author of the kernel.  Any other exception in them is a fault of this compiler and
    becomes an InternalError (TL957); it and the InternalErrors that passes raise themselves name the file that reproduces them.
    """
    try:
        from tilelang.codegen.cuda import emit
        from tilelang.passes.pipeline import compile_kernel

        lowered = compile_kernel(func, target, configs, alignments)
        return Program(func, target, lowered.device, lowered.decisions, emit(lowered.device), options)
    except InternalError as error:
        error.notes = (*error.notes, _reproduction(error, func, target, configs, options, alignments))
        raise
    except (TileError, MemoryError):  # the author's to mend, or the machine's: not faults of this compiler
        raise
    except Exception as error:
        where = _pass_of(error.__traceback__)
        raise InternalError(
            f"{where or 'the compiler'} failed on {func.name}: {type(error).__name__}: {error}",
            code="TL957",
            span=func.span,
            notes=(_reproduction(error, func, target, configs, options, alignments),),
            hint="this is a fault of the compiler, not of the kernel: please report it with that file",
        ) from error


def _pass_of(trace: TracebackType | None) -> str:
    """The pass in which an exception arose, e.g. "passes/plan_gemm": what pipeline.py called last, else the innermost file of the
    passes or of the code generator; empty if it is in neither."""
    files = [_name(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(trace)]
    inside = [name for name in files if name.startswith(("passes/", "codegen/"))]
    if "passes/pipeline" in inside:
        after = inside[len(inside) - inside[::-1].index("passes/pipeline") :]
        return after[0] if after else "passes/pipeline"
    return inside[0] if inside else ""


def _name(file: str) -> str:
    path = Path(file)
    return path.relative_to(_PACKAGE).with_suffix("").as_posix() if path.is_relative_to(_PACKAGE) else ""


def _reproduction(
    error: Exception, func: tile.Kernel, target: Target, configs: Mapping[str, object], options: tuple[str, ...],
    alignments: Mapping[Buffer, int],
) -> str:  # fmt: skip
    """Saves what it takes to see the failure again, and says where."""
    import tilelang

    text = "\n".join((
        f"tilelang {tilelang.__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"target: {target}",
        f"pass_configs: {dict(configs)!r}",
        f"compiler options: {' '.join(options) or 'none'}",
        f"alignments in bytes: {({buffer.name: value for buffer, value in alignments.items()})!r}",
        "",
        *map(str.rstrip, traceback.format_exception(error)),
        "",
        _rendered(func),
    ))  # fmt: skip
    return f"to reproduce it: {save(text, func.name, '.txt')}"


def _rendered(func: tile.Kernel) -> str:
    """The tile program as text; why not, where the printer fails too."""
    try:
        from tilelang.ir.text import render

        return render(func)
    except Exception:  # noqa: BLE001 - a report of one failure must not end in another
        return f"the tile program cannot be printed:\n{traceback.format_exc()}\n{func!r}"
