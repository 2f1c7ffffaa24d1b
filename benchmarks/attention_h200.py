"""Attention on an NVIDIA GPU of compute capability 9.0: right for every shape, tile and pipeline, then speed beside cuDNN.

    python benchmarks/attention_h200.py [--program FILE] [--rounds 30] [--workers 12] [--quick] [--output FOLDER]

`--program` names a file as benchmarks/attention_programs.py takes it; without it examples/attention.py is measured.  Needs
PyTorch.

Numbers: standard-normal inputs, against float64.  Every element must lie within what rounding explains (benchmarks/numerics.py),
and the relative error in the Frobenius norm below 1e-3 (float16) or 6e-3 (bfloat16).  The output starts out as NaN, so an element
that nobody writes shows.  Shapes x stages x tiles x (causal, full) x dtypes, in several processes, since most of it is compiling;
one head of K and V for all heads of Q; 100 launches that must agree bit for bit.

Speed: 16384 tokens, heads * dim = 2048, float16, beside PyTorch's scaled_dot_product_attention by cuDNN in the same process; all
read (batch, seq, heads, dim) in place.  Cold L2 cache; benchmarks/timing.py says how times compare.  Causal counts half the work.
"""
from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
if __package__ in (None, ""):
    sys.path.insert(0, str(ROOT))

import tilelang  # noqa: E402
from benchmarks import machine, numerics, timing  # noqa: E402
from benchmarks.attention_programs import Program, Shape, Tiles, Variant, load  # noqa: E402
from tilelang.errors import TileError  # noqa: E402

TARGET = {"kind": "cuda", "arch": "sm_90a"}
SHAPES: tuple[Shape, ...] = (
    (2, 4, 4096, 64), (2, 16, 1000, 64), (1, 8, 1024, 64), (1, 8, 1024, 128), (1, 64, 256, 64), (1, 128, 256, 64),
    (1, 1, 1024, 64), (1, 2, 64, 64), (1, 1, 1, 64),
)  # fmt: skip
BLOCKS = ((64, 64, 128), (128, 64, 256), (128, 128, 256), (64, 128, 128))  # block_M, block_N, threads
STAGES = (0, 1, 2, 3)
GROUP_SECONDS = 150  # nothing takes that long but a kernel that hangs
NORM = {"float16": 1e-3, "bfloat16": 6e-3}
TIMED_SHAPES: tuple[Shape, ...] = ((4, 16, 4096, 128), (4, 32, 4096, 64))
TIMED_TILES = {"64 x 64": Tiles(64, 64, 128, 2), "128 x 128": Tiles(128, 128, 256, 2)}


@dataclass(frozen=True)
class Group:
    """Programs that share inputs and the exact result: one shape and variant, many tiles.  `file` is the program's."""

    file: Path
    shape: Shape
    variant: Variant
    tiles: tuple[Tiles, ...]


# ---- numbers -----------------------------------------------------------------------------------------------------------------


def inputs(shape: Shape, variant: Variant) -> list[torch.Tensor]:
    """Q, K and V of standard-normal numbers."""
    batch, heads, seq, dim = shape
    torch.manual_seed(0)
    dtype = getattr(torch, variant.dtype)
    counts = (heads, *(2 * [1 if variant.one_kv_head else heads]))
    return [torch.randn(batch, seq, count, dim, device="cuda", dtype=torch.float32).to(dtype) for count in counts]


def results(kernel: Any) -> list[torch.Tensor]:
    """An array of NaN for every output."""
    nan = float("nan")
    return [torch.full(tuple(p.shape), nan, device="cuda", dtype=getattr(torch, str(p.dtype))) for p in kernel.params[3:]]


def launch(kernel: Any, arrays: list[torch.Tensor]) -> torch.Tensor:
    """The result, in an output that held NaN everywhere; further outputs are dropped."""
    outputs = results(kernel)
    kernel(*arrays, *outputs)
    return outputs[0]


def exact(arrays: list[torch.Tensor], variant: Variant, keys: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The exact result (batch, seq, heads, dim) and the allowance, K and V padded with zeros to `keys` rows."""
    q, k, v = (array.double().transpose(1, 2) for array in arrays)
    k, v = (torch.nn.functional.pad(part, (0, 0, 0, keys - part.shape[2])) for part in (k, v))
    found = numerics.attention(q, k, v, variant.dtype, variant.causal)
    return found[0].transpose(1, 2), found[1].transpose(1, 2)


def check_group(group: Group) -> list[dict[str, Any]]:
    """One record for each program of the group."""
    arrays = inputs(group.shape, group.variant)
    known: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    records = []
    with tempfile.TemporaryDirectory() as folder:
        program = load(group.file, group.variant, Path(folder))
        for tiles in group.tiles:
            keys = padded_keys(program, group, tiles)
            if keys not in known:
                known[keys] = exact(arrays, group.variant, keys)
            records.append(describe(group, tiles) | check(program, group, tiles, arrays, known[keys]))
    return records


def padded_keys(program: Program, group: Group, tiles: Tiles) -> int:
    seq = group.shape[2]
    return seq if program.keys_masked or group.variant.causal else -(-seq // tiles.block_n) * tiles.block_n


def describe(group: Group, tiles: Tiles) -> dict[str, Any]:
    heads = {"kv_heads": 1} if group.variant.one_kv_head else {}
    return {
        "shape": group.shape, **heads, "causal": group.variant.causal, "dtype": group.variant.dtype,
        "tiles": (tiles.block_m, tiles.block_n), "threads": tiles.threads, "stages": tiles.stages,
    }  # fmt: skip


def check(
    program: Program, group: Group, tiles: Tiles, arrays: list[torch.Tensor], bound: tuple[torch.Tensor, torch.Tensor]
) -> dict[str, Any]:
    """Compiles and runs one program.  A refusal or failure is recorded in words, and is not ok."""
    start = time.perf_counter()
    try:
        kernel = tilelang.compile(program.build(group.shape, tiles), target=TARGET)
        seconds = time.perf_counter() - start
        result = launch(kernel, arrays).double()
    except (TileError, RuntimeError) as problem:  # RuntimeError: PyTorch's, of an illegal access for example
        return {"failed": str(problem).splitlines()[0], "ok": False}
    error = float(((result - bound[0]).abs() / bound[1]).max())
    norm = numerics.error_norm(result, bound[0])
    used = kernel.resources
    return {
        "error_over_bound": error, "error_norm": norm, "registers": used.registers, "spilled_bytes": used.spill_store_bytes,
        "compile_seconds": round(seconds, 3), "ok": error <= 1 and norm < NORM[group.variant.dtype],
    }  # fmt: skip


def check_repeats(file: Path, shape: Shape, tiles: Tiles, launches: int = 100) -> dict[str, Any]:
    """How many of `launches` results differ from the first in any bit."""
    group = Group(file, shape, Variant(), (tiles,))
    with tempfile.TemporaryDirectory() as folder:
        kernel = tilelang.compile(load(file, group.variant, Path(folder)).build(shape, tiles), target=TARGET)
    arrays = inputs(shape, group.variant)
    first = launch(kernel, arrays).view(torch.int16)
    different = sum(not torch.equal(launch(kernel, arrays).view(torch.int16), first) for _ in range(launches - 1))
    return describe(group, tiles) | {"launches": launches, "different_launches": different, "ok": different == 0}


def groups(file: Path, quick: bool) -> list[Group]:
    """The full product, the dearest shapes first; and one head of K and V for all heads of Q."""
    every = tuple(Tiles(*blocks, stages) for blocks in BLOCKS for stages in STAGES)
    few = (Tiles(64, 64, 128, 2), Tiles(128, 128, 256, 3))
    shapes = SHAPES[1:4:2] if quick else SHAPES
    variants = [Variant(causal, dtype) for causal, dtype in itertools.product((True, False), ("float16", "bfloat16"))]
    product = [Group(file, shape, variant, few if quick else every) for shape in shapes for variant in variants]
    shared = [Group(file, shape, Variant(causal, one_kv_head=True), few) for shape in shapes[:4] for causal in (True, False)]
    return product + shared


def check_all(file: Path, workers: int, quick: bool) -> list[dict[str, Any]]:
    """All records, by several processes, each with its own context on the GPU; shown as they come.  A group that takes too long
    is a failure of its own, and the last thing that is done."""
    records: list[dict[str, Any]] = []
    every = groups(file, quick)
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        found = pool.imap(check_group, every)
        for group in every:
            try:
                records += (of_group := found.next(timeout=GROUP_SECONDS))
            except multiprocessing.TimeoutError:
                of_group = [describe(group, tiles) | {"failed": "did not end", "ok": False} for tiles in group.tiles]
                show_checks(of_group)
                return records + of_group
            show_checks(of_group)
    return records


# ---- speed -------------------------------------------------------------------------------------------------------------------


def timed(program: Program, shape: Shape, causal: bool) -> tuple[dict[str, Callable[[], object]], list[dict[str, Any]]]:
    """The functions to time, cuDNN among them; and the facts about each of our kernels."""
    q, k, v = arrays = inputs(shape, Variant(causal))
    functions: dict[str, Callable[[], object]] = {"cuDNN": cudnn(q, k, v, causal)}
    facts = []
    for name, tiles in TIMED_TILES.items():
        kernel = tilelang.compile(program.build(shape, tiles), target=TARGET)
        outputs = results(kernel)
        functions[name] = lambda kernel=kernel, outputs=outputs: kernel(*arrays, *outputs)
        functions[name]()
        difference = numerics.error_norm(outputs[0].float(), cudnn(q, k, v, causal)().transpose(1, 2).float())
        registers = kernel.resources.registers
        facts.append({"kernel": name, "registers": registers, "difference_from_cudnn": difference, "ok": difference < 2e-3})
    return functions, facts


def cudnn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Callable[[], torch.Tensor]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    views = [part.transpose(1, 2) for part in (q, k, v)]

    def attention() -> torch.Tensor:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(*views, is_causal=causal)

    return attention


def measure(file: Path, rounds: int, quick: bool) -> list[dict[str, Any]]:
    """One record for each shape, causal and full."""
    flush, records = timing.flush_buffer(), []
    for shape, causal in itertools.product(TIMED_SHAPES[:1] if quick else TIMED_SHAPES, (True, False)):
        with tempfile.TemporaryDirectory() as folder:
            functions, facts = timed(load(file, Variant(causal), Path(folder)), shape, causal)
        batch, heads, seq, dim = shape
        flop = 4 * batch * heads * seq * seq * dim // (2 if causal else 1)
        found = timing.summary(timing.compare(functions, timing.time_short, flush, rounds), "cuDNN", flop)
        records.append({"shape": shape, "causal": causal, "kernels": facts, "times": found})
        show_speed(records[-1])
    return records


# ---- what is shown -----------------------------------------------------------------------------------------------------------


def show_checks(records: Iterable[dict[str, Any]]) -> None:
    """One line for a shape and variant, and one for each program of it that is not ok."""
    records = list(records)
    worst = max((record["error_over_bound"] for record in records if "error_over_bound" in record), default=float("nan"))
    norm = max((record["error_norm"] for record in records if "error_norm" in record), default=float("nan"))
    good, spilling = (sum(bool(record.get(key)) for record in records) for key in ("ok", "spilled_bytes"))
    print(
        f"{'ok  ' if good == len(records) else 'FAIL'} {what(records[0])}: {good} of {len(records)} programs, "
        f"largest error {worst:.2f} of the bound, norm {norm:.1e}, {spilling} spill registers", flush=True,
    )  # fmt: skip
    for record in records:
        if not record["ok"]:
            print("     ", {key: value for key, value in record.items() if key not in ("shape", "causal", "dtype")}, flush=True)


def what(record: dict[str, Any]) -> str:
    heads = " (one head of K and V)" if "kv_heads" in record else ""
    return f"{' x '.join(map(str, record['shape']))}{heads} {'causal' if record['causal'] else 'full'} {record['dtype']}"


def show_speed(record: dict[str, Any]) -> None:
    shape = f"{' x '.join(map(str, record['shape']))} {'causal' if record['causal'] else 'full'}"
    for name, one in record["times"].items():
        low, high = one["ratio_quartiles"]
        print(
            f"{shape:25} {name:10} {one['median_us']:8.0f} us {one['tflops']:6.1f} TFLOP/s   "
            f"ratio {one['ratio']:.3f} ({low:.3f} to {high:.3f})", flush=True,
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "examples" / "attention.py", help="as said above")
    parser.add_argument("--rounds", type=int, default=30, help="rounds of timing")
    parser.add_argument("--workers", type=int, default=max(1, min(12, (os.cpu_count() or 1) - 2)), help="processes that check")
    parser.add_argument("--quick", action="store_true", help="two shapes, two tiles, few rounds: to see that everything runs")
    parser.add_argument("--output", type=Path, default=Path(os.environ["OUT"]) if os.environ.get("OUT") else None)
    parser.add_argument("--name", default="attention_h200", help="name of the JSON file")
    words = parser.parse_args()
    if torch.cuda.get_device_capability() != (9, 0):
        raise SystemExit(f"a GPU of compute capability 9.0 is needed, this one is {torch.cuda.get_device_capability()}")
    file = words.program.resolve()
    speed = measure(file, 8 if words.quick else words.rounds, words.quick)
    repeats = [check_repeats(file, (1, 8, 1024, 128), tiles) for tiles in TIMED_TILES.values()]
    print("100 launches:", *(f"{record['different_launches']} differ" for record in repeats))
    checks = check_all(file, words.workers, words.quick)
    failed = [record for record in (*checks, *repeats, *(fact for row in speed for fact in row["kernels"])) if not record["ok"]]
    result = {"program": file.name, "torch": torch.__version__, "speed": speed, "repeats": repeats, "checks": checks}
    print("written to", machine.write_result(words.name, result, words.output))
    if failed:
        raise SystemExit(f"{len(failed)} checks failed")


if __name__ == "__main__":
    main()
