"""What the machine tells of as it runs a block, and what one launch and one kernel have to do with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tilelang.ir import device
from tilelang.ir.buffer import Buffer
from tilelang.ir.walk import walk
from tilelang.sim.memory import CHUNK_BYTES, Access
from tilelang.sim.sync import Mbarrier

if TYPE_CHECKING:
    from tilelang.sim.strand import Strand


class Watch:
    """What the machine tells of; this one does nothing with it."""

    def shared(self, strand: Strand, threads: np.ndarray, starts: np.ndarray, width: int, access: Access, write: bool) -> None:
        """`threads` read or write `width` bytes each from byte addresses `starts` on."""

    def tensor(self, strand: Strand, threads: np.ndarray, tensor: Buffer, cells: np.ndarray, access: Access, write: bool) -> None:
        """`threads` read or write elements `cells` (threads, count) of a tensor."""

    def tma_load(self, strand: Strand, starts: np.ndarray, barrier: Mbarrier, access: Access) -> None:
        """A thread issues a load of 16-byte chunks to `starts`, completing on `barrier`."""

    def tma_store(self, strand: Strand, starts: np.ndarray, access: Access) -> None:
        """A thread issues a store of 16-byte chunks from `starts`."""

    def box(self, strand: Strand, tensor: Buffer, cells: np.ndarray, access: Access, barrier: Mbarrier | None) -> None:
        """The elements of a tensor that a load (which completes on `barrier`) reads, or a store writes."""

    def wants(self, tensor: Buffer) -> bool:
        """Whether accesses to a tensor matter at all."""
        return False

    def wgmma(self, strand: Strand, warpgroup: int, starts: np.ndarray, warps: np.ndarray | None, access: Access) -> None:
        """A warpgroup issues a read of chunks at `starts`: each by one of its `warps` (0 to 3), or by all of them."""

    def wgmma_committed(self, warpgroup: int) -> None: ...
    def wgmma_waited(self, warpgroup: int, pending: int) -> None: ...
    def bulk_committed(self, thread: int) -> None: ...
    def bulk_waited(self, thread: int, pending: int) -> None: ...
    def bulk_completed(self, thread: int, pending: int) -> None: ...
    def fence_async(self, strand: Strand) -> None: ...
    def fence_mbarrier_init(self, strand: Strand) -> None: ...
    def sync_warps(self, threads: np.ndarray) -> None: ...

    def named(self, strand: Strand, number: int, threads: int) -> None:
        """The threads of the strand meet at a named barrier that `threads` threads complete."""

    def init(self, strand: Strand, barrier: Mbarrier) -> None: ...

    def arrives(self, strand: Strand, barrier: Mbarrier, count: int) -> None:
        """The active threads, `count` of them, are about to arrive."""

    def arrived(self, strand: Strand, barrier: Mbarrier) -> None:
        """They have."""

    def waits(self, strand: Strand, barrier: Mbarrier, parity: int) -> None:
        """The threads of the strand begin to wait, or still do."""

    def passed(self, strand: Strand, barrier: Mbarrier, parity: int) -> None:
        """The wait is over."""

    def ends(self) -> None:
        """All strands have finished."""


@dataclass(slots=True)
class Launch:
    """What blocks must not do to each other: which block wrote, and which read, each element of the tensors that the kernel
    writes.  Blocks are counted from 1."""

    written: frozenset[Buffer]
    strict_war: bool = False
    """Whether ordinary reads, too, need a proxy fence before an asynchronous write."""
    writers: dict[Buffer, np.ndarray] = field(default_factory=dict)
    readers: dict[Buffer, np.ndarray] = field(default_factory=dict)
    blocks: int = 0
    names: dict[int, str] = field(default_factory=dict)
    """Of blocks, by their numbers."""

    def foreign(self, tensor: Buffer, size: int, cells: np.ndarray, write: bool, owner: int) -> tuple[int, str, int] | None:
        """Records an access by the block whose number, from 1 on, is `owner`.  An element that another block wrote, or read where
        this one writes, with what that block did and its number; None if there is none."""
        writers = self.writers.setdefault(tensor, np.zeros(size, np.int32))
        readers = self.readers.setdefault(tensor, np.zeros(size, np.int32))
        for others, verb in ((writers, "writes"), (readers, "reads")) if write else ((writers, "writes"),):
            found = others[cells]
            bad = (found != 0) & (found != owner)
            if bad.any():
                first = int(np.argmax(bad))
                return int(cells[first]), verb, int(found[first])
        (writers if write else readers)[cells] = owner
        return None


def launch_of(kernel: device.DeviceKernel, strict_war: bool = False) -> Launch:
    """The bookkeeping of one launch of a kernel."""
    nodes = list(_nodes(kernel))
    stores = {node.tensor for node in nodes if isinstance(node, device.StoreGlobal)}
    stores |= {node.map.tensor for node in nodes if isinstance(node, device.TmaStore)}
    return Launch(frozenset(stores), strict_war)


def cell_bytes(kernel: device.DeviceKernel) -> int:
    """The smallest access to shared memory that the kernel has, in bytes."""
    sizes = [CHUNK_BYTES]
    for node in _nodes(kernel):
        if isinstance(node, device.LoadShared):
            sizes.append(node.count * node.target.dtype.bytes)
        elif isinstance(node, device.StoreShared):
            sizes.append(sum(value.dtype.bytes for value in node.values))
    return max(min(sizes), 1)


def registers_of_wgmma(kernel: device.DeviceKernel) -> frozenset[device.Registers]:
    """The register arrays that some wgmma accumulates in or takes A from."""
    found = [node for node in _nodes(kernel) if isinstance(node, (device.WgmmaSS, device.WgmmaRS))]
    operands = {node.a for node in found if isinstance(node, device.WgmmaRS)}
    return frozenset(operands | {node.accumulator.registers for node in found})


def _nodes(kernel: device.DeviceKernel) -> Iterator[object]:
    for body in (kernel.setup, *(role.body for role in kernel.roles)):
        yield from walk(body)
