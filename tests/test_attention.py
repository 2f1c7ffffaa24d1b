"""An attention program written by others for TileLang 0.1.15, unmodified and with its options varied: what it is compiled to, and
its numbers, by the reference and on the simulated machine, against float64."""
from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilelang
from benchmarks import numerics
from benchmarks.attention_programs import Program, Shape, Tiles, Variant, load
from tests.conftest import OTHERS_PROGRAMS, ROOT, RunPython
from tilelang.ir.tile import Kernel
from tilelang.passes.pipeline import compile_kernel
from tilelang.sim import machine, reference
from tilelang.target import SM_90A

PROGRAM = OTHERS_PROGRAMS / "tl_flash.py"
NORM = {"float16": 1e-3, "bfloat16": 6e-3}


Load = Callable[[Variant], Program]


@pytest.fixture
def program(tmp_path: Path) -> Load:
    """The program, varied."""
    if not PROGRAM.exists():
        pytest.skip(f"no {PROGRAM}")
    return lambda variant: load(PROGRAM, variant, tmp_path)


# ---- what it becomes ----------------------------------------------------------------------------------------------


def test_unmodified_program_is_a_pipeline_with_probabilities_in_registers(run_python: RunPython, tmp_path: Path) -> None:
    if not PROGRAM.exists():
        pytest.skip(f"no {PROGRAM}")
    (tmp_path / PROGRAM.name).write_text(PROGRAM.read_text())
    run_python(PROGRAM.name, CUDA_VISIBLE_DEVICES="")
    assert {path.name for path in tmp_path.iterdir()} == {PROGRAM.name, "flash.cu"}
    text = (tmp_path / "flash.cu").read_text()
    for tensor in ("Q", "K", "V"):
        assert len(re.findall(rf"tl::tma_load\({tensor}_desc", text)) == 1, tensor
    assert "tl::wgmma_ss<64, tl::f16, tl::K_MAJOR, tl::K_MAJOR>(scores" in text, "Q and K from shared memory"
    assert "tl::wgmma_rs<64, tl::f16, tl::MN_MAJOR>(acc" in text, "probabilities from registers"
    assert "tl::tma_store(Out_desc" in text


SMALL, TALL, LARGE, WIDE = (64, 64, 128), (128, 64, 256), (128, 128, 256), (64, 128, 128)  # block_M, block_N, threads


@pytest.mark.parametrize(("dim", "tiles"), [(64, SMALL), (128, SMALL), (64, LARGE), (128, LARGE), (64, WIDE)])
def test_no_register_is_spilled_and_no_remark_made(program: Load, dim: int, tiles: tuple[int, int, int]) -> None:
    kernel = program(Variant()).build((1, 8, 1024, dim), Tiles(*tiles, stages=2))
    compiled = tilelang.compile(kernel, target="sm_90a")  # a remark that is not on the list of allowed ones is an InternalError
    used = compiled.resources
    assert (used.spill_store_bytes, used.spill_load_bytes) == (0, 0), used


def test_the_binding_is_explained(program: Load) -> None:
    """A 64 x 64 tile at Q[bz, bx * 64, by, 0] of (1, 1024, 8, 64) covers the sequence, not the heads."""
    explained = tilelang.compile(program(Variant()).build((1, 8, 1024, 64), Tiles(*SMALL, 2)), target="sm_90a").explain()
    for tensor, row in (("Q", "bx"), ("K", "ko"), ("V", "ko"), ("Out", "bx")):
        assert f"dimensions (1, 3): {tensor}[bz, {row} * 64 : {row} * 64 + 64, by, :]" in explained


# ---- its numbers ----------------------------------------------------------------------------------------------

FULL, ONE_HEAD, BF16 = Variant(causal=False), Variant(one_kv_head=True), Variant(dtype="bfloat16")
# (batch, heads, seq, dim), variant, tiles, stages, which tiles of queries
CASES = [
    ((1, 8, 1024, 64), Variant(), SMALL, 2, (0, 7)),
    ((1, 8, 1024, 128), BF16, LARGE, 2, (3,)),
    ((2, 4, 4096, 64), Variant(), TALL, 3, (2,)),
    ((2, 16, 1000, 64), Variant(), SMALL, 1, (0, 15)),
    ((2, 16, 200, 64), FULL, LARGE, 1, (1,)),
    ((1, 2, 64, 64), Variant(), WIDE, 2, (0,)),
    ((1, 2, 64, 64), FULL, LARGE, 3, (0,)),
    ((1, 1, 1, 64), Variant(), SMALL, 2, (0,)),
    ((1, 1, 1, 64), Variant(False, "bfloat16"), WIDE, 0, (0,)),
    ((1, 1, 1024, 64), FULL, WIDE, 0, (15,)),
    ((1, 64, 256, 64), Variant(), SMALL, 2, (0, 3)),
    ((1, 64, 256, 64), FULL, TALL, 2, (1,)),
    ((1, 128, 256, 64), Variant(), LARGE, 2, (0, 1)),
    ((1, 128, 256, 64), Variant(False, "bfloat16"), SMALL, 3, (2,)),
    ((1, 8, 256, 64), ONE_HEAD, SMALL, 2, (3,)),
    ((2, 4, 256, 128), Variant(False, one_kv_head=True), WIDE, 1, (2,)),
]


@pytest.mark.parametrize(("shape", "variant", "tiles", "stages", "rows"), CASES)
def test_numbers(
    program: Load, shape: Shape, variant: Variant, tiles: tuple[int, int, int], stages: int, rows: tuple[int, ...]
) -> None:
    check_blocks(program(variant), shape, variant, Tiles(*tiles, stages), rows)


@pytest.mark.parametrize("variant", [BF16, Variant(False, "bfloat16"), ONE_HEAD], ids=str)
def test_numbers_of_the_example(variant: Variant, tmp_path: Path) -> None:
    """examples/attention.py, varied in the same way, for a sequence that does not divide."""
    example = load(ROOT / "examples" / "attention.py", variant, tmp_path)
    check_blocks(example, (1, 4, 200, 64), variant, Tiles(64, 64, 128, 2), (1, 3))


def check_blocks(program: Program, shape: Shape, variant: Variant, tiles: Tiles, rows: tuple[int, ...]) -> None:
    """Some blocks of the grid, of the last head of the last sequence: every element within what rounding explains, nothing else
    written; by what the program means, and by what it is compiled to."""
    batch, heads, seq, _ = shape
    kernel = program.build(shape, tiles)
    arrays = inputs(kernel)
    keys = seq if program.keys_masked or variant.causal else seq + -seq % tiles.block_n
    blocks = [(x, heads - 1, batch - 1) for x in rows]
    for result in results(kernel, arrays, blocks):
        for x in rows:
            check(result, arrays, variant, slice(x * tiles.block_m, (x + 1) * tiles.block_m), keys)
        assert np.isnan(result).sum() == result.size - written(shape, rows, tiles.block_m)


def results(kernel: Kernel, arrays: list[np.ndarray], blocks: list[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """What the reference makes of Out, and what the machine does."""
    outputs = kernel.tensors[3:]
    meant, device = ([np.full(out.shape, np.nan, out.dtype.numpy) for out in outputs] for _ in range(2))  # type: ignore[arg-type]
    reference.run(kernel, [*arrays, *meant], blocks=blocks)
    lowered = compile_kernel(kernel, SM_90A)
    machine.run(lowered.device, dict(zip(kernel.params, [*arrays, *device], strict=True)), blocks=blocks)
    return meant[0], device[0]


def inputs(kernel: Kernel) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(tensor.shape).astype(tensor.dtype.numpy) for tensor in kernel.tensors[:3]]


def written(shape: Shape, rows: tuple[int, ...], block_m: int) -> int:
    """Elements that those tiles of one head have."""
    _, _, seq, dim = shape
    return sum(min(block_m, seq - x * block_m) for x in rows) * dim


def check(result: np.ndarray, arrays: list[np.ndarray], variant: Variant, rows: slice, keys: int) -> None:
    """One tile of the result, whose last head reads the last head of K and V, padded with zeros to `keys` rows."""
    q, k, v = (array.astype(np.float64)[-1, :, -1] for array in arrays)
    k, v = (np.pad(part, ((0, keys - len(part)), (0, 0))) for part in (k, v))
    exact, allowed = numerics.attention(q[rows], k, v, variant.dtype, variant.causal, rows.start)
    found = result[-1, rows, -1].astype(np.float64)
    assert (np.abs(found - exact) / allowed).max() <= 1
    assert numerics.error_norm(found, exact) < NORM[variant.dtype]


def test_a_wrong_result_is_noticed() -> None:
    """One key left out, one probability doubled, one NaN."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((256, 64)) for _ in range(3))
    exact, allowed = numerics.attention(q, k, v, "float16", causal=True)

    def worst(result: np.ndarray) -> Any:
        return (np.abs(result - exact) / allowed).max()

    rounded = exact.astype(np.float16).astype(np.float64)
    assert worst(rounded) <= 1
    scores = np.where(np.tri(256, dtype=bool), q @ k.T / 8, -np.inf)
    scores[200, 100] = -np.inf
    weights = np.exp(scores)
    assert worst(weights @ v / weights.sum(1, keepdims=True)) > 1
    rounded[255, 63] = np.nan
    assert not worst(rounded) <= 1
