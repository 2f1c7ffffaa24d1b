"""Fixtures for the whole suite."""
from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Programs written for TileLang 0.1.15 by others, run unmodified where a checkout has them beside it.
OTHERS_PROGRAMS = Path(os.environ.get("TILELANG_TEST_PROGRAMS", ROOT.parent / "shared" / "seeds"))


def gpu_missing() -> str:
    """Why the tests marked `gpu` cannot run here; empty where they can."""
    from tilelang.runtime.device import probe

    found = probe()
    if found.gpus and found.gpus[0].capability != (9, 0):
        return f"{found.gpus[0].name} has compute capability {found.gpus[0].capability}; the kernels are for (9, 0)"
    return found.reason


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what is marked `gpu` where there is no such GPU."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and (reason := gpu_missing()):
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many generated programs ran, and how many were refused with which code (the properties that their tests record)."""
    counts: dict[str, Counter[str]] = {}
    for report in terminalreporter.stats.get("passed", []):
        for family, end in getattr(report, "user_properties", []):
            if not isinstance(end, str):
                continue
            counts.setdefault(family, Counter())[end] += 1
    for family, ends in counts.items():
        refused = ", ".join(f"{count} {code}" for code, count in sorted(ends.items()) if code != "ran")
        terminalreporter.write_line(f"{family}: {ends['ran']} of {ends.total()} ran; refused: {refused or 'none'}")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test finds what an earlier run compiled, and none leaves anything in the user's cache."""
    os.environ["TILELANG_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))


MEASURE = "import time; t = time.process_time()\n{}\nprint(time.process_time() - t)"
YARDSTICKS = {
    "total = 0\nfor i in range(1_000_000): total += i * i": 0.07,
    "import asyncio, unittest, email.message, http.client, xml.dom.minidom, logging.config": 0.06,
}
"""Python that a fresh interpreter runs, and its processor time in seconds where the limits of timing tests were set: one core of
an idle Intel Xeon."""


def slowness() -> float:
    """How many times as long this machine takes here and now; at least 1.  Limits of timing tests are for the machine of the
    yardsticks, and for slower ones in proportion: computing is slow on some, starting a process on others."""
    times = {
        code: min(
            float(subprocess.run([sys.executable, "-c", MEASURE.format(code)], capture_output=True, text=True, check=True).stdout)
            for _ in range(3)
        )
        for code in YARDSTICKS
    }
    return max(1.0, *(seconds / YARDSTICKS[code] for code, seconds in times.items()))


RunPython = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_python(tmp_path: Path) -> RunPython:
    """Runs a fresh interpreter in an empty folder on this checkout: run_python("-c", "...", PYTHONHASHSEED="1").  Fails the test,
    showing what it printed, unless it exits with `status` (0)."""

    def run(*words: str, status: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment}
        done = subprocess.run([sys.executable, *words], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == status, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run


@pytest.fixture
def load_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], dict[str, Any]]:
    """Runs a Python file in an empty folder and returns its names; skips the test where the file is not there."""

    def load(path: Path) -> dict[str, Any]:
        if not path.exists():
            pytest.skip(f"no {path}")
        monkeypatch.chdir(tmp_path)
        return runpy.run_path(str(path), run_name="program")

    return load
