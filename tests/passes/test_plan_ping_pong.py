"""When two warpgroups take tiles in turn, and what is said where they do not."""
from __future__ import annotations

import dataclasses

import pytest

import tilelang.language as T
from tests.passes.ping_pong_programs import Gemm, chip, planned, refusal
from tilelang.ir.tile import RegisterHints
from tilelang.passes.pipeline import compile_kernel
from tilelang.target import SM_90A

# ---- what is chosen -----------------------------------------------------------------------------------------------------------


def test_few_tiles_have_a_block_each() -> None:
    lowered = compile_kernel(Gemm(shape=(128, 64, 64)).build(), chip(1))
    assert lowered.plans.ping_pong is None
    assert refusal(lowered) == "more tiles than two for each of the 1 SMs"


@pytest.mark.parametrize(
    ("gemm", "predicate"),
    [
        (Gemm(threads=256, tile=(128, 64, 32)), "the kernel has 128 threads"),
        (Gemm(stages=1), "num_stages is 2 or more, for a ring of twice as many slots"),
        (Gemm(shape=(512, 512, 256), tile=(128, 128, 128)), "4 slots fit beside what each warpgroup has to itself"),
        (Gemm(shape=(512, 512, 64), tile=(128, 192, 32)), "fragments take at most 160 registers a thread"),
        (Gemm(shape=(192, 192, 0)), "the loop's trip count is a constant, and not 0"),
    ],
)
def test_what_forbids_it_is_said(gemm: Gemm, predicate: str) -> None:
    lowered = compile_kernel(gemm.build(), chip(1))
    assert lowered.plans.ping_pong is None
    assert refusal(lowered) == predicate


def test_other_work_in_the_loop_forbids_it() -> None:
    @T.prim_func
    def scaled(A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((256, 64), "float16")):
        with T.Kernel(4, threads=128) as by:
            A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[by * 64, k * 32], A_s)
                T.copy(B[k * 32, 0], B_s)
                T.gemm(A_s, B_s, acc)
                for i, j in T.Parallel(64, 64):
                    acc[i, j] = acc[i, j] * 2
            T.copy(acc, C[by * 64, 0])

    lowered = compile_kernel(scaled, chip(1))
    assert lowered.plans.ping_pong is None
    assert refusal(lowered) == "the loop holds loads by TMA and a gemm, nothing else"


def test_the_author_can_forbid_it() -> None:
    lowered = compile_kernel(Gemm().build(), chip(1), {"tl.disable_ping_pong": True})
    assert lowered.plans.ping_pong is None
    assert refusal(lowered) == "the author allows it"
    rejected = [each for decision in planned(Gemm().build()).decisions for each in decision.rejected]
    edits = [each.edit for each in rejected if each.alternative == "a block for each tile"]
    assert edits == ['pass_configs={"tl.disable_ping_pong": True}']


def test_registers_that_the_author_hands_out_forbid_it() -> None:
    """Two warpgroups of consumers have fewer to share than one."""
    kernel = dataclasses.replace(Gemm().build(), registers=RegisterHints(consumer=240, producer=40))
    lowered = compile_kernel(kernel, chip(1))
    assert lowered.plans.ping_pong is None
    assert refusal(lowered) == "registers are left to the plan"


def test_loads_under_a_condition_forbid_it() -> None:
    @T.prim_func
    def conditional(A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((256, 64), "float16")):
        with T.Kernel(4, threads=128) as by:
            A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(2, num_stages=2):
                if by > k:
                    T.copy(A[by * 64, k * 32], A_s)
                    T.copy(B[k * 32, 0], B_s)
                    T.gemm(A_s, B_s, acc)
            T.copy(acc, C[by * 64, 0])

    lowered = compile_kernel(conditional, chip(1))
    assert lowered.plans.ping_pong is None
    assert refusal(lowered) == "one loop of the kernel's body holds loads, and others stand in the body itself"


def test_more_tiles_than_an_int32_counts_forbid_it() -> None:
    @T.prim_func
    def huge(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(2**31 - 1, threads=128) as bx:
            A_s, B_s = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(1, num_stages=2):
                T.copy(A[0, k * 64], A_s)
                T.copy(B[k * 64, 0], B_s)
                T.gemm(A_s, B_s, acc)
            if bx == 0:
                T.copy(acc, C)

    assert refusal(compile_kernel(huge, SM_90A)) == "a loop over the tiles counts in 32 bits"


def test_what_ordinary_loads_read_of_the_ring_forbids_it() -> None:
    @T.prim_func
    def peeking(A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((256, 64), "float16")):
        with T.Kernel(4, threads=128) as by:
            A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[by * 64, k * 32], A_s)
                T.copy(B[k * 32, 0], B_s)
                corner = A_s[0, 0] + B_s[0, 0]
                T.gemm(A_s, B_s, acc, clear_accum=(k == 0 or corner > T.cast(2, "float16")))
            T.copy(acc, C[by * 64, 0])

    assert refusal(compile_kernel(peeking, chip(1))) == "the loop holds loads by TMA and a gemm, nothing else"


def test_short_turns_forbid_it() -> None:
    """64 x 64 x 32 keeps the tensor core busy for 64 cycles, which one warpgroup cannot follow."""
    few = dataclasses.replace(SM_90A, multiprocessors=1)
    least = f"an iteration takes the tensor core {few.lone_warpgroup_cycles} cycles or more"
    assert refusal(compile_kernel(Gemm().build(), few)) == least
    assert compile_kernel(Gemm(shape=(512, 512, 128), tile=(128, 128, 64)).build(), few).plans.ping_pong is not None


@pytest.mark.parametrize("gemm", [Gemm(), Gemm(shape=(512, 512, 128), tile=(128, 128, 64), stages=3)], ids=["small", "large"])
def test_one_block_an_sm_with_all_its_registers(gemm: Gemm) -> None:
    roles = planned(gemm.build()).plans.roles
    assert (roles.min_blocks_per_sm, roles.consumer_threads, roles.consumer_registers) == (1, 256, 240)


def test_the_ring_is_as_deep_as_those_of_two_blocks_or_what_fits() -> None:
    assert planned(Gemm(stages=3).build()).plans.channels[-1].stages == 6
    deep = planned(Gemm(shape=(512, 512, 512), tile=(128, 128, 64), stages=4).build("scale"))
    assert deep.plans.channels[-1].stages == 5
    assert deep.plans.shared.bytes <= SM_90A.shared_bytes_per_block - 1024


