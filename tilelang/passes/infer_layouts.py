"""Which thread holds which element of every fragment, and which thread does which point of every element-wise loop.

Gemms prescribe layouts.  From there they spread: a loop takes the layout of a fragment whose indices are all its variables, and
gives every fragment it touches the projection of its own; a reduction gives its result the projection of its source.  Where
nothing prescribes anything, memory does: a loop gets the layout of `layout/spread.py` with the widest vectors its accesses allow.
Where a loop meets a fragment that is spread in another way, the fragment passes through shared memory (`RelayoutWanted`); two
demands that cannot be reconciled are a `LayoutConflict` that names both statements.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tilelang.errors import LayoutConflict, ShapeProblem, Span, Unsupported
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Const, Expr, Load, Var
from tilelang.ir.types import Scope
from tilelang.ir.walk import walk
from tilelang.layout.digits import Layout
from tilelang.layout.spread import spread, transposing
from tilelang.passes.access import statements
from tilelang.trace import Decision, Rejection

VECTOR_BYTES = 16


@dataclass(frozen=True, slots=True)
class Demand:
    """A layout that a statement asks of a fragment."""

    layout: Layout
    reason: str
    span: Span | None


class RelayoutWanted(Exception):
    """A loop or reduction needs a fragment in another layout than it has, or indexes it in a way that no layout serves; through
    shared memory it can be had.  `decision` says why."""

    def __init__(self, loop: tile.Parallel | tile.Reduce, buffer: Buffer, decision: Decision) -> None:
        super().__init__(buffer.name)
        self.loop, self.buffer, self.decision = loop, buffer, decision


def _relayout(loop: tile.Parallel | tile.Reduce, buffer: Buffer, predicate: str, value: str) -> RelayoutWanted:
    why = Rejection("in registers", predicate, value)
    return RelayoutWanted(loop, buffer, Decision(loop.span, f"{buffer.name} here", "through shared memory", rejected=(why,)))


@dataclass(frozen=True, slots=True)
class Access:
    """A fragment touched in a loop: for each of its dimensions the loop's dimension, None where the index is constant."""

    buffer: Buffer
    dims: tuple[int | None, ...]


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
    """Layouts of all fragments and loops of `body`.  Raises RelayoutWanted, LayoutConflict, or Unsupported for run-time
    extents."""
    found = Inference(threads, dict(prescribed))
    parallels = {stmt: loop_accesses(stmt) for stmt in statements(body) if isinstance(stmt, tile.Parallel)}
    for loop, accesses in parallels.items():
        _check_extents(loop, accesses)
    reduces = [stmt for stmt in statements(body) if isinstance(stmt, tile.Reduce)]
    views = _views(parallels, reduces)
    while True:
        while _spread_once(found, parallels, reduces) or _spread_views(found, views):
            pass
        open_loops = [stmt for stmt in parallels if stmt not in found.loops]
        open_sources = [stmt for stmt in reduces if stmt.src.buffer not in found.fragments]
        if not open_loops and not open_sources:
            return found
        _choose(found, _ready(open_loops, parallels, open_sources), open_sources)


# ---- accesses ----------------------------------------------------------------------------------------------------------------


def loop_accesses(loop: tile.Parallel) -> tuple[Access, ...]:
    """Every fragment access in a loop, by loop dimension."""
    found = []
    for buffer, indices, _ in element_accesses(loop):
        if buffer.scope is Scope.FRAGMENT:
            dims = tuple(_dim(index, loop, buffer) for index in indices)
            named = [dim for dim in dims if dim is not None]
            if len(set(named)) < len(named):
                raise _relayout(loop, buffer, "each of the loop's variables is one of its indices", "one is two")
            found.append(Access(buffer, dims))
    return tuple(dict.fromkeys(found))


def element_accesses(loop: tile.Parallel) -> Iterable[tuple[Buffer, tuple[Expr, ...], Span | None]]:
    """(buffer, indices, span) of every element loaded or stored in a loop."""
    for stmt in statements(loop.body):
        if isinstance(stmt, tile.Store):
            yield stmt.buffer, stmt.indices, stmt.span
        for node in walk(stmt):
            if isinstance(node, Load):
                yield node.buffer, node.indices, stmt.span


def _dim(index: Expr, loop: tile.Parallel, buffer: Buffer) -> int | None:
    if isinstance(index, Var) and index in loop.vars:
        return loop.vars.index(index)
    if isinstance(index, Const) and index.value == 0:
        return None
    raise _relayout(loop, buffer, "its indices are the loop's variables", "one is an expression")


# ---- spreading ---------------------------------------------------------------------------------------------------------------


def _spread_once(found: Inference, parallels: Mapping[tile.Parallel, tuple[Access, ...]], reduces: list[tile.Reduce]) -> bool:
    """One round over all statements; whether anything new is known."""
    before = len(found.fragments) + len(found.loops)
    for loop, accesses in parallels.items():
        if loop not in found.loops:
            _loop_from_fragment(found, loop, accesses)
        if loop in found.loops:
            for access in accesses:
                wanted = _projection(found.loops[loop], access.dims)
                known = found.fragments.get(access.buffer)
                if known is not None and not known.layout.same_threads(wanted):
                    raise _relayout(loop, access.buffer, f"its layout is {describe(wanted)}", describe(known.layout))
                _demand(found, access.buffer, wanted, f"used in a loop over {_names(loop)}", loop.span)
    for reduce in reduces:
        source = found.fragments.get(reduce.src.buffer)
        if source is not None and reduce.dst.buffer.scope is Scope.FRAGMENT:
            dims = kept_dims(reduce)
            reason = f"T.reduce_{reduce.kind} of {reduce.src.buffer.name}"
            wanted, known = _projection(source.layout, dims), found.fragments.get(reduce.dst.buffer)
            if known is not None and not known.layout.same_threads(wanted):
                raise _relayout(reduce, reduce.dst.buffer, f"its layout is {describe(wanted)}", describe(known.layout))
            _demand(found, reduce.dst.buffer, _projection(source.layout, dims), reason, reduce.span)
    return len(found.fragments) + len(found.loops) > before


def _views(parallels: Mapping[tile.Parallel, tuple[Access, ...]], reduces: list[tile.Reduce]) -> list[Buffer]:
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
                layout = found.fragments[known].layout.regroup(tuple(int(extent) for extent in other.shape))  # type: ignore[arg-type]
                if layout is None:
                    raise LayoutConflict(
                        f"{view.name} is a view of {storage.name}, whose layout {describe(found.fragments[known].layout)} cannot be cut "
                        f"into {other.shape}",
                        code="TL702", span=view.span, hint="copy it to a buffer of that shape through shared memory",
                    )  # fmt: skip
                _demand(found, other, layout, f"{view.name} is a view of {storage.name}", view.span)
    return len(found.fragments) > before


def _loop_from_fragment(found: Inference, loop: tile.Parallel, accesses: tuple[Access, ...]) -> None:
    for access in accesses:
        demand = found.fragments.get(access.buffer)
        if demand is None or {dim for dim in access.dims if dim is not None} != set(range(len(loop.vars))):
            continue
        position = {dim: i for i, dim in enumerate(access.dims) if dim is not None}
        found.loops[loop] = Layout(tuple(demand.layout.dims[position[dim]] for dim in range(len(loop.vars))))
        return


def _projection(layout: Layout, dims: tuple[int | None, ...]) -> Layout:
    kept = layout.project(tuple(dim for dim in dims if dim is not None))
    rest = iter(kept.dims)
    return Layout(tuple(() if dim is None else next(rest) for dim in dims))


def kept_dims(reduce: tile.Reduce) -> tuple[int | None, ...]:
    """For each dimension of the result the source's dimension; None for the reduced one where it is kept with extent 1."""
    rank = reduce.src.buffer.rank
    if reduce.dst.buffer.rank == rank:
        return tuple(None if dim == reduce.dim else dim for dim in range(rank))
    return tuple(dim for dim in range(rank) if dim != reduce.dim) or (None,)


def _demand(found: Inference, buffer: Buffer, layout: Layout, reason: str, span: Span | None) -> None:
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


# ---- choosing ----------------------------------------------------------------------------------------------------------------


def _ready(
    loops: list[tile.Parallel], parallels: Mapping[tile.Parallel, tuple[Access, ...]], reduces: list[tile.Reduce]
) -> list[tile.Parallel]:
    """The loops that touch no result of the reductions given: such a result is spread as its source is, which is not known yet."""
    results = {reduce.dst.buffer for reduce in reduces}
    return [loop for loop in loops if not any(access.buffer in results for access in parallels[loop])]


def _choose(found: Inference, loops: list[tile.Parallel], reduces: list[tile.Reduce]) -> None:
    """A layout for one more statement: loops that touch memory first, since its vectors matter most, then by dimensions, then the
    source of a reduction."""
    if loops:
        loop = max(loops, key=lambda stmt: (_touches_memory(stmt), len(stmt.vars)))
        shape = _extents(loop)
        found.loops[loop] = _transposing(loop, shape, found.threads) or spread(shape, found.threads, _vector(loop, shape, found.threads))
    else:
        source = reduces[0].src.buffer
        shape = tuple(int(extent) for extent in source.shape)  # type: ignore[arg-type]
        vector = _fit(VECTOR_BYTES // source.dtype.bytes, shape, found.threads)
        layout = spread(shape, found.threads, vector)
        found.fragments[source] = Demand(layout, "nothing else prescribes one", reduces[0].span)


def _transposing(loop: tile.Parallel, shape: tuple[int, ...], threads: int) -> Layout | None:
    """The layout of a loop that moves between shared tiles, rows of the one to columns of the other; None for any other loop."""
    last = {}
    for buffer, indices, _ in element_accesses(loop):
        if buffer.scope is not Scope.SHARED or len(indices) < 2:
            return None
        last[buffer] = next((dim for dim, var in enumerate(loop.vars) if indices[-1] is var), None)
    if len(shape) != 2 or set(last.values()) != {0, 1}:
        return None
    across = next(buffer for buffer, dim in last.items() if dim == 0)
    return transposing((shape[0], shape[1]), threads, across.dtype.bytes, 0)


def _check_extents(loop: tile.Parallel, accesses: tuple[Access, ...]) -> None:
    """Extents are constants, and no loop goes beyond a fragment it touches."""
    extents = _extents(loop)
    for access in accesses:
        for dim, extent in zip(access.dims, access.buffer.shape, strict=True):
            if dim is not None and extents[dim] > int(extent):  # type: ignore[arg-type]
                raise ShapeProblem(
                    f"this loop runs over {extents[dim]} elements of {access.buffer.name}, which has {extent}", code="TL227",
                    span=loop.span, hint=f"make the extent at most {extent}",
                )  # fmt: skip


def _touches_memory(loop: tile.Parallel) -> bool:
    return any(buffer.scope in (Scope.GLOBAL, Scope.SHARED) for buffer, _, _ in element_accesses(loop))


def _extents(loop: tile.Parallel) -> tuple[int, ...]:
    if not all(isinstance(extent, Const) for extent in loop.extents):
        raise Unsupported("T.Parallel with run-time extents runs on the CPU only so far", code="TL343", span=loop.span)
    return tuple(int(extent.value) for extent in loop.extents)  # type: ignore[union-attr]


def _vector(loop: tile.Parallel, shape: tuple[int, ...], threads: int) -> int:
    """Elements in a row for one thread: 16 bytes of the narrowest type in memory that the loop walks along its last dimension."""
    sizes = [buffer.dtype.bytes for buffer, indices, _ in element_accesses(loop) if buffer.scope in (Scope.GLOBAL, Scope.SHARED) and indices]
    sizes = sizes or [buffer.dtype.bytes for buffer, _, _ in element_accesses(loop)] or [4]
    return _fit(VECTOR_BYTES // min(sizes), shape, threads)


def _fit(vector: int, shape: tuple[int, ...], threads: int) -> int:
    """Halved until it divides the last extent and gives every thread something to do."""
    total = 1
    for extent in shape:
        total *= extent
    while vector > 1 and (shape[-1] % vector or total // vector < threads):
        vector //= 2
    return max(vector, 1)


def _names(loop: tile.Parallel) -> str:
    return ", ".join(var.name for var in loop.vars)


def describe(layout: Layout) -> str:
    """A layout in words, dimension by dimension: its digits from most to least significant."""
    dims = [" x ".join(f"{digit.size} {digit.axis}s" for digit in dim) or "1" for dim in layout.canonical().dims]
    return "(" + ", ".join(dims) + ")"
