"""The plans: frozen decisions about a tile kernel, made by `plan_*` and obeyed by `lower_*`.

Statements and buffers are the keys; a plan never changes the kernel it is about.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tilelang.ir.buffer import Buffer
from tilelang.ir.device import Registers, SharedArray, TensorMap
from tilelang.ir.expr import Var
from tilelang.ir.tile import Body, Copy, Fill, For, Gemm, Parallel, Stmt
from tilelang.layout.digits import Layout
from tilelang.layout.swizzle import PanelLayout


class CopyKind(StrEnum):
    TMA_LOAD = "TMA load"
    TMA_STORE = "TMA store"
    FRAGMENT_TO_SHARED = "fragment to shared"
    FRAGMENT_TO_GLOBAL = "fragment through shared memory and TMA store"
    ELEMENTWISE = "element by element"


@dataclass(frozen=True, slots=True)
class Box:
    """One TMA transfer of a tile: where it starts in the tile's shared memory, and what is added to the region's base in each
    dimension of the tensor (outermost first, elements)."""

    offset_bytes: int
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TmaPlan:
    """The tensor map and the boxes that together move one tile."""

    map: TensorMap
    boxes: tuple[Box, ...]

    @property
    def bytes(self) -> int:
        return self.map.box_bytes * len(self.boxes)


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """How a copy is done.  `staging` is the shared tile that a fragment passes through on its way to global memory."""

    kind: CopyKind
    tma: TmaPlan | None = None
    staging: PanelLayout | None = None


@dataclass(frozen=True, slots=True)
class GemmPlan:
    """wgmma tiling of one gemm.  The warpgroups form a grid of warpgroups_m x warpgroups_n (n fastest) over the tile, each with
    m_tiles x n_tiles instructions m64n{n}k16, k_steps times.  `a_in_registers`: A is a fragment in the operand's layout."""

    n: int
    m_tiles: int
    n_tiles: int
    k_steps: int
    a_mn_major: bool
    b_mn_major: bool
    warpgroups_m: int = 1
    warpgroups_n: int = 1
    a_in_registers: bool = False

    @property
    def warpgroups(self) -> int:
        return self.warpgroups_m * self.warpgroups_n


@dataclass(frozen=True, slots=True)
class Clear:
    """An accumulator's clear that costs nothing: the first wgmma after it does not read the accumulator.  `loop` is the loop
    whose first iteration that is, None if the gemm follows the clear directly."""

    fill: Fill
    gemm: Gemm
    loop: For | None


@dataclass(frozen=True, slots=True)
class Site:
    """One place where a channel's slot is filled and used, all in one statement list: the copies that fill it together, the first
    statement that reads it and the last."""

    copies: tuple[Copy, ...]
    first_reader: Stmt
    last_reader: Stmt


@dataclass(frozen=True, slots=True)
class Channel:
    """A ring of `stages` slots between the producer and the consumers, holding one tile of each of `buffers` per slot, with one
    full and one empty mbarrier a slot."""

    name: str
    buffers: tuple[Buffer, ...]
    stages: int
    bytes_per_stage: int
    sites: tuple[Site, ...]


@dataclass(frozen=True, slots=True)
class RolePlan:
    """Threads and registers: consumers first, then the producer warpgroup (none if nothing is loaded)."""

    consumer_threads: int
    producer_threads: int
    consumer_registers: int
    producer_registers: int
    min_blocks_per_sm: int

    @property
    def threads(self) -> int:
        return self.consumer_threads + self.producer_threads


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """Where everything lies in dynamic shared memory."""

    arrays: Mapping[Buffer | Stmt, SharedArray]
    bytes: int


@dataclass(frozen=True, slots=True)
class BlockOrder:
    """Tiles in groups of `group_rows` rows (the last group may have fewer), within a group down the rows first; the grid has
    `columns` x `rows` tiles."""

    group_rows: int
    columns: int
    rows: int


CONSUMER_GROUPS = 2
"""Warpgroups that share a block and take tiles in turn."""


@dataclass(frozen=True, slots=True)
class PingPong:
    """Two consumer warpgroups of one block take tiles of the grid in turn, so that what one does behind its main loop hides under
    the main loop of the other.  `blocks` blocks walk over all `tiles` of the grid; each tile fills `turns` slots of one channel
    in `loop`, whose gemm runs on while the next slot is waited for, and one slot of every other channel."""

    loop: For
    turns: int
    tiles: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Sync:
    """A barrier of all consumers before a statement; `fence`: with a proxy fence before it."""

    fence: bool


@dataclass(frozen=True, slots=True)
class Plans:
    """All plans of one kernel, and the body they are about: the author's, with copies that no instruction does as loops."""

    body: Body
    shared_layouts: Mapping[Buffer, PanelLayout]
    fragment_layouts: Mapping[Buffer, Layout]
    loop_layouts: Mapping[Parallel, Layout]
    copies: Mapping[Copy, CopyPlan]
    gemms: Mapping[Gemm, GemmPlan]
    clears: tuple[Clear, ...]
    channels: tuple[Channel, ...]
    roles: RolePlan
    shared: SharedPlan
    syncs: Mapping[Stmt, Sync]
    alignments: Mapping[Buffer, int]
    registers: Mapping[Buffer, Registers]
    producer_scalars: Collection[Var | Buffer]
    order: BlockOrder | None
    ordered_stores: Collection[Copy]
    ping_pong: PingPong | None = None
