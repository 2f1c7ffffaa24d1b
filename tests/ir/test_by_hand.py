"""Tile IR of kernels synchronised by hand: what is well formed, and its text as a program for the same kernel."""
from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

import pytest

from tests.sim.reference_kernels import buffer, points
from tilelang.errors import InternalError
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer, Mbarriers
from tilelang.ir.expr import Const, Expr, Var
from tilelang.ir.text import render
from tilelang.ir.tile import RegisterHints
from tilelang.ir.types import DType, Scope
from tilelang.ir.verify import verify

A, S = buffer("A", (64, 64), "float16"), buffer("S", (2, 64, 64), "float16", Scope.SHARED)
FULL = Mbarriers("full", (2,), DType("uint64"), Scope.BARRIER, arrivals=(128, 256))
PLANNED = RegisterHints()
ZERO, ONE, HALF, ROW, LOST = Const(0), Const(1), Const(0.5, DType("float32")), Var("i"), Var("lost")


def kernel(
    *body: tile.Stmt, threads: int = 256, buffers: tuple[Buffer, ...] = (S, FULL), registers: RegisterHints = PLANNED
) -> tile.Kernel:
    grid = (tile.GridAxis(Var("bx"), 1),)
    return tile.Kernel(
        name="kernel", params=(A,), grid=grid, threads=threads, buffers=buffers, body=body, registers=registers
    )  # fmt: skip


def only(*groups: int, body: tile.Body = ()) -> tile.Warpgroups:
    return tile.Warpgroups(groups=groups, body=body)


def wait(index: Expr = ZERO, parity: Expr = ZERO) -> tile.MbarrierWait:
    return tile.MbarrierWait(barriers=FULL, index=index, parity=parity)


def arrive(index: Expr = ZERO, barriers: Mbarriers = FULL) -> tile.MbarrierArrive:
    return tile.MbarrierArrive(barriers=barriers, index=index)


LOAD = tile.TmaCopy(src=A.whole(), dst=S[1, :, :], barriers=FULL, index=ONE)  # type: ignore[arg-type]
STORE = tile.TmaCopy(src=S[0, :, :], dst=A.whole())  # type: ignore[arg-type]
EVERYTHING = (
    tile.SyncThreads(), tile.FenceProxyAsync(), tile.SetMaxRegisters(count=40, increase=True),
    only(1, body=(LOAD, arrive(ONE))), only(0, 1, body=(wait(ONE, ONE), tile.SyncThreads(barrier_id=3, threads=256), STORE)),
)  # fmt: skip


def test_well_formed() -> None:
    verify(kernel(*EVERYTHING))
    verify(kernel(arrive(), threads=96))


BAD = {
    "warpgroups \\(2,\\) of 2": only(2),
    "warpgroups \\(1, 0\\)": only(1, 0),
    "warpgroups \\(\\)": only(),
    "warpgroups part inside a parallel loop": points((ROW,), (4,), only(0)),
    "a barrier inside a parallel loop": points((ROW,), (4,), arrive()),
    "lost is not in scope": wait(ZERO, LOST),
    "index 0.5 of full is float32": arrive(HALF),
    "0.5 is float32 and must be an integer": wait(ZERO, HALF),
    "the buffer other is not declared": arrive(barriers=Mbarriers("other", (1,), DType("uint64"), Scope.BARRIER, arrivals=(1,))),
    "a TMA copy from shared to global": dataclasses.replace(STORE, barriers=FULL, index=ZERO),
    "a TMA copy from global to shared": dataclasses.replace(LOAD, barriers=None, index=None),
    "barrier 16 of 32 threads": tile.SyncThreads(barrier_id=16, threads=32),
    "barrier 0 of 32 threads": tile.SyncThreads(threads=32),
    "threads meet inside a parallel loop": points((ROW,), (4,), tile.SyncThreads()),
    "FenceProxyAsync inside a parallel loop": points((ROW,), (4,), tile.FenceProxyAsync()),
}


@pytest.mark.parametrize("message", BAD)
def test_not_well_formed(message: str) -> None:
    with pytest.raises(InternalError, match=f"TL920.*{message}"):
        verify(kernel(BAD[message]))


def test_declarations_that_are_none() -> None:
    for bad, message in (
        (Mbarriers("b", (2,), DType("uint64"), Scope.BARRIER, arrivals=(1,)), "b is no array of mbarriers"),
        (Mbarriers("b", (1,), DType("uint64"), Scope.SHARED, arrivals=(1,)), "b is no array of mbarriers"),
        (Mbarriers("b", (1,), DType("uint64"), Scope.BARRIER, arrivals=(0,)), "an arrival count of b is not positive"),
    ):
        with pytest.raises(InternalError, match=message):
            verify(kernel(buffers=(bad,)))


TEXT = '''\
@T.prim_func
def kernel(A: T.Tensor((64, 64), "float16")):
    with T.Kernel(1, threads=256) as bx:
        S = T.alloc_shared((2, 64, 64), "float16")
        full = T.alloc_barrier([128, 256])
        T.disable_warp_group_reg_alloc()
        T.annotate_producer_reg_dealloc(40)
        T.annotate_consumer_reg_alloc(208)
        T.sync_threads()
        T.fence_proxy_async()
        T.set_max_nreg(40, 1)
        with T.ws(1):
            T.tma_copy(A, S[1, :, :], barrier=full[1])
            T.mbarrier_arrive(full[1])
        with T.ws(0, 1):
            T.mbarrier_wait_parity(full[1], 1)
            T.sync_threads(3, 256)
            T.tma_copy(S[0, :, :], A)
'''


def test_the_text_is_a_program_for_the_same_kernel(tmp_path: Path) -> None:
    assert render(kernel(*EVERYTHING, registers=RegisterHints(40, 208, True))) == TEXT
    path = tmp_path / "program.py"
    path.write_text(f"import tilelang.language as T\n\n{TEXT}")
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert render(module.kernel) == TEXT
    assert module.kernel.is_explicit


def test_what_makes_a_kernel_explicit() -> None:
    assert kernel(buffers=(FULL,)).is_explicit
    loop = tile.For(var=ROW, start=ZERO, stop=ONE, step=1, kind="serial", body=(only(0),))  # type: ignore[arg-type]
    assert kernel(tile.If(condition=Const(True, DType("bool")), then=(), otherwise=(loop,)), buffers=()).is_explicit
    assert not kernel(tile.SyncThreads(), tile.FenceProxyAsync(), STORE, buffers=(S,)).is_explicit
