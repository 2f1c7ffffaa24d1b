"""Facts about the machine and the toolchain, recorded beside every measurement."""
from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "cuda-bindings", "nvidia-cuda-nvrtc", "torch")
ROOT = Path(__file__).resolve().parent.parent
ARCHIVED = Path(__file__).resolve().parent / "archived.txt"


def _cpu_name() -> str:
    """The processor's name as Linux gives it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _output(*command: str) -> str | None:
    """What a command prints, None where it is missing or fails."""
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=30).stdout.strip() or None
    except (OSError, subprocess.SubprocessError):
        return None


def _nvrtc_version() -> str | None:
    """Major.minor of the NVRTC library that is loaded, which may be the system's rather than the wheel's."""
    try:
        from cuda.bindings import nvrtc
    except ImportError:
        return None
    _, major, minor = nvrtc.nvrtcVersion()
    return f"{major}.{minor}"


def _state() -> dict[str, Any]:
    """The commit, and whether the package differs from it; of an archive made by `git archive`, what that wrote into ARCHIVED."""
    commit = _output("git", "rev-parse", "--short", "HEAD") if (ROOT / ".git").exists() else None
    if commit is None:
        archived = ARCHIVED.read_text().strip() if ARCHIVED.exists() else "$"
        return {"commit": None if "$" in archived else archived, "uncommitted_changes": None}
    changes = _output("git", "status", "--porcelain", "--untracked-files=no", "--", "tilelang")
    return {"commit": commit, "uncommitted_changes": changes is not None}


def facts() -> dict[str, Any]:
    """Date, commit, processor, Python, packages, NVRTC, and the GPU with its driver if there is one."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **_state(),
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "nvrtc": _nvrtc_version(),
        "gpu": _output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"),
    }


def write_result(name: str, result: dict[str, Any], folder: Path | None = None) -> Path:
    """Writes `result` with the machine's facts as NAME.json into `folder`, by default benchmarks/results; returns the path."""
    folder = folder or ROOT / "benchmarks" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(_lines({"machine": facts(), **result}))
    return path


def _lines(result: dict[str, Any]) -> str:
    """JSON with one line for each entry, and for each item of a list of records."""
    entries = []
    for key, value in result.items():
        text = json.dumps(value)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n  " + ",\n  ".join(json.dumps(item) for item in value) + "\n ]"
        entries.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(entries) + "\n}\n"
