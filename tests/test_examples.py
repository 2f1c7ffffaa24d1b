"""Every example runs on the CPU; a program written by others for TileLang 0.1.15 runs unmodified."""
from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import OTHERS_PROGRAMS, ROOT, RunPython

EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if not path.name.startswith("demo"))
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_checks_itself_on_the_cpu(path: Path, run_python: RunPython) -> None:
    assert "CPU: " in run_python(str(path), **NO_GPU).stdout


def test_gemm_example_takes_shapes_that_do_not_divide(run_python: RunPython) -> None:
    assert "CPU: 136 x 200 x 72" in run_python(str(ROOT / "examples" / "gemm.py"), "136", "200", "72", **NO_GPU).stdout


def test_gemm_example_notices_a_wrong_result(run_python: RunPython) -> None:
    """The check must be able to fail: one of 65 536 elements lacks one of its products, or is NaN."""
    program = """
import sys; sys.path.insert(0, sys.argv[1])
import gemm, numpy as np
a, b = gemm.inputs(256, 256, 256)
c = (a.astype(float) @ b.astype(float)).astype(np.float16)
assert gemm.largest_error(c, a, b) <= 1
c[200, 100] -= max(a[200] * b[:, 100], key=abs)
assert gemm.largest_error(c, a, b) > 1
c[200, 100] = np.nan
assert not gemm.largest_error(c, a, b) <= 1
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
