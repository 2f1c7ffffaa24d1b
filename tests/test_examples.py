"""Every example checks itself on the CPU and computes the same where the simulated machine runs what it is compiled to; a program
written by others for TileLang 0.1.15 runs unmodified."""
from __future__ import annotations

import importlib
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilelang
from tests.conftest import OTHERS_PROGRAMS, ROOT, RunPython
from tilelang.ir.tile import Kernel
from tilelang.passes.pipeline import compile_kernel
from tilelang.sim import machine, reference
from tilelang.target import SM_90A

EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if not path.name.startswith(("demo", "harness")))
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_checks_itself_on_the_cpu(path: Path, run_python: RunPython) -> None:
    assert "CPU: " in run_python(str(path), **NO_GPU).stdout


# ---- what examples are compiled to -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A small program of an example.  `bits`: whether machine and reference must agree in every bit where inputs are integers."""

    example: str
    build: Callable[[Any], Kernel]
    inputs: Callable[[Any], tuple[np.ndarray, ...]]
    bits: bool = True
    more: tuple[Any, ...] = ()  # further arguments of `expected`

    def __str__(self) -> str:
        return self.example


CASES = [
    Case("gemm", lambda m: m.gemm(136, 72, 40), lambda m: m.inputs(136, 72, 40)),
    Case("gemm_bias_gelu", lambda m: m.gemm_bias_gelu(136, 72, 40), lambda m: m.inputs(136, 72, 40)),
    Case("gemm_scale_residual", lambda m: m.gemm_scale_residual(136, 72, 40), lambda m: m.inputs(136, 72, 40)),
    Case("gemm_explicit", lambda m: m.gemm_explicit(136, 72, 200), lambda m: m.inputs(136, 72, 200), False),
    Case("attention", lambda m: m.attention(1, 2, 2, 136, 64), lambda m: m.inputs(1, 2, 2, 136, 64), False, (False,)),
    Case("attention", lambda m: m.attention(1, 4, 2, 136, 64, True), lambda m: m.inputs(1, 4, 2, 136, 64), False, (True,)),
    Case("attention", lambda m: m.attention(1, 2, 1, 128, 128, True), lambda m: m.inputs(1, 2, 1, 128, 128), False, (True,)),
    Case("online_softmax", lambda m: m.softmax(5, 1500), lambda m: (m.random(5, 1500),), False),
    Case("rms_norm", lambda m: m.rms_norm(3, 4096), lambda m: m.inputs(3, 4096)),
    Case("rms_norm", lambda m: m.rms_norm(5, 256, block_M=4), lambda m: m.inputs(5, 256)),
    Case("layer_norm", lambda m: m.layer_norm(3, 4096), lambda m: m.inputs(3, 4096)),
    Case("transpose", lambda m: m.transpose(104, 136), lambda m: (m.random(104, 136),)),
    Case("transpose", lambda m: m.transpose(101, 75), lambda m: (m.random(101, 75),)),
    Case("row_gather", lambda m: m.row_gather(40, 13, 512), lambda m: m.inputs(40, 13, 512)),
    Case("broadcast", lambda m: m.scale_and_shift(40, 301), lambda m: m.inputs(40, 301)),
]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports an example by its name."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    return importlib.import_module


def run_both(kernel: Kernel, inputs: tuple[np.ndarray, ...]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The results by what the program means, and by what it is compiled to."""
    outputs = kernel.tensors[len(inputs) :]
    meant, device = ([np.full(out.shape, np.nan, out.dtype.numpy) for out in outputs] for _ in range(2))  # type: ignore[arg-type]
    machine.run(compile_kernel(kernel, SM_90A).device, dict(zip(kernel.params, [*inputs, *device], strict=True)))
    if kernel.is_explicit:  # which means what its threads do together
        return device, device
    reference.run(kernel, [*inputs, *meant])
    return meant, device


@pytest.mark.parametrize("case", CASES, ids=str)
def test_example_on_the_machine(case: Case, example: Callable[[str], Any]) -> None:
    """Against float64, within what the example itself allows."""
    module = example(case.example)
    inputs = case.inputs(module)
    bounds = module.expected(*inputs, *case.more)
    for results in run_both(case.build(module), inputs):
        for result, (exact, allowed) in zip(results, [bounds] if len(results) == 1 else bounds, strict=True):
            assert (np.abs(result - exact) / allowed).max() <= 1


@pytest.mark.parametrize("case", [case for case in CASES if case.bits], ids=str)
def test_example_on_the_machine_bit_for_bit(case: Case, example: Callable[[str], Any]) -> None:
    """Small integers, and powers of two for float32: no sum is rounded, so its order does not matter."""
    module, rng = example(case.example), np.random.default_rng(0)
    inputs = []
    for array in case.inputs(module):
        small = rng.integers(-2, 3, array.shape)
        inputs.append({"float16": small, "float32": 2.0**small}.get(str(array.dtype), array).astype(array.dtype))
    ((meant,), (device,)) = run_both(case.build(module), tuple(inputs))
    assert np.array_equal(meant.view(np.uint16), device.view(np.uint16))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_example_spills(case: Case, example: Callable[[str], Any]) -> None:
    """Its CUDA is compiled; a remark that is not on the list of allowed ones is an InternalError."""
    used = tilelang.compile(case.build(example(case.example)), target="sm_90a").resources
    assert (used.spill_store_bytes, used.spill_load_bytes) == (0, 0), used


def test_every_example_is_among_the_cases() -> None:
    assert {path.stem for path in EXAMPLES} == {case.example for case in CASES}


# ---- examples/gemm.py ---------------------------------------------------------------------------------------------------


def test_gemm_example_takes_shapes_that_do_not_divide(run_python: RunPython) -> None:
    assert "CPU: 136 x 200 x 72" in run_python(str(ROOT / "examples" / "gemm.py"), "136", "200", "72", **NO_GPU).stdout


def test_gemm_example_notices_a_wrong_result(run_python: RunPython) -> None:
    """The check must be able to fail: one of 65 536 elements lacks one of its products, or is NaN."""
    program = """
import sys; sys.path.insert(0, sys.argv[1])
import gemm, harness, numpy as np
a, b = gemm.inputs(256, 256, 256)
c = (a.astype(float) @ b.astype(float)).astype(np.float16)
error = lambda: harness.largest_error(c, gemm.expected(a, b))
assert error() <= 1
c[200, 100] -= max(a[200] * b[:, 100], key=abs)
assert error() > 1
c[200, 100] = np.nan
assert not error() <= 1
"""
    run_python("-c", program, str(ROOT / "examples"))


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on the path")
def test_exported_source_needs_nothing_but_nvcc(run_python: RunPython, tmp_path: Path) -> None:
    program = """
import sys; sys.path.insert(0, sys.argv[1])
import gemm, tilelang
tilelang.compile(gemm.gemm(1000, 1000, 1000)).export_sources("gemm.cu")
"""
    run_python("-c", program, str(ROOT / "examples"), **NO_GPU)
    command = ["nvcc", "-gencode=arch=compute_90a,code=sm_90a", "-cubin", "-o", "gemm.cubin", "gemm.cu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert (tmp_path / "gemm.cubin").stat().st_size > 1000


@pytest.fixture
def unmodified_matmul(run_python: RunPython, tmp_path: Path) -> str:
    """The CUDA text that the program writes in an otherwise empty folder, with no GPU."""
    program = OTHERS_PROGRAMS / "tl_matmul.py"
    if not program.exists():
        pytest.skip(f"no {program}")
    shutil.copy(program, tmp_path)
    run_python(program.name, **NO_GPU)
    assert {path.name for path in tmp_path.iterdir()} == {program.name, "gen.cu"}
    return (tmp_path / "gen.cu").read_text()


def test_unmodified_program_becomes_a_hopper_pipeline(unmodified_matmul: str) -> None:
    text = unmodified_matmul
    for word in ("CUtensorMap", "tl::tma_load", "wgmma", "warpgroup_reg_dealloc", "warpgroup_reg_alloc", "A_shared", "C_local"):
        assert word in text, word
    assert barriers_declared(text) == 6
    assert re.search(r"\b98304\b", text), "98304 bytes of dynamic shared memory"


def barriers_declared(text: str) -> int:
    """How many mbarriers the kernel's text declares, as the sum over its shared uint64 arrays."""
    return sum(int(count) for count in re.findall(r"__shared__.*uint64_t\s+\w+\[(\d+)\]", text))


def test_the_transpose_has_no_bank_conflicts() -> None:
    """Counted by the machine, over whole blocks."""
    from examples.transpose import transpose

    report = tilelang.compile(transpose(128, 192), target="sm_90a").check()
    assert report.banks.extra == 0
    assert report.proved
