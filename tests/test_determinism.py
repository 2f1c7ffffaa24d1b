"""The same program gives the same bytes of CUDA in every process."""
from __future__ import annotations

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


def test_cuda_text_does_not_depend_on_the_process(run_python: RunPython) -> None:
    texts = {run_python("-c", PROGRAM, PYTHONHASHSEED=seed).stdout for seed in ("0", "1", "4711")}
    assert len(texts) == 1
    assert texts.pop().count("wgmma") > 2
