"""A tile that an epilogue reads from a tensor comes by TMA, into the shared tile from which the result is stored.

    for k in T.Pipelined(...): ...gemm into acc         for k in T.Pipelined(...): ...gemm into acc
    for i, j in T.Parallel(128, 128):             ->    T.copy(residual[y : y + 128, x : x + 128], tile)
        acc[i, j] = acc[i, j] + residual[y + i, x + j]  for i, j in T.Parallel(128, 128): acc[i, j] = acc[i, j] + tile[i, j]
    T.copy(acc, C[y, x])                                T.copy(acc, C[y, x])

A thread's own loads of such a tile are 4 bytes here and there, in the layout of the accumulator; they hold up whoever else uses
the memory pipeline, the other warpgroup's main loop among them.  The producer loads whole lines instead, as early as the memory
is free: where warpgroups take tiles in turn each of them has a tile to store from, which is idle during its main loop.  (A GEMM
with a residual on an H200: `docs/pipeline.md`.)
"""
from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from tilelang.ir import tile
from tilelang.ir.arith import constant_difference
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Const, Expr, Load, Var
from tilelang.ir.tile import Copy, Kernel, Parallel
from tilelang.ir.types import Scope
from tilelang.ir.walk import rewrite, substitute
from tilelang.passes.epilogue import Epilogue, moving_dims
from tilelang.passes.plans import CopyPlan
from tilelang.passes.settle import with_body
from tilelang.trace import Decision, Rejection


@dataclass(frozen=True, slots=True)
class Guests:
    """A kernel with such a copy in it: the copy, which buffer it fills, and the store whose tile that shares memory with."""

    kernel: Kernel
    copy: Copy
    hosts: Mapping[Buffer, Copy]
    decisions: tuple[Decision, ...]


def transform_guest(kernel: Kernel, copies: Mapping[Copy, CopyPlan]) -> Guests | None:
    """The kernel in which one tile that is read behind the main loop comes through shared memory; None if there is none that fits
    into the tile of the kernel's only store through shared memory."""
    epilogue = Epilogue.of(kernel)
    hosts = [copy for copy, plan in copies.items() if plan.staging is not None]
    if epilogue is None or len(hosts) != 1 or hosts[0] not in epilogue.body:
        return None
    host, room = hosts[0], copies[hosts[0]].staging
    assert room is not None
    for loop in epilogue.body[: epilogue.body.index(host)]:
        for load in epilogue.loads(loop):
            assert isinstance(loop, Parallel)
            region = _region(loop, load)
            if region is not None and _bytes(loop, load) <= room.slot_bytes:
                return _with_guest(kernel, loop, load, region, host)
    return None


def explain_in_place(kernel: Kernel, guest: Copy | None, predicate: str) -> tuple[Decision, ...]:
    """A decision for each tile that the epilogue reads from a tensor and that is not the `guest`: why it is loaded in place."""
    epilogue = Epilogue.of(kernel)
    if epilogue is None:
        return ()
    why = Rejection("by TMA, into the tile that is stored from", predicate, "not so")
    found = [
        (loop, load) for loop in epilogue.body for load in epilogue.loads(loop)
        if isinstance(loop, Parallel) and len(moving_dims(loop, load)) == len(loop.vars) > 1
        and (guest is None or load.buffer is not guest.src.buffer)
    ]  # fmt: skip
    where = "where it is used, by the threads that use it"
    return tuple(Decision(loop.span, f"load of {load.buffer.name}", where, rejected=(why,)) for loop, load in found)


def _bytes(loop: Parallel, load: Load) -> int:
    size = load.buffer.dtype.bytes
    for extent in loop.extents:
        size *= int(extent.value)  # type: ignore[attr-defined]
    return size


def _region(loop: Parallel, load: Load) -> Region | None:
    """The box of the tensor that the loop reads, if its last dimensions are the loop's, each `base + variable`."""
    if len(loop.vars) != 2 or len(moving_dims(loop, load)) != 2 or not all(isinstance(extent, Const) for extent in loop.extents):
        return None
    if len(load.indices) < 2:
        return None
    zero: dict[Var, Expr] = dict.fromkeys(loop.vars, Const(0))
    base: tuple[Expr, ...] = tuple(substitute(index, zero) for index in load.indices)  # type: ignore[misc]
    moved = [constant_difference(index, start) != 0 for index, start in zip(load.indices, base, strict=True)]
    steps = [
        constant_difference(index, start + var) == 0
        for index, start, var in zip(load.indices[-2:], base[-2:], loop.vars, strict=True)
    ]
    if any(moved[:-2]) or not all(steps):
        return None
    extents = tuple(int(extent.value) for extent in loop.extents)  # type: ignore[attr-defined]
    return Region(load.buffer, base, (*(1 for _ in base[:-2]), *extents))


def _with_guest(kernel: Kernel, loop: Parallel, load: Load, region: Region, host: Copy) -> Guests:
    at = kernel.body.index(loop)
    guest = Buffer(f"{load.buffer.name}_tile", region.extents[-2:], load.dtype, Scope.SHARED, load.buffer.span)
    copy = Copy(src=region, dst=Region(guest, (Const(0), Const(0)), guest.shape), span=loop.span)
    element = Load(guest, loop.vars)
    changed = dataclasses.replace(loop, body=rewrite(loop.body, lambda node: element if node == load else node))
    body: tile.Body = (*kernel.body[:at], copy, changed, *kernel.body[at + 1 :])
    chosen = f"by TMA, into the tile that {host.dst.buffer.name} is stored from"
    decision = Decision(loop.span, f"load of {load.buffer.name}", chosen, "whole lines, in memory that is idle until then")
    return Guests(with_body(kernel, body), copy, {guest: host}, (decision,))
