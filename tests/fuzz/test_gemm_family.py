"""300 programs of the GEMM family: the compiled kernel, on the simulated machine, against the program's meaning, bit for bit."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fuzz import gemm_family
from tests.fuzz.gemm_parts import Options, ceildiv
from tests.fuzz.gemm_programs import LOOPS, build
from tests.fuzz.running import SMALL_CHIP, End, Outcome, run_program
from tilelang.errors import KernelError
from tilelang.passes.pipeline import compile_kernel
from tilelang.sim.schedule import SCHEDULES
from tilelang.target import SM_90A

SAMPLES = 300
SMALLEST_SHARE_THAT_RUNS = 0.9

_refusals: dict[int, str] = {}
"""Seed: the code of its refusal, empty for a program that ran; what this process has seen so far."""


def outcome(seed: int) -> Outcome:
    options = gemm_family.options(seed)
    schedule = list(SCHEDULES)[seed % len(SCHEDULES)]
    return run_program(lambda: build(options), lambda kernel: gemm_family.arrays(kernel, seed), (schedule,))


@pytest.mark.parametrize("seed", range(SAMPLES))
def test_right_or_refused_by_name(seed: int, record_property: Callable[[str, object], None]) -> None:
    found = outcome(seed)
    assert not found.is_fault, f"{gemm_family.options(seed)}\n{found}"
    record_property("GEMM family", found.code or "ran")
    _refusals[seed] = found.code if found.end is End.REFUSED else ""


IN_TURN = 40


@pytest.mark.parametrize("seed", range(IN_TURN))
def test_warpgroups_that_take_tiles_in_turn(seed: int, record_property: Callable[[str, object], None]) -> None:
    options, schedule = gemm_family.in_turn(seed), list(SCHEDULES)[seed % len(SCHEDULES)]
    found = run_program(
        lambda: build(options), lambda kernel: gemm_family.arrays(kernel, seed), (schedule,), target=SMALL_CHIP
    )
    assert not found.is_fault, f"{options}\n{found}"
    record_property("tiles in turn", found.code or "ran")


def test_most_of_these_do_take_turns() -> None:
    kernels = [build(gemm_family.in_turn(seed)) for seed in range(IN_TURN)]
    planned = [compile_kernel(kernel, SMALL_CHIP).plans.ping_pong is not None for kernel in kernels]
    assert sum(planned) >= 0.7 * IN_TURN


def refusal(options: Options) -> str:
    """The code with which the compiler refuses these options; empty if it takes them."""
    try:
        compile_kernel(build(options), SM_90A)
    except KernelError as error:
        return error.code
    return ""


def test_nine_of_ten_run() -> None:
    codes = [_refusals[seed] if seed in _refusals else refusal(gemm_family.options(seed)) for seed in range(SAMPLES)]
    share = codes.count("") / SAMPLES
    assert share >= SMALLEST_SHARE_THAT_RUNS, {code: codes.count(code) for code in sorted(set(codes))}


def test_the_sample_has_what_it_should() -> None:
    drawn = list(gemm_family.sample(SAMPLES))
    for name, values in {
        "loop": set(LOOPS), "num_stages": set(range(6)), "threads": {128, 256, 384, 512}, "transpose_a": {False, True},
        "transpose_b": {False, True}, "policy": {"Square", "FullRow", "FullCol"}, "dtype": {"float16", "bfloat16"},
        "out_dtype": {"float16", "bfloat16", "float32"}, "start": {"clear", "fill", "load", "clear_accum"},
        "load": {"copy", "slice", "parallel", "fragment", "transposing"}, "a_from": {"shared", "registers"},
        "vector_from": {"global", "shared", "fragment"}, "store": {"copy", "shared", "cast", "fragments and shared", "parallel"},
        "epilogue": set(gemm_family.EPILOGUES),
    }.items():  # fmt: skip
        assert {getattr(options, name) for options in drawn} == values, name
    assert {options.tile[0] for options in drawn} >= {64, 128, 192, 256}
    assert {options.tile[1] for options in drawn} >= {96, 128, 160, 192, 224}
    assert {options.tile[2] for options in drawn} >= {16, 32, 48, 64, 96, 128}
    assert any(options.threads == 384 and options.tile[:2] == (192, 128) for options in drawn)
    odd = [sum(options.shape[axis] % 8 > 0 for options in drawn) for axis in range(3)]
    assert min(odd) > SAMPLES // 5, "row pitches that TMA cannot take, in each of M, N and K"


def test_the_sample_has_all_kinds_of_trip_counts() -> None:
    drawn = list(gemm_family.sample(SAMPLES))
    trips = [(ceildiv(options.shape[2], options.tile[2]), options.num_stages) for options in drawn if options.loop == "plain"]
    assert {0, 1} <= {count for count, _ in trips}
    assert {-1, 0, 1} <= {count - stages for count, stages in trips if stages}
    assert any(count > 2 * stages > 0 for count, stages in trips)


def test_the_programs_for_the_gpu() -> None:
    """60 programs, always the same, of every loop, none of which is refused."""
    programs = list(gemm_family.gpu_programs())
    assert len(programs) == len(set(programs)) == 60
    assert {options.loop for options in programs} == set(LOOPS)
    assert {options.num_stages for options in programs} == set(range(6))
