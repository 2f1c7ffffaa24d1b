"""What the words for pipelines by hand become: the statements, and the kernel that holds them."""
# ruff: noqa: F841 - kernels are written as their authors would
from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tilelang.language as T
from tilelang.errors import NameProblem, Unsupported
from tilelang.frontend.builder import Builder
from tilelang.ir import tile
from tilelang.ir.buffer import Mbarriers
from tilelang.ir.text import render_statement
from tilelang.ir.tile import RegisterHints
from tilelang.ir.types import Scope
from tilelang.ir.verify import verify
from tilelang.ir.walk import walk


def texts(kernel: tile.Kernel) -> list[str]:
    verify(kernel)
    return [line for stmt in kernel.body for line in render_statement(stmt).splitlines()]


def test_barriers_are_buffers_of_the_block() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=256) as bx:
            one = T.alloc_barrier(128)
            full, empty = T.alloc_barrier([128, 1]), T.alloc_barrier(arrive_count=[T.int32(2), 3, 4])
            T.mbarrier_arrive(one)

    assert all(isinstance(buffer, Mbarriers) and buffer.scope is Scope.BARRIER for buffer in kernel.buffers)
    assert [(b.name, b.shape, b.arrivals) for b in kernel.buffers] == [  # type: ignore[attr-defined]
        ("one", (1,), (128,)), ("full", (2,), (128, 1)), ("empty", (3,), (2, 3, 4)),
    ]  # fmt: skip
    assert kernel.is_explicit
    assert texts(kernel) == ["T.mbarrier_arrive(one[0])"]


def test_statements() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float16"), n: T.int32):
        with T.Kernel(2, threads=384) as bx:
            tiles = T.alloc_shared((2, 64, 64), "float16")
            full = T.alloc_barrier([128, 128])
            with T.ws(2):
                T.set_max_nreg(24, 0)
                for k in range(n):
                    T.barrier_wait(full[k % 2], k & 1)
                    T.tma_copy(A, tiles[k % 2, :, :], barrier=full[k % 2])
                    T.barrier_arrive(full[k % 2])
            with T.ws(1, 0):
                T.inc_max_nreg(232)
                T.mbarrier_wait_parity(full[0], n > 3)
                T.fence_proxy_async()
                T.sync_threads(2, 256)
                with T.WarpSpecialize(0, 2):
                    T.dec_max_nreg(40)
                T.tma_copy(tiles[1, :, :], A)
            T.sync_threads()

    assert texts(kernel) == [
        "with T.ws(2):",
        "    T.set_max_nreg(24, 0)",
        "    for k in range(n):",
        "        T.mbarrier_wait_parity(full[k % 2], k & 1)",
        "        T.tma_copy(A, tiles[k % 2, :, :], barrier=full[k % 2])",
        "        T.mbarrier_arrive(full[k % 2])",
        "with T.ws(0, 1):",
        "    T.set_max_nreg(232, 1)",
        '    T.mbarrier_wait_parity(full[0], T.cast(n > 3, "int32"))',
        "    T.fence_proxy_async()",
        "    T.sync_threads(2, 256)",
        "    with T.ws(0):",
        "        T.set_max_nreg(40, 0)",
        "    T.tma_copy(tiles[1, :, :], A)",
        "T.sync_threads()",
    ]
    assert all(stmt.span is not None for stmt in walk(kernel.body) if isinstance(stmt, tile.Stmt))


def test_a_macro_gets_a_barrier() -> None:
    """By reference, at the index it had when the macro was called."""

    @T.macro
    def signal(bar: Any) -> None:
        T.mbarrier_arrive(bar)

    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1) as bx:
            full = T.alloc_barrier([128, 128])
            turn = T.alloc_var("int32")
            signal(full[turn])
            mine = full[1]
            turn = 1
            signal(mine)

    lines = texts(kernel)
    assert lines[1:] == ["bar = turn", "T.mbarrier_arrive(full[bar])", "turn = 1", "T.mbarrier_arrive(full[1])"]


def test_registers_of_planned_roles() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1) as bx:
            T.annotate_producer_reg_dealloc()
            T.annotate_consumer_reg_alloc(216)
            T.no_set_max_nreg()

    assert kernel.registers == RegisterHints(producer=24, consumer=216, fixed=True)
    assert not kernel.is_explicit


@pytest.mark.parametrize("word", ["T.sync_threads()", "T.fence_proxy_async()", "T.set_max_nreg(240, 1)"])
def test_words_that_do_not_divide_a_kernel(word: str) -> None:
    b = Builder("plain")
    with b.kernel(1, threads=128):
        eval(word, {"T": T})
    assert not b.finish().is_explicit


def test_the_builder_by_hand() -> None:
    b = Builder("by_hand")
    with b.kernel(1, threads=256):
        full = b.alloc_barriers("full", (128,))
        with b.only(0), b.loop(T.serial(3), "k") as k:
            T.mbarrier_wait_parity(full, k % 2)
        with b.only(1):
            T.mbarrier_arrive(full[0])
    kernel = b.finish()
    assert texts(kernel) == [
        "with T.ws(0):", "    for k in range(3):", "        T.mbarrier_wait_parity(full[0], k % 2)", "with T.ws(1):",
        "    T.mbarrier_arrive(full[0])",
    ]  # fmt: skip
    assert kernel.is_explicit


def test_names_of_a_block_end_with_it() -> None:
    with pytest.raises(NameProblem) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((64, 64), "float16")):
            with T.Kernel(1, threads=256) as bx:
                with T.ws(0):
                    tile = T.alloc_fragment((64, 64), "float16")
                T.copy(tile, A)

    assert caught.value.code == "TL105"


def test_only_one_side_of_a_python_condition_is_built() -> None:
    def build(loads: bool) -> tile.Kernel:
        @T.prim_func
        def kernel(A: T.Tensor((64, 64), "float16")):
            with T.Kernel(1, threads=256) as bx:
                full = T.alloc_barrier(128)
                if loads:
                    with T.ws(1):
                        T.mbarrier_arrive(full)
                else:
                    T.mbarrier_wait_parity(full, 0)

        return kernel

    assert [type(build(loads).body[0]) for loads in (True, False)] == [tile.Warpgroups, tile.MbarrierWait]


# ---- the number of the thread -------------------------------------------------------------------------------------------------


def test_conditions_on_the_thread_divide_warpgroups() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=512) as bx:
            full = T.alloc_barrier([128, 128])
            tx = T.get_thread_binding()
            group = tx // 128
            if tx < 128:
                T.mbarrier_arrive(full[0])
            elif group >= 2 and not tx > 383:
                T.set_max_nreg(24, 0)
            else:
                T.mbarrier_wait_parity(full[1], 0)
            if tx >> 9:
                T.sync_threads()
            with T.ws(0, 1):
                if (tx // 128) % 2 == 0:
                    T.fence_proxy_async()
                else:
                    T.mbarrier_arrive(full[1])
            if 128 <= tx < 256:
                T.fence_proxy_async()

    assert texts(kernel) == [
        "with T.ws(0):", "    T.mbarrier_arrive(full[0])",
        "with T.ws(1, 2, 3):", "    with T.ws(2):", "        T.set_max_nreg(24, 0)",
        "    with T.ws(1, 3):", "        T.mbarrier_wait_parity(full[1], 0)",
        "with T.ws(0, 1):", "    with T.ws(0):", "        T.fence_proxy_async()",
        "    with T.ws(1):", "        T.mbarrier_arrive(full[1])",
        "with T.ws(1):", "    T.fence_proxy_async()",
    ]  # fmt: skip


CONDITIONS = [
    "tx < 128", "tx != 130 or tx == 130", "tx % 128 >= 0", "(tx & 128) == 0", "T.max(tx, 200) > 255", "-tx <= -256", "~tx < -128",
    "T.int64(tx) * 2 >= 512", "(tx ^ tx) + (1 << 2) == 4", "not tx // 128 == 1", "tx",
]  # fmt: skip


@pytest.mark.parametrize("threads", [128, 384])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_thread_takes_the_side_python_says(condition: str, threads: int, tmp_path: Path) -> None:
    """By brute force: the condition on plain numbers, thread by thread; for one that divides a warpgroup, that."""
    source = f"""import tilelang.language as T

@T.prim_func
def kernel(A: T.Tensor((64, 64), "float16")):
    with T.Kernel(1, threads={threads}) as bx:
        tx = T.get_thread_binding()
        if {condition}:
            T.sync_threads()
"""
    path = tmp_path / "program.py"
    path.write_text(source)
    plain = {"T": SimpleNamespace(max=max, int64=int)}
    wanted = [{bool(eval(condition, {**plain, "tx": t})) for t in range(g, g + 128)} for g in range(0, threads, 128)]
    if any(len(sides) > 1 for sides in wanted):
        with pytest.raises(Unsupported):
            runpy.run_path(str(path))
        return
    kernel = runpy.run_path(str(path))["kernel"]
    taken = {group for stmt in kernel.body for group in stmt.groups}
    assert taken == {group for group, sides in enumerate(wanted) if sides == {True}}
