"""A GEMM whose pipeline is written by hand, on a GPU: right as it stands; with one wait or arrival missing it hangs or is wrong,
which the machine knew."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilelang
from examples.gemm_explicit import gemm_explicit
from tests.conftest import ROOT
from tests.passes.explicit_programs import MISTAKES, PROGRAMS, changed, module_at
from tilelang.errors import HazardError

pytestmark = pytest.mark.gpu

SHAPES = [(1024, 1024, 1024), (4096, 4096, 4096), (1000, 1000, 1000), (128, 256, 64), (128, 256, 128), (200, 264, 456)]
LIMIT_SECONDS = 20
"""What a wrong kernel gets to end."""
START_SECONDS = 120
"""What its process gets to import, compile and copy."""


def integers(torch: Any, *shape: int) -> Any:
    return torch.randint(-2, 3, shape, device="cuda").half()


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_exact_on_integers(torch: Any, shape: tuple[int, int, int], stages: int) -> None:
    m, n, k = shape
    kernel = tilelang.compile(gemm_explicit(m, n, k, stages=stages), out_idx=[2])
    a, b = integers(torch, m, k), integers(torch, k, n)
    wanted = (a.double() @ b.double()).half()
    for _ in range(3):
        assert torch.equal(kernel(a, b), wanted)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(torch: Any, name: str) -> None:
    program = PROGRAMS[name]
    inputs = program.inputs(np.random.default_rng(0))
    built = program.build()
    outputs = list(range(len(inputs), len(built.params)))
    found = tilelang.compile(built, out_idx=outputs)(*(torch.from_numpy(array).cuda() for array in inputs))
    for array, wanted in zip(found if isinstance(found, list) else [found], program.expected(*inputs), strict=True):
        assert np.array_equal(array.cpu().numpy(), wanted)


# ---- wrong --------------------------------------------------------------------------------------------------------------------

RUN = """
import importlib.util, sys
sys.path[:0] = [sys.argv[2], sys.argv[2] + "/examples"]
spec = importlib.util.spec_from_file_location("gemm_wrong", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
import tilelang, torch
m, n, k = 1024, 1024, 2048
torch.manual_seed(0)
a, b = (torch.randint(-2, 3, shape, device="cuda").half() for shape in ((m, k), (k, n)))
wanted = (a.double() @ b.double()).half()
kernel = tilelang.compile(module.gemm_explicit(m, n, k), out_idx=[2])
torch.cuda.synchronize()
print("launched", flush=True)
for _ in range(5):
    found = kernel(a, b)
    torch.cuda.synchronize()
    if not torch.equal(found, wanted):
        print("wrong")
        break
else:
    print("right")
"""


def outcome(path: Path) -> str:
    """What a kernel in a file does: "right", "wrong", "hangs", or "fails: ..." where the driver objects."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(path), str(ROOT)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        first = process.stdout.readline().strip()
        assert first == "launched", process.communicate(timeout=START_SECONDS)[1]
        out, err = process.communicate(timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        return "hangs"
    finally:
        process.kill()
        process.communicate()
    objections = [line for line in err.splitlines() if "CUDA error" in line] or err.splitlines()
    return out.strip() or f"fails: {objections[0].strip()}"


def test_the_right_kernel_in_a_process_of_its_own(torch: Any, tmp_path: Path) -> None:
    """So that the others fail for their mistakes alone."""
    path = tmp_path / "gemm_right.py"
    path.write_text(changed("", ""))
    assert outcome(path) == "right"


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_kernel(torch: Any, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the GPU it hangs, is wrong or fails, which is shown; the machine names it."""
    path = tmp_path / "gemm_wrong.py"
    path.write_text(changed(*MISTAKES[name][:2]))
    seen = outcome(path)
    with capsys.disabled():
        sys.stdout.write(f"\n{name}: {seen}\n")
    module = module_at(path)
    with pytest.raises(HazardError):
        tilelang.compile(module.gemm_explicit(128, 256, 320), target="sm_90a").check()
    assert seen != "right"
