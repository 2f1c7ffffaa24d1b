"""Compiled programs compute what they mean: the simulated machine against the reference, bit for bit."""
from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from tests.passes.kernels import ceildiv, gemm_kernel
from tests.passes.maker import Maker, tile
from tests.passes.programs import BX, KO, PROGRAMS
from tests.passes.refused import conflict, shifted_index
from tests.passes.running import assert_same_bits, check, compiled, integers, meaning, on_the_machine
from tilelang.ir.expr import Var
from tilelang.ir.tile import Kernel
from tilelang.ir.types import LoopKind
from tilelang.sim.schedule import SCHEDULES

CASES = [
    pytest.param(program, options, id=f"{name}-{','.join(f'{key}={value}' for key, value in options.items()) or 'plain'}")
    for name, (program, variations) in PROGRAMS.items()
    for options in variations
]


@pytest.mark.parametrize(("program", "options"), CASES)
def test_programs(program: Callable[..., Kernel], options: dict[str, object]) -> None:
    check(program(**options), tuple(SCHEDULES), magnitude=1)


# ---- the GEMM family ----------------------------------------------------------------------------------------------------------

SHARED_BYTES = 227 * 1024
REGISTERS = {128: 160, 256: 160, 384: 136}  # of accumulators, by threads
SAMPLES = 110
WIDTHS = (16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 240, 256, 272, 320)


def divides(m: int, n: int, warpgroups: int) -> bool:
    """Whether warpgroups can share a tile in parts of 64 rows and 16 columns."""
    grids = [(rows, warpgroups // rows) for rows in range(1, warpgroups + 1) if warpgroups % rows == 0]
    return any(m % (64 * rows) == 0 and n % (16 * columns) == 0 for rows, columns in grids)


def gemm_options(rng: random.Random) -> dict[str, object]:
    """One GEMM that the compiler takes, small enough to run at once."""
    while True:
        block_m, block_n = rng.choice((64, 64, 128, 192)), rng.choice(WIDTHS)
        block_k, stages = rng.choice((16, 32, 48, 64, 80, 96, 128, 192)), rng.randint(1, 4)
        through_shared, out_dtype = rng.random() < 0.3, rng.choice(("float16", "bfloat16", "float32"))
        threads = rng.choice((128, 128, 256, 384))
        staged = block_m * block_n * (4 if out_dtype == "float32" else 2)
        rings = stages * 2 * block_k * (block_m + block_n)
        fits = max(rings, staged) + (staged if through_shared else 0) <= SHARED_BYTES - 2048
        if fits and block_m * block_n // threads <= REGISTERS[threads] and divides(block_m, block_n, threads // 128):
            break
    trips = rng.choice((0, 1, stages - 1, stages, stages + 1, 2 * stages + 1))
    transpose_a, transpose_b = rng.random() < 0.4, rng.random() < 0.4
    m = rng.choice((block_m, block_m - 1, 1, block_m + 5, 2 * block_m))
    n = rng.choice((block_n, block_n - 8, 8, block_n + 8, 2 * block_n))
    k = max(trips * block_k - rng.choice((0, 0, 1, 7, 8)), 0)
    m, n = max(m, 1), max(n, 8)
    small = block_m * block_n <= 8192 and block_k <= 64 and trips <= 3  # the machine takes its time over single elements
    if not small or rng.random() < 0.4:  # rows that are multiples of 16 bytes apart, as TMA wants them
        m = ceildiv(m, 8) * 8 if transpose_a else m
        k = k if transpose_a and not transpose_b else ceildiv(k, 8) * 8
    else:
        n, k = n - rng.choice((0, 1, 3)), k + rng.choice((0, 1, 2))
    serial = rng.random() < 0.2
    return {
        "m": m, "n": n, "k": k, "block_m": block_m, "block_n": block_n, "block_k": block_k,
        "num_stages": 0 if serial else stages, "kind": LoopKind.SERIAL if serial else LoopKind.PIPELINED,
        "dtype": rng.choice(("float16", "bfloat16")), "out_dtype": out_dtype, "transpose_a": transpose_a,
        "transpose_b": transpose_b, "through_shared": through_shared,
        "threads": threads,
    }  # fmt: skip


def product(a: np.ndarray, b: np.ndarray, options: dict[str, object]) -> np.ndarray:
    """The exact integer product."""
    a, b = a.astype(np.int64), b.astype(np.int64)
    return (a.T if options["transpose_a"] else a) @ (b.T if options["transpose_b"] else b)


@pytest.mark.parametrize("seed", range(SAMPLES))
def test_gemms(seed: int) -> None:
    rng = random.Random(seed)
    options = gemm_options(rng)
    kernel = gemm_kernel(**options)  # type: ignore[arg-type]
    result = check(kernel, tuple(rng.sample(list(SCHEDULES), 2)), seed)
    a, b, c = kernel.params
    exact = product(result[a], result[b], options).astype(np.float64)  # type: ignore[index]
    assert np.array_equal(result[c], exact.astype(c.dtype.numpy)), options  # type: ignore[index, union-attr]


def test_the_sample_has_what_it_should() -> None:
    """Every value of every option, and the loops that are special: none, one, fewer than, as many as and more than the stages."""
    drawn = [gemm_options(random.Random(seed)) for seed in range(SAMPLES)]
    for name, values in {
        "block_m": (64, 128, 192), "block_n": WIDTHS, "block_k": (16, 32, 48, 64, 80, 96, 128, 192), "num_stages": range(5),
        "dtype": ("float16", "bfloat16"), "out_dtype": ("float16", "bfloat16", "float32"), "transpose_a": (False, True),
        "transpose_b": (False, True), "through_shared": (False, True), "threads": (128, 256, 384),
    }.items():  # fmt: skip
        assert {options[name] for options in drawn} == set(values), name
    trips = [(ceildiv(options["k"], options["block_k"]), options["num_stages"]) for options in drawn]  # type: ignore[arg-type]
    assert {0, 1} <= {count for count, _ in trips}
    assert {-1, 0, 1} <= {count - stages for count, stages in trips if stages}
    assert any(options["k"] % options["block_k"] for options in drawn)  # type: ignore[operator]
    assert any(options["m"] % options["block_m"] for options in drawn)  # type: ignore[operator]
    assert sum(options["n"] % 4 > 0 for options in drawn) > 5, "row pitches that TMA does not take"  # type: ignore[operator]
    assert any(options["n"] % options["block_n"] for options in drawn)  # type: ignore[operator]


def test_a_whole_grid_of_full_tiles() -> None:
    """The plainest GEMM at its default tiles, on more than one block in each direction."""
    check(gemm_kernel(256, 384, 192), ("lazy-async",))


@pytest.mark.parametrize("grid", [(9, 3), (3, 9), (17, 5), (8, 11), (16, 1), (1, 16), (1, 1)], ids=str)
def test_every_tile_has_its_block(grid: tuple[int, int]) -> None:
    """Whatever order blocks take the tiles in: rows that are, and are not, whole groups."""
    rows, columns = grid
    check(gemm_kernel(64 * rows, 16 * columns, 16, 64, 16, 16, 1), ("fifo",))


@pytest.mark.parametrize("program", [shifted_index, conflict])
def test_fragments_that_no_layout_serves(program: Callable[[], Kernel]) -> None:
    check(program(), ("fifo", "lazy-async"))


def test_scalar_parameters() -> None:
    """The run-time extent of a loop of gemms: trips from 0 to more than the stages."""
    mk = Maker()
    n = Var("n")
    mk.params.append(n)
    a, b, c = mk.tensor("A", 64, 160), mk.tensor("B", 160, 48), mk.tensor("C", 64, 48)
    a_s, b_s, acc = mk.shared("A_s", 64, 32), mk.shared("B_s", 32, 48), mk.fragment("acc", 64, 48)
    loads = mk.copy(tile(a, (0, KO * 32), 64, 32), a_s), mk.copy(tile(b, (KO * 32, 0), 32, 48), b_s)
    loop = mk.loop(KO, n, *loads, mk.gemm(a_s, b_s, acc), stages=3)
    kernel = mk.kernel({BX: 1}, mk.clear(acc), loop, mk.copy(acc, c))
    for trips in range(6):
        check(kernel, ("reverse", "lazy-async"), scalars={n: trips})


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_results_are_rounded_once(dtype: str) -> None:
    """Sums far above the output's exact integers: rounding to nearest even happens at the store and nowhere else."""
    kernel = gemm_kernel(64, 64, 256, 64, 64, 64, out_dtype=dtype)
    result = check(kernel, ("fifo",), magnitude=30)
    a, b, c = (result[param] for param in kernel.params)  # type: ignore[index]
    exact = a.astype(np.int64) @ b.astype(np.int64)
    assert np.abs(exact).max() > 4096
    assert np.array_equal(c, exact.astype(np.float64).astype(c.dtype))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_infinities_and_nan_pass_through(value: float) -> None:
    kernel = gemm_kernel(64, 48, 64, 64, 48, 32)
    arrays = integers(kernel, 0, 1)
    arrays[kernel.params[0]][5, 7] = value  # type: ignore[index]
    expected, found = meaning(kernel, arrays), on_the_machine(compiled(kernel), arrays, "fifo")
    c = kernel.params[2]
    assert np.isnan(expected[c]).any() or np.isinf(expected[c]).any()  # type: ignore[index]
    plain = [{tensor: np.nan_to_num(a.astype(np.float32), nan=1e9) for tensor, a in each.items()} for each in (expected, found)]
    assert_same_bits(*plain, "fifo")
