"""Random tile programs as data: what they are, their text in the language, and what makes one valid.

A program is valid by construction, so that it has exactly one right result:

- every tile is written as a whole before anything reads it, on every path;
- no block reads what another writes, and no two points of a T.Parallel write one element;
- numbers stay integers that every order of summation adds up exactly.  A tile has a *role*: a `small` tile holds integers of at
  most `SMALL`; an `acc` tile holds sums of a few thousand products of those, in float32 or int32; an `any` tile holds whatever a
  copy left there.  Factors and summands are small; an expression clamps what it reads from other tiles and what it writes to a
  small one.

Sizes are indices into `Program.dims`, so that one number changes everywhere at once.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

SMALL = 4
UNTOUCHED = 96
"""What an output holds before the kernel runs."""
INDEX_LIMIT = 8
"""Index tensors hold numbers below this one; every dimension has at least so many elements."""


@dataclass(frozen=True)
class Tile:
    """A shared or fragment tile, or with no dims a mutable scalar."""

    name: str
    scope: str
    dims: tuple[int, ...]
    dtype: str
    role: str = "small"


@dataclass(frozen=True)
class Tensor:
    """A tensor of the size that its tile has, `count` times over along `axis`, less `crop`; `extra` more elements along the last
    dimension; `lead` matrices of that kind, one after the other, if not 0."""

    name: str
    dims: tuple[int, ...]
    dtype: str
    axis: int = 0
    count: int = 1
    crop: int = 0
    extra: int = 0
    lead: int = 0

    def shape(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        extents = [sizes[dim] for dim in self.dims]
        extents[self.axis] = max(extents[self.axis] * self.count - self.crop, 1)
        extents[-1] += self.extra
        return ((self.lead,) if self.lead else ()) + tuple(extents)


@dataclass(frozen=True)
class Place:
    """Where a tile lies in a tensor: `terms` are (variable, factor) pairs whose sum counts tiles along the tensor's axis; it is
    `offset` elements further along the last dimension."""

    tensor: str
    terms: tuple[tuple[str, int], ...] = ()
    offset: int = 0


@dataclass(frozen=True)
class Condition:
    """A condition that is the same for the whole block, as text, and the variables in it."""

    text: str
    names: tuple[str, ...] = ()


# ---- statements ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Load:
    """A tensor's box to a tile; `how` is "base", "slice" or "parallel"."""

    tile: str
    place: Place
    how: str = "base"


@dataclass(frozen=True)
class Store:
    """A tile to a tensor's box."""

    tile: str
    place: Place
    how: str = "base"


@dataclass(frozen=True)
class Move:
    """A tile to another of the same dims by T.copy, or half of its rows to the other half of the other's."""

    src: str
    dst: str
    half: bool = False


@dataclass(frozen=True)
class Fill:
    tile: str
    value: int


@dataclass(frozen=True)
class Factor:
    """Something an element-wise expression reads.  `kind` is "tile", "transposed", "reversed" (the rows in the other order),
    "row" and "column" (of a vector, broadcast), "global" (a tensor from its beginning), "scalar" (a name) or "number"."""

    kind: str
    name: str = ""
    number: int = 0


@dataclass(frozen=True)
class Elementwise:
    """`dst[i, j] = op(terms)`: each term is a product of factors.  `guard` is a condition on the point as text; `half` covers the
    second half of the rows only.  `form` is "plain", "let" (the value by way of a name), "else" (another value where the guard
    does not hold), "repeat" (added three times over) or "scatter" (`dst[j, i]`, by a loop over the points of the sources)."""

    dst: str
    op: str
    terms: tuple[tuple[Factor, ...], ...]
    guard: str = ""
    half: bool = False
    form: str = "plain"


@dataclass(frozen=True)
class Gather:
    """`dst[i, j] = table[index[i], j]`: rows of a tensor or tile, picked by a tensor of indices."""

    dst: str
    table: str
    index: str


@dataclass(frozen=True)
class Reduce:
    kind: str
    src: str
    dst: str
    dim: int
    clear: bool = True


@dataclass(frozen=True)
class Gemm:
    a: str
    b: str
    c: str
    transpose_a: bool = False
    transpose_b: bool = False
    clear: bool = False


@dataclass(frozen=True)
class Assign:
    """A mutable scalar gets a clamped sum of itself, a number and names of the kernel."""

    var: str
    names: tuple[str, ...] = ()
    number: int = 0


@dataclass(frozen=True)
class Loop:
    """`kind` is "serial", "unroll", "Pipelined" or "while"; `trips` is a number or the name of one that is at most `most`."""

    var: str
    kind: str
    trips: int | str
    most: int
    stages: int
    body: tuple[Stmt, ...]
    stop: Condition | None = None
    """Where to break (in "serial" loops)."""
    skip: Condition | None = None
    """Where to continue."""
    start: int = 0
    down: bool = False
    """Whether the loop counts down (for numbers of trips that are known)."""


@dataclass(frozen=True)
class If:
    condition: Condition
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()


Stmt = Load | Store | Move | Fill | Elementwise | Gather | Reduce | Gemm | Assign | Loop | If


@dataclass(frozen=True)
class Program:
    """`grid` blocks along x and y; `dims` are sizes in elements; `scalars` are the scalar parameters and the numbers they get."""

    dims: tuple[int, ...]
    grid: tuple[int, ...]
    threads: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    tiles: tuple[Tile, ...]
    body: tuple[Stmt, ...]
    scalars: tuple[tuple[str, int], ...] = ()

    def tile(self, name: str) -> Tile:
        return next(tile for tile in self.tiles if tile.name == name)

    def tensor(self, name: str) -> Tensor:
        return next(tensor for tensor in (*self.inputs, *self.outputs) if tensor.name == name)

    def shape(self, tile: Tile) -> tuple[int, ...]:
        return tuple(self.dims[dim] for dim in tile.dims)


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement, outer ones first."""
    for stmt in body:
        yield stmt
        for part in bodies(stmt):
            yield from statements(part)


def bodies(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    match stmt:
        case Loop():
            return (stmt.body,)
        case If():
            return stmt.then, stmt.otherwise
    return ()


# ---- what a statement reads and writes ----------------------------------------------------------------------------------------


def reads(stmt: Stmt) -> frozenset[str]:
    """Names of tiles whose old contents the statement itself needs."""
    match stmt:
        case Store():
            return frozenset({stmt.tile})
        case Move():
            return frozenset({stmt.src, stmt.dst} if stmt.half else {stmt.src})
        case Elementwise():
            partial = {stmt.dst} if (stmt.guard and stmt.form != "else") or stmt.half or stmt.form == "repeat" else set()
            return frozenset({factor.name for term in stmt.terms for factor in term if factor.name} | partial)
        case Gather():
            return frozenset({stmt.table, stmt.index})
        case Reduce():
            return frozenset({stmt.src} if stmt.clear else {stmt.src, stmt.dst})
        case Gemm():
            return frozenset({stmt.a, stmt.b} if stmt.clear else {stmt.a, stmt.b, stmt.c})
        case Assign():
            return frozenset({stmt.var, *stmt.names})
        case If():
            return frozenset(stmt.condition.names)
        case Loop():
            names = {name for condition in (stmt.stop, stmt.skip) if condition for name in condition.names}
            return frozenset({stmt.trips} if isinstance(stmt.trips, str) else ()) | frozenset(names - {stmt.var})
    return frozenset()


def written(stmt: Stmt) -> str:
    """The tile that the statement itself writes, empty for none."""
    match stmt:
        case Load() | Fill():
            return stmt.tile
        case Move() | Elementwise() | Gather() | Reduce():
            return stmt.dst
        case Gemm():
            return stmt.c
        case Assign():
            return stmt.var
    return ""


def defined_after(body: tuple[Stmt, ...], defined: frozenset[str], visible: frozenset[str]) -> frozenset[str] | None:
    """What is certainly written after a body, None where it reads a tile that may not be, or a name that is not there.  `visible`
    are grid and loop variables, scalar parameters and inputs."""
    for stmt in body:
        if not reads(stmt) <= defined | visible or not _places(stmt) <= visible:
            return None
        match stmt:
            case Loop():
                inside = defined_after(stmt.body, defined, visible | {stmt.var})
                if inside is None:
                    return None
                runs = stmt.kind != "while" and isinstance(stmt.trips, int) and stmt.trips > 0
                certain = runs and not stmt.stop and not stmt.skip
                defined = inside if certain else defined
            case If():
                sides = [defined_after(side, defined, visible) for side in (stmt.then, stmt.otherwise)]
                if sides[0] is None or sides[1] is None:
                    return None
                defined = sides[0] & sides[1]
            case _:
                defined |= {written(stmt)} - {""}
    return defined


def _places(stmt: Stmt) -> frozenset[str]:
    return frozenset(name for name, _ in stmt.place.terms) if isinstance(stmt, (Load, Store)) else frozenset()


def grid_names(program: Program) -> tuple[str, ...]:
    return ("bx", "by")[: len(program.grid)]


def is_valid(program: Program) -> bool:
    """Whether the program has one right result."""
    visible = frozenset(grid_names(program)) | frozenset(name for name, _ in program.scalars)
    visible |= {tensor.name for tensor in program.inputs}
    variables = frozenset(tile.name for tile in program.tiles if not tile.dims)
    fits = all(size >= INDEX_LIMIT for size in program.dims)
    return fits and defined_after(program.body, variables, visible) is not None


def used(program: Program) -> Program:
    """The program without the tiles, tensors and scalars that nothing uses."""
    text = "\n".join(_lines(program.body, program, 0))
    words = set(_words(text))
    return replace(
        program, inputs=tuple(t for t in program.inputs if t.name in words),
        outputs=tuple(t for t in program.outputs if t.name in words),
        tiles=tuple(t for t in program.tiles if t.name in words), scalars=tuple(s for s in program.scalars if s[0] in words),
    )  # fmt: skip


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in text).split()


# ---- text ---------------------------------------------------------------------------------------------------------------------


def source(program: Program, title: str = "A random program.") -> str:
    """The program as a Python file."""
    program = used(program)
    params = [f'{t.name}: T.Tensor({_tuple(t.shape(program.dims))}, "{t.dtype}")' for t in program.inputs]
    params += [f"{name}: T.int32" for name, _ in program.scalars]
    params += [f'{t.name}: T.Tensor({_tuple(t.shape(program.dims))}, "{t.dtype}")' for t in program.outputs]
    names = ", ".join(grid_names(program))
    names = f"({names})" if len(program.grid) > 1 else names
    lines = [f'"""{title}"""', "import tilelang.language as T", ""]
    if program.scalars:
        lines += [f"SCALARS = {dict(program.scalars)!r}".replace("'", '"'), ""]
    lines += ["", "@T.prim_func", "def program("]
    lines += [f"    {param}," for param in params]
    lines += ["):", f"    with T.Kernel({', '.join(map(str, program.grid))}, threads={program.threads}) as {names}:"]
    lines += [f"        {_allocation(tile, program)}" for tile in program.tiles]
    return "\n".join([*lines, *_lines(program.body, program, 2)]) + "\n"


def _tuple(values: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, values))}{',' if len(values) == 1 else ''})"


def _allocation(tile: Tile, program: Program) -> str:
    if not tile.dims:
        return f'{tile.name} = T.alloc_var("{tile.dtype}", 1)'
    return f'{tile.name} = T.alloc_{tile.scope}({_tuple(program.shape(tile))}, "{tile.dtype}")'


def _lines(body: tuple[Stmt, ...], program: Program, depth: int) -> list[str]:
    lines = [line for stmt in body for line in _text(stmt, program, depth)]
    return lines or ["    " * depth + "pass"]


def _text(stmt: Stmt, program: Program, depth: int) -> list[str]:
    indent = "    " * depth
    match stmt:
        case If():
            lines = [f"if {stmt.condition.text}:", *_inner(stmt.then, program)]
            lines += ["else:", *_inner(stmt.otherwise, program)] if stmt.otherwise else []
        case Loop():
            lines = _loop_text(stmt, program)
        case _:
            lines = TEXTS[type(stmt)](stmt, program)
    return [indent + line for line in lines]


def _inner(body: tuple[Stmt, ...], program: Program) -> list[str]:
    return _lines(body, program, 1)


def _loop_text(loop: Loop, program: Program) -> list[str]:
    inner = _inner(loop.body, program)
    if loop.kind == "while":
        head = [f'{loop.var} = T.alloc_var("int32", 0)', f"while {loop.var} < {loop.trips}:"]
        return [*head, *inner, f"    {loop.var} += 1"]
    stages = f", num_stages={loop.stages}" if loop.kind == "Pipelined" else ""
    jumps = [f"    if {loop.stop.text}:", "        break"] if loop.stop else []
    jumps += [f"    if {loop.skip.text}:", "        continue"] if loop.skip else []
    return [f"for {loop.var} in T.{loop.kind}({_range(loop)}{stages}):", *jumps, *inner]


def _range(loop: Loop) -> str:
    if isinstance(loop.trips, str) or not (loop.start or loop.down):
        return str(loop.trips)
    first, last = loop.start, loop.start + loop.trips
    return f"{last - 1}, {first - 1}, -1" if loop.down else f"{first}, {last}"


def _box(place: Place, tile: Tile, program: Program, style: str) -> str:
    tensor = program.tensor(place.tensor)
    at = " + ".join(name if factor == 1 else f"{name} * {factor}" for name, factor in place.terms if factor)
    sizes = program.shape(tile)
    bases = ["0"] * len(sizes)
    if at:
        bases[tensor.axis] = f"({at}) * {sizes[tensor.axis]}" if " " in at else f"{at} * {sizes[tensor.axis]}"
    if place.offset:
        bases[-1] = str(place.offset) if bases[-1] == "0" else f"{bases[-1]} + {place.offset}"
    lead = [f"bx % {tensor.lead}"] if tensor.lead else []
    if style == "slice":
        parts = [f"{base} : {base} + {size}" if base != "0" else f"0:{size}" for base, size in zip(bases, sizes, strict=True)]
    elif style == "parallel":
        parts = [f"{base} + {point}" if base != "0" else point for base, point in zip(bases, "ij", strict=False)]
    else:
        parts = bases
    return f"{tensor.name}[{', '.join(lead + parts)}]"


def _points(tile: Tile, program: Program, half: bool = False) -> tuple[str, list[str]]:
    """The head of a T.Parallel over a tile, and the index of each dimension."""
    sizes = list(program.shape(tile))
    names = list("ij"[: len(sizes)])
    indices = list(names)
    if half:
        first = sizes[0] // 2
        sizes[0] -= first
        indices[0] = f"i + {first}"
    return f"for {', '.join(names)} in T.Parallel({', '.join(map(str, sizes))}):", indices


def _load(stmt: Load, program: Program) -> list[str]:
    tile = program.tile(stmt.tile)
    box = _box(stmt.place, tile, program, stmt.how)
    if stmt.how != "parallel":
        return [f"T.copy({box}, {tile.name})"]
    head, indices = _points(tile, program)
    return [head, f"    {tile.name}[{', '.join(indices)}] = {box}"]


def _store(stmt: Store, program: Program) -> list[str]:
    tile = program.tile(stmt.tile)
    box = _box(stmt.place, tile, program, stmt.how)
    if stmt.how != "parallel":
        return [f"T.copy({tile.name}, {box})"]
    head, indices = _points(tile, program)
    return [head, f"    {box} = {tile.name}[{', '.join(indices)}]"]


def _move(stmt: Move, program: Program) -> list[str]:
    if not stmt.half:
        return [f"T.copy({stmt.src}, {stmt.dst})"]
    size = program.shape(program.tile(stmt.src))[0]
    first = size // 2
    rest = ", :" * (len(program.tile(stmt.src).dims) - 1)
    return [f"T.copy({stmt.src}[0:{first}{rest}], {stmt.dst}[{size - first}:{size}{rest}])"]


def _fill(stmt: Fill, program: Program) -> list[str]:
    return [f"T.fill({stmt.tile}, {stmt.value})" if stmt.value else f"T.clear({stmt.tile})"]


def _factor(factor: Factor, indices: list[str], program: Program) -> str:
    if factor.kind == "number":
        return str(factor.number)
    if factor.kind == "scalar":
        clamped = factor.name not in {tile.name for tile in program.tiles}
        return f"T.min({factor.name}, {SMALL})" if clamped else factor.name
    if factor.kind == "global":
        return f"{factor.name}[{', '.join(indices)}]"
    tile = program.tile(factor.name)
    at = {"tile": indices, "transposed": indices[::-1], "row": indices[-1:], "column": indices[:1]}.get(factor.kind)
    if at is None:
        at = [f"{program.shape(tile)[0] - 1} - {indices[0] if ' ' not in indices[0] else f'({indices[0]})'}", *indices[1:]]
    text = f"{tile.name}[{', '.join(at)}]"
    return text if tile.role == "small" else f"T.max(T.min({text}, {SMALL}), {-SMALL})"


def _elementwise(stmt: Elementwise, program: Program) -> list[str]:
    dst = program.tile(stmt.dst)
    points = replace(dst, dims=dst.dims[::-1]) if stmt.form == "scatter" else dst
    head, indices = _points(points, program, stmt.half)
    terms = [" * ".join(_factor(factor, indices, program) for factor in term) for term in stmt.terms]
    value = combine(stmt.op, terms)
    target = f"{dst.name}[{', '.join(indices[::-1] if stmt.form == 'scatter' else indices)}]"
    lines = _assignment(stmt, target, value, dst)
    if stmt.guard:
        lines = [f"if {stmt.guard}:", *(f"    {line}" for line in lines)]
        lines += ["else:", f"    {target} = 1"] if stmt.form == "else" else []
    return [head, *(f"    {line}" for line in lines)]


def _assignment(stmt: Elementwise, target: str, value: str, dst: Tile) -> list[str]:
    alone = len(stmt.terms) == 1 and len(stmt.terms[0]) == 1
    clamped = f"T.max(T.min({value}, {SMALL}), {-SMALL})"
    if stmt.form == "repeat":
        old = target if dst.role == "small" else f"T.max(T.min({target}, {SMALL}), {-SMALL})"
        return ["for r in T.serial(3):", f"    {target} = T.max(T.min({old} + {clamped}, {SMALL}), {-SMALL})"]
    if stmt.form == "let":
        return [f"v = {clamped}", f"{target} = T.max(T.min(v * v - v, {SMALL}), {-SMALL})"]
    return [f"{target} = {clamped if dst.role == 'small' and not alone else value}"]


def combine(op: str, terms: list[str]) -> str:
    """The terms under an operation of any number of them."""
    if op == "sum" or len(terms) == 1:
        return " + ".join(terms)
    match op:
        case "max" | "min":
            value = terms[0]
            for term in terms[1:]:
                value = f"T.{op}({value}, {term})"
            return value
        case "difference":
            return f"T.abs({terms[0]} - {terms[1]})"
        case "select":
            return f"T.if_then_else({terms[0]} > {terms[-1]}, {terms[0]}, {terms[1]})"
    raise ValueError(op)


def _gather(stmt: Gather, program: Program) -> list[str]:
    dst = program.tile(stmt.dst)
    head, indices = _points(dst, program)
    return [head, f"    {dst.name}[{', '.join(indices)}] = {stmt.table}[{stmt.index}[{indices[0]}], {', '.join(indices[1:])}]"]


def _reduce(stmt: Reduce, program: Program) -> list[str]:
    clear = "" if stmt.clear else ", clear=False"
    return [f"T.reduce_{stmt.kind}({stmt.src}, {stmt.dst}, dim={stmt.dim}{clear})"]


def _gemm(stmt: Gemm, program: Program) -> list[str]:
    flags = {"transpose_A": stmt.transpose_a, "transpose_B": stmt.transpose_b, "clear_accum": stmt.clear}
    words = [name for name, on in flags.items() if on]
    return [f"T.gemm({', '.join([stmt.a, stmt.b, stmt.c, *(f'{word}=True' for word in words)])})"]


def _assign(stmt: Assign, program: Program) -> list[str]:
    value = " + ".join([stmt.var, *stmt.names, *([str(stmt.number)] if stmt.number else [])])
    return [f"{stmt.var} = T.max(T.min({value}, {SMALL}), {-SMALL})"]


TEXTS: dict[type, Any] = {
    Load: _load, Store: _store, Move: _move, Fill: _fill, Elementwise: _elementwise, Gather: _gather, Reduce: _reduce,
    Gemm: _gemm, Assign: _assign,
}  # fmt: skip
