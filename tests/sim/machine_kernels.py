"""Small device kernels for the machine's tests: one role, one block, and a way to see what it computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from tilelang.errors import HazardError, TileError
from tilelang.ir import device as d
from tilelang.ir.device import BLOCK_IDX
from tilelang.ir.expr import Expr
from tilelang.ir.types import DType
from tilelang.sim.machine import Block, run
from tilelang.sim.schedule import schedule as schedule_of
from tilelang.sim.tma import GlobalMemory

BARRIERS = d.BarrierArray(name="bar", count=2, arrivals=1)
TILE = d.SharedArray(name="tile", offset_bytes=0, stage_bytes=32 * 1024, stages=1, swizzle_bytes=128)


def role(*body: d.Stmt, threads: int = 128, first: int = 0, name: str = "worker") -> d.Role:
    return d.Role(name=name, first_thread=first, threads=threads, body=body)


def kernel(
    *roles: d.Role,
    setup: d.Body = (),
    maps: Sequence[d.TensorMap] = (),
    grid: tuple[int | Expr, ...] = (1,),
    scalars: Sequence[object] = (),
    min_blocks: int = 1,
) -> d.DeviceKernel:
    threads = max((each.first_thread + each.threads for each in roles), default=128)
    return d.DeviceKernel(
        name="k", arch="sm_90a", title="", grid=grid, threads=threads, min_blocks_per_sm=min_blocks, tensor_maps=tuple(maps),
        scalars=tuple(scalars), shared=(TILE,), shared_bytes=32 * 1024, barriers=(BARRIERS,), setup=setup, roles=roles,
    )  # fmt: skip


def execute(*roles: d.Role, setup: d.Body = (), schedule: str = "fifo") -> Block:
    """Runs one block without tensors and returns it, memory and registers included."""
    block = Block(kernel(*roles, setup=setup), GlobalMemory({}, ()), {}, (0, 0, 0), schedule_of(schedule), 100_000)
    with np.errstate(all="ignore"):
        block.run()
    return block


def value_of(expr: Expr, threads: int = 128, *before: d.Stmt) -> np.ndarray:
    """What `expr` is in each of the first `threads` threads."""
    seen = d.Registers(name="seen", dtype=expr.dtype, shape=())
    body = (*before, d.DeclareRegisters(registers=seen), d.RegisterStore(registers=seen, indices=(), value=expr))
    registers = execute(role(*body, threads=threads)).registers
    return np.asarray(registers.load(seen, (), slice(0, threads), None, (), None))


@contextmanager
def raises(code: str, kind: type[TileError] = HazardError) -> Iterator[pytest.ExceptionInfo[TileError]]:
    """The body raises an error of this kind and code."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.code == code, str(caught.value)


__all__ = ["BARRIERS", "BLOCK_IDX", "TILE", "DType", "execute", "kernel", "raises", "role", "run", "value_of"]
