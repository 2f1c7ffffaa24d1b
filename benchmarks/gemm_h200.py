"""The GEMM on an NVIDIA GPU of compute capability 9.0: exactness, then speed beside cuBLAS.  Needs PyTorch.

    python benchmarks/gemm_h200.py [--program FILE] [--rounds 40] [--quick] [--output FOLDER]

`--program` names a Python file that defines `matmul(M, N, K)` returning a kernel; without it examples/gemm.py is measured.

Exactness: integer-valued inputs, where the result must equal the exact product rounded once; normal inputs, where every element
must lie within what rounding explains (benchmarks/numerics.py); 100 launches that must agree bit for bit.  Outputs start out as
NaN, so an element that nobody writes shows.

Speed: standard-normal inputs, both sides writing into an output allocated before.  A round times ours and cuBLAS one after the
other, in an order that alternates from round to round; the figure to trust is the median over rounds of (cuBLAS time / our time),
because the card's clock drifts with its power draw and both sides of one round share it.  Two ways of timing:

    short      one launch between CUDA events, the L2 cache overwritten before it
    sustained  many launches back to back, no overwriting; the card runs at its power limit
"""
from __future__ import annotations

import argparse
import contextlib
import os
import runpy
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
if __package__ in (None, ""):
    sys.path.insert(0, str(ROOT))

import tilelang  # noqa: E402
from benchmarks import machine, numerics  # noqa: E402
from benchmarks.timing import compare, flush_buffer, time_short, time_sustained  # noqa: E402

Shape = tuple[int, int, int]
EXACT_SHAPES: tuple[Shape, ...] = (
    (1024, 1024, 1024), (4096, 4096, 4096), (1000, 1000, 1000), *((256, 384, 64 * k) for k in range(1, 8)), (512, 512, 1056),
)  # fmt: skip
SPEED_SIZES = (1024, 2048, 4096, 8192)
TARGET = {"kind": "cuda", "arch": "sm_90a"}


def load_matmul(path: Path) -> Callable[..., Any]:
    """The function `matmul` (or `gemm`) of a Python file, run in an empty folder since such a file may write its own output."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        names = runpy.run_path(str(path), run_name="program")
    return names["matmul"] if "matmul" in names else names["gemm"]


def integers(rows: int, columns: int, magnitude: int) -> torch.Tensor:
    """A float16 matrix of integers drawn evenly from [-magnitude, magnitude]."""
    return torch.randint(-magnitude, magnitude + 1, (rows, columns), device="cuda").half()


def launch(kernel: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The kernel's result in an output that held NaN everywhere."""
    out = torch.full((a.shape[0], b.shape[1]), float("nan"), device="cuda", dtype=torch.float16)
    kernel(a, b, out)
    return out


def check_exact(kernel: Any, shape: Shape, magnitude: int) -> dict[str, Any]:
    """Integer inputs: the result against the exact product rounded once to float16."""
    m, n, k = shape
    a, b = integers(m, k, magnitude), integers(k, n, magnitude)
    exact = a.double() @ b.double()  # every partial sum is an integer below 2**53
    wrong = int((launch(kernel, a, b) != exact.half()).sum())
    found = {"largest_result": int(exact.abs().max()), "wrong_elements": wrong, "ok": wrong == 0}
    return {"shape": shape, "inputs": f"integers up to {magnitude}", **found}


def check_bounded(kernel: Any, shape: Shape) -> dict[str, Any]:
    """Normal inputs: the largest error as a fraction of what rounding explains."""
    m, n, k = shape
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    b = torch.randn(k, n, device="cuda", dtype=torch.float16)
    error = numerics.largest_error(launch(kernel, a, b).double(), a.double(), b.double())
    return {"shape": shape, "inputs": "normal", "error_over_bound": error, "ok": error <= 1}


def check_repeats(kernel: Any, shape: Shape, launches: int = 100) -> dict[str, Any]:
    """Normal inputs: how many of `launches` results differ from the first in any bit."""
    m, n, k = shape
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    b = torch.randn(k, n, device="cuda", dtype=torch.float16)
    first = launch(kernel, a, b).view(torch.int16)
    different = sum(not torch.equal(launch(kernel, a, b).view(torch.int16), first) for _ in range(launches - 1))
    return {"shape": shape, "inputs": f"{launches} launches", "different_launches": different, "ok": different == 0}


def check_shape(matmul: Callable[..., Any], shape: Shape) -> list[dict[str, Any]]:
    """All checks of one shape, over three draws of small integers and one of integers so large that the result is rounded."""
    kernel = tilelang.compile(matmul(*shape), target=TARGET)
    small = numerics.integer_magnitude(shape[2])
    checks = [check_exact(kernel, shape, magnitude) for magnitude in (small, small, small, 2 * small)]
    return [*checks, check_bounded(kernel, shape), check_repeats(kernel, shape)]


def summary(seconds: dict[str, list[float]], flop: int) -> dict[str, Any]:
    """Median times, TFLOP/s, and the median and quartiles of the rounds' ratios."""
    ratios = [theirs / ours for ours, theirs in zip(seconds["ours"], seconds["cublas"], strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "median_us": {name: value * 1e6 for name, value in medians.items()},
        "tflops": {name: flop / value / 1e12 for name, value in medians.items()},
        "ratio": statistics.median(ratios), "ratio_quartiles": [low, high], "rounds": len(ratios),
    }  # fmt: skip


def measure_size(matmul: Callable[..., Any], size: int, rounds: int, flush: torch.Tensor) -> dict[str, Any]:
    """Both ways of timing at size**3."""
    kernel = tilelang.compile(matmul(size, size, size), target=TARGET)
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
    ours, theirs = torch.empty_like(a), torch.empty_like(a)
    functions = {"ours": lambda: kernel(a, b, ours), "cublas": lambda: torch.matmul(a, b, out=theirs)}
    check = check_bounded(kernel, (size, size, size))
    flop = 2 * size**3
    launches = max(30, min(3000, int(0.3 / (flop / 600e12))))  # about 0.3 s
    return {
        "size": size,
        "check": check,
        "short": summary(compare(functions, time_short, flush, rounds), flop),
        "sustained": summary(compare(functions, time_sustained, launches, max(4, rounds // 10)), flop),
    }


def show_checks(checks: list[dict[str, Any]]) -> None:
    for check in checks:
        m, n, k = check["shape"]
        rest = ", ".join(f"{name} {value}" for name, value in check.items() if name not in ("shape", "inputs", "ok"))
        print(f"{'ok  ' if check['ok'] else 'FAIL'} {m:5} x {n:5} x {k:5}  {check['inputs']:22} {rest}", flush=True)


def show_speed(row: dict[str, Any]) -> None:
    for way in ("short", "sustained"):
        one = row[way]
        low, high = one["ratio_quartiles"]
        print(
            f"{row['size']:5}^3 {way:10} ours {one['tflops']['ours']:6.1f} cuBLAS {one['tflops']['cublas']:6.1f} TFLOP/s   "
            f"ratio {one['ratio']:.3f} ({low:.3f} to {high:.3f}, {one['rounds']} rounds)", flush=True,
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "examples" / "gemm.py", help="file that defines matmul(M, N, K)")
    parser.add_argument("--rounds", type=int, default=40, help="rounds of the short timing; a tenth as many of the sustained one")
    parser.add_argument("--quick", action="store_true", help="two shapes, two sizes, few rounds: to see that everything runs")
    parser.add_argument("--output", type=Path, default=Path(os.environ["OUT"]) if os.environ.get("OUT") else None)
    parser.add_argument("--name", default="gemm_h200", help="name of the JSON file")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SPEED_SIZES), help="sizes whose speed is measured")
    parser.add_argument("--speed-only", action="store_true", help="no exactness checks but those of the measured sizes")
    words = parser.parse_args()
    if torch.cuda.get_device_capability() != (9, 0):
        raise SystemExit(f"a GPU of compute capability 9.0 is needed, this one is {torch.cuda.get_device_capability()}")
    torch.manual_seed(0)
    matmul = load_matmul(words.program.resolve())
    checks: list[dict[str, Any]] = []
    for shape in () if words.speed_only else EXACT_SHAPES[:4:3] if words.quick else EXACT_SHAPES:
        checks += (of_shape := check_shape(matmul, shape))
        show_checks(of_shape)
    flush = flush_buffer()
    speed = []
    for size in SPEED_SIZES[1:3] if words.quick else words.sizes:
        speed.append(measure_size(matmul, size, 8 if words.quick else words.rounds, flush))
        checks.append(speed[-1].pop("check"))
        show_checks(checks[-1:])
        show_speed(speed[-1])
    result = {"program": words.program.name, "torch": torch.__version__, "checks": checks, "speed": speed}
    print("written to", machine.write_result(words.name, result, words.output))
    if not all(check["ok"] for check in checks):
        raise SystemExit("some checks failed")


if __name__ == "__main__":
    main()
