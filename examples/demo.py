"""What `make demo` shows: a block-level GEMM in Python, the Hopper pipeline it becomes, and the proof that its numbers are right.

Needs no GPU.  Where there is an NVIDIA GPU of compute capability 9.0 the kernel is launched, checked and timed there too.
Ends with status 1 if any check fails.
"""
from __future__ import annotations

import argparse
import inspect
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from demo_gpu import download, median_seconds, torch_with_gpu, upload
from gemm import expected, gemm, inputs
from harness import largest_error
from rich.console import Console
from rich.panel import Panel
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table

import tilelang
from tilelang.passes.pipeline import compile_kernel
from tilelang.runtime.device import probe
from tilelang.sim import machine
from tilelang.target import Target

TARGET = {"kind": "cuda", "arch": "sm_90a"}
EXAMPLES = Path(__file__).resolve().parent
FLOAT16_INTEGERS = 2048  # every integer up to here is a float16
LATE = {"eager-async": "early", "lazy-async": "late"}

# wrapper in the CUDA text, its opcode in the machine code (a pattern), what it is for
INSTRUCTIONS = (
    ("tma_load", r"UTMALDG.*", "moves a whole tile, global to shared"),
    ("mbarrier_arrive_expect_tx", r"SYNCS\.ARRIVE\.TRANS64", "announces the bytes of a ring slot"),
    ("mbarrier_try_wait", r"SYNCS\.PHASECHK.*", "waits until a slot is full, or free"),
    ("mbarrier_arrive", r"SYNCS\.ARRIVE\.TRANS64\.A1T0", "hands a slot back"),
    ("warpgroup_reg_dealloc", r"USETMAXREG\.DEALLOC.*", "the producer gives up registers"),
    ("warpgroup_reg_alloc", r"USETMAXREG\.TRY_ALLOC.*", "the consumers take them"),
    ("wgmma_ss", r"HGMMA.*", "multiplies tiles in shared memory"),
    ("stmatrix_x4", r"STSM.*", "the result to shared memory ..."),
    ("tma_store", r"UTMASTG.*", "... and on to global, clipped"),
)
NEEDED = ("tma_load", "mbarrier_try_wait", "warpgroup_reg_dealloc", "warpgroup_reg_alloc", "wgmma_ss", "tma_store")


@dataclass
class Checks:
    """The checks made so far: (what, its result in words, passed)."""

    console: Console
    rows: list[tuple[str, str, bool]] = field(default_factory=list)

    def add(self, what: str, result: str, passed: bool) -> None:
        self.rows.append((what, result, bool(passed)))
        mark = "[green]ok  [/]" if passed else "[bold red]FAIL[/]"
        self.console.print(f"  {mark}  {what}: {result}")


def show_code(console: Console, text: str, language: str) -> None:
    """Code in colour on a terminal, as it is elsewhere."""
    if console.is_terminal:
        console.print(Syntax(text, language, theme="ansi_dark", background_color="default", word_wrap=True))
    else:
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def machine_code(cubin: bytes) -> str | None:
    """The disassembly of a cubin; None where nvdisasm (package nvidia-cuda-nvdisasm, or CUDA's toolkit) is not installed."""
    packaged = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "bin" / "nvdisasm"
    tool = str(packaged) if packaged.exists() else shutil.which("nvdisasm")
    if tool is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        done = subprocess.run([tool, "-c", str(path)], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def show_instructions(console: Console, text: str, assembly: str | None, checks: Checks) -> None:
    """The table of instructions; checks that the pipeline's own are all there."""
    calls = Counter(re.findall(r"tl::(\w+)", text))
    opcodes = Counter(re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*(?:\.\w+)*)", assembly or ""))
    table = Table("in the CUDA text", "calls", "in machine code", "times", "what it does", box=None, padding=(0, 1))
    for name, pattern, purpose in INSTRUCTIONS:
        found = {opcode: count for opcode, count in opcodes.items() if re.fullmatch(pattern, opcode)}
        table.add_row(f"tl::{name}", str(calls[name]), *machine_code_cells(found), purpose)
    console.print(table)
    if assembly is None:
        console.print("  (machine code is not shown: pip install nvidia-cuda-nvdisasm)")
    missing = [name for name in NEEDED if not calls[name]]
    answer = f"missing: {', '.join(missing)}" if missing else "yes"
    checks.add("TMA, mbarriers, register reallocation and wgmma are used", answer, not missing)


def machine_code_cells(found: dict[str, int]) -> tuple[str, str]:
    """The opcode, and how many there are in the machine code."""
    return (max(found, key=lambda opcode: found[opcode]), str(sum(found.values()))) if found else ("-", "-")


def compile_and_show(console: Console, size: int, checks: Checks) -> Any:
    """Compiles the GEMM, shows its text, instructions and resources; returns the kernel."""
    console.print(Rule("What you write: examples/gemm.py", align="left"))
    show_code(console, inspect.getsource(gemm), "python")
    tilelang.disable_cache()
    start = time.perf_counter()
    kernel = tilelang.compile(gemm(size, size, size), out_idx=[2], target=TARGET)
    text = kernel.get_kernel_source()
    to_text = time.perf_counter() - start
    console.print(Rule(f"What it becomes: {len(text.splitlines())} lines of CUDA for {kernel.target}", align="left"))
    show_code(console, text, "cuda" if console.is_terminal else "c++")
    start = time.perf_counter()
    cubin = kernel.cubin
    to_cubin = time.perf_counter() - start
    console.print(Rule("Which instructions it uses", align="left"))
    show_instructions(console, text, machine_code(cubin), checks)
    console.print(Rule("What was decided: kernel.explain()", align="left"))
    console.print(kernel.explain().replace(f"{EXAMPLES}/", ""), markup=False, soft_wrap=True)
    console.print(Rule("What it takes", align="left"))
    show_resources(console, kernel, (to_text, to_cubin, len(cubin)), checks)
    return kernel


def show_resources(console: Console, kernel: Any, compiled: tuple[float, float, int], checks: Checks) -> None:
    """Registers, shared memory and times, as reported by the compiler that made the machine code."""
    used = kernel.resources
    to_text, to_cubin, size = compiled
    console.print(f"  {used.dynamic_shared_bytes} bytes of dynamic shared memory, {used.registers} registers per thread")
    console.print(f"  Python to CUDA text in {to_text:.2f} s, CUDA text to {size} bytes of machine code in {to_cubin:.2f} s")
    spills = used.spill_store_bytes + used.spill_load_bytes
    checks.add("registers spilled to memory", f"{spills} bytes", spills == 0)


def check_simulated(console: Console, size: int, checks: Checks) -> None:
    """The device code itself, warps, barriers and swizzled shared memory, on a simulated block after the other."""
    function = gemm(size, size, size)
    device = compile_kernel(function, Target.parse(TARGET)).device
    a, b, exact = integers(size)
    start = time.perf_counter()
    for schedule in ("eager-async", "lazy-async"):
        out = np.full((size, size), np.nan, np.float16)
        machine.run(device, dict(zip(function.params, (a, b, out), strict=True)), schedule=schedule)
        wrong = int((out != exact).sum())
        checks.add(f"simulated, asynchronous work as {LATE[schedule]} as possible, every bit", differ(wrong, exact), wrong == 0)
    console.print(f"        (one run takes {(time.perf_counter() - start) / 2:.1f} s)")


def integers(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two matrices of small integers and their product, all of it exact in float16, so that a single lost term shows."""
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-2, 3, (size, size)).astype(np.float16) for _ in range(2))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(exact).max() <= FLOAT16_INTEGERS
    return a, b, exact


def differ(wrong: int, exact: np.ndarray) -> str:
    return f"{wrong} of {exact.size} elements differ"


def check_numbers(where: str, run: Callable[[np.ndarray, np.ndarray], np.ndarray], size: int, checks: Checks) -> None:
    """Normal inputs against float64, and small integers, where not a single bit may differ."""
    a, b = inputs(size, size, size)
    start = time.perf_counter()
    error = largest_error(run(a, b), expected(a, b))
    seconds = time.perf_counter() - start
    cube = f"{size} x {size} x {size}"
    result = f"largest error {error:.2f} of what rounding explains"
    checks.add(f"{where}: {cube}, normal inputs, against float64", result, error <= 1)
    a, b, exact = integers(size)
    wrong = int((run(a, b) != exact).sum())
    checks.add(f"{where}: {cube}, integer inputs, every bit", differ(wrong, exact), wrong == 0)
    if where == "CPU":
        checks.console.print(f"        (one run on the CPU takes {seconds:.1f} s)")


def multiply_on_gpu(size: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A function that multiplies two size x size matrices on the GPU, into an output that held NaN everywhere."""
    kernel = tilelang.compile(gemm(size, size, size), target=TARGET)

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        out = upload(np.full((size, size), np.nan, np.float16))
        kernel(upload(a), upload(b), out)
        return download(out)

    return run


def time_on_gpu(size: int) -> str:
    """The median time and speed of the kernel, and with PyTorch of cuBLAS, in words."""
    kernel = tilelang.compile(gemm(size, size, size), target=TARGET)
    a, b, out = (upload(array) for array in (*inputs(size, size, size), np.zeros((size, size), np.float16)))

    def words(seconds: float) -> str:
        return f"{seconds * 1e6:.0f} us, {2 * size**3 / seconds / 1e12:.0f} TFLOP/s"

    line = f"{size} x {size} x {size}: {words(median_seconds(lambda: kernel(a, b, out)))}"
    torch = torch_with_gpu()
    return line + (f" (cuBLAS: {words(median_seconds(lambda: torch.matmul(a, b, out=out)))})" if torch else "")


def show_gpu(console: Console, checks: Checks) -> None:
    """Runs, checks and times the kernel on the GPU, or says why not."""
    console.print(Rule("On the GPU", align="left"))
    found = probe()
    if not found.gpus or found.gpus[0].capability != (9, 0):
        reason = found.reason or f"{found.gpus[0].name} is not of compute capability 9.0"
        console.print(f"  not run: {reason}", highlight=False)
        return
    console.print(f"  {found.gpus[0].name}")
    check_numbers("GPU", multiply_on_gpu(1024), 1024, checks)
    for size in (1024, 4096, 8192):
        console.print("  " + time_on_gpu(size))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=512, help="M = N = K of the run on the CPU (512)")
    words = parser.parse_args()
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 132)
    checks = Checks(console)
    start = time.perf_counter()
    console.print(Panel("A matrix product, block by block: from Python to a Hopper pipeline, checked", expand=False))
    kernel = compile_and_show(console, words.size, checks)
    console.print(Rule("On the CPU: the same kernel object, called with NumPy arrays", align="left"))
    check_numbers("CPU", kernel, words.size, checks)
    console.print(Rule("On a simulated Hopper block: the device code above, instruction by instruction", align="left"))
    check_simulated(console, words.size, checks)
    show_gpu(console, checks)
    failed = sum(not passed for _, _, passed in checks.rows)
    total = len(checks.rows)
    verdict = f"[bold red]{failed} of {total} checks failed[/]" if failed else f"[green]all {total} checks passed[/]"
    console.print(Rule())
    console.print(f"{verdict} in {time.perf_counter() - start:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
