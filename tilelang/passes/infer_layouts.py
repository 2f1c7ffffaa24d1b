"""Which thread holds which element of every fragment, and which thread does which point of every element-wise loop.

Gemms prescribe layouts.  From there they spread: a loop takes the layout of a fragment whose indices are all its variables, and
gives every fragment it touches the projection of its own; a reduction gives its result the projection of its source.  Where
nothing prescribes anything, memory does: a loop gets the layout of `layout/spread.py` with the widest vectors its accesses allow.
Where a loop meets a fragment that is spread in another way, the fragment passes through shared memory (`RelayoutWanted`); two
demands that cannot be reconciled are a `LayoutConflict` that names both statements.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilelang.errors import LayoutConflict, Span
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.types import Scope
from tilelang.layout.digits import Layout
from tilelang.passes.access import statements
from tilelang.passes.choose_layout import choose_fragment, choose_loop, touches_memory
from tilelang.passes.extents import sizes
from tilelang.passes.fragment_access import Access, check_extents, kept_dims, loop_accesses, relayout
from tilelang.trace import Decision

Parallels = Mapping[tile.Parallel, tuple[Access, ...]]


@dataclass(frozen=True, slots=True)
class Demand:
    """A layout that a statement asks of a fragment."""

    layout: Layout
    reason: str
    span: Span | None


@dataclass(slots=True)
class Inference:
    """The solution: layouts of fragments and of loops."""

    threads: int
    fragments: dict[Buffer, Demand] = field(default_factory=dict)
    loops: dict[tile.Parallel, Layout] = field(default_factory=dict)

    def decisions(self) -> tuple[Decision, ...]:
        return tuple(
            Decision(demand.span or buffer.span, f"layout of {buffer.name}", describe(demand.layout), demand.reason)
            for buffer, demand in self.fragments.items()
        )


def infer_layouts(body: tile.Body, prescribed: Mapping[Buffer, Demand], threads: int) -> Inference:
    """Layouts of all fragments and loops of `body`, for `threads` threads.  Raises RelayoutWanted; LayoutConflict (TL701, TL702);
    Unsupported (TL343) for run-time extents; ShapeProblem (TL227) for loops beyond fragments."""
    found = Inference(threads, dict(prescribed))
    parallels = {stmt: loop_accesses(stmt) for stmt in statements(body) if isinstance(stmt, tile.Parallel)}
    for loop, accesses in parallels.items():
        check_extents(loop, accesses)
    reduces = [stmt for stmt in statements(body) if isinstance(stmt, tile.Reduce)]
    views = _views(parallels, reduces)
    while True:
        while _spread_once(found, parallels, reduces) or _spread_views(found, views):
            pass
        open_loops = [stmt for stmt in parallels if stmt not in found.loops]
        open_sources = [stmt for stmt in reduces if stmt.src.buffer not in found.fragments]
        if not open_loops and not open_sources:
            return found
        _choose(found, _ready(open_loops, parallels, open_sources), parallels, open_sources)


def _ready(loops: list[tile.Parallel], parallels: Parallels, reduces: list[tile.Reduce]) -> list[tile.Parallel]:
    """The loops that touch no result of the reductions given: such a result is spread as its source is, which is not known
    yet."""
    results = {reduce.dst.buffer for reduce in reduces}
    return [loop for loop in loops if not any(access.buffer in results for access in parallels[loop])]


def _choose(found: Inference, loops: list[tile.Parallel], parallels: Parallels, reduces: list[tile.Reduce]) -> None:
    """A layout for one more statement: loops that touch memory first, since its vectors matter most, then by dimensions, then the
    source of a reduction."""
    if loops:
        loop = max(loops, key=lambda stmt: (touches_memory(stmt), len(stmt.vars)))
        found.loops[loop] = choose_loop(loop, parallels[loop], found.threads)
    else:
        source = reduces[0].src.buffer
        found.fragments[source] = Demand(choose_fragment(source, found.threads), "nothing else prescribes one", reduces[0].span)


# ---- spreading ---------------------------------------------------------------------------------------------------------------


def _spread_once(found: Inference, parallels: Parallels, reduces: list[tile.Reduce]) -> bool:
    """One round over all statements; whether anything new is known."""
    before = len(found.fragments) + len(found.loops)
    for loop, accesses in parallels.items():
        if loop not in found.loops:
            _loop_from_fragment(found, loop, accesses)
        if loop in found.loops:
            reason = f"used in a loop over {', '.join(var.name for var in loop.vars)}"
            for access in accesses:
                _spread(found, access.buffer, _projection(found.loops[loop], access.dims), loop, reason)
    for reduce in reduces:
        source = found.fragments.get(reduce.src.buffer)
        if source is not None and reduce.dst.buffer.scope is Scope.FRAGMENT:
            wanted = _projection(source.layout, kept_dims(reduce))
            _spread(found, reduce.dst.buffer, wanted, reduce, f"T.reduce_{reduce.kind} of {reduce.src.buffer.name}")
    return len(found.fragments) + len(found.loops) > before


def _spread(found: Inference, buffer: Buffer, wanted: Layout, stmt: tile.Parallel | tile.Reduce, reason: str) -> None:
    """Gives a fragment the layout that a statement has for it.  Raises RelayoutWanted where it has another one, or where the
    statement's does not cover it."""
    known = found.fragments.get(buffer)
    if known is not None and not known.layout.same_threads(wanted):
        raise relayout(stmt, buffer, f"its layout is {describe(wanted)}", describe(known.layout))
    if any(covered < extent for covered, extent in zip(wanted.shape, sizes(buffer.shape), strict=True)):
        raise relayout(stmt, buffer, f"all its {buffer.shape} elements are in the loop's layout", f"that has {wanted.shape}")
    _demand(found, buffer, wanted, reason, stmt.span)


def _views(parallels: Parallels, reduces: list[tile.Reduce]) -> list[Buffer]:
    """The fragments that are views of others, in the order in which they are met."""
    touched = [access.buffer for accesses in parallels.values() for access in accesses]
    touched += [region.buffer for reduce in reduces for region in (reduce.src, reduce.dst)]
    return [buffer for buffer in dict.fromkeys(touched) if buffer.view_of is not None and buffer.scope is Scope.FRAGMENT]


def _spread_views(found: Inference, views: list[Buffer]) -> bool:
    """A view and its storage have the same elements in the same registers; whether anything new is known."""
    before = len(found.fragments)
    for view in views:
        storage = view.storage
        for known, other in ((view, storage), (storage, view)):
            if known in found.fragments:
                layout = found.fragments[known].layout.regroup(sizes(other.shape))
                if layout is None:
                    shown = describe(found.fragments[known].layout)
                    raise LayoutConflict(
                        f"{view.name} is a view of {storage.name}, whose layout {shown} cannot be cut into {other.shape}",
                        code="TL702", span=view.span, hint="copy it to a buffer of that shape through shared memory",
                    )  # fmt: skip
                _demand(found, other, layout, f"{view.name} is a view of {storage.name}", view.span)
    return len(found.fragments) > before


def _loop_from_fragment(found: Inference, loop: tile.Parallel, accesses: tuple[Access, ...]) -> None:
    """Gives a loop the layout of a fragment that all its variables index, if there is one."""
    for access in accesses:
        demand = found.fragments.get(access.buffer)
        if demand is None or {dim for dim in access.dims if dim is not None} != set(range(len(loop.vars))):
            continue
        position = {dim: i for i, dim in enumerate(access.dims) if dim is not None}
        found.loops[loop] = Layout(tuple(demand.layout.dims[position[dim]] for dim in range(len(loop.vars))))
        return


def _projection(layout: Layout, dims: tuple[int | None, ...]) -> Layout:
    """The layout of a tile that has only these dimensions of another one's, and dimensions of one element where they are None."""
    kept = layout.project(tuple(dim for dim in dims if dim is not None))
    rest = iter(kept.dims)
    return Layout(tuple(() if dim is None else next(rest) for dim in dims))


def _demand(found: Inference, buffer: Buffer, layout: Layout, reason: str, span: Span | None) -> None:
    """Notes the first layout of a fragment; any other must be the same."""
    known = found.fragments.get(buffer)
    if known is None:
        found.fragments[buffer] = Demand(layout, reason, span)
    elif not known.layout.same_threads(layout):
        raise LayoutConflict(
            f"{buffer.name} cannot be spread over the threads in two ways: {known.reason} needs {describe(known.layout)}, "
            f"{reason} needs {describe(layout)}",
            code="TL701", span=span, notes=(f"the first demand is at {known.span}",) if known.span else (),
            hint=f"copy {buffer.name} through a shared buffer between the two",
        )  # fmt: skip


def describe(layout: Layout) -> str:
    """A layout in words, dimension by dimension: its digits from most to least significant."""
    dims = [" x ".join(f"{digit.size} {digit.axis}s" for digit in dim) or "1" for dim in layout.canonical().dims]
    return "(" + ", ".join(dims) + ")"
