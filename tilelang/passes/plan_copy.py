"""How each copy is done: by TMA where a tensor map can describe it, by stmatrix from an accumulator, element by element
otherwise."""
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tilelang.errors import Unsupported
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.device import TensorMap
from tilelang.ir.tile import Copy, Kernel, Stmt, TmaCopy
from tilelang.ir.types import Scope
from tilelang.layout.swizzle import PanelLayout, widest_swizzle
from tilelang.passes.access import reads, statements, writes
from tilelang.passes.extents import sizes
from tilelang.passes.options import Options
from tilelang.passes.plan_tensor_map import map_refusal, plan_tma
from tilelang.passes.plans import CopyKind, CopyPlan, GemmPlan
from tilelang.passes.slots import is_slot, slots_of, tile_of
from tilelang.trace import Decision, Rejection

STMATRIX_DTYPES = ("float16", "bfloat16", "float32")
TMA_STORES = (CopyKind.TMA_STORE, CopyKind.FRAGMENT_TO_GLOBAL)
ELEMENTWISE = CopyPlan(CopyKind.ELEMENTWISE)


@dataclass(frozen=True, slots=True)
class CopyPlans:
    copies: Mapping[Copy, CopyPlan]
    shared_layouts: Mapping[Buffer, PanelLayout]
    decisions: Mapping[Copy, Decision]


@dataclass(slots=True)
class _State:
    """What the copies planned so far have settled: layouts of shared buffers, tensor maps.  `read_back`: tensors that are read
    and written.  `mixed`: tensors that ordinary stores write, too.  `by_hand`: only T.tma_copy loads by TMA, and a tile may be a
    slot of a shared buffer."""

    layouts: dict[Buffer, PanelLayout]
    accumulators: Mapping[Buffer, GemmPlan]
    alignments: Mapping[Buffer, int]
    read_back: frozenset[Buffer]
    mixed: frozenset[Buffer]
    options: Options
    by_hand: bool = False
    maps: list[TensorMap] = field(default_factory=list)


def plan_copies(
    kernel: Kernel, shared: Mapping[Buffer, PanelLayout], accumulators: Mapping[Buffer, GemmPlan],
    alignments: Mapping[Buffer, int], options: Options,
) -> CopyPlans:  # fmt: skip
    """A plan for every copy, and the layouts of the shared buffers that instructions read or write.  `alignments`: of tensors
    whose address is no multiple of 16 bytes, in bytes."""
    every = tuple(statements(kernel.body))
    read_back = frozenset(b for stmt in every for b in writes(stmt)) & frozenset(b for stmt in every for b in reads(stmt))
    mixed: frozenset[Buffer] = frozenset()
    while True:
        state = _State(dict(shared), accumulators, alignments, read_back, mixed, options, kernel.is_explicit)
        plans = _plan_all(every, state)
        found = _mixed(every, plans.copies)
        if found <= mixed:
            return plans
        mixed = found


def _plan_all(every: tuple[Stmt, ...], state: _State) -> CopyPlans:
    plans: dict[Copy, CopyPlan] = {}
    decisions: dict[Copy, Decision] = {}
    for copy in every:
        if isinstance(copy, Copy):
            plans[copy], why_not = _plan(copy, state)
            if isinstance(copy, TmaCopy) and plans[copy].kind is CopyKind.ELEMENTWISE:
                raise _cannot(copy, why_not)
            decisions[copy] = _decision(copy, plans[copy], why_not)
    return CopyPlans(plans, state.layouts, decisions)


def _mixed(every: tuple[Stmt, ...], plans: Mapping[Copy, CopyPlan]) -> frozenset[Buffer]:
    """Tensors that both TMA and ordinary stores would write: nothing orders the two."""
    bulk = {stmt for stmt in every if isinstance(stmt, Copy) and plans[stmt].kind in TMA_STORES}
    ordinary = {buffer for stmt in every if stmt not in bulk for buffer in writes(stmt)}
    return frozenset(stmt.dst.buffer for stmt in bulk if stmt.dst.buffer in ordinary)


def default_layout(buffer: Buffer, in_slots: bool = False) -> PanelLayout:
    """A shared buffer as rows x columns - its leading dimensions together, and the last - with the widest swizzle that fits; or,
    if `in_slots`, the tiles of its last two dimensions one after the other."""
    if in_slots and slots_of(buffer) > 1:
        rows, columns = tile_of(buffer)
        swizzle = widest_swizzle(columns * buffer.dtype.bytes) if rows > 1 else 0
        return PanelLayout(rows, columns, buffer.dtype.bytes, swizzle, slots_of(buffer))
    *leading, columns = sizes(buffer.shape)
    rows = math.prod(leading)
    return PanelLayout(rows, columns, buffer.dtype.bytes, widest_swizzle(columns * buffer.dtype.bytes) if rows > 1 else 0)


def _plan(copy: Copy, state: _State) -> tuple[CopyPlan, Rejection | None]:
    """The plan, and why the better one was not possible."""
    src, dst = copy.src.buffer, copy.dst.buffer
    if src.view_of or dst.view_of:
        return ELEMENTWISE, Rejection("TMA or stmatrix", "neither side is a reshaped view", "one is")
    match (src.scope, dst.scope):
        case (Scope.GLOBAL, Scope.SHARED) if state.by_hand and not isinstance(copy, TmaCopy):
            return ELEMENTWISE, Rejection("TMA load", "the author starts it, and says on which mbarrier", "T.copy", "T.tma_copy")
        case (Scope.GLOBAL, Scope.SHARED):
            return _between(copy, copy.src, copy.dst, CopyKind.TMA_LOAD, state)
        case (Scope.SHARED, Scope.GLOBAL):
            return _between(copy, copy.dst, copy.src, CopyKind.TMA_STORE, state)
        case (Scope.FRAGMENT, Scope.SHARED) if src in state.accumulators:
            fresh = state.by_hand and is_slot(copy.dst) and slots_of(dst) > 1 and dst not in state.layouts
            known = _store_layout(copy, state.accumulators[src]) if fresh else state.layouts.get(dst)
            why_not = _stmatrix_refusal(copy, known, state.accumulators[src])
            if why_not is None:
                state.layouts.setdefault(dst, _store_layout(copy, state.accumulators[src]))
            return (ELEMENTWISE if why_not else CopyPlan(CopyKind.FRAGMENT_TO_SHARED)), why_not
        case (Scope.FRAGMENT, Scope.GLOBAL) if src in state.accumulators:
            return _accumulator_to_global(copy, state)
    return ELEMENTWISE, None


def _between(copy: Copy, tensor: Region, tile: Region, kind: CopyKind, state: _State) -> tuple[CopyPlan, Rejection | None]:
    """A whole shared tile to or from a tensor."""
    layout = state.layouts.get(tile.buffer) or default_layout(tile.buffer, state.by_hand and _whole_refusal(tile) is not None)
    why_not = _whole_refusal(tile, layout) or _same_dtype_refusal(copy) or _tensor_refusal(copy, tensor, layout, state)
    if why_not is not None:
        return ELEMENTWISE, why_not
    state.layouts[tile.buffer] = layout
    return CopyPlan(kind, plan_tma(tensor, layout, state.maps)), None


def _accumulator_to_global(copy: Copy, state: _State) -> tuple[CopyPlan, Rejection | None]:
    plan = state.accumulators[copy.src.buffer]
    why_not = _stmatrix_refusal(copy, None, plan)
    if why_not is None:
        staging = _store_layout(copy, plan)
        why_not = _tensor_refusal(copy, copy.dst, staging, state)
        if why_not is None:
            return CopyPlan(CopyKind.FRAGMENT_TO_GLOBAL, plan_tma(copy.dst, staging, state.maps), staging), None
    return ELEMENTWISE, why_not


def _store_layout(copy: Copy, plan: GemmPlan) -> PanelLayout:
    """The shared tile that an accumulator is written to, in the destination's dtype: whole panels for each instruction's n."""
    rows, columns = sizes(copy.src.tile_shape)
    dst = copy.dst.buffer
    slots = slots_of(dst) if dst.scope is Scope.SHARED else 1
    return PanelLayout(rows, columns, dst.dtype.bytes, widest_swizzle(plan.n * dst.dtype.bytes), slots)


# ---- refusals ----------------------------------------------------------------------------------------------------------------


def _cannot(copy: TmaCopy, why_not: Rejection | None) -> Unsupported:
    """T.tma_copy of what TMA cannot move."""
    reason = f"{why_not.predicate}, here {why_not.value}" if why_not is not None else "one side is global and one shared"
    return Unsupported(
        f"TMA cannot move the tile of T.tma_copy between {copy.src.buffer.name} and {copy.dst.buffer.name}: {reason}",
        code="TL349", span=copy.span,
        hint=(why_not.edit if why_not is not None else "") or "use T.copy, whose threads load and store themselves",
    )  # fmt: skip


def _whole_refusal(region: Region, layout: PanelLayout | None = None) -> Rejection | None:
    """`layout`: of the region's buffer, if that is shared; where it has slots, each of them is a tile."""
    if layout is not None and layout.slots > 1:
        if is_slot(region):
            return None
        shape = " x ".join(map(str, tile_of(region.buffer)))
        part = f"{region.extents} of {region.buffer.shape}"
        return Rejection("TMA", f"one {shape} tile of {region.buffer.name} is copied", part)
    shape = tuple(extent for extent in region.buffer.shape if extent != 1)
    if region.tile_shape == shape:
        return None
    return Rejection("TMA", f"the whole of {region.buffer.name} is copied", f"{region.extents} of {region.buffer.shape}")


def _same_dtype_refusal(copy: Copy) -> Rejection | None:
    src, dst = copy.src.buffer, copy.dst.buffer
    if src.dtype == dst.dtype:
        return None
    return Rejection("TMA", "both sides have one dtype", f"{src.dtype} and {dst.dtype}", f"allocate the tile as {src.dtype}")


def _stmatrix_refusal(copy: Copy, layout: PanelLayout | None, plan: GemmPlan) -> Rejection | None:
    dst = copy.dst.buffer
    if dst.dtype not in STMATRIX_DTYPES:
        return Rejection("stmatrix", f"the destination is one of {', '.join(STMATRIX_DTYPES)}", str(dst.dtype))
    if dst.scope is Scope.SHARED:
        whole = _whole_refusal(copy.dst, layout)
        if whole is not None:
            return whole
    if _whole_refusal(copy.src) is not None:
        return _whole_refusal(copy.src)
    if len(copy.src.tile_shape) != 2:
        return Rejection("stmatrix", "the tile has two dimensions", str(copy.src.tile_shape))
    if layout is not None and (not layout.swizzle_bytes or plan.n % layout.panel_columns):
        return Rejection("stmatrix", f"panels of {dst.name} divide n={plan.n}", f"{layout.panel_columns} columns")
    return None


def _tensor_refusal(copy: Copy, region: Region, layout: PanelLayout, state: _State) -> Rejection | None:
    """Why TMA cannot move between this region of a tensor and a tile of this layout, None if it can."""
    tensor = region.buffer
    if not state.options.tma:
        return Rejection("TMA", "the author allows it", "tl.disable_tma_lower is set")
    if tensor in state.alignments:
        return Rejection("TMA", f"the address of {tensor.name} is a multiple of 16", f"of {state.alignments[tensor]}")
    if tensor in state.read_back:
        return Rejection("TMA", f"{tensor.name} is not both read and written", "it is")
    if tensor in state.mixed and not isinstance(copy, TmaCopy):
        return Rejection("TMA", f"only TMA writes {tensor.name}", "other statements do so by ordinary stores")
    return map_refusal(region, layout)


# ---- words -------------------------------------------------------------------------------------------------------------------


_REASONS = {
    CopyKind.TMA_LOAD: "row pitch and box fit a tensor map",
    CopyKind.TMA_STORE: "row pitch and box fit a tensor map",
    CopyKind.FRAGMENT_TO_SHARED: "the accumulator's 8 x 8 blocks are stmatrix's",
    CopyKind.FRAGMENT_TO_GLOBAL: "whole lines are written, and the tensor map clips what lies outside",
    CopyKind.ELEMENTWISE: "no instruction moves this tile as a whole",
}


def _decision(copy: Copy, plan: CopyPlan, why_not: Rejection | None) -> Decision:
    subject, boxes = f"T.copy from {copy.src.buffer.name} to {copy.dst.buffer.name}", ""
    if plan.tma:
        count = len(plan.tma.boxes)
        boxes = f", {count} box{'es' * (count > 1)} of {' x '.join(map(str, reversed(plan.tma.map.box)))}"
    return Decision(copy.span, subject, f"{plan.kind}{boxes}", _REASONS[plan.kind], (why_not,) if why_not else ())
