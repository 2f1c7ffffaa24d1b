"""What it brings that two warpgroups take tiles in turn: GEMMs of several tiles, compiled that way and with a block for each
tile.  Needs PyTorch and a GPU of compute capability 9.0.

    python benchmarks/ping_pong_h200.py [--size 4096] [--rounds 12] [--quick] [--output FOLDER]

Each kernel is checked against a product in float32 first; times are of a cold L2 cache, with cuBLAS beside them.  The figure to
read is (time with a block for each tile) / (time in turn), where `passes/plan_ping_pong.py` would choose the latter.
"""
from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
if __package__ in (None, ""):
    sys.path[:0] = [str(ROOT), str(ROOT / "examples")]

import tilelang  # noqa: E402
from benchmarks import machine, timing  # noqa: E402
from examples.gemm import gemm  # noqa: E402
from examples.gemm_bias_gelu import gemm_bias_gelu  # noqa: E402
from tilelang.target import SM_90A  # noqa: E402

TILES = (
    (128, 128, 64, 3), (128, 128, 64, 2), (128, 128, 32, 4), (128, 160, 64, 3), (128, 112, 64, 3), (128, 96, 64, 4),
    (128, 64, 64, 4), (64, 256, 64, 3), (64, 128, 64, 4), (64, 128, 128, 2), (64, 64, 64, 4), (64, 64, 128, 3), (64, 64, 32, 4),
)  # fmt: skip
"""block_M, block_N, block_K, num_stages."""
CHIPS = {
    "in turn": dataclasses.replace(SM_90A, lone_warpgroup_cycles=1),
    "a block each": dataclasses.replace(SM_90A, lone_warpgroup_cycles=1 << 30),
}
TOLERANCE = 2e-3  # of 1 + the exact value: float16 results


def launchers(size: int, tiles: tuple[tuple[int, ...], ...]) -> tuple[dict[str, Callable[[], object]], dict[str, dict[str, Any]]]:
    """What is timed, by name, and what each kernel is."""
    torch.manual_seed(0)
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
    bias, out = torch.randn(size, device="cuda", dtype=torch.float16), torch.empty_like(a)
    product = a.float() @ b.float()
    found: dict[str, Callable[[], object]] = {"cuBLAS": lambda: torch.matmul(a, b, out=out)}
    kernels: dict[str, dict[str, Any]] = {}
    for *tile, stages in tiles:
        for program, more in ((gemm, []), (gemm_bias_gelu, [bias])):
            for way, chip in CHIPS.items():
                kernel = tilelang.compile(program(size, size, size, *tile, num_stages=stages), target=chip)
                name = f"{program.__name__} {' x '.join(map(str, tile))}, {stages} stages, {way}"
                found[name] = lambda kernel=kernel, more=more: kernel(a, b, *more, out)
                found[name]()
                error = float(((out.float() - product).abs() / (1 + product.abs())).max()) if program is gemm else None
                took = "take its tiles in turn" in kernel.get_kernel_source()
                kernels[name] = {
                    "in_turn": took, "error": error, "registers": kernel.resources.registers,
                    "spilled_bytes": kernel.resources.spill_store_bytes,
                }  # fmt: skip
    return found, kernels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4096, help="M = N = K")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--quick", action="store_true", help="two tiles, few rounds: to see that everything runs")
    parser.add_argument("--output", type=Path, default=Path(os.environ["OUT"]) if os.environ.get("OUT") else None)
    words = parser.parse_args()
    if torch.cuda.get_device_capability() != (9, 0):
        raise SystemExit(f"a GPU of compute capability 9.0 is needed, this one is {torch.cuda.get_device_capability()}")
    found, kernels = launchers(words.size, TILES[:2] if words.quick else TILES)
    seconds = timing.compare(found, timing.time_short, timing.flush_buffer(), 4 if words.quick else words.rounds)
    records = []
    for name, times in timing.summary(seconds, "cuBLAS", 2 * words.size**3).items():
        record = {"name": name, **times, **kernels.get(name, {})}
        other = seconds.get(name.removesuffix("in turn") + "a block each")
        if name.endswith("in turn") and record["in_turn"] and other is not None:
            ratios = sorted(theirs / ours for ours, theirs in zip(seconds[name], other, strict=True))
            record["gain"] = ratios[len(ratios) // 2]
        records.append(record)
        gain = f"  gain {record['gain']:.3f}" if "gain" in record else ""
        print(f"{name:60} {times['median_us']:7.1f} us {times['tflops']:6.1f} TFLOP/s{gain}", flush=True)
    print("written to", machine.write_result("ping_pong_h200", {"torch": torch.__version__, "kernels": records}, words.output))
    if any((kernel["error"] or 0) > TOLERANCE for kernel in kernels.values()):
        raise SystemExit("some products are wrong")


if __name__ == "__main__":
    main()
