"""The same program gives the same bytes of CUDA in every process."""
from __future__ import annotations

import hashlib

import pytest

from tests.conftest import ROOT, RunPython

PROGRAM = """
import sys
sys.path.insert(0, "{examples}")
import tilelang
from gemm import gemm
for words in ((1024, 1024, 1024), (1000, 1000, 72, 128, 64, 32, 2)):
    kernel = tilelang.compile(gemm(*words), out_idx=[2], target={{"kind": "cuda", "arch": "sm_90a"}})
    kernel.export_sources(f"{{len(words)}}.cu")
    sys.stdout.write(kernel.get_kernel_source() + open(f"{{len(words)}}.cu").read())
""".format(examples=ROOT / "examples")


@pytest.fixture
def digest(run_python: RunPython):  # noqa: ANN201
    def of(seed: str) -> str:
        text = run_python("-c", PROGRAM, PYTHONHASHSEED=seed).stdout
        assert text.count("wgmma") > 2
        return hashlib.sha256(text.encode()).hexdigest()

    return of


def test_cuda_text_does_not_depend_on_the_process(digest) -> None:  # noqa: ANN001
    assert len({digest(seed) for seed in ("0", "1", "4711")}) == 1
