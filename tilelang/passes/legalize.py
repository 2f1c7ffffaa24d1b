"""Refuses by name what this path cannot take.  Ensures: only statements, scopes and sizes that the later passes know."""
from __future__ import annotations

from tilelang.errors import ResourceExceeded, Unsupported
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.types import Scope, promote
from tilelang.passes.access import reads, statements, sub_bodies, writes
from tilelang.target import Target

GRID_LIMITS = (2**31 - 1, 65535, 65535)
MAX_REDUCED_BITS = 32


def legalize(kernel: tile.Kernel, target: Target) -> None:
    """Raises Unsupported or ResourceExceeded, naming the statement and the value."""
    _check_threads(kernel, target)
    _check_grid(kernel)
    _check_shapes(kernel)
    _check_locals(kernel.body)
    if not kernel.is_explicit:
        _check_planned(kernel)
    every = tuple(statements(kernel.body))
    written = {buffer for stmt in every for buffer in writes(stmt) if buffer.scope is Scope.GLOBAL}
    for stmt in every:
        if isinstance(stmt, tile.While):
            _check_while(stmt, written)
        if isinstance(stmt, tile.Reduce):
            _check_reduce(stmt)


def _check_while(loop: tile.While, written: set[Buffer]) -> None:
    """Threads would have to meet before every turn."""
    changing = next((b for b in reads(loop) if b.scope in (Scope.SHARED, Scope.FRAGMENT) or b in written), None)
    if changing is not None:
        raise Unsupported(
            f"a while loop whose condition reads {changing.name}, which the block's threads write, runs on the CPU only so far",
            code="TL333", span=loop.span, hint="keep the value in a T.alloc_var",
        )  # fmt: skip


def _check_reduce(reduce: tile.Reduce) -> None:
    """Threads exchange partial results in 32-bit registers."""
    dtype = promote(reduce.src.buffer.dtype, reduce.dst.buffer.dtype)
    if dtype.bits > MAX_REDUCED_BITS:
        raise Unsupported(
            f"a reduction in {dtype} runs on the CPU only so far; sm_90a takes elements of up to {MAX_REDUCED_BITS} bits",
            code="TL334", span=reduce.span, hint=f"copy {reduce.src.buffer.name} to a narrower fragment first",
        )  # fmt: skip


def _check_planned(kernel: tile.Kernel) -> None:
    """What makes sense only where the author divides the warpgroups: numbers of registers and of threads depend on the roles."""
    for stmt in statements(kernel.body):
        if isinstance(stmt, tile.SetMaxRegisters) or (isinstance(stmt, tile.SyncThreads) and stmt.barrier_id):
            what = "T.set_max_nreg" if isinstance(stmt, tile.SetMaxRegisters) else "T.sync_threads with a barrier_id"
            hint = "use T.annotate_consumer_reg_alloc" if isinstance(stmt, tile.SetMaxRegisters) else "leave its arguments out"
            raise Unsupported(
                f"{what} in a kernel whose warpgroups the compiler divides", code="TL348", span=stmt.span,
                hint=f"{hint}, or divide them yourself: with T.ws(0):",
            )  # fmt: skip


def _check_shapes(kernel: tile.Kernel) -> None:
    for tensor in kernel.tensors:
        if not all(isinstance(extent, int) for extent in tensor.shape):
            raise Unsupported(
                f"{tensor.name} has run-time extents; shapes are constants so far", code="TL304", span=tensor.span,
                hint="make the kernel for each shape: a function that takes the extents and returns the kernel",
            )  # fmt: skip


def _check_locals(body: tile.Body) -> None:
    """Arrays of each thread belong to the points of one T.Parallel."""
    for stmt in body:
        if isinstance(stmt, tile.Parallel):
            continue
        for inner in sub_bodies(stmt):
            _check_locals(inner)
        for buffer in reads(stmt) | writes(stmt):
            if buffer.scope is Scope.LOCAL:
                raise Unsupported(
                    f"{buffer.name} is used outside of T.Parallel; there, T.alloc_local arrays run on the CPU only so far",
                    code="TL332", span=stmt.span or buffer.span,
                    hint="use it within one T.Parallel, or a fragment or T.alloc_var instead",
                )  # fmt: skip


def _check_threads(kernel: tile.Kernel, target: Target) -> None:
    if kernel.threads % target.warp_size:
        raise Unsupported(
            f"threads={kernel.threads}: blocks are made of whole warps of {target.warp_size}", code="TL330", span=kernel.span,
            hint=f"write a multiple of {target.warp_size}",
        )  # fmt: skip
    if kernel.threads > target.threads_per_block_max:
        raise ResourceExceeded(
            f"threads={kernel.threads}: a block has at most {target.threads_per_block_max}", code="TL403", span=kernel.span,
            hint=f"write {target.threads_per_block_max} or less",
        )  # fmt: skip


def _check_grid(kernel: tile.Kernel) -> None:
    for axis, limit, letter in zip(kernel.grid, GRID_LIMITS, "xyz", strict=False):
        if isinstance(axis.extent, int) and axis.extent > limit:
            raise ResourceExceeded(
                f"the grid has {axis.extent} blocks along {letter}, the hardware takes at most {limit}",
                code="TL404", span=kernel.span, hint="put the largest extent first, or use larger tiles",
            )  # fmt: skip
