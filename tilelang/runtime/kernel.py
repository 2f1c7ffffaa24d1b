"""The kernel object: what `compile` returns and a program calls."""
from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from tilelang.errors import ArgumentError, InternalError, PlatformError, Unsupported
from tilelang.ir import tile
from tilelang.ir.device import DeviceKernel
from tilelang.runtime import cache
from tilelang.runtime.args import Param, Signature
from tilelang.runtime.call import Caller
from tilelang.runtime.launch import Launcher, check_architecture
from tilelang.runtime.nvrtc import Cubin, Resources
from tilelang.target import Target
from tilelang.trace import Decision

# names that programs for this language use on a kernel object and that are not there, and what is
_ABSENT = {
    "get_host_source": "there is no host code: the launch is done by this package",
    "host_source": "there is no host code: the launch is done by this package",
    "export_library": "export_sources() writes CUDA text, and `cubin` holds the compiled image",
    "show_ptx": "`cubin` holds the compiled image; it is made without PTX text",
    "export_ptx": "`cubin` holds the compiled image; it is made without PTX text",
    "show_sass": "`cubin` holds the image, for nvdisasm",
    "export_sass": "`cubin` holds the image, for nvdisasm",
    "get_profiler": "time calls of the kernel with the tools of the arrays' framework",
    "run_once": "call the kernel",
    "get_tuner_result": "there is no tuner",
    "latency": "there is no tuner",
    "ref_latency": "there is no tuner",
    "config": "there is no tuner",
    "from_database": "there is no database of kernels",
    "adapter": "call the kernel; `cubin` and `resources` hold what was compiled",
    "artifact": "`cubin`, `resources` and get_kernel_source() hold what was compiled",
}


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel in all its forms but the compiled one: device IR, decisions and CUDA text, with how to compile it."""

    prim_func: tile.Kernel
    target: Target
    device: DeviceKernel
    decisions: tuple[Decision, ...]
    text: str
    options: tuple[str, ...]


class JITKernel:
    """A kernel that can be called.  Arrays on a CUDA device run there; arrays on the CPU run on the CPU.

    The CUDA text exists from the start; the cubin is made when it is first needed.
    """

    def __init__(self, program: Program, signature: Signature, pass_configs: Mapping[str, object]) -> None:
        self._program, self._signature = program, signature
        self.pass_configs = dict(pass_configs)
        self._lock = threading.Lock()
        self._compiled: Cubin | None = None
        self._caller = Caller(program.prim_func, signature, self._load)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Runs the kernel on the arguments in the order of the parameters, without those that `out_idx` makes results.

        Returns the result, a list of several, or None without `out_idx`.  Raises ArgumentError (codes TL501 to TL546, see
        `runtime/args.py`), and PlatformError for a GPU that cannot run it.  On a GPU the call returns before the kernel is done.
        """
        if keywords:
            name = next(iter(keywords))
            raise self._signature.error(f"got keyword argument {name!r}", "TL545", "pass the arguments by position")
        return self._caller(arguments)

    def __repr__(self) -> str:
        return f"<JITKernel {self._signature} for {self.target.arch}>"

    def __getattr__(self, name: str) -> NoReturn:
        if name in _ABSENT:
            raise Unsupported(f"JITKernel.{name} does not exist here", code="TL362", hint=_ABSENT[name])
        public = ", ".join(member for member in dir(type(self)) if not member.startswith("_"))
        raise AttributeError(f"JITKernel has no attribute {name!r}; it has {public}")

    @property
    def prim_func(self) -> tile.Kernel:
        """The tile program."""
        return self._program.prim_func

    @property
    def target(self) -> Target:
        return self._program.target

    @property
    def params(self) -> tuple[Param, ...]:
        """All parameters in order: name, dtype and, for tensors, shape in elements."""
        return self._signature.params

    @property
    def out_idx(self) -> list[int]:
        """Positions of the parameters that are results, in the order they are returned; none is negative."""
        return list(self._signature.outputs)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """What the compiler chose, and why."""
        return self._program.decisions

    @property
    def kernel_source(self) -> str:
        """The CUDA text of the kernel."""
        return self._program.text

    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """The CUDA text of the kernel; with `kernel_only=False` it has our headers inlined, so that plain nvcc accepts it."""
        return self._program.text if kernel_only else _standalone(self._program.text)

    def show_source(self, which: str = "kernel") -> None:
        """Prints the CUDA text, in colours on a terminal.  Raises Unsupported (TL362) for "host" and "both"."""
        if which != "kernel":
            raise Unsupported(f"show_source({which!r}): there is no host code", code="TL362", hint='write show_source("kernel")')
        _show(self._program.text)

    print_source_code = show_source

    def export_sources(self, kernel_path: str | Path | None = None, host_path: str | Path | None = None) -> None:
        """Writes a standalone .cu file.  Raises ArgumentError (TL533) without a path, Unsupported (TL362) for `host_path`, and
        PlatformError (TL651) where the file cannot be written."""
        if host_path is not None:
            raise Unsupported("export_sources(host_path=...): there is no host code", code="TL362", hint="pass kernel_path alone")
        if kernel_path is None:
            raise ArgumentError("export_sources: expected a path, got None", code="TL533", hint='export_sources("kernel.cu")')
        try:
            Path(kernel_path).write_text(_standalone(self._program.text))
        except OSError as error:
            raise PlatformError(f"{kernel_path} cannot be written: {error.strerror}", code="TL651") from error

    @property
    def cubin(self) -> bytes:
        """The compiled image.  Raises InternalError where the text does not compile, Unavailable without NVRTC."""
        return self._cubin().image

    @property
    def resources(self) -> Resources:
        """Registers, spills and shared memory, as the compiler reported them."""
        return replace(self._cubin().resources[self._function()], dynamic_shared_bytes=self._program.device.shared_bytes)

    @property
    def n_regs(self) -> int:
        """Registers per thread."""
        return self.resources.registers

    @property
    def n_spills(self) -> int:
        """Bytes that one thread stores because registers ran out."""
        return self.resources.spill_store_bytes

    def explain(self) -> str:
        """What the compiler decided, one paragraph each: where, what, why, and what was rejected for which reason."""
        return "\n".join(_paragraph(decision) for decision in self.decisions)

    def _cubin(self) -> Cubin:
        with self._lock:
            if self._compiled is None:
                from tilelang.codegen.headers import header_texts

                program = self._program
                self._compiled = cache.compile_cached(
                    program.text, header_texts(), program.target.arch, program.options, program.device.name, _standalone
                )
            return self._compiled

    def _function(self) -> str:
        """The name of the CUDA function: the only kernel of the program."""
        names = list(self._cubin().resources)
        if len(names) != 1:
            raise InternalError(f"{self._program.device.name}: expected one kernel in the program, got {names}", code="TL956")
        return names[0]

    def _load(self, device: int) -> Launcher:
        """The kernel on a GPU by ordinal.  Raises ArchMismatch (TL641) for one of another architecture."""
        kernel = self._program.device
        check_architecture(kernel.name, self.target, device)
        positions = {id(param): i for i, param in enumerate(self.prim_func.params)}
        return Launcher(
            self.cubin, self._function(), kernel, device,
            tensors=[positions[id(record.tensor)] for record in kernel.tensor_maps],
            scalars=[positions[id(var)] for var in kernel.scalars],
        )  # fmt: skip


def _standalone(text: str) -> str:
    from tilelang.codegen.headers import standalone

    return standalone(text)


def _show(text: str) -> None:
    """Prints CUDA text: highlighted on a terminal where rich is installed, else as it is."""
    if sys.stdout.isatty():
        try:
            from rich.console import Console
            from rich.syntax import Syntax
        except ImportError:
            pass
        else:
            Console().print(Syntax(text, "cuda", background_color="default"))
            return
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def _paragraph(decision: Decision) -> str:
    place = f"{decision.span}: " if decision.span is not None else ""
    lines = [f"{place}{decision.subject}: {decision.chosen}" + (f" ({decision.reason})" if decision.reason else "")]
    for rejection in decision.rejected:
        edit = f"; {rejection.edit}" if rejection.edit else ""
        lines.append(f"    not {rejection.alternative}: {rejection.predicate}, here {rejection.value}{edit}")
    return "\n".join(lines)
