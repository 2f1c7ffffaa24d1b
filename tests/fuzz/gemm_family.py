"""A seeded sample of the GEMM family: tiles, threads, stages, layouts, dtypes, ragged shapes and epilogues that people write.

The options are drawn as a person would choose them: an accumulator that fits the registers, rings that fit shared memory.
Everything else is free, so a program may still be one that the compiler refuses by name.
"""
from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tests.fuzz.gemm_parts import Options
from tests.fuzz.gemm_programs import LOOPS
from tilelang.ir.buffer import Buffer
from tilelang.ir.tile import Kernel

Arrays = dict[Buffer, np.ndarray]

SHARED_BYTES = 220 * 1024
ACCUMULATOR_REGISTERS = 128
"""A thread's share of all accumulators; 255 registers is the hardware's limit."""
LOOP_WEIGHTS = {"plain": 8, "persistent": 2, "two_products": 2, "two_loops": 2}
CLEARS_FIRST = ("plain", "two_products", "gated", "nested", "prologue", "resident", "two_loops", "persistent", "chained")
"""Loops whose first product is certain to be computed, so that it may clear the accumulator."""

THREADS = (128, 128, 128, 256, 256, 384, 512)
BLOCK_M = (64, 64, 64, 128, 128, 192, 256)
BLOCK_N = (16, 32, 48, 64, 64, 80, 96, 112, 128, 160, 192, 224, 256)
BLOCK_K = (16, 32, 32, 48, 64, 64, 96, 128)
ODD_TILES = ((32, 64, 32), (96, 64, 32), (64, 24, 32), (64, 40, 16), (128, 72, 32), (64, 64, 24), (64, 32, 8), (64, 8, 16))
"""Tiles that no wgmma divides: right or refused."""
ODD_SHARE = 0.02
STAGES = (0, 1, 2, 2, 3, 3, 4, 5)
POLICIES = ("Square", "Square", "FullRow", "FullCol")
LOADS = ("copy", "copy", "copy", "copy", "copy", "slice", "slice", "parallel", "fragment", "transposing")
EPILOGUES: tuple[tuple[str, ...], ...] = (
    (), (), (), ("bias",), ("relu",), ("bias", "relu"), ("scale",), ("residual",), ("scale", "residual"),
    ("bias", "scale", "relu"), ("mask",), ("residual", "bias", "relu"),
)  # fmt: skip
STORES = ("copy", "copy", "shared", "cast", "fragments and shared", "parallel")


def options(seed: int) -> Options:
    """The program of this seed."""
    rng = random.Random(f"gemm family {seed}")
    while True:
        drawn = _draw(rng)
        if _fits(drawn):
            return drawn


def in_turn(seed: int) -> Options:
    """A program with several tiles, whose warpgroups can take them in turn on a chip that is small enough."""
    rng = random.Random(f"ping-pong {seed}")
    while True:
        drawn = _draw(rng)
        (_, _, k), (block_m, block_n, block_k) = drawn.shape, drawn.tile
        rows, columns = rng.choice(((4, 1), (5, 1), (2, 2), (3, 2), (1, 4)))
        shape = rows * block_m - rng.choice((0, 0, 8)), columns * block_n - rng.choice((0, 0, 8)), -(-k // 8) * 8 or block_k
        drawn = replace(
            drawn, loop="plain", threads=128, load="copy", a_from="shared", start=rng.choice(("clear", "fill", "load")),
            num_stages=max(drawn.num_stages, 2), shape=shape, vector_from=rng.choice(("global", "global", "shared")),
        )  # fmt: skip
        if block_m * block_n <= 64 * 128 and not is_odd(drawn.tile) and _fits(drawn):
            return drawn


def sample(count: int) -> Iterator[Options]:
    """The first `count` programs."""
    return (options(seed) for seed in range(count))


def _draw(rng: random.Random) -> Options:
    loop = rng.choices(list(LOOPS), [LOOP_WEIGHTS.get(name, 1) for name in LOOPS])[0]
    threads, num_stages = rng.choice(THREADS), rng.choice(STAGES)
    tile = _tile(rng, threads)
    shape = _shape(rng, loop, tile, num_stages)
    starts = ("clear", "clear", "fill", "load") + (("clear_accum",) if loop in CLEARS_FIRST and shape[2] else ())
    return Options(
        loop=loop, shape=shape, tile=tile, num_stages=num_stages, threads=threads, transpose_a=rng.random() < 0.3,
        transpose_b=rng.random() < 0.3, policy=rng.choice(POLICIES), dtype=rng.choice(("float16", "bfloat16")),
        out_dtype=rng.choice(("float16", "bfloat16", "float32")), start=rng.choice(starts), load=rng.choice(LOADS),
        a_from="registers" if rng.random() < 0.12 else "shared", epilogue=rng.choice(EPILOGUES),
        vector_from=rng.choice(("global", "shared", "fragment")), store=rng.choice(STORES), swizzle=rng.choice((0, 0, 4, 10)),
        bound=rng.choice((1, 2, 3)),
    )  # fmt: skip


def _tile(rng: random.Random, threads: int) -> tuple[int, int, int]:
    if rng.random() < ODD_SHARE:
        return rng.choice(ODD_TILES)
    if threads == 384:  # a multiple of three warpgroups, most often the tile that people take three for
        return 192, 128 if rng.random() < 0.5 else rng.choice(BLOCK_N), rng.choice(BLOCK_K)
    return rng.choice(BLOCK_M), rng.choice(BLOCK_N), rng.choice(BLOCK_K)


def _shape(rng: random.Random, loop: str, tile: tuple[int, int, int], num_stages: int) -> tuple[int, int, int]:
    """M, N and K: one to six blocks in all, whole tiles, a little more or less than one, or a single element."""
    block_m, block_n, block_k = tile
    several = block_m * block_n <= 64 * 64
    m = rng.choice(_sizes(block_m, several))
    n = block_n if loop == "chained" else rng.choice(_sizes(block_n, several))
    trips = rng.choice((1, num_stages - 1, num_stages, num_stages + 1, 2 * num_stages + 1, 2))
    trips = 1 if loop == "resident" else min(max(trips, 0), max(1, 256 // block_k))
    k = trips * block_k - rng.choice((0, 0, 0, 8, 1, 3))
    return m, n, max(k, 0 if loop in ("plain", "persistent") else 1)


def _sizes(block: int, several: bool) -> tuple[int, ...]:
    sizes = (block, block - 1, max(block - 8, 1), 1, min(33, block))
    return (*sizes, block + 1, block + 7, 2 * block, 2 * block + 5) if several else sizes


def _fits(o: Options) -> bool:
    """Whether registers and shared memory hold the program, roughly, and whether its options mean something together."""
    block_m, block_n, _ = o.tile
    accumulators = 2 if o.loop in ("gated", "chained") else 1
    if block_m * block_n > 192 * 160 or accumulators * block_m * block_n / o.threads > ACCUMULATOR_REGISTERS:
        return False
    if o.load == "slice" and o.loop in ("resident", "prologue") and o.shape[2] < o.tile[2]:
        return False  # a slice with constant bounds must lie inside its tensor
    if o.a_from == "registers" and (o.transpose_a or block_m < 64 * o.threads // 128):
        return False
    return (_splits(o) or is_odd(o.tile)) and _shared_bytes(o) <= SHARED_BYTES


def _shared_bytes(o: Options) -> int:
    """Rings and tiles, without what may share their memory."""
    (block_m, block_n, block_k), products = o.tile, 2 if o.loop in ("two_products", "gated", "two_loops") else 1
    ring = (block_m * block_k + products * block_k * block_n) * 2 * max(o.num_stages, 1)
    out = block_m * block_n * (4 if o.out_dtype == "float32" else 2)
    extra = block_n * block_n * 2 + block_m * block_n * 2 if o.loop == "chained" else 0
    residual = block_m * block_n * 2 if o.vector_from == "shared" and "residual" in o.epilogue else 0
    return ring + extra + residual + out


def is_odd(tile: tuple[int, int, int]) -> bool:
    """Whether wgmma does not divide this tile."""
    return bool(tile[0] % 64 or tile[1] % 16 or tile[2] % 16)


def _splits(o: Options) -> bool:
    """Whether the warpgroups can share the tile: by 64 rows, by 16 columns."""
    groups = o.threads // 128
    return any(
        groups % rows == 0 and o.tile[0] % (64 * rows) == 0 and o.tile[1] % (16 * (groups // rows)) == 0
        for rows in range(1, groups + 1)
    )


def arrays(kernel: Kernel, seed: int) -> Arrays:
    """Integers from -1 to 1 for the factors (mostly 0 where sums are long), from -3 to 3 for what is added, NaN for C."""
    rng = np.random.default_rng(seed)
    found: Arrays = {}
    for tensor in kernel.tensors:
        shape, dtype = tuple(int(extent) for extent in tensor.shape), tensor.dtype.numpy  # type: ignore[arg-type]
        if tensor.name == "C":
            found[tensor] = np.full(shape, np.nan, dtype)
            continue
        largest = 3 if tensor.name in ("bias", "residual") else 1
        values = rng.integers(-largest, largest + 1, shape)
        if largest == 1 and max(shape) > 128:
            values *= rng.integers(0, 2, shape)
        found[tensor] = values.astype(dtype)
    return found



GPU_PROGRAMS = 60


def gpu_programs() -> Iterator[Options]:
    """A fixed list of 60 programs for a GPU, with more blocks and longer sums than a simulation can afford: four of every loop,
    more of the plain one."""
    counts = dict.fromkeys(LOOPS, 0)
    quotas = dict.fromkeys(LOOPS, 4) | {"plain": GPU_PROGRAMS - 4 * (len(LOOPS) - 1)}
    for seed in itertools.count():
        drawn = options(seed)
        if counts[drawn.loop] < quotas[drawn.loop] and not is_odd(drawn.tile):
            counts[drawn.loop] += 1
            yield _enlarged(drawn)
        if counts == quotas:
            return


def _enlarged(o: Options) -> Options:
    (m, n, k), (block_m, block_n, block_k) = o.shape, o.tile
    n += 0 if o.loop == "chained" else 3 * block_n
    k += 0 if o.loop == "resident" else 5 * block_k
    return replace(o, shape=(m + 4 * block_m, n, k))
