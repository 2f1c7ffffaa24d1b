"""How long the compiler takes: import, GEMM source to CUDA text, CUDA text to cubin.  Needs no GPU.

    python benchmarks/compile_time.py [--repeat 7] [--output FOLDER]

Every figure comes from fresh interpreters and is the median over `--repeat` of them:

    import       `import tilelang` inside an interpreter that is already up
    language     `import tilelang.language` after it
    first        from the Python source of a GEMM to CUDA text, the first kernel of a process (imports our passes)
    second       the same for a second kernel, of another shape and another tile
    cubin        from that CUDA text to the machine code of an sm_90a chip (the first call: it loads the runtime compiler)
    cubin again  the same for the second kernel
    whole        the life of an interpreter that starts, imports, compiles one GEMM to a cubin and ends
"""
from __future__ import annotations

import argparse
import ast
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if __package__ in (None, ""):
    sys.path.insert(0, str(ROOT))

from benchmarks import machine  # noqa: E402

GOALS_S = {"import": 0.3, "second": 0.1, "cubin": 0.6}


# Run by `python -c` in a fresh interpreter, so that nothing but `time` (a built-in module) is imported before the clock starts.
PARTS = """
from time import perf_counter as now
times = {}
start = now(); import tilelang; times["import"] = now() - start
start = now(); import tilelang.language; times["language"] = now() - start
tilelang.disable_cache()
from gemm import gemm
target = {"kind": "cuda", "arch": "sm_90a"}
start = now(); first = tilelang.compile(gemm(1024, 1024, 1024), out_idx=[2], target=target)
assert "wgmma" in first.get_kernel_source(); times["first"] = now() - start
start = now(); second = tilelang.compile(gemm(2048, 1024, 768, block_N=64, num_stages=4), out_idx=[2], target=target)
assert "wgmma" in second.get_kernel_source(); times["second"] = now() - start
start = now(); assert first.cubin; times["cubin"] = now() - start
start = now(); assert second.cubin; times["cubin again"] = now() - start
print(times)
"""
WHOLE = """
import tilelang
tilelang.disable_cache()
from gemm import gemm
assert tilelang.compile(gemm(1024, 1024, 1024), out_idx=[2], target={"kind": "cuda", "arch": "sm_90a"}).cubin
"""


def fresh(program: str) -> tuple[float, str]:
    """Seconds and output of a fresh interpreter that runs `program` beside examples/.

    GPUs are hidden from it: where there is one, `compile` makes the cubin at once and the steps could not be told apart."""
    paths = [str(ROOT), str(ROOT / "examples"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "CUDA_VISIBLE_DEVICES": ""}
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(done.stderr)
    return seconds, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=7, help="fresh interpreters per figure")
    parser.add_argument("--output", type=Path, help="folder for the JSON file (benchmarks/results)")
    words = parser.parse_args()
    fresh(PARTS)  # byte code is compiled once per installation, not once per run
    samples = [ast.literal_eval(fresh(PARTS)[1]) for _ in range(words.repeat)]
    for sample in samples:
        sample["whole"] = fresh(WHOLE)[0]
    report(samples, words.output)


def report(samples: list[dict[str, float]], folder: Path | None) -> None:
    """Prints the table and writes the JSON file."""
    medians = {name: statistics.median(sample[name] for sample in samples) for name in samples[0]}
    print(f"{'seconds':12} {'median':>8} {'min':>8} {'max':>8} {'goal':>6}   (of {len(samples)} fresh interpreters)")
    for name, median in medians.items():
        values = [sample[name] for sample in samples]
        goal = GOALS_S.get(name)
        note = "" if goal is None else f"{goal:6.1f}{'' if median < goal else '   missed'}"
        print(f"{name:12} {median:8.3f} {min(values):8.3f} {max(values):8.3f} {note}")
    path = machine.write_result("compile_time", {"seconds": medians, "goals_s": GOALS_S, "samples": samples}, folder)
    print(f"written to {path}")


if __name__ == "__main__":
    main()
