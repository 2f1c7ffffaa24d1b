"""Tensor maps: which tiles TMA can move as boxes of a tensor, and the boxes.

What TMA needs (CUDA driver API, cuTensorMapEncodeTiled; PTX ISA, "cp.async.bulk.tensor"): strides that are multiples of 16 bytes
and below 2**40, at most five dimensions, boxes of at most 256 elements in each dimension and a multiple of 16 bytes along the
innermost, which begin at multiples of 128 bytes of shared memory.
"""
from __future__ import annotations

from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.device import TensorMap
from tilelang.ir.expr import INT32
from tilelang.ir.types import DType
from tilelang.layout.swizzle import PanelLayout
from tilelang.passes.extents import pitches, sizes
from tilelang.passes.plans import Box, TmaPlan
from tilelang.trace import Rejection

MAX_BOX = 256
MAX_RANK = 5
STRIDE_UNIT_BYTES = 16
MAX_STRIDE_BYTES = 2**40
BOX_UNIT_BYTES = 128
MAX_BOXES = 32  # beyond these, issuing them takes longer than threads take for the tile


def map_refusal(region: Region, layout: PanelLayout) -> Rejection | None:
    """Why no tensor map describes transfers between this region and a tile of this layout, None if one does."""
    if region.buffer.rank > MAX_RANK:
        return Rejection("TMA", f"at most {MAX_RANK} dimensions", f"{region.buffer.name} has {region.buffer.rank}")
    if any(not isinstance(extent, int) for extent in (*region.extents, *region.buffer.shape)):
        return Rejection("TMA", "extents are constant", f"{region.extents}")
    wide = next((index.dtype for index in region.base if not _is_coordinate(index.dtype)), None)
    if wide is not None:
        return Rejection("TMA", "coordinates are int32", f"one is {wide}", "T.cast(index, 'int32'), where it fits")
    return _pitch_refusal(region.buffer) or _row_refusal(region, layout) or _box_refusal(region, layout)


def _is_coordinate(dtype: DType) -> bool:
    """Whether every value of an index's dtype is one of an int32's, which TMA's coordinates are."""
    low, high = INT32.limits
    return low <= dtype.limits[0] and dtype.limits[1] <= high


def _pitch_refusal(tensor: Buffer) -> Rejection | None:
    for stride in _strides_bytes(tensor):
        if stride % STRIDE_UNIT_BYTES or stride >= MAX_STRIDE_BYTES:
            edit = f"pad the last dimension to a multiple of {STRIDE_UNIT_BYTES // tensor.dtype.bytes} elements"
            return Rejection("TMA", "row pitches are multiples of 16 bytes", f"{tensor.name} has one of {stride} bytes", edit)
    return None


def _row_refusal(region: Region, layout: PanelLayout) -> Rejection | None:
    if region.extents[-1] == 1 and layout.columns != 1:
        return Rejection("TMA", "the tile's rows lie along the tensor's last dimension", f"{region.extents}")
    if layout.row_bytes % STRIDE_UNIT_BYTES:
        return Rejection("TMA", "the tile's rows are multiples of 16 bytes", f"{layout.row_bytes} bytes")
    return None


def _box_refusal(region: Region, layout: PanelLayout) -> Rejection | None:
    box, _ = _box(region, layout)
    if any(extent > MAX_BOX for extent in box):
        return Rejection("TMA", f"boxes of at most {MAX_BOX} elements along each dimension", f"{box}")
    boxes = _boxes(region, layout)
    if len(boxes) > MAX_BOXES:
        return Rejection("TMA", f"at most {MAX_BOXES} boxes", f"{len(boxes)}")
    odd = next((each.offset_bytes for each in boxes if each.offset_bytes % BOX_UNIT_BYTES), None)
    if odd is not None:
        return Rejection("TMA", f"boxes begin at multiples of {BOX_UNIT_BYTES} bytes of the tile", f"one begins at {odd}")
    return None


def plan_tma(region: Region, layout: PanelLayout, maps: list[TensorMap]) -> TmaPlan:
    """The tensor map and boxes between `region` of a tensor and a tile of `layout`, which `map_refusal` has nothing against.  A
    map that is equal to one of `maps` is that one; a new one is added to them."""
    tensor = region.buffer
    box, _ = _box(region, layout)
    wanted = TensorMap(
        name=f"{tensor.name}_desc", tensor=tensor, dtype=tensor.dtype, dims=sizes(reversed(tensor.shape)),
        strides_bytes=tuple(reversed(_strides_bytes(tensor))), box=tuple(reversed(box)), swizzle_bytes=layout.swizzle_bytes,
    )  # fmt: skip
    return TmaPlan(_shared_map(wanted, maps), _boxes(region, layout))


def _strides_bytes(tensor: Buffer) -> tuple[int, ...]:
    """Bytes of a step along each dimension but the last."""
    return tuple(pitch * tensor.dtype.bytes for pitch in pitches(tensor.shape)[:-1])


def _box(region: Region, layout: PanelLayout) -> tuple[list[int], int]:
    """The box, outermost dimension first, and the dimension along which the tile is cut if it is too long for one box: the
    outermost of more than one element, in equal parts."""
    box = [*sizes(region.extents[:-1]), layout.panel_columns]
    split = next((dim for dim, extent in enumerate(box) if extent > 1), len(box) - 1)
    if split < len(box) - 1:
        box[split] = max(part for part in range(1, min(box[split], MAX_BOX) + 1) if box[split] % part == 0)
    return box, split


def _boxes(region: Region, layout: PanelLayout) -> tuple[Box, ...]:
    """Panel by panel, and within a panel along the dimension that is cut."""
    extents, (box, split) = sizes(region.extents), _box(region, layout)
    cut = split < len(extents) - 1
    bytes_per_step = layout.panel_bytes // extents[split] if cut else 0
    boxes = []
    for panel in range(layout.panels):
        for first in range(0, extents[split] if cut else 1, box[split]):
            steps = [0] * len(extents)
            steps[-1] = panel * layout.panel_columns
            steps[split] += first
            boxes.append(Box(panel * layout.panel_bytes + first * bytes_per_step, tuple(steps)))
    return tuple(boxes)


def _shared_map(wanted: TensorMap, maps: list[TensorMap]) -> TensorMap:
    for known in maps:
        if (known.tensor, known.box, known.swizzle_bytes) == (wanted.tensor, wanted.box, wanted.swizzle_bytes):
            return known
    maps.append(wanted)
    return wanted
