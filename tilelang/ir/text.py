"""Tile IR as text: Python in the source language, as the author could have written it, the same bytes in every process.

Regions are slices with both ends (`A[by * 128 : by * 128 + 128, 0:64]`), a whole dimension is `:`, a whole buffer its name.
Variables and buffers of one name that are in scope together are told apart by a suffix (`ko`, `ko_1`).  Parentheses appear where
precedence needs them.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from tilelang.ir import tile
from tilelang.ir.buffer import Buffer, Extent, Mbarriers, Region
from tilelang.ir.expr import (
    BOOL,
    FLOAT32,
    INT32,
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Load,
    Reinterpret,
    Select,
    Unary,
    Var,
    as_expr,
    binary,
    is_const,
)
from tilelang.ir.types import DType, LoopKind, Scope, WarpPolicy

_INDENT = "    "
_WIDTH = 120
# Python's precedence, from loose to tight; a call, a name and a number bind tightest.
_LEVELS = {"or": 1, "and": 2, "not": 3, "compare": 4, "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9,
           "*": 10, "/": 10, "//": 10, "%": 10, "unary": 11, "atom": 13}  # fmt: skip
_CALLED = {"min": "T.min", "max": "T.max", "pow": "T.pow"}
_ALLOC = {Scope.SHARED: "alloc_shared", Scope.FRAGMENT: "alloc_fragment", Scope.LOCAL: "alloc_local", Scope.VAR: "alloc_var",
          Scope.GLOBAL: "alloc_global"}  # fmt: skip


@dataclass(slots=True)
class Names:
    """A readable name for each variable and buffer, unique among those in scope; who asks first gets the plain name."""

    given: dict[Var | Buffer, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=lambda: {"T"})

    def of(self, item: Var | Buffer) -> str:
        """The name of `item`; the first of a name keeps it, the others get `_1`, `_2` and so on."""
        if item not in self.given:
            base, name, count = item.name or "v", item.name or "v", 0
            while name in self.taken:
                count += 1
                name = f"{base}_{count}"
            self.given[item] = name
            self.taken.add(name)
        return self.given[item]

    def leave(self, *variables: Var) -> None:
        """These variables went out of scope: their names are free again."""
        for variable in variables:
            self.taken.discard(self.given.pop(variable, ""))


def render(kernel: tile.Kernel) -> str:
    """The whole kernel as text, ending in a newline."""
    names = Names()
    params = [_param(param, names) for param in kernel.params]
    axes = ", ".join(_extent(axis.extent, names) for axis in kernel.grid)
    grid = [names.of(axis.var) for axis in kernel.grid]
    bound = grid[0] if len(grid) == 1 else f"({', '.join(grid)})"
    lines = ["@T.prim_func", *_signature(kernel.name, params)]
    lines.append(f"{_INDENT}with T.Kernel({axes}, threads={kernel.threads}) as {bound}:")
    inner = [_allocation(buffer, names) for buffer in kernel.buffers]
    if kernel.swizzle_panel:
        inner.append(f"T.use_swizzle({kernel.swizzle_panel})")
    inner += _register_hints(kernel.registers)
    inner += _body(kernel.body, names, bool(inner))
    return "\n".join(lines + [_INDENT * 2 + line for line in inner]) + "\n"


def _signature(name: str, params: list[str]) -> list[str]:
    """The `def` line, one parameter to a line where it would be long."""
    line = f"def {name}({', '.join(params)}):"
    if len(line) <= _WIDTH:
        return [line]
    return [f"def {name}(", *(f"{_INDENT}{param}," for param in params), "):"]


def render_statement(stmt: tile.Stmt, names: Names | None = None) -> str:
    """One statement with everything inside it, lines joined by newlines."""
    return "\n".join(_statement(stmt, names or Names()))


def render_expr(expr: Expr, names: Names | None = None) -> str:
    """One expression."""
    return _text(expr, names or Names())[0]


def render_region(region: Region, names: Names | None = None) -> str:
    """A region: the buffer's name if it is the whole buffer, else its slices."""
    names = names or Names()
    name = names.of(region.buffer)
    whole = region.buffer.whole()
    if region.base == whole.base and region.extents == whole.extents:
        return name
    plain = any(not _is_one(extent) for extent in region.extents)
    parts = [
        ":" if not _is_one(extent) and is_const(base, 0) and extent == size else _slice(base, extent, plain, names)
        for base, extent, size in zip(region.base, region.extents, region.buffer.shape, strict=False)  # errors show bad nodes too
    ]
    return f"{name}[{', '.join(parts)}]"


def _is_one(extent: Extent) -> bool:
    return isinstance(extent, int) and extent == 1


def _slice(base: Expr, extent: Extent, index_ones: bool, names: Names) -> str:
    """One dimension of a region; an extent of 1 is an index where another dimension already shows that this is a region."""
    if index_ones and _is_one(extent):
        return render_expr(base, names)
    start, stop = render_expr(base, names), render_expr(_stop(base, extent), names)
    simple = all(part.isalnum() or part.isidentifier() for part in (start, stop))
    return f"{start}:{stop}" if simple else f"{start} : {stop}"


def _stop(base: Expr, extent: Extent) -> Expr:
    """`base + extent`, which is s where the extent is written s - base."""
    if isinstance(extent, Binary) and extent.op == "-" and extent.b == base:
        return extent.a
    return binary("+", base, extent)


# ---- declarations -------------------------------------------------------------------------------------------------------------


def _extent(extent: Extent, names: Names) -> str:
    return render_expr(as_expr(extent), names)


def _shape(buffer: Buffer, names: Names) -> str:
    parts = [_extent(extent, names) for extent in buffer.shape]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _param(param: Buffer | Var, names: Names) -> str:
    name = names.of(param)
    if isinstance(param, Var):
        return f"{name}: T.{param.dtype}"
    return f'{name}: T.Tensor({_shape(param, names)}, "{param.dtype}")'


def _allocation(buffer: Buffer, names: Names) -> str:
    if isinstance(buffer, Mbarriers):
        return f"{names.of(buffer)} = T.alloc_barrier({list(buffer.arrivals)})"
    name = names.of(buffer)
    if buffer.view_of is not None:
        return f"{name} = T.reshape({names.of(buffer.view_of)}, {_shape(buffer, names)})"
    call = f"T.{_ALLOC[buffer.scope]}"
    if buffer.scope == Scope.VAR:
        return f'{name} = {call}("{buffer.dtype}")'
    return f'{name} = {call}({_shape(buffer, names)}, "{buffer.dtype}")'


def _register_hints(hints: tile.RegisterHints) -> list[str]:
    lines = ["T.disable_warp_group_reg_alloc()"] if hints.fixed else []
    lines += [f"T.annotate_producer_reg_dealloc({hints.producer})"] if hints.producer is not None else []
    return lines + ([f"T.annotate_consumer_reg_alloc({hints.consumer})"] if hints.consumer is not None else [])


# ---- expressions --------------------------------------------------------------------------------------------------------------


def _text(expr: Expr, names: Names, like: DType | None = None) -> tuple[str, int]:
    """(text, precedence); `like` is the dtype that a bare number would take where it stands."""
    if isinstance(expr, Const):
        return _const(expr, like)
    render_one = EXPRESSIONS.get(type(expr))
    if render_one is None:  # a leaf of device IR
        return f"<{type(expr).__name__}>", _LEVELS["atom"]
    return render_one(expr, names)


def _const(expr: Const, like: DType | None) -> tuple[str, int]:
    """A number, with its dtype where the place does not give it."""
    value, dtype, atom = expr.value, expr.dtype, _LEVELS["atom"]
    if dtype == BOOL:
        return str(bool(value)), atom
    if isinstance(value, float) and not math.isfinite(value):
        special = f'T.infinity("{dtype}")' if value > 0 or value < 0 else f'T.cast(float("nan"), "{dtype}")'
        return (f"-{special}", _LEVELS["unary"]) if value < 0 else (special, atom)
    text = repr(float(value)) if dtype.is_float else str(int(value))
    natural = like if like is not None else FLOAT32 if dtype.is_float else INT32
    if dtype != natural:
        return f"T.{dtype}({text})", atom
    return text, _LEVELS["unary"] if text.startswith("-") else atom


def _inside(expr: Expr, names: Names, level: int, like: DType | None = None) -> str:
    """The text as an operand of something of precedence `level`."""
    text, own = _text(expr, names, like)
    return text if own >= level else f"({text})"


def _likes(a: Expr, b: Expr) -> tuple[DType | None, DType | None]:
    """For two operands, the dtype a bare number takes from the other one."""
    return None if isinstance(b, Const) else b.dtype, None if isinstance(a, Const) else a.dtype


def _var(expr: Var, names: Names) -> tuple[str, int]:
    return names.of(expr), _LEVELS["atom"]


def _unary(expr: Unary, names: Names) -> tuple[str, int]:
    level = _LEVELS["not"] if expr.op == "not" else _LEVELS["unary"]
    operator = "not " if expr.op == "not" else expr.op
    if isinstance(expr.value, Const) and expr.op == "-":  # a folded minus would read as the constant
        return f"-({_text(expr.value, names)[0]})", level
    return operator + _inside(expr.value, names, level), level


def _binary(expr: Binary, names: Names) -> tuple[str, int]:
    like_a, like_b = _likes(expr.a, expr.b)
    if expr.op in _CALLED:
        a, b = _text(expr.a, names, like_a)[0], _text(expr.b, names, like_b)[0]
        return f"{_CALLED[expr.op]}({a}, {b})", _LEVELS["atom"]
    level = _LEVELS.get(expr.op, 0)
    return f"{_inside(expr.a, names, level, like_a)} {expr.op} {_inside(expr.b, names, level + 1, like_b)}", level


def _compare(expr: Compare, names: Names) -> tuple[str, int]:
    level = _LEVELS["compare"]  # both sides one tighter: a < b < c would be a chain
    like_a, like_b = _likes(expr.a, expr.b)
    return f"{_inside(expr.a, names, level + 1, like_a)} {expr.op} {_inside(expr.b, names, level + 1, like_b)}", level


def _select(expr: Select, names: Names) -> tuple[str, int]:
    like_then, like_otherwise = _likes(expr.then, expr.otherwise)
    sides = ((expr.condition, None), (expr.then, like_then), (expr.otherwise, like_otherwise))
    parts = [_text(side, names, like)[0] for side, like in sides]
    return f"T.if_then_else({', '.join(parts)})", _LEVELS["atom"]


def _cast(expr: Cast, names: Names) -> tuple[str, int]:
    return f'T.cast({_text(expr.value, names)[0]}, "{expr.dtype}")', _LEVELS["atom"]


def _reinterpret(expr: Reinterpret, names: Names) -> tuple[str, int]:
    return f'T.reinterpret({_text(expr.value, names)[0]}, "{expr.dtype}")', _LEVELS["atom"]


def _call(expr: Call, names: Names) -> tuple[str, int]:
    return f"T.{expr.fn}({', '.join(_text(arg, names)[0] for arg in expr.args)})", _LEVELS["atom"]


def _element(buffer: Buffer, indices: tuple[Expr, ...], names: Names) -> str:
    """`A[i, j]`, or the bare name of a VAR."""
    if not indices:
        return names.of(buffer)
    return f"{names.of(buffer)}[{', '.join(_text(index, names)[0] for index in indices)}]"


def _load(expr: Load, names: Names) -> tuple[str, int]:
    return _element(expr.buffer, expr.indices, names), _LEVELS["atom"]


EXPRESSIONS: dict[type[Expr], Callable[..., tuple[str, int]]] = {
    Const: lambda expr, names: _const(expr, None), Var: _var, Unary: _unary, Binary: _binary, Compare: _compare,
    Select: _select, Cast: _cast, Reinterpret: _reinterpret, Call: _call, Load: _load,
}  # fmt: skip


# ---- statements ---------------------------------------------------------------------------------------------------------------


def _body(body: tile.Body, names: Names, may_be_empty: bool = False) -> list[str]:
    lines = [line for stmt in body for line in _statement(stmt, names)]
    names.leave(*(stmt.var for stmt in body if isinstance(stmt, tile.Let)))
    return lines or ([] if may_be_empty else ["pass"])


def _block(head: str, body: tile.Body, names: Names) -> list[str]:
    return [head, *(_INDENT + line for line in _body(body, names))]


def _statement(stmt: tile.Stmt, names: Names) -> list[str]:
    return STATEMENTS[type(stmt)](stmt, names)


def _let(stmt: tile.Let, names: Names) -> list[str]:
    value = render_expr(stmt.value, names)
    return [f"{names.of(stmt.var)} = {value}"]


def _store(stmt: tile.Store, names: Names) -> list[str]:
    return [f"{_element(stmt.buffer, stmt.indices, names)} = {_text(stmt.value, names, stmt.buffer.dtype)[0]}"]


def _for(stmt: tile.For, names: Names) -> list[str]:
    bounds = _range(stmt, names)
    lines = _block(f"for {names.of(stmt.var)} in {bounds}:", stmt.body, names)
    names.leave(stmt.var)
    return lines


def _range(stmt: tile.For, names: Names) -> str:
    start, stop = render_expr(stmt.start, names), render_expr(stmt.stop, names)
    bounds = stop if start == "0" and stmt.step == 1 else f"{start}, {stop}"
    if stmt.step != 1:
        bounds += f", step={stmt.step}" if stmt.kind == LoopKind.PIPELINED else f", {stmt.step}"
    if stmt.kind == LoopKind.PIPELINED:
        return f"T.Pipelined({bounds}, num_stages={stmt.num_stages})"
    return f"{'range' if stmt.kind == LoopKind.SERIAL else f'T.{stmt.kind}'}({bounds})"


def _parallel(stmt: tile.Parallel, names: Names) -> list[str]:
    extents = ", ".join(render_expr(extent, names) for extent in stmt.extents)
    lines = _block(f"for {', '.join(names.of(var) for var in stmt.vars)} in T.Parallel({extents}):", stmt.body, names)
    names.leave(*stmt.vars)
    return lines


def _while(stmt: tile.While, names: Names) -> list[str]:
    return _block(f"while {render_expr(stmt.condition, names)}:", stmt.body, names)


def _if(stmt: tile.If, names: Names) -> list[str]:
    lines = _block(f"if {render_expr(stmt.condition, names)}:", stmt.then, names)
    if len(stmt.otherwise) == 1 and isinstance(stmt.otherwise[0], tile.If):
        first, *rest = _statement(stmt.otherwise[0], names)
        return [*lines, "el" + first, *rest]
    return lines + _block("else:", stmt.otherwise, names) if stmt.otherwise else lines


def _copy(stmt: tile.Copy, names: Names) -> list[str]:
    src = render_region(stmt.src, names)
    return [f"T.copy({src}, {render_region(stmt.dst, names)})"]


def _fill(stmt: tile.Fill, names: Names) -> list[str]:
    dst = render_region(stmt.dst, names)
    if isinstance(stmt.value, Const) and stmt.value.value == 0 and math.copysign(1.0, stmt.value.value) > 0:
        return [f"T.clear({dst})"]
    return [f"T.fill({dst}, {_text(stmt.value, names, stmt.dst.buffer.dtype)[0]})"]


def _gemm(stmt: tile.Gemm, names: Names) -> list[str]:
    parts = [render_region(region, names) for region in (stmt.a, stmt.b, stmt.c)]
    parts += ["transpose_A=True"] if stmt.transpose_a else []
    parts += ["transpose_B=True"] if stmt.transpose_b else []
    if isinstance(stmt.clear_accum, Expr):
        parts.append(f"clear_accum={render_expr(stmt.clear_accum, names)}")
    elif stmt.clear_accum:
        parts.append("clear_accum=True")
    if stmt.policy != WarpPolicy.SQUARE:
        parts.append(f"policy=T.GemmWarpPolicy.{stmt.policy}")
    return [f"T.gemm({', '.join(parts)})"]


def _reduce(stmt: tile.Reduce, names: Names) -> list[str]:
    src = render_region(stmt.src, names)
    clear = "" if stmt.clear else ", clear=False"
    return [f"T.reduce_{stmt.kind}({src}, {render_region(stmt.dst, names)}, dim={stmt.dim}{clear})"]


# ---- synchronisation by hand --------------------------------------------------------------------------------------------------


def _warpgroups(stmt: tile.Warpgroups, names: Names) -> list[str]:
    return _block(f"with T.ws({', '.join(map(str, stmt.groups))}):", stmt.body, names)


def _barrier(barriers: Mbarriers, index: Expr, names: Names) -> str:
    return f"{names.of(barriers)}[{render_expr(index, names)}]"


def _tma_copy(stmt: tile.TmaCopy, names: Names) -> list[str]:
    src, dst = render_region(stmt.src, names), render_region(stmt.dst, names)
    if stmt.barriers is None or stmt.index is None:
        return [f"T.tma_copy({src}, {dst})"]
    return [f"T.tma_copy({src}, {dst}, barrier={_barrier(stmt.barriers, stmt.index, names)})"]


def _arrive(stmt: tile.MbarrierArrive, names: Names) -> list[str]:
    return [f"T.mbarrier_arrive({_barrier(stmt.barriers, stmt.index, names)})"]


def _wait(stmt: tile.MbarrierWait, names: Names) -> list[str]:
    parity = render_expr(stmt.parity, names)
    return [f"T.mbarrier_wait_parity({_barrier(stmt.barriers, stmt.index, names)}, {parity})"]


def _sync_threads(stmt: tile.SyncThreads, names: Names) -> list[str]:
    return [f"T.sync_threads({stmt.barrier_id}, {stmt.threads})" if stmt.barrier_id else "T.sync_threads()"]


def _set_max_registers(stmt: tile.SetMaxRegisters, names: Names) -> list[str]:
    return [f"T.set_max_nreg({stmt.count}, {int(stmt.increase)})"]


STATEMENTS: dict[type[tile.Stmt], Callable[..., list[str]]] = {
    tile.Let: _let, tile.Store: _store, tile.For: _for, tile.Parallel: _parallel, tile.While: _while, tile.If: _if,
    tile.Break: lambda stmt, names: ["break"], tile.Continue: lambda stmt, names: ["continue"],
    tile.Copy: _copy, tile.Fill: _fill, tile.Gemm: _gemm, tile.Reduce: _reduce,
    tile.Warpgroups: _warpgroups, tile.TmaCopy: _tma_copy, tile.MbarrierArrive: _arrive, tile.MbarrierWait: _wait,
    tile.SyncThreads: _sync_threads, tile.FenceProxyAsync: lambda stmt, names: ["T.fence_proxy_async()"],
    tile.SetMaxRegisters: _set_max_registers,
}  # fmt: skip
