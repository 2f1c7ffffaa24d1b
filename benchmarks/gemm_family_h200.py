"""Exactness of the GEMM family on an NVIDIA GPU of compute capability 9.0.  Needs PyTorch.

    python benchmarks/gemm_family_h200.py [--output FOLDER] [--skip-large]

Integer-valued inputs throughout, so that the result must equal the exact one, rounded once, in every bit:

    programs   60 programs of `tests/fuzz/gemm_family.py`: loops, tiles, stages, layouts, dtypes and epilogues of every kind, on
               ragged shapes, against what they mean on NumPy
    shapes     1023^3 and 1000 x 1096 x 200, against PyTorch's product in float64
    pointers   operands and results that begin 2, 4 and 8 bytes after a multiple of 16
    large      a product whose left operand and result have more than 2**31 elements each, by TMA and element by element; an
               element-wise kernel over a vector of more than 2**31.  12 GiB of GPU memory
"""
from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
if __package__ in (None, ""):
    sys.path.insert(0, str(ROOT))

import tilelang  # noqa: E402
import tilelang.language as T  # noqa: E402
from benchmarks import machine  # noqa: E402
from examples.gemm import gemm  # noqa: E402
from tests.fuzz import gemm_family  # noqa: E402
from tests.fuzz.gemm_programs import build  # noqa: E402
from tests.fuzz.on_gpu import difference_on_gpu  # noqa: E402

SHAPES = ((1023, 1023, 1023), (1000, 1096, 200))
OFFSETS_BYTES = (2, 4, 8)
OFFSET_SHAPES = ((512, 512, 512), (200, 264, 136))
ROWS_PAST_2_31 = 2**25 + 133  # times 64 elements
CHUNK_ROWS = 2**20
Check = tuple[str, Callable[[], str]]


def integers(*shape: int, largest: int = 2) -> Any:
    """A float16 tensor of integers drawn evenly from [-largest, largest]."""
    return torch.randint(-largest, largest + 1, shape, device="cuda", dtype=torch.int8).half()


def wrong_elements(found: Any, expected: Any) -> str:
    """How many elements differ; empty for none."""
    wrong = int((found != expected).sum())
    return f"{wrong} of {found.numel()} elements differ" if wrong else ""


# ---- the checks ---------------------------------------------------------------------------------------------------------------


def programs() -> Iterator[Check]:
    for number, options in enumerate(gemm_family.gpu_programs()):

        def check(options: Any = options) -> str:
            kernel = build(options)
            return difference_on_gpu(torch, kernel, gemm_family.arrays(kernel, seed=options.shape[0]))

        yield f"program {number}: {options}", check


def shapes() -> Iterator[Check]:
    for shape in SHAPES:
        yield "shape " + " x ".join(map(str, shape)), lambda shape=shape: product(shape, {})


def pointers() -> Iterator[Check]:
    for shape in OFFSET_SHAPES:
        for offset in OFFSETS_BYTES:
            for moved in ("A", "B", "C", "ABC"):
                name = f"pointers of {moved} moved by {offset} bytes, {' x '.join(map(str, shape))}"
                yield name, lambda shape=shape, offset=offset, moved=moved: product(shape, dict.fromkeys(moved, offset))


def product(shape: tuple[int, int, int], offsets_bytes: dict[str, int]) -> str:
    """The example's GEMM on integers, with some tensors beginning a few bytes after an aligned address."""
    m, n, k = shape
    a, b = (moved(integers(*size), offsets_bytes.get(name, 0)) for name, size in (("A", (m, k)), ("B", (k, n))))
    c = moved(torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16), offsets_bytes.get("C", 0))
    tilelang.compile(gemm(m, n, k))(a, b, c)
    return wrong_elements(c, (a.double() @ b.double()).half())


def moved(tensor: Any, offset_bytes: int) -> Any:
    """The same numbers at an address that is `offset_bytes` more than a multiple of 256."""
    elements = offset_bytes // tensor.element_size()
    home = torch.empty(tensor.numel() + elements, device="cuda", dtype=tensor.dtype)
    result = home[elements:].view(tensor.shape)
    result.copy_(tensor)
    return result


def tall_product(rows: int, columns: int) -> Any:
    """C = A @ B with K = 64, the blocks of rows along the grid's x axis, which is the only one that is long enough."""

    @T.prim_func
    def kernel(
        A: T.Tensor((rows, 64), "float16"), B: T.Tensor((64, columns), "float16"), C: T.Tensor((rows, columns), "float16"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(rows, 128), threads=128) as bx:
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_fragment((128, 64), "float32")
            T.copy(A[bx * 128, 0], a)
            T.copy(B[0, 0], b)
            T.gemm(a, b, acc, clear_accum=True)
            T.copy(acc, C[bx * 128, 0])

    return kernel


def check_tall(columns: int) -> str:
    """More than 2**31 elements on either side; checked a million rows at a time."""
    rows = ROWS_PAST_2_31
    a = torch.empty(rows, 64, device="cuda", dtype=torch.float16)
    for first in range(0, rows, CHUNK_ROWS):
        a[first : first + CHUNK_ROWS] = integers(min(CHUNK_ROWS, rows - first), 64)
    b = integers(64, columns)
    c = torch.full((rows, columns), float("nan"), device="cuda", dtype=torch.float16)
    tilelang.compile(tall_product(rows, columns))(a, b, c)
    for first in range(0, rows, CHUNK_ROWS):
        part = slice(first, first + CHUNK_ROWS)
        if wrong := wrong_elements(c[part], (a[part].float() @ b.float()).half()):  # at most 256: exact in float32
            return f"rows from {first} on: {wrong}"
    return ""


def check_vector() -> str:
    """B = A + 1 over more than 2**31 bytes."""
    size = 2**31 + 2**20 + 3

    @T.prim_func
    def kernel(A: T.Tensor((size,), "int8"), B: T.Tensor((size,), "int8")):
        with T.Kernel(T.ceildiv(size, 4096), threads=128) as bx:
            for i in T.Parallel(4096):
                B[bx * 4096 + i] = A[bx * 4096 + i] + 1

    a = torch.randint(0, 100, (size,), device="cuda", dtype=torch.int8)
    b = torch.zeros_like(a)
    tilelang.compile(kernel)(a, b)
    for first in range(0, size, 2**28):
        if wrong := wrong_elements(b[first : first + 2**28], a[first : first + 2**28] + 1):
            return f"elements from {first} on: {wrong}"
    return ""


def large() -> Iterator[Check]:
    yield f"{ROWS_PAST_2_31} x 64 x 64, more than 2**31 elements", lambda: check_tall(64)
    yield f"{ROWS_PAST_2_31} x 63 x 64, rows of 126 bytes", lambda: check_tall(63)
    yield "vector of more than 2**31 elements", check_vector


# ---- running them -------------------------------------------------------------------------------------------------------------


def outcome(check: Callable[[], str]) -> str:
    """What is wrong, an exception included; empty for a check that holds."""
    try:
        found = check()
        torch.cuda.synchronize()
    except Exception:  # noqa: BLE001 - one that fails must not hide the others
        return traceback.format_exc(limit=-1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(os.environ["OUT"]) if os.environ.get("OUT") else None)
    parser.add_argument("--skip-large", action="store_true", help="leave out what needs 12 GiB")
    words = parser.parse_args()
    torch.manual_seed(0)
    records = []
    for group in (programs, shapes, pointers, *(() if words.skip_large else (large,))):
        for name, check in group():
            begin = time.perf_counter()
            wrong = outcome(check)
            torch.cuda.empty_cache()
            seconds = round(time.perf_counter() - begin, 2)
            records.append({"check": name, "ok": not wrong, "seconds": seconds, **({"wrong": wrong} if wrong else {})})
            print("ok  " if not wrong else "FAIL", f"{seconds:6.2f} s", name, wrong, flush=True)
    exact = sum(record["ok"] for record in records)
    result = {"torch": torch.__version__, "exact": exact, "checks": len(records), "records": records}
    print(f"{exact} of {len(records)} exact; written to", machine.write_result("gemm_family_h200", result, words.output))
    if exact < len(records):
        raise SystemExit("some checks failed")


if __name__ == "__main__":
    main()
