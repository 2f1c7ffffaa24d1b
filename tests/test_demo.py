"""The demo runs without a GPU, shows what it promises, and fails where a check fails."""
from __future__ import annotations

import re

from tests.conftest import ROOT, RunPython

DEMO = ROOT / "examples" / "demo.py"
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


def test_demo_shows_the_pipeline_and_passes(run_python: RunPython) -> None:
    shown = run_python(str(DEMO), "--size", "256", **NO_GPU).stdout
    for word in ("@T.prim_func", "tl::tma_load", "tl::wgmma_ss", "98304 bytes of dynamic shared memory", "registers per thread"):
        assert word in shown, word
    assert re.search(r"all 6 checks passed in \d+\.\d s", shown)
    assert "\x1b" not in shown, "no colours where the output is no terminal"


WRONG = """
import sys; sys.path.insert(0, sys.argv.pop())
import demo
demo.largest_error = lambda *arrays: {error}
sys.exit(demo.main())
"""


def test_demo_fails_where_a_check_fails(run_python: RunPython) -> None:
    for error in ("1.01", "float('nan')"):
        shown = run_python("-c", WRONG.format(error=error), "--size", "128", str(DEMO.parent), status=1, **NO_GPU).stdout
        assert "1 of 6 checks failed" in shown
        assert "FAIL" in shown
