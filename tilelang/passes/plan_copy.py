"""How each copy is done.  Here: TMA between global and shared memory, and accumulators to shared or global memory by stmatrix.

What TMA needs (CUDA driver API, cuTensorMapEncodeTiled): strides that are multiples of 16 bytes and below 2**40, at most five
dimensions, boxes of at most 256 elements in each dimension and a multiple of 16 bytes along the innermost.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilelang.errors import Unsupported
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.device import TensorMap
from tilelang.ir.tile import Copy, Kernel
from tilelang.ir.types import Scope
from tilelang.layout.swizzle import PanelLayout, widest_swizzle
from tilelang.passes.access import statements
from tilelang.passes.plans import Box, CopyKind, CopyPlan, GemmPlan, TmaPlan
from tilelang.trace import Decision

MAX_BOX = 256
MAX_RANK = 5
STRIDE_UNIT_BYTES = 16
MAX_STRIDE_BYTES = 2**40


@dataclass(frozen=True, slots=True)
class CopyPlans:
    copies: Mapping[Copy, CopyPlan]
    shared_layouts: Mapping[Buffer, PanelLayout]
    decisions: tuple[Decision, ...]


def plan_copies(kernel: Kernel, shared: Mapping[Buffer, PanelLayout], accumulators: Mapping[Buffer, GemmPlan]) -> CopyPlans:
    """A plan for every copy; shared buffers that no gemm reads get a layout here."""
    layouts = dict(shared)
    maps: list[TensorMap] = []
    plans: dict[Copy, CopyPlan] = {}
    for copy in statements(kernel.body):
        if isinstance(copy, Copy):
            plans[copy] = _plan(copy, layouts, accumulators, maps)
    decisions = tuple(_decision(copy, plan) for copy, plan in plans.items())
    return CopyPlans(plans, layouts, decisions)


def _plan(
    copy: Copy, layouts: dict[Buffer, PanelLayout], accumulators: Mapping[Buffer, GemmPlan], maps: list[TensorMap]
) -> CopyPlan:
    src, dst = copy.src.buffer, copy.dst.buffer
    for region in (copy.src, copy.dst):
        if region.buffer.scope is not Scope.GLOBAL:
            _check_whole(region, copy)
    match (src.scope, dst.scope):
        case (Scope.GLOBAL, Scope.SHARED):
            _check_same_dtype(copy)
            return CopyPlan(CopyKind.TMA_LOAD, _tma(copy.src, _layout(dst, layouts), copy, maps))
        case (Scope.SHARED, Scope.GLOBAL):
            _check_same_dtype(copy)
            return CopyPlan(CopyKind.TMA_STORE, _tma(copy.dst, _layout(src, layouts), copy, maps))
        case (Scope.FRAGMENT, Scope.SHARED) if src in accumulators:
            _check_store_dtype(copy)
            layouts.setdefault(dst, _store_layout(copy, accumulators[src]))
            if accumulators[src].n % layouts[dst].panel_columns:
                raise Unsupported(f"{dst.name} is laid out for a gemm that reads it, which this copy cannot write", code="TL330", span=copy.span)
            return CopyPlan(CopyKind.FRAGMENT_TO_SHARED)
        case (Scope.FRAGMENT, Scope.GLOBAL) if src in accumulators:
            _check_store_dtype(copy)
            staging = _store_layout(copy, accumulators[src])
            return CopyPlan(CopyKind.FRAGMENT_TO_GLOBAL, _tma(copy.dst, staging, copy, maps), staging)
    what = " that is not a gemm's accumulator" if src.scope is Scope.FRAGMENT and src not in accumulators else ""
    raise Unsupported(
        f"T.copy from {src.name} ({src.scope}{what}) to {dst.name} ({dst.scope}) runs on the CPU only so far",
        code="TL321", span=copy.span,
        notes=("there are: global to shared, shared to global, and a gemm's accumulator to shared or global memory",),
    )  # fmt: skip


def _check_whole(region: Region, copy: Copy) -> None:
    if region.tile_shape != tuple(extent for extent in region.buffer.shape if extent != 1):
        raise Unsupported(
            f"T.copy takes whole shared and fragment buffers so far; {region.buffer.name} is {region.buffer.shape}, "
            f"the region {region.extents}",
            code="TL322", span=copy.span,
        )  # fmt: skip


def _check_same_dtype(copy: Copy) -> None:
    src, dst = copy.src.buffer, copy.dst.buffer
    if src.dtype != dst.dtype:
        raise Unsupported(
            f"T.copy from {src.name} ({src.dtype}) to {dst.name} ({dst.dtype}): TMA does not convert, and loads that do come later",
            code="TL323", span=copy.span, hint=f"allocate {dst.name} as {src.dtype}" if dst.scope is Scope.SHARED else "",
        )  # fmt: skip


def _check_store_dtype(copy: Copy) -> None:
    dst = copy.dst.buffer
    if dst.dtype not in ("float16", "bfloat16", "float32"):
        raise Unsupported(
            f"T.copy of a float32 accumulator to {dst.dtype} ({dst.name}) runs on the CPU only so far",
            code="TL324", span=copy.span, notes=("there are float16, bfloat16 and float32",),
        )  # fmt: skip


def _matrix(buffer: Buffer) -> tuple[int, int]:
    """A shared buffer as rows x columns: its leading dimensions together, and the last."""
    rows = 1
    for extent in buffer.shape[:-1]:
        rows *= int(extent)  # type: ignore[arg-type]
    return rows, int(buffer.shape[-1])  # type: ignore[arg-type]


def _layout(buffer: Buffer, layouts: dict[Buffer, PanelLayout]) -> PanelLayout:
    if buffer not in layouts:
        rows, columns = _matrix(buffer)
        layouts[buffer] = PanelLayout(rows, columns, buffer.dtype.bytes, widest_swizzle(columns * buffer.dtype.bytes))
    return layouts[buffer]


def _store_layout(copy: Copy, plan: GemmPlan) -> PanelLayout:
    """The shared tile that an accumulator is written to, in the destination's dtype: whole panels for each instruction's n."""
    rows, columns = (int(extent) for extent in copy.src.tile_shape)  # type: ignore[arg-type]
    element = copy.dst.buffer.dtype.bytes
    return PanelLayout(rows, columns, element, widest_swizzle(plan.n * element))


def _tma(region: Region, layout: PanelLayout, copy: Copy, maps: list[TensorMap]) -> TmaPlan:
    """The tensor map and boxes between `region` of a tensor and a tile of `layout`; equal maps are shared."""
    tensor = region.buffer
    strides = _strides_bytes(tensor)
    _check_tensor(tensor, strides, copy)
    extents = [int(extent) for extent in region.extents]  # type: ignore[arg-type]
    if extents[-1] == 1 and layout.columns != 1:
        raise Unsupported(
            f"T.copy takes columns of {tensor.name} along a dimension that is not its last; TMA reads whole rows, other loads come later",
            code="TL325", span=copy.span,
        )  # fmt: skip
    box = [*extents[:-1], layout.panel_columns]
    split = next((d for d, extent in enumerate(box) if extent > 1), len(box) - 1)
    box[split] = max(size for size in range(1, min(box[split], MAX_BOX) + 1) if box[split] % size == 0)
    _check_box(box, extents, layout, copy)
    boxes = _boxes(extents, box, split, layout)
    tensor_map = TensorMap(
        name=f"{tensor.name}_desc", tensor=tensor, dtype=tensor.dtype,
        dims=tuple(int(extent) for extent in reversed(tensor.shape)),  # type: ignore[arg-type]
        strides_bytes=tuple(reversed(strides[:-1])), box=tuple(reversed(box)), swizzle_bytes=layout.swizzle_bytes,
    )  # fmt: skip
    return TmaPlan(_shared_map(tensor_map, maps), boxes)


def _strides_bytes(tensor: Buffer) -> list[int]:
    strides = [tensor.dtype.bytes]
    for extent in reversed(tensor.shape[1:]):
        strides.insert(0, strides[0] * int(extent))  # type: ignore[arg-type]
    return strides


def _check_tensor(tensor: Buffer, strides: list[int], copy: Copy) -> None:
    if tensor.rank > MAX_RANK:
        raise Unsupported(f"{tensor.name} has {tensor.rank} dimensions, TMA takes {MAX_RANK}", code="TL326", span=copy.span)
    for stride in strides[:-1]:
        if stride % STRIDE_UNIT_BYTES or stride >= MAX_STRIDE_BYTES:
            raise Unsupported(
                f"{tensor.name}: {tensor.dtype}{list(tensor.shape)} has a row pitch of {stride} bytes; TMA takes multiples of 16 bytes "
                "below 2**40, and loads that take others come later",
                code="TL327", span=copy.span,
                hint=f"pad the last dimension to a multiple of {STRIDE_UNIT_BYTES // tensor.dtype.bytes} elements",
            )  # fmt: skip


def _check_box(box: list[int], extents: list[int], layout: PanelLayout, copy: Copy) -> None:
    if any(extent > MAX_BOX for extent in box):
        raise Unsupported(f"a tile of {extents} needs TMA boxes of more than {MAX_BOX} elements", code="TL328", span=copy.span)
    if layout.row_bytes % STRIDE_UNIT_BYTES:
        raise Unsupported(
            f"a tile whose rows are {layout.row_bytes} bytes: TMA moves multiples of 16 bytes", code="TL329", span=copy.span,
            hint="make the tile's last dimension a multiple of 16 bytes",
        )  # fmt: skip


def _boxes(extents: list[int], box: list[int], split: int, layout: PanelLayout) -> tuple[Box, ...]:
    """Panel by panel, and within a panel along the outermost dimension of the tile if that is too long for one box."""
    boxes = []
    rows_per_step = layout.rows // extents[split] if split < len(extents) - 1 else 1
    for panel in range(layout.panels):
        for first in range(0, extents[split] if split < len(extents) - 1 else 1, box[split]):
            steps = [0] * len(extents)
            steps[-1] = panel * layout.panel_columns
            steps[split] += first
            boxes.append(Box(panel * layout.panel_bytes + first * rows_per_step * layout.row_bytes, tuple(steps)))
    return tuple(boxes)


def _shared_map(wanted: TensorMap, maps: list[TensorMap]) -> TensorMap:
    for known in maps:
        if (known.tensor, known.box, known.swizzle_bytes) == (wanted.tensor, wanted.box, wanted.swizzle_bytes):
            return known
    maps.append(wanted)
    return wanted


def _decision(copy: Copy, plan: CopyPlan) -> Decision:
    src, dst = copy.src.buffer.name, copy.dst.buffer.name
    boxes = f", {len(plan.tma.boxes)} boxes of {' x '.join(map(str, reversed(plan.tma.map.box)))}" if plan.tma else ""
    reason = "row pitch and box fit the tensor map" if plan.tma else "the accumulator's 8 x 8 blocks are stmatrix's"
    return Decision(copy.span, f"T.copy from {src} to {dst}", f"{plan.kind}{boxes}", reason)
