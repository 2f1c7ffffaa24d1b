"""Ordinary loads and stores of threads: ld and st of global and shared memory, stmatrix, shuffles.

A vector access moves `count` neighbouring elements and is aligned to its size, 1, 2, 4, 8 or 16 bytes.  (PTX ISA, "ld", "st",
"stmatrix", "shfl.sync".)
"""

from __future__ import annotations

import numpy as np

from tilelang.errors import HazardError, InternalError
from tilelang.ir import device
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr
from tilelang.sim.convert import Value, bits_of, convert
from tilelang.sim.memory import Access
from tilelang.sim.strand import Group, Steps, Strand

# ---- shared memory ------------------------------------------------------------------------------------------------------------


def load_shared(stmt: device.LoadShared, strand: Strand) -> None:
    size = _size(stmt.count, stmt.target, strand)
    lanes = _lanes(stmt.predicate, strand)
    starts = strand.per_thread(stmt.address, np.int64)[lanes]
    access = strand.access("ld.shared")
    data = strand.block.shared.read(starts, size, access)
    _note(strand, strand.threads[lanes], starts, size, access, write=False)
    _deliver(stmt.target, stmt.first, stmt.count, lanes, data, strand)


def store_shared(stmt: device.StoreShared, strand: Strand) -> None:
    lanes = _lanes(stmt.predicate, strand)
    data = _gathered(stmt.values, strand)[lanes]
    starts = strand.per_thread(stmt.address, np.int64)[lanes]
    _check_conflict(starts, data, strand)
    access = strand.access("st.shared")
    strand.block.shared.write(starts, data, access)
    _note(strand, strand.threads[lanes], starts, data.shape[1], access, write=True)


def _note(strand: Strand, threads: np.ndarray, starts: np.ndarray, width: int, access: Access, write: bool) -> None:
    """Tells the vector clocks and the count of bank conflicts of an access to shared memory."""
    strand.block.watch.shared(strand, threads, starts, width, access, write)
    if strand.block.banks is not None:
        apart = len(strand.group.strands) > 1 and len(threads) < strand.group.threads
        strand.block.banks.add((access.span, access.action), strand, apart, threads, starts, width)


# ---- global memory ------------------------------------------------------------------------------------------------------------


def load_global(stmt: device.LoadGlobal, strand: Strand) -> None:
    if stmt.tensor.dtype != stmt.target.dtype:
        raise InternalError(f"{stmt.tensor.name} is loaded into registers of {stmt.target.dtype}", code="TL942", span=strand.span)
    _size(stmt.count, stmt.target, strand)
    lanes = _lanes(stmt.predicate, strand)
    offsets = strand.per_thread(stmt.offset, np.int64)[lanes]
    access = strand.access("ld.global")
    data = strand.block.tensors.read(stmt.tensor, offsets, stmt.count, access)
    _watch_tensor(stmt.tensor, offsets, stmt.count, lanes, access, strand, write=False)
    words = data.view(np.uint8).reshape(len(offsets), stmt.count * stmt.tensor.dtype.bytes)
    _deliver(stmt.target, stmt.first, stmt.count, lanes, words, strand)


def store_global(stmt: device.StoreGlobal, strand: Strand) -> None:
    if any(value.dtype != stmt.tensor.dtype for value in stmt.values):
        raise InternalError(f"a value stored to {stmt.tensor.name} has another dtype", code="TL942", span=strand.span)
    lanes = _lanes(stmt.predicate, strand)
    data = _gathered(stmt.values, strand)[lanes]
    offsets = strand.per_thread(stmt.offset, np.int64)[lanes]
    _check_conflict(offsets, data, strand)
    access = strand.access("st.global")
    strand.block.tensors.write(stmt.tensor, offsets, data.view(stmt.tensor.dtype.numpy), access)
    _watch_tensor(stmt.tensor, offsets, len(stmt.values), lanes, access, strand, write=True)


def _watch_tensor(
    tensor: Buffer, offsets: np.ndarray, count: int, lanes: np.ndarray, access: Access, strand: Strand, write: bool
) -> None:
    if strand.block.watch.wants(tensor):
        cells = offsets[:, None] + np.arange(count)
        strand.block.watch.tensor(strand, strand.threads[lanes], tensor, cells, access, write)


# ---- what both have in common -------------------------------------------------------------------------------------------------


def _lanes(predicate: Expr | None, strand: Strand) -> np.ndarray:
    """Which threads of the strand access memory: the active ones for which the predicate holds."""
    active = np.ones(len(strand.threads), bool) if strand.mask is None else strand.mask
    return active if predicate is None else active & strand.per_thread(predicate, np.bool_)


def _size(count: int, target: device.Registers, strand: Strand) -> int:
    """Bytes of an access.  Raises InternalError TL942 for a size that no instruction has."""
    size = count * target.dtype.bytes
    if size not in (1, 2, 4, 8, 16):
        raise InternalError(f"a vector of {count} values of {target.dtype} is no access", code="TL942", span=strand.span)
    return size


def _gathered(values: tuple[Expr, ...], strand: Strand) -> np.ndarray:
    """The bytes that every thread stores: uint8, shape (threads, size)."""
    dtypes = {value.dtype for value in values}
    size = sum(value.dtype.bytes for value in values)
    if len(dtypes) != 1 or size not in (1, 2, 4, 8, 16):
        raise InternalError(
            f"a vector of {len(values)} values of {', '.join(dtypes)} is no access", code="TL942", span=strand.span
        )
    count = len(strand.threads)
    words = [np.broadcast_to(bits_of(strand.value(value), value.dtype), count) for value in values]
    return np.ascontiguousarray(np.stack(words, axis=-1)).view(np.uint8).reshape(count, size)


def _deliver(
    target: device.Registers, first: tuple[Expr, ...], count: int, lanes: np.ndarray, data: np.ndarray, strand: Strand
) -> None:
    """Loaded bytes, one row for each of `lanes`, into registers; zeros in active threads whose predicate failed."""
    *rest, last = (strand.uniform(index, "a register index") for index in first)
    elements = np.zeros((len(lanes), count), target.dtype.numpy)
    elements[lanes] = np.ascontiguousarray(data).view(target.dtype.numpy)
    for i in range(count):
        strand.store_register(target, (*rest, last + i), elements[:, i])


def _check_conflict(places: np.ndarray, data: np.ndarray, strand: Strand) -> None:
    """Raises HazardError TL813 where threads of one store write different values to one place."""
    _, first, inverse = np.unique(places, return_index=True, return_inverse=True)
    if len(first) < len(places) and (data[first][inverse.reshape(-1)] != data).any():
        raise HazardError(
            f"{strand.name}: threads of one store write different values to one place", code="TL813", span=strand.span,
            hint="let each point write an element of its own; if the place is an index from a tensor, check with yours: "
            "kernel.check(*arrays) makes up small integers for what it is not given",
        )  # fmt: skip


# ---- whole warps --------------------------------------------------------------------------------------------------------------


def _require_warps(group: Group, what: str, strand: Strand) -> None:
    if group.first_thread % 32 or group.threads % 32:
        raise HazardError(f"{strand.name}: {what} by part of a warp", code="TL821", span=strand.span)


def store_matrix(stmt: device.StoreMatrix, strand: Strand) -> Steps:
    """All threads of a warp store together.  Warps that lie in one strand are stored as it goes on, not when strands meet, so
    that another strand which runs ahead does not find them done."""
    if len(stmt.values) != 4:
        raise InternalError(f"stmatrix.x4 takes four registers, not {len(stmt.values)}", code="TL942", span=strand.span)

    def store_split_warps(group: Group, operands: list[Value]) -> list[Value]:
        _require_warps(group, "stmatrix", strand)
        _stmatrix(strand, operands, group.split_warps())
        return operands

    operands = yield from strand.meet(stmt, (stmt.address, *stmt.values), store_split_warps)
    _stmatrix(strand, operands, strand.whole_warps())


def _stmatrix(strand: Strand, operands: list[Value], warps: np.ndarray) -> None:
    """The four 8 x 8 matrices of each of `warps` (numbered within the group): lane i gives the address of row i % 8 of matrix
    i // 8, and register r of lane l holds columns 2 * (l % 4) and the next of row l // 4 of matrix r."""
    if not warps.size:
        return
    lanes = (32 * warps[:, None] + np.arange(32)).reshape(-1)
    addresses, *registers = (
        np.asarray(operand, np.int64)[lanes] if isinstance(operand, np.ndarray) else np.full(lanes.size, operand, np.int64)
        for operand in operands
    )
    rows = np.stack([register.astype(np.uint32).reshape(-1, 8, 4) for register in registers], axis=1)
    access = strand.access("stmatrix")
    strand.block.shared.write(addresses, rows.view(np.uint8).reshape(-1, 16), access)
    _note(strand, strand.group.first_thread + lanes, addresses, 16, access, write=True)


def shuffle_xor(stmt: device.ShuffleXor, strand: Strand) -> Steps:
    if stmt.value.dtype.bits != 32 or not 0 <= stmt.lane_mask < 32:
        raise InternalError(f"a shuffle of {stmt.value.dtype} by lane {stmt.lane_mask}", code="TL942", span=strand.span)

    def exchange(group: Group, operands: list[Value]) -> Value:
        _require_warps(group, "a shuffle", strand)
        value = operands[0]
        return value[np.arange(group.threads) ^ stmt.lane_mask] if isinstance(value, np.ndarray) else value

    value = yield from strand.meet(stmt, (stmt.value,), exchange)
    if isinstance(value, np.ndarray):
        value = strand.own(value)
    strand.env[stmt.var] = convert(value, stmt.value.dtype, stmt.var.dtype)
