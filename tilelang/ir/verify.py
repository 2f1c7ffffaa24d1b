"""Whether a kernel in tile IR is well formed: the facts that hold between nodes, checked after each pass in tests.

A failure is a fault of the pass that made the kernel, so it is an InternalError (TL920), with the text of the statement.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import NoReturn

from tilelang.errors import InternalError
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer, Extent, Mbarriers, Region
from tilelang.ir.expr import Binary, Compare, Const, Expr, Load, Reinterpret, Select, Unary, Var
from tilelang.ir.text import render_expr, render_region, render_statement
from tilelang.ir.types import LoopKind, Scope
from tilelang.ir.walk import children, walk

_ARITHMETIC = {"+", "-", "*", "//", "%", "min", "max", "pow"}
_BITWISE = {"<<", ">>", "&", "|", "^"}
_FLOATS = {"/"}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a statement stands: the variables it can see, the buffers there are, whether a loop can be left, the block's whole
    warpgroups, the statement."""

    variables: frozenset[Var]
    buffers: frozenset[Buffer]
    in_loop: bool = False
    in_parallel: bool = False
    warpgroups: int = 0
    stmt: tile.Stmt | None = None

    def fail(self, message: str) -> NoReturn:
        text = "" if self.stmt is None else render_statement(self.stmt)
        span = None if self.stmt is None else self.stmt.span
        raise InternalError(message, code="TL920", span=span, notes=tuple(text.splitlines()[:8]))

    def need(self, fact: bool, message: str) -> None:
        if not fact:
            self.fail(message)

    def binding(self, *variables: Var) -> _Place:
        """The place where these variables are visible as well."""
        for variable in variables:
            self.need(variable not in self.variables, f"{variable.name} is bound twice")
        self.need(len(set(variables)) == len(variables), "one variable is bound twice")
        return replace(self, variables=self.variables | set(variables))


def verify(kernel: tile.Kernel) -> None:
    """Raises InternalError (TL920) unless every variable is in scope, every buffer declared, ranks and tile shapes fit, loops and
    their exits are in order and operators have operands of the right dtypes.  The shapes may be expressions; then only what is
    certain is checked."""
    scalars = [param for param in kernel.params if isinstance(param, Var)]
    sizes = {extent for param in kernel.tensors for extent in param.shape if isinstance(extent, Var)}
    place = _Place(frozenset(), frozenset((*kernel.tensors, *kernel.buffers)))
    place.need(len(place.buffers) == len(kernel.tensors) + len(kernel.buffers), "a buffer is declared twice")
    place.need(1 <= len(kernel.grid) <= 3, f"the grid has {len(kernel.grid)} axes")
    place.need(kernel.threads > 0, f"{kernel.threads} threads")
    place = replace(place.binding(*scalars), variables=frozenset(scalars) | sizes, warpgroups=kernel.threads // 128)
    for param in kernel.tensors:
        place.need(param.scope == Scope.GLOBAL, f"the parameter {param.name} is {param.scope}")
    for axis in kernel.grid:
        _extent(axis.extent, place)
    for buffer in (*kernel.tensors, *kernel.buffers):
        _declaration(buffer, place)
    _body(kernel.body, place.binding(*(axis.var for axis in kernel.grid)))


def _declaration(buffer: Buffer, place: _Place) -> None:
    place.need(buffer.scope != Scope.VAR or not buffer.shape, f"the variable {buffer.name} has a shape")
    for extent in buffer.shape:
        _extent(extent, place)
    if buffer.view_of is not None:
        _view(buffer, buffer.view_of, place)
    if isinstance(buffer, Mbarriers):
        fits = buffer.shape == (len(buffer.arrivals),) and buffer.scope == Scope.BARRIER
        place.need(fits, f"{buffer.name} is no array of mbarriers")
        place.need(all(count > 0 for count in buffer.arrivals), f"an arrival count of {buffer.name} is not positive")


def _view(buffer: Buffer, storage: Buffer, place: _Place) -> None:
    """A view of a declared buffer that is none, of as many elements."""
    stored = storage in place.buffers and storage.view_of is None
    place.need(stored, f"{buffer.name} is a view of {storage.name}, which is no storage")
    same = (buffer.dtype, buffer.scope) == (storage.dtype, storage.scope)
    place.need(same, f"{buffer.name} and {storage.name}, whose elements it has, differ in dtype or scope")
    sizes = [[extent for extent in shape if isinstance(extent, int)] for shape in (buffer.shape, storage.shape)]
    known = all(len(size) == len(item.shape) for size, item in zip(sizes, (buffer, storage), strict=True))
    place.need(not known or prod(sizes[0]) == prod(sizes[1]), f"{buffer.name} has more or fewer elements than {storage.name}")


def _body(body: tile.Body, place: _Place) -> None:
    for stmt in body:
        here = replace(place, stmt=stmt)
        check = STATEMENTS.get(type(stmt))
        if check is None:
            here.fail(f"{type(stmt).__name__} is not a statement of tile IR")
        check(stmt, here)
        if isinstance(stmt, tile.Let):
            place = place.binding(stmt.var)


# ---- statements ---------------------------------------------------------------------------------------------------------------


def _let(stmt: tile.Let, place: _Place) -> None:
    _expr(stmt.value, place)
    place.need(stmt.value.dtype == stmt.var.dtype, f"{stmt.var.name} is {stmt.var.dtype} and its value {stmt.value.dtype}")


def _store(stmt: tile.Store, place: _Place) -> None:
    _element(stmt.buffer, stmt.indices, place)
    for index in stmt.indices:
        _expr(index, place)
    _expr(stmt.value, place)


def _for(stmt: tile.For, place: _Place) -> None:
    _integer(stmt.start, place)
    _integer(stmt.stop, place)
    place.need(isinstance(stmt.step, int) and stmt.step != 0, f"the step of a loop is {stmt.step}")
    place.need(stmt.num_stages >= 0, f"num_stages is {stmt.num_stages}")
    place.need(stmt.num_stages == 0 or stmt.kind == LoopKind.PIPELINED, f"num_stages on a {stmt.kind} loop")
    _body(stmt.body, replace(place.binding(stmt.var), in_loop=True))


def _parallel(stmt: tile.Parallel, place: _Place) -> None:
    place.need(0 < len(stmt.vars) == len(stmt.extents), f"{len(stmt.vars)} variables and {len(stmt.extents)} extents")
    for extent in stmt.extents:
        _integer(extent, place)
    _body(stmt.body, replace(place.binding(*stmt.vars), in_loop=False, in_parallel=True))


def _while(stmt: tile.While, place: _Place) -> None:
    _expr(stmt.condition, place)
    _body(stmt.body, replace(place, in_loop=True))


def _if(stmt: tile.If, place: _Place) -> None:
    _expr(stmt.condition, place)
    _body(stmt.then, place)
    _body(stmt.otherwise, place)


def _leave(stmt: tile.Stmt, place: _Place) -> None:
    place.need(place.in_loop, f"{type(stmt).__name__.lower()} outside a loop")


def _copy(stmt: tile.Copy, place: _Place) -> None:
    _tile_op(place, stmt.src, stmt.dst)
    _same(stmt.src.tile_shape, stmt.dst.tile_shape, "the two sides of a copy", place)


def _fill(stmt: tile.Fill, place: _Place) -> None:
    _tile_op(place, stmt.dst)
    _expr(stmt.value, place)


def _gemm(stmt: tile.Gemm, place: _Place) -> None:
    _tile_op(place, stmt.a, stmt.b, stmt.c)
    if isinstance(stmt.clear_accum, Expr):
        _expr(stmt.clear_accum, place)
    a, b, c = (_matrix(region, place) for region in (stmt.a, stmt.b, stmt.c))
    a, b = a[::-1] if stmt.transpose_a else a, b[::-1] if stmt.transpose_b else b
    _same((a[1],), (b[0],), "K of a gemm", place)
    _same((a[0], b[1]), c, "M and N of a gemm", place)
    floats = {region.buffer.dtype.is_float for region in (stmt.a, stmt.b, stmt.c)}
    place.need(len(floats) == 1, "a gemm mixes integers and floats")


def _reduce(stmt: tile.Reduce, place: _Place) -> None:
    _tile_op(place, stmt.src, stmt.dst)
    place.need(0 <= stmt.dim < stmt.src.buffer.rank, f"dimension {stmt.dim} of {stmt.src.buffer.rank}")
    kept = stmt.src.extents[: stmt.dim] + stmt.src.extents[stmt.dim + 1 :]
    _same(_not_one(kept), _not_one(stmt.dst.extents), "what a reduction keeps and its result", place)


def _warpgroups(stmt: tile.Warpgroups, place: _Place) -> None:
    groups = stmt.groups
    place.need(bool(groups) and list(groups) == sorted(set(groups)), f"warpgroups {groups}")
    place.need(all(0 <= group < place.warpgroups for group in groups), f"warpgroups {groups} of {place.warpgroups}")
    place.need(not place.in_parallel, "warpgroups part inside a parallel loop")
    _body(stmt.body, place)


def _barrier(barriers: Mbarriers, index: Expr, place: _Place) -> None:
    place.need(not place.in_parallel, "a barrier inside a parallel loop")
    _element(barriers, (index,), place)
    _integer(index, place)


def _tma_copy(stmt: tile.TmaCopy, place: _Place) -> None:
    _copy(stmt, place)
    if stmt.barriers is not None and stmt.index is not None:
        _barrier(stmt.barriers, stmt.index, place)
    scopes = (stmt.src.buffer.scope, stmt.dst.buffer.scope)
    loads = stmt.barriers is not None and stmt.index is not None
    wanted = (Scope.GLOBAL, Scope.SHARED) if loads else (Scope.SHARED, Scope.GLOBAL)
    place.need(scopes == wanted, f"a TMA copy from {scopes[0]} to {scopes[1]}")


def _arrive(stmt: tile.MbarrierArrive, place: _Place) -> None:
    _barrier(stmt.barriers, stmt.index, place)


def _wait(stmt: tile.MbarrierWait, place: _Place) -> None:
    _barrier(stmt.barriers, stmt.index, place)
    _integer(stmt.parity, place)


def _sync_threads(stmt: tile.SyncThreads, place: _Place) -> None:
    place.need(not place.in_parallel, "threads meet inside a parallel loop")
    named = 1 <= stmt.barrier_id <= 15 and stmt.threads > 0
    place.need(named or stmt.barrier_id == stmt.threads == 0, f"barrier {stmt.barrier_id} of {stmt.threads} threads")


def _whole_block(stmt: tile.Stmt, place: _Place) -> None:
    place.need(not place.in_parallel, f"{type(stmt).__name__} inside a parallel loop")


STATEMENTS: dict[type[tile.Stmt], Callable[..., None]] = {
    tile.Let: _let, tile.Store: _store, tile.For: _for, tile.Parallel: _parallel, tile.While: _while, tile.If: _if,
    tile.Break: _leave, tile.Continue: _leave, tile.Copy: _copy, tile.Fill: _fill, tile.Gemm: _gemm, tile.Reduce: _reduce,
    tile.Warpgroups: _warpgroups, tile.TmaCopy: _tma_copy, tile.MbarrierArrive: _arrive, tile.MbarrierWait: _wait,
    tile.SyncThreads: _sync_threads, tile.FenceProxyAsync: _whole_block, tile.SetMaxRegisters: _whole_block,
}  # fmt: skip


# ---- regions ------------------------------------------------------------------------------------------------------------------


def _tile_op(place: _Place, *regions: Region) -> None:
    """Regions with as many bases and extents as their buffers have dimensions."""
    place.need(not place.in_parallel, "a tile op inside a parallel loop")
    for region in regions:
        _element(region.buffer, region.base, place)
        place.need(len(region.extents) == region.buffer.rank, f"{region.buffer.name} has {len(region.extents)} extents")
        for part in region.base:
            _integer(part, place)
        for extent in region.extents:
            _extent(extent, place)


def _element(buffer: Buffer, indices: tuple[Expr, ...], place: _Place) -> None:
    """A declared buffer with one integer index for each dimension."""
    place.need(buffer in place.buffers, f"the buffer {buffer.name} is not declared")
    place.need(len(indices) == buffer.rank, f"{buffer.name} has {buffer.rank} dimensions and {len(indices)} indices")
    for index in indices:
        place.need(index.dtype.is_int, f"the index {render_expr(index)} of {buffer.name} is {index.dtype}")


def _matrix(region: Region, place: _Place) -> tuple[Extent, ...]:
    """Rows and columns: the last two dimensions if the others are 1, else the two that are not 1."""
    lead, last = region.extents[:-2], region.extents[-2:]
    dims = last if len(last) == 2 and not _not_one(lead) else region.tile_shape
    place.need(len(dims) == 2, f"{render_region(region)} is not a matrix")
    return dims


def _not_one(extents: tuple[Extent, ...]) -> tuple[Extent, ...]:
    return tuple(extent for extent in extents if not (isinstance(extent, int) and extent == 1))


def _same(a: tuple[Extent, ...], b: tuple[Extent, ...], what: str, place: _Place) -> None:
    """Extents agree in number, and in value where both are known."""
    agree = len(a) == len(b) and all(x == y or not (isinstance(x, int) and isinstance(y, int)) for x, y in zip(a, b, strict=True))
    place.need(agree, f"{what} differ: {_shown(a)} and {_shown(b)}")


def _shown(extents: tuple[Extent, ...]) -> str:
    return "(" + ", ".join(render_expr(extent) if isinstance(extent, Expr) else str(extent) for extent in extents) + ")"


# ---- expressions --------------------------------------------------------------------------------------------------------------


def _extent(extent: Extent, place: _Place) -> None:
    if isinstance(extent, Expr):
        _integer(extent, place)
    else:
        place.need(extent >= 0, f"an extent is {extent}")


def _integer(expr: Expr, place: _Place) -> None:
    _expr(expr, place)
    place.need(expr.dtype.is_int, f"{render_expr(expr)} is {expr.dtype} and must be an integer")


def _expr(expr: Expr, place: _Place) -> None:
    for node in walk(expr):
        if isinstance(node, Expr):
            for fault in _faults(node, place):
                place.fail(f"in {render_expr(expr)}: {fault}")


def _faults(node: Expr, place: _Place) -> Iterator[str]:
    """What is wrong with one node, its operands aside."""
    if isinstance(node, Var):
        if node not in place.variables:
            yield f"{node.name} is not in scope"
    elif isinstance(node, Load):
        _element(node.buffer, node.indices, place)
    elif isinstance(node, Const):
        if node.dtype.is_int and not node.dtype.limits[0] <= node.value <= node.dtype.limits[1]:
            yield f"{node.value} is not in the range of {node.dtype}"
    elif not _well_typed(node):
        dtypes = [str(child.dtype) for child in children(node) if isinstance(child, Expr)]
        yield f"operands of the wrong dtypes: {', '.join(dtypes)}"


def _well_typed(node: Expr) -> bool:
    """Whether an operator exists and its operands have dtypes that it takes."""
    match node:
        case Unary(op="~", value=value):
            return not value.dtype.is_float
        case Unary(op=op):
            return op in ("-", "not")
        case Binary(op="and" | "or"):
            return True
        case Binary(op=op, a=a, b=b):
            return a.dtype == b.dtype and (op in _ARITHMETIC or op in (_FLOATS if a.dtype.is_float else _BITWISE))
        case Compare(a=a, b=b) | Select(then=a, otherwise=b):
            return a.dtype == b.dtype
        case Reinterpret(value=value, dtype=dtype):
            return value.dtype.bits == dtype.bits
    return True
