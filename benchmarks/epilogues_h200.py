"""What an epilogue costs: the plain GEMM, GEMM + bias + GELU and GEMM + scale + residual at 4096 x 4096 x 4096, side by side; and
every example once on the GPU.  Needs PyTorch and a GPU of compute capability 9.0.

    python benchmarks/epilogues_h200.py [--examples FOLDER] [--rounds 60] [--quick] [--output FOLDER]

Both ways of timing of benchmarks/timing.py, with cuBLAS beside them; the figure to read is the ratio (plain GEMM's time / its
time).  Each example is run as a person would run it; it checks itself against float64 and prints its time.
"""
from __future__ import annotations

import argparse
import importlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
if __package__ in (None, ""):
    sys.path.insert(0, str(ROOT))

import tilelang  # noqa: E402
from benchmarks import machine, timing  # noqa: E402

TARGET = {"kind": "cuda", "arch": "sm_90a"}
SIZE = 4096
PLAIN = "gemm"
ALLOWED_SLOWDOWN = 1.03
EXAMPLE_SECONDS = 120


# ---- epilogues ---------------------------------------------------------------------------------------------------------------


def kernel_of(module: Any, name: str, size: int) -> Any:
    return tilelang.compile(getattr(module, name)(size, size, size), target=TARGET)


def launcher(kernel: Any, arrays: list[torch.Tensor]) -> Callable[[], object]:
    """A function that launches the kernel on the first of `arrays` its parameters ask for, into an output of its own."""
    out = torch.empty(tuple(kernel.params[-1].shape), device="cuda", dtype=torch.float16)
    return lambda: kernel(*arrays, out)


def functions(folder: Path, size: int) -> tuple[dict[str, Callable[[], object]], dict[str, dict[str, int]]]:
    """What is timed, by name, and the registers and spills of ours.  A and B are the same for all."""
    sys.path.insert(0, str(folder))
    torch.manual_seed(0)
    a, b, residual = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(3))
    bias = torch.randn(size, device="cuda", dtype=torch.float16)
    scale = torch.randn(size, device="cuda", dtype=torch.float32)
    more = {PLAIN: [], "gemm_bias_gelu": [bias], "gemm_scale_residual": [scale, residual]}
    theirs = torch.empty_like(a)
    found: dict[str, Callable[[], object]] = {"cuBLAS": lambda: torch.matmul(a, b, out=theirs)}
    used = {}
    for name, arrays in more.items():
        kernel = kernel_of(importlib.import_module(name), name, size)
        found[name] = launcher(kernel, [a, b, *arrays])
        used[name] = {"registers": kernel.resources.registers, "spilled_bytes": kernel.resources.spill_store_bytes}
    return found, used


def measure(folder: Path, size: int, rounds: int) -> list[dict[str, Any]]:
    """One record for each function and way of timing."""
    timed, used = functions(folder, size)
    flop = 2 * size**3
    launches = max(30, min(3000, int(0.3 / (flop / 600e12))))  # about 0.3 s
    ways = {
        "short": timing.compare(timed, timing.time_short, timing.flush_buffer(), rounds),
        "sustained": timing.compare(timed, timing.time_sustained, launches, max(4, rounds // 6)),
    }
    records = []
    for way, seconds in ways.items():
        for name, times in timing.summary(seconds, PLAIN, flop).items():
            enough = name not in used or times["ratio"] >= 1 / ALLOWED_SLOWDOWN
            records.append({"name": name, "way": way, **times, **used.get(name, {}), "ok": enough})
            show_speed(records[-1])
    return records


def show_speed(record: dict[str, Any]) -> None:
    low, high = record["ratio_quartiles"]
    print(
        f"{'ok  ' if record['ok'] else 'SLOW'} {record['way']:10} {record['name']:20} {record['median_us']:7.1f} us "
        f"{record['tflops']:6.1f} TFLOP/s   ratio to the plain GEMM {record['ratio']:.3f} ({low:.3f} to {high:.3f})", flush=True,
    )  # fmt: skip


# ---- examples ----------------------------------------------------------------------------------------------------------------


def run_example(path: Path) -> dict[str, Any]:
    """Runs one example; ok if it ends well and has checked itself on the GPU."""
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, str(path)], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False,
            timeout=EXAMPLE_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"example": path.stem, "said": [], "failed": f"did not end within {EXAMPLE_SECONDS} s", "ok": False}
    said = re.findall(r"^(?:GPU:| {5}).*", done.stdout, re.MULTILINE)
    record = {"example": path.stem, "said": said, "seconds": round(time.perf_counter() - start, 1)}
    if done.returncode:
        record["failed"] = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return record | {"ok": done.returncode == 0 and any(line.startswith("GPU:") for line in said)}


def run_examples(folder: Path, quick: bool) -> list[dict[str, Any]]:
    paths = sorted(path for path in folder.glob("*.py") if not path.name.startswith(("demo", "harness")))
    records = []
    for path in paths[:2] if quick else paths:
        records.append(run_example(path))
        show_example(records[-1])
    return records


def show_example(record: dict[str, Any]) -> None:
    print("ok  " if record["ok"] else "FAIL", record["example"], record.get("failed", ""))
    for line in record["said"]:
        print("    ", line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=Path, default=ROOT / "examples", help="folder of the examples")
    parser.add_argument("--size", type=int, default=SIZE, help="M = N = K")
    parser.add_argument("--rounds", type=int, default=60, help="rounds of the short timing; a sixth as many of the sustained one")
    parser.add_argument("--quick", action="store_true", help="few rounds, two examples: to see that everything runs")
    parser.add_argument("--output", type=Path, default=Path(os.environ["OUT"]) if os.environ.get("OUT") else None)
    parser.add_argument("--name", default="epilogues_h200", help="name of the JSON file")
    words = parser.parse_args()
    if torch.cuda.get_device_capability() != (9, 0):
        raise SystemExit(f"a GPU of compute capability 9.0 is needed, this one is {torch.cuda.get_device_capability()}")
    folder = words.examples.resolve()
    speed = measure(folder, words.size, 8 if words.quick else words.rounds)
    examples = run_examples(folder, words.quick)
    result = {"torch": torch.__version__, "size": words.size, "speed": speed, "examples": examples}
    print("written to", machine.write_result(words.name, result, words.output))
    if not all(record["ok"] for record in (*speed, *examples)):
        raise SystemExit("some examples failed, or an epilogue costs more than it should")


if __name__ == "__main__":
    main()
