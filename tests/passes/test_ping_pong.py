"""Two consumer warpgroups that take tiles in turn mean the same as a block for each tile, under every schedule."""
from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import pytest

import tilelang.language as T
from tests.passes.ping_pong_programs import EVERY, Gemm, multiply, planned, same
from tilelang.codegen.cuda import emit
from tilelang.errors import HazardError
from tilelang.ir import device as d
from tilelang.ir.arith import simplify
from tilelang.ir.expr import Const, Expr, Var
from tilelang.ir.tile import GridAxis, Kernel
from tilelang.ir.walk import rewrite, substitute, walk
from tilelang.passes.lower_order import lower_tile, tile_number
from tilelang.passes.pipeline import Lowered
from tilelang.passes.plans import BlockOrder
from tilelang.sim.check import check

# ---- the same meaning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epilogue", ["none", "scale", "residual", "elements"])
def test_every_epilogue(epilogue: str) -> None:
    same(Gemm().build(epilogue), schedules=EVERY)


@pytest.mark.parametrize(
    "gemm",
    [
        Gemm(shape=(192, 64, 32)),  # three tiles, one turn
        Gemm(shape=(256, 64, 96)),  # fewer turns than slots
        Gemm(shape=(320, 64, 128)),  # as many
        Gemm(shape=(320, 64, 160)),  # one more
        Gemm(shape=(192, 128, 288)),  # more than twice as many
        Gemm(shape=(200, 136, 72)),  # ragged on every side
        Gemm(shape=(320, 64, 64), tile=(64, 64, 16), stages=5),
        Gemm(shape=(256, 256, 64), tile=(128, 64, 32), stages=3),
        Gemm(shape=(192, 96, 64), tile=(64, 32, 32), swizzle=2),
        Gemm(shape=(192, 192, 64), out_dtype="float32"),
        Gemm(shape=(192, 192, 64), out_dtype="float32", residual_dtype="float32"),
    ],
    ids=str,
)
def test_shapes(gemm: Gemm) -> None:
    same(gemm.build())


@pytest.mark.parametrize("multiprocessors", [1, 2, 3, 4])
def test_blocks_that_have_as_many_tiles_and_one_less(multiprocessors: int) -> None:
    """9 tiles for 1 to 4 blocks: odd and even numbers of tiles, and warpgroups that have one less than the other."""
    lowered = same(Gemm(shape=(192, 192, 64)).build(), multiprocessors, ("fifo",))
    assert lowered.device.grid == (multiprocessors,)


def test_one_axis_and_three() -> None:
    @T.prim_func
    def batched(A: T.Tensor((2, 128, 64), "float16"), B: T.Tensor((64, 128), "float16"), C: T.Tensor((2, 128, 128), "float16")):
        with T.Kernel(2, 2, 2, threads=128) as (bx, by, bz):
            A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[bz, by * 64, k * 32], A_s)
                T.copy(B[k * 32, bx * 64], B_s)
                T.gemm(A_s, B_s, acc)
            T.copy(acc, C[bz, by * 64, bx * 64])

    same(batched)

    @T.prim_func
    def tall(A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((256, 64), "float16")):
        with T.Kernel(4, threads=128) as by:
            acc = T.alloc_fragment((64, 64), "float32")
            multiply(A, B, acc, by)
            T.copy(acc, C[by * 64, 0])

    same(tall)


def test_a_scalar_of_the_authors_begins_afresh_for_each_tile() -> None:
    @T.prim_func
    def counted(A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((256, 64), "float16")):
        with T.Kernel(4, threads=128) as by:
            acc, count = T.alloc_fragment((64, 64), "float32"), T.alloc_var("int32", init=3)
            multiply(A, B, acc, by)
            count = count + by
            for i, j in T.Parallel(64, 64):
                acc[i, j] += T.cast(count, "float32")
            T.copy(acc, C[by * 64, 0])

    same(counted)


def test_a_load_of_the_authors_for_the_whole_tile() -> None:
    """What stands outside of the main loop fills a slot for each warpgroup."""

    @T.prim_func
    def biased(
        A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float16"), R: T.Tensor((256, 64), "float16"),
        C: T.Tensor((256, 64), "float16"),
    ):  # fmt: skip
        with T.Kernel(4, threads=128) as by:
            A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            R_s, acc = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            T.copy(R[by * 64, 0], R_s)
            for i, j in T.Parallel(64, 64):
                acc[i, j] = T.cast(R_s[i, j], "float32")
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[by * 64, k * 32], A_s)
                T.copy(B[k * 32, 0], B_s)
                T.gemm(A_s, B_s, acc)
            T.copy(acc, C[by * 64, 0])

    lowered = same(biased)
    assert [channel.stages for channel in lowered.plans.channels] == [2, 4]


@pytest.mark.parametrize("outside", ["A", "B"])
def test_an_operand_that_is_loaded_once_for_the_tile(outside: str) -> None:
    """Its slot is read by the last wgmma, so it is released only behind that."""

    @T.prim_func
    def stationary(A: T.Tensor((256, 32), "float16"), B: T.Tensor((32, 64), "float16"), C: T.Tensor((256, 64), "float16")):
        with T.Kernel(4, threads=128) as by:
            A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            if outside == "A":
                T.copy(A[by * 64, 0], A_s)
            else:
                T.copy(B[0, 0], B_s)
            for _ in T.Pipelined(3, num_stages=2):
                if outside == "A":
                    T.copy(B[0, 0], B_s)
                else:
                    T.copy(A[by * 64, 0], A_s)
                T.gemm(A_s, B_s, acc)
            T.copy(acc, C[by * 64, 0])

    same(stationary, schedules=EVERY)


def test_two_stores_of_different_size() -> None:
    """Each warpgroup stores both from memory that the other one does not touch."""

    @T.prim_func
    def both(
        A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((256, 64), "float16"),
        D: T.Tensor((256, 64), "float32"),
    ):  # fmt: skip
        with T.Kernel(4, threads=128) as by:
            acc = T.alloc_fragment((64, 64), "float32")
            multiply(A, B, acc, by)
            T.copy(acc, C[by * 64, 0])
            T.copy(acc, D[by * 64, 0])

    same(both, schedules=EVERY)


# ---- the tiles are blocks to the checks ---------------------------------------------------------------------------------------


def overlapping(rows: int) -> Kernel:
    """Every tile writes rows from `rows` times its number on."""

    @T.prim_func
    def kernel(A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((256, 64), "float32")):
        with T.Kernel(4, threads=128) as by:
            acc = T.alloc_fragment((64, 64), "float32")
            multiply(A, B, acc, by)
            for i, j in T.Parallel(64, 64):
                C[by * rows + i, j] = acc[i, j]

    return kernel


@pytest.mark.parametrize("rows", [0, 32])
def test_tiles_that_write_the_same_race_as_blocks_do(rows: int) -> None:
    """Though one warpgroup does them one after the other: which comes first is nobody's promise."""
    number = "by =" if rows else "tile"
    pair = rf"block \({number} 1\) writes it and block \({number} 0\) writes it"
    with pytest.raises(HazardError, match=rf"race between blocks on C\[\d+, \d+\]: {pair}") as caught:
        check(planned(overlapping(rows)).device)
    assert caught.value.code == "TL817"
    check(planned(overlapping(64)).device)


@pytest.mark.parametrize("multiprocessors", [3, 4])
def test_the_corners_are_among_the_tiles_that_are_checked(multiprocessors: int) -> None:
    """The last tile is where a ragged edge is: number 8 of 9, some block's in the middle."""
    device = planned(Gemm(shape=(192, 192, 64)).build(), multiprocessors).device
    assert device.walk is not None
    assert {0, 8} < set(device.walk.neighbours)
    assert {(tile % multiprocessors, 0, 0) for tile in device.walk.neighbours} <= set(check(device).blocks)


@pytest.mark.parametrize("extents", [(3, 4), (1, 7), (5, 8), (4, 11), (2, 1)])
@pytest.mark.parametrize("group_rows", [0, 1, 3, 8])
def test_numbers_of_tiles(extents: tuple[int, int], group_rows: int) -> None:
    """What a tile is called is where the walk finds it, and every tile has a number of its own."""
    columns, rows = extents
    order = BlockOrder(min(group_rows, rows), columns, rows) if group_rows else None
    axes = tuple(GridAxis(Var(name), extent) for name, extent in zip(("bx", "by"), extents, strict=True))
    kernel = dataclasses.replace(Gemm().build(), grid=axes)
    numbers = {at: tile_number(extents, order, at) for at in itertools.product(range(columns), range(rows))}
    assert sorted(numbers.values()) == list(range(columns * rows))
    for at, number in numbers.items():
        names: dict[Var, Expr] = {}
        for stmt in lower_tile(kernel, order, Const(number)):
            assert isinstance(stmt, d.Declare)
            names[stmt.var] = simplify(substitute(stmt.value, names))  # type: ignore[arg-type]
        assert tuple(names[axis.var] for axis in axes) == tuple(Const(index) for index in at)


# ---- what the synchronisation is for ------------------------------------------------------------------------------------------


def without(lowered: Lowered, gone: Callable[[Any], bool]) -> d.DeviceKernel:
    """The device kernel with some statements replaced by nothing."""
    found = sum(gone(node) for role in lowered.device.roles for node in walk(role.body))
    assert found
    empty = d.Unroll(var=lowered.plans.ping_pong.loop.var, count=0, body=())  # type: ignore[union-attr]
    roles = tuple(
        dataclasses.replace(role, body=rewrite(role.body, lambda node: empty if gone(node) else node))
        for role in lowered.device.roles
    )
    return dataclasses.replace(lowered.device, roles=roles)


def waits_for(node: object, name: str) -> bool:
    return isinstance(node, d.MbarrierWait) and node.barrier.array.name == name


def test_without_turns_a_wait_can_miss_its_phase() -> None:
    lowered = planned(Gemm(shape=(256, 64, 160)).build("scale"))
    check(lowered.device)
    with pytest.raises(HazardError) as caught:
        check(without(lowered, lambda node: waits_for(node, "turn")))
    assert caught.value.code in ("TL808", "TL809", "TL815")


def test_a_guest_is_not_loaded_before_the_store_has_read_the_tile() -> None:
    lowered = planned(Gemm(shape=(256, 64, 64)).build("residual"))
    check(lowered.device)
    with pytest.raises(HazardError) as caught:
        check(without(lowered, lambda node: waits_for(node, "residual_tile_empty")))
    assert caught.value.code in ("TL809", "TL815")


# ---- the text -----------------------------------------------------------------------------------------------------------------


def test_the_text_says_who_does_what() -> None:
    text = emit(planned(Gemm().build()).device)
    assert "grid 1 x 4, 1 block that take its tiles in turn, 256 consumer + 128 producer threads" in text
    assert "consumers of every second tile, from the first on" in text
    assert "consumers of every other tile, from the second on" in text
    assert "tl::wgmma_wait_group<1>();" in text
    assert text.count("tl::named_barrier_sync<1, 128>") == text.count("tl::named_barrier_sync<2, 128>") > 0
