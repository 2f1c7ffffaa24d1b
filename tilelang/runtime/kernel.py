"""The kernel object: what `compile` returns and a program calls."""
from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tilelang.errors import ArgumentError, InternalError, PlatformError, Unsupported
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.runtime import cache
from tilelang.runtime.args import POINTER_ALIGNMENT_BYTES, Alignments, Param, Signature
from tilelang.runtime.arrays import CPU, ArrayView, as_numpy
from tilelang.runtime.call import Caller
from tilelang.runtime.launch import Launcher, check_architecture
from tilelang.runtime.log import logger
from tilelang.runtime.nvrtc import Cubin, Resources
from tilelang.runtime.program import Program, make_program
from tilelang.target import Target
from tilelang.trace import ONLY_CHOICE, Decision

if TYPE_CHECKING:
    from tilelang.sim.check import CheckReport

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


class Image:
    """The compiled form of a program, made when it is first needed."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._lock = threading.Lock()
        self._compiled: Cubin | None = None

    @property
    def is_compiled(self) -> bool:
        """Whether the machine code is there already."""
        return self._compiled is not None

    def cubin(self) -> Cubin:
        """The compiled program.  Raises InternalError where the text does not compile, Unavailable without NVRTC."""
        with self._lock:
            if self._compiled is None:
                from tilelang.codegen.headers import header_texts

                program = self.program
                self._compiled = cache.compile_cached(
                    program.text, header_texts(), program.target.arch, program.options, program.device.name, _standalone
                )
            return self._compiled

    def function(self) -> str:
        """The name of the CUDA function: the only kernel of the program."""
        names = list(self.cubin().resources)
        if len(names) != 1:
            raise InternalError(f"{self.program.device.name}: expected one kernel in the program, got {names}", code="TL956")
        return names[0]

    def load(self, device: int) -> Launcher:
        """The kernel on a GPU by ordinal.  Raises ArchMismatch (TL641) for one of another architecture."""
        kernel, params = self.program.device, self.program.prim_func.params
        check_architecture(kernel.name, self.program.target, device)
        positions = {id(param): i for i, param in enumerate(params)}
        return Launcher(
            self.cubin().image, self.function(), kernel, device,
            tensors=[positions[id(record.tensor)] for record in kernel.tensor_maps],
            scalars=[positions[id(var)] for var in kernel.scalars],
            pointers=[positions[id(tensor)] for tensor in kernel.pointers],
        )  # fmt: skip


class JITKernel:
    """A kernel that can be called.  Arrays on a CUDA device run there; arrays on the CPU run on the CPU.

    The CUDA text exists from the start; the cubin is made when it is first needed.
    """

    def __init__(self, program: Program, signature: Signature, pass_configs: Mapping[str, object]) -> None:
        self._program, self._signature = program, signature
        self.pass_configs = dict(pass_configs)
        self._image = Image(program)
        self._lock = threading.Lock()
        self._variants: dict[Alignments, Image] = {}
        self._caller = Caller(program.prim_func, program.device, signature, self._load)

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
        return self._image.cubin().image

    @property
    def resources(self) -> Resources:
        """Registers, spills and shared memory, as the compiler reported them."""
        used = self._image.cubin().resources[self._image.function()]
        return replace(used, dynamic_shared_bytes=self._program.device.shared_bytes)

    @property
    def n_regs(self) -> int:
        """Registers per thread."""
        return self.resources.registers

    @property
    def n_spills(self) -> int:
        """Bytes that one thread stores because registers ran out."""
        return self.resources.spill_store_bytes

    def explain(self) -> str:
        """What the compiler decided, one paragraph each: where, what, why, and what was rejected for which reason.  What it had
        no choice in is left out; `decisions` has that, too.  Once the machine code is there, a last line says if registers
        spill."""
        chosen = [_paragraph(decision) for decision in self.decisions if decision.reason != ONLY_CHOICE]
        spills = self.n_spills if self._image.is_compiled else 0
        spilled = [f"registers: {spills} bytes of each thread do not fit and lie in memory; smaller tiles need fewer"]
        return "\n".join((*chosen, *(spilled if spills else ())))

    def check(
        self, *arguments: Any, grid: str | Sequence[int] | None = None, schedules: int | None = None, seed: int = 0
    ) -> CheckReport:
        """Runs blocks of the compiled kernel on the simulated machine, on copies of the arguments (as for a call, on the CPU) or
        on made-up arrays without any, and reports what that shows.

        `grid`: None for a few blocks, "full", or extents to shrink the grid to; `schedules`: how many by seed, from `seed` on.
        Raises HazardError for a race, a deadlock, an access out of bounds and whatever else `sim/machine.py` lists, and
        ArgumentError."""
        from tilelang.sim.check import check

        given: dict[Any, Any] = {}
        if arguments:
            bound = self._signature.bind(arguments)
            if bound.device != CPU:
                hint = "pass NumPy arrays or CPU tensors, or no arrays at all"
                raise self._signature.error("check runs on the CPU", "TL542", hint)
            pairs = zip(self.prim_func.params, bound.values, strict=True)
            given = {param: as_numpy(v) if isinstance(v, ArrayView) else v for param, v in pairs if v is not None}
        return check(self._program.device, given, grid=grid, schedules=schedules, seed=seed)

    def _load(self, device: int, alignments: Alignments) -> Launcher:
        """The kernel on a GPU by ordinal, for a call's alignments.  Raises ArchMismatch (TL641), and what `compile` raises."""
        if not alignments:
            return self._image.load(device)
        check_architecture(self._program.device.name, self.target, device)
        with self._lock:
            if alignments not in self._variants:
                self._variants[alignments] = self._variant(alignments)
        return self._variants[alignments].load(device)

    def _variant(self, alignments: Alignments) -> Image:
        """The kernel for tensors whose addresses are multiples of fewer than 16 bytes."""
        program, names = self._program, self._signature.params
        logger().info(
            "%s is called with %s: a variant for such addresses is compiled once; it may be slower than the kernel for addresses "
            "that are multiples of %d bytes", self.prim_func.name,
            ", ".join(f"{names[position].name} at a multiple of {aligned} bytes" for position, aligned in alignments),
            POINTER_ALIGNMENT_BYTES,
        )  # fmt: skip
        params = self.prim_func.params
        by_buffer = {param: aligned for i, aligned in alignments if isinstance(param := params[i], Buffer)}
        return Image(make_program(program.prim_func, program.target, self.pass_configs, program.options, by_buffer))


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
    place = f"{decision.span.short}: " if decision.span is not None else ""
    lines = [f"{place}{decision.subject}: {decision.chosen}" + (f" ({decision.reason})" if decision.reason else "")]
    for rejection in decision.rejected:
        edit = f"; {rejection.edit}" if rejection.edit else ""
        lines.append(f"    not {rejection.alternative}: {rejection.predicate}, here {rejection.value}{edit}")
    return "\n".join(lines)
