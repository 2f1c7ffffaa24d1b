"""60 programs of the GEMM family on a GPU: every bit as their meaning says.  Needs PyTorch for the tensors.

`benchmarks/gemm_family_h200.py` does the same, and sizes that no test can afford.
"""
from __future__ import annotations

from typing import Any

import pytest

from tests.fuzz import gemm_family
from tests.fuzz.gemm_parts import Options
from tests.fuzz.gemm_programs import build
from tests.fuzz.on_gpu import difference_on_gpu

pytestmark = pytest.mark.gpu

PROGRAMS = list(gemm_family.gpu_programs())


@pytest.mark.parametrize("options", PROGRAMS, ids=[f"{i}-{options.loop}" for i, options in enumerate(PROGRAMS)])
def test_exact(torch: Any, options: Options) -> None:
    kernel = build(options)
    assert not difference_on_gpu(torch, kernel, gemm_family.arrays(kernel, seed=options.shape[0])), options
