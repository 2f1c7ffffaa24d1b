"""Draws random programs, valid by construction (see `tests/fuzz/program.py`).

Swarm testing: each program leaves out a random half of the features, which finds more than mixing everything evenly.
"""
from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.fuzz.program import (
    INDEX_LIMIT,
    Assign,
    Condition,
    Elementwise,
    Factor,
    Fill,
    Gather,
    Gemm,
    If,
    Load,
    Loop,
    Move,
    Place,
    Program,
    Reduce,
    Stmt,
    Store,
    Tensor,
    Tile,
    defined_after,
    grid_names,
    is_valid,
    statements,
    used,
)

SIZES = (8, 16, 16, 24, 32, 32, 40, 48, 64, 64, 80, 96, 104, 128, 160, 192, 229)
GEMM_M, GEMM_N, GEMM_K = (64, 64, 128), (16, 32, 48, 64, 80, 96, 128), (16, 32, 48, 64)
THREADS = (32, 64, 96, 128, 128, 128, 160, 256, 384)
MOST_ELEMENTS = 8192
"""Of one tile."""
FEATURES = (
    "move", "fill", "elementwise", "broadcast", "transpose", "gather", "reduce", "gemm", "pipelined", "nested", "if", "while",
    "scalar", "variable", "read back", "slice", "parallel copy", "ragged", "offset", "lead", "guard", "half", "dynamic", "break",
    "unroll", "convert", "integers", "float8", "wide", "two axes", "exotic threads", "scatter", "reversed", "forms", "global",
    "from and to",
)  # fmt: skip


@dataclass
class State:
    """A program under construction: what there is, what is certainly written here, which names can be seen here."""

    rng: random.Random
    features: frozenset[str]
    dims: list[int]
    grid: tuple[int, ...]
    threads: int
    tiles: list[Tile] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    scalars: list[tuple[str, int]] = field(default_factory=list)
    loops: list[tuple[str, int]] = field(default_factory=list)
    """Loop variables here and their numbers of values."""
    gemm_dims: tuple[int, int, int] | None = None
    names: int = 0
    budget: int = 14
    """Statements that may still be drawn."""

    def has(self, feature: str) -> bool:
        return feature in self.features

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def elements(self, dims: tuple[int, ...]) -> int:
        total = 1
        for dim in dims:
            total *= self.dims[dim]
        return total


def program(seed: int | str) -> Program:
    """The program of this seed."""
    rng = random.Random(f"program {seed}")
    while True:
        drawn = _draw(rng)
        if is_valid(drawn) and any(isinstance(stmt, Store) for stmt in statements(drawn.body)):
            return used(drawn)


def _draw(rng: random.Random) -> Program:
    features = frozenset(feature for feature in FEATURES if rng.random() < 0.5)
    gemm = "gemm" in features
    threads = rng.choice((128, 128, 128, 256)) if gemm or "exotic threads" not in features else rng.choice(THREADS)
    dims = [rng.choice(SIZES) for _ in range(rng.randint(2, 4))]
    grid = (rng.randint(1, 3), rng.randint(1, 2)) if "two axes" in features else (rng.randint(1, 4),)
    state = State(rng, features, dims, grid, threads, budget=rng.randint(4, 14))
    if gemm:
        state.gemm_dims = (len(dims), len(dims) + 1, len(dims) + 2)
        m = rng.choice([size for size in GEMM_M if size * 128 >= threads * 64])
        dims += [m, rng.choice(GEMM_N), rng.choice(GEMM_K)]
    if "scalar" in features:
        state.scalars.append(("n", rng.choice((0, 1, 2, 3, 5))))
    if "variable" in features:
        state.tiles.append(Tile("x", "var", (), rng.choice(("float32", "int32"))))
    defined = frozenset(tile.name for tile in state.tiles)
    body, defined = draw_body(state, defined)
    body += _stores_of(state, defined)
    return Program(
        tuple(state.dims), grid, threads, tuple(state.inputs), tuple(state.outputs), tuple(state.tiles), body,
        tuple(state.scalars),
    )  # fmt: skip


def _stores_of(state: State, defined: frozenset[str]) -> tuple[Stmt, ...]:
    """Stores of what is there at the end, so that it counts."""
    ready = [tile for tile in state.tiles if tile.name in defined and tile.dims]
    state.rng.shuffle(ready)
    return tuple(draw_store(state, tile) for tile in ready[: state.rng.randint(1, 4)])


# ---- bodies -------------------------------------------------------------------------------------------------------------------


def draw_body(state: State, defined: frozenset[str], depth: int = 0) -> tuple[tuple[Stmt, ...], frozenset[str]]:
    """Statements, each valid where it stands, and what is certainly written after them."""
    body: list[Stmt] = []
    for _ in range(state.rng.randint(2, 7)):
        if state.budget <= 0:
            break
        stmt = draw_statement(state, defined, depth)
        if stmt is None:
            continue
        after = defined_after((stmt,), defined, visible(state))
        if after is not None:
            body.append(stmt)
            defined = after
            state.budget -= 1
    return tuple(body), defined


def visible(state: State) -> frozenset[str]:
    """Names that are no tiles."""
    names = grid_names(Program(tuple(state.dims), state.grid, state.threads, (), (), (), ()))
    tensors = [tensor.name for tensor in state.inputs]
    return frozenset(names) | {name for name, _ in (*state.scalars, *state.loops)} | frozenset(tensors)


def draw_statement(state: State, defined: frozenset[str], depth: int) -> Stmt | None:
    """A statement of a kind that the features allow; None where the kind drawn has nothing to work on."""
    kinds: list[tuple[Callable[..., Stmt | None], int]] = [(draw_load, 4), (draw_store_of_any, 1)]
    for feature, kind, weight in (
        ("move", draw_move, 2), ("fill", draw_fill, 1), ("elementwise", draw_elementwise, 5), ("gather", draw_gather, 1),
        ("reduce", draw_reduce, 2), ("gemm", draw_gemm, 4), ("variable", draw_assign, 3),
    ):  # fmt: skip
        if state.has(feature):
            kinds.append((kind, weight))
    if depth < (2 if state.has("nested") else 1):
        kinds.append((draw_loop, 3))
    if depth < 3 and state.has("if"):
        kinds.append((draw_if, 2))
    chosen = state.rng.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
    return chosen(state, defined, depth) if chosen in (draw_loop, draw_if) else chosen(state, defined)


def draw_loop(state: State, defined: frozenset[str], depth: int) -> Stmt | None:
    rng = state.rng
    kinds = ["serial"] + ["Pipelined"] * 3 * state.has("pipelined")
    kind = rng.choice(kinds + ["while"] * state.has("while") + ["unroll"] * state.has("unroll"))
    stages = rng.randint(0, 5) if kind == "Pipelined" else 0
    trips: int | str = rng.choice((0, 1, 2, 3, max(stages - 1, 0), stages, stages + 1, 2 * stages + 1))
    trips = most = min(trips, 7 if depth == 0 else 3)
    if kind != "unroll" and state.has("dynamic") and rng.random() < 0.4:
        trips, most = rng.choice([("bx", state.grid[0]), *state.scalars])
    start, down = 0, False
    if state.has("from and to") and kind != "while" and isinstance(trips, int):
        start, down = rng.choice((0, 1, 2)), kind == "serial" and rng.random() < 0.3
        most += start
    var = state.fresh("k")
    state.loops.append((var, max(most, 1)))
    body, _ = draw_body(state, defined, depth + 1)
    stop = _condition(state, defined) if kind == "serial" and state.has("break") and rng.random() < 0.4 else None
    skip = _condition(state, defined) if kind != "while" and state.has("break") and rng.random() < 0.2 else None
    state.loops.pop()
    return Loop(var, kind, trips, max(most, 1), stages, body, stop, skip, start, down) if body else None


def draw_if(state: State, defined: frozenset[str], depth: int) -> Stmt | None:
    condition = _condition(state, defined)
    then, _ = draw_body(state, defined, depth + 1)
    otherwise = draw_body(state, defined, depth + 1)[0] if state.rng.random() < 0.4 else ()
    return If(condition, then, otherwise) if then else None


def _condition(state: State, defined: frozenset[str]) -> Condition:
    rng = state.rng
    names = [name for name, _ in (*state.loops, *state.scalars)] + ["bx"]
    names += [tile.name for tile in state.tiles if not tile.dims and tile.name in defined]
    name = rng.choice(names[:2] + names)
    number = rng.randint(0, 3)
    forms = [f"{name} > {number}", f"{name} == {number}", f"{name} < {number}"]
    if name != "x":
        forms.append(f"{name} % 2 == {number % 2}")
    if state.has("gather") and rng.random() < 0.3:  # a loaded value, the same for the whole block
        index = _index_tensor(state, 0)
        return Condition(f"{index}[bx] > {rng.randint(0, INDEX_LIMIT - 1)}", ("bx",))
    return Condition(rng.choice(forms), (name,))


# ---- tiles --------------------------------------------------------------------------------------------------------------------


def _dtype(state: State, role: str = "small") -> str:
    rng = state.rng
    if role == "acc":
        return rng.choice(("float32", "float32", "int32")) if state.has("integers") else "float32"
    choices = ["float16", "float16", "bfloat16", "float32"]
    choices += ["int8", "int32", "int16"] * state.has("integers") + ["float8_e4m3fn"] * state.has("float8")
    choices += ["float64", "int64"] * state.has("wide")
    return rng.choice(choices)


def _dims(state: State) -> tuple[int, ...]:
    """The dims of a tile of one or two dimensions, not too large."""
    while True:
        dims = tuple(state.rng.randrange(len(state.dims)) for _ in range(state.rng.choice((1, 2, 2, 2))))
        if state.elements(dims) <= MOST_ELEMENTS:
            return dims


def new_tile(state: State, dims: tuple[int, ...], role: str = "small", scope: str = "", dtype: str = "") -> Tile:
    scope = scope or state.rng.choice(("shared", "fragment"))
    tile = Tile(state.fresh("s" if scope == "shared" else "f"), scope, dims, dtype or _dtype(state, role), role)
    state.tiles.append(tile)
    return tile


def some_tile(state: State, fits: Callable[[Tile], bool], defined: frozenset[str] | None = None) -> Tile | None:
    """A tile that fits and, where `defined` is given, is written already."""
    found = [tile for tile in state.tiles if tile.dims and fits(tile) and (defined is None or tile.name in defined)]
    return state.rng.choice(found) if found else None


def target(state: State, dims: tuple[int, ...], role: str = "small", scope: str = "", dtype: str = "") -> Tile:
    """A tile to write: an old one half of the time."""
    def fits(tile: Tile) -> bool:
        return tile.dims == dims and tile.role == role and scope in ("", tile.scope) and dtype in ("", tile.dtype)

    old = some_tile(state, fits) if state.rng.random() < 0.5 else None
    return old or new_tile(state, dims, role, scope, dtype)


# ---- tensors ------------------------------------------------------------------------------------------------------------------


def _terms(state: State, chance: float) -> tuple[tuple[str, int], ...]:
    """Some of the variables here, none of which need to be injective."""
    names = [*grid_names(Program((), state.grid, 0, (), (), (), ())), *(name for name, _ in state.loops)]
    return tuple((name, state.rng.choice((1, 1, 2))) for name in names if state.rng.random() < chance)


def draw_load(state: State, defined: frozenset[str]) -> Stmt | None:
    rng = state.rng
    dims = _dims(state)
    dtype = _dtype(state)
    tile = target(state, dims, dtype="" if state.has("convert") else dtype)
    terms = _terms(state, 0.6)
    offset = rng.choice((0, 1, 4, 8)) if state.has("offset") else 0
    crop, extra = (rng.choice((0, 1, 3, 8)), rng.choice((0, 0, 1, 3, 8))) if state.has("ragged") else (0, offset)
    tensor = Tensor(
        state.fresh("A"), dims, dtype if state.has("convert") else tile.dtype, axis=rng.randrange(len(dims)),
        count=rng.randint(1, 4), crop=min(crop, state.dims[dims[0]] - 1), extra=extra,
        lead=rng.choice((0, 1, 2)) if state.has("lead") else 0,
    )  # fmt: skip
    state.inputs.append(tensor)
    return Load(tile.name, Place(tensor.name, terms, offset), _how(state, tensor, bool(terms), offset))


def _how(state: State, tensor: Tensor, moves: bool, offset: int) -> str:
    """How a copy is written.  A slice with constant bounds must lie inside its tensor."""
    if state.has("parallel copy") and state.rng.random() < 0.4:
        return "parallel"
    inside = tensor.extra >= offset and (not tensor.crop or (moves and tensor.axis == 0))
    return "slice" if state.has("slice") and inside and state.rng.random() < 0.5 else "base"


def draw_store(state: State, tile: Tile) -> Stmt:
    """A tile to a place that no other block writes."""
    rng = state.rng
    loops = [(name, most) for name, most in state.loops if rng.random() < 0.7]
    factor, terms = 1, []
    for name, most in reversed(loops):
        terms.append((name, factor))
        factor *= most
    for name, size in zip(("bx", "by"), state.grid, strict=False):
        terms.append((name, factor))
        factor *= size
    crop = rng.choice((0, 1, 3, 8)) if state.has("ragged") else 0
    offset = rng.choice((0, 1, 4, 8)) if state.has("offset") else 0
    convert = state.has("convert") and not tile.dtype.startswith("int")
    out = rng.choice((tile.dtype, "float32", "float16")) if convert else tile.dtype
    tensor = Tensor(
        state.fresh("O"), tile.dims, out, axis=rng.randrange(len(tile.dims)), count=factor,
        crop=min(crop, state.dims[tile.dims[0]] - 1),
        extra=max(offset, rng.choice((0, 0, 1, 8)) if state.has("ragged") else 0),
    )  # fmt: skip
    if len(tile.dims) == 1:  # offset and extra act on the axis itself, so they would make blocks overlap
        tensor = Tensor(tensor.name, tile.dims, out, count=factor, crop=crop)
        offset = 0
    elif tensor.axis == len(tile.dims) - 1:
        offset = 0
    state.outputs.append(tensor)
    return Store(tile.name, Place(tensor.name, tuple(terms), offset), _how(state, tensor, True, offset))


def draw_store_of_any(state: State, defined: frozenset[str]) -> Stmt | None:
    tile = some_tile(state, lambda tile: True, defined)
    if tile is None:
        return None
    if state.has("read back") and state.outputs and state.rng.random() < 0.5:
        return _read_back(state)
    return draw_store(state, tile)


def _read_back(state: State) -> Stmt | None:
    """A load of what this very block may have stored: the place must be the store's, and its variables visible."""
    stores = [(out, terms) for out, terms in _stored_places(state) if {name for name, _ in terms} <= visible(state)]
    if not stores:
        return None
    tensor, terms = state.rng.choice(stores)
    tile = target(state, tensor.dims, role="any", dtype=tensor.dtype)
    return Load(tile.name, Place(tensor.name, terms), state.rng.choice(("base", "parallel")))


def _stored_places(state: State) -> list[tuple[Tensor, tuple[tuple[str, int], ...]]]:
    """Outputs whose place depends on the block alone, each block's own part."""
    found = []
    for tensor in state.outputs:
        factor, terms = 1, []
        for name, size in zip(("bx", "by"), state.grid, strict=False):
            terms.append((name, factor))
            factor *= size
        if tensor.count == factor:
            found.append((tensor, tuple(terms)))
    return found


def _index_tensor(state: State, dim: int) -> str:
    """A tensor of numbers below INDEX_LIMIT, as long as a dimension."""
    old = [tensor.name for tensor in state.inputs if tensor.name.startswith("index") and tensor.dims == (dim,)]
    if old:
        return old[0]
    tensor = Tensor(state.fresh("index"), (dim,), "int32")
    state.inputs.append(tensor)
    return tensor.name


def draw_gather(state: State, defined: frozenset[str]) -> Stmt | None:
    tile = target(state, _dims(state))
    index = _index_tensor(state, tile.dims[0])
    table = some_tile(state, lambda other: other.dims == tile.dims and other.role == "small" and other is not tile, defined)
    if table is not None and state.rng.random() < 0.4:
        return Gather(tile.name, table.name, index)
    tensor = Tensor(state.fresh("A"), tile.dims, tile.dtype, crop=state.rng.choice((0, 2)))
    state.inputs.append(tensor)
    return Gather(tile.name, tensor.name, index)


# ---- tile ops -----------------------------------------------------------------------------------------------------------------


def draw_move(state: State, defined: frozenset[str]) -> Stmt | None:
    src = some_tile(state, lambda tile: True, defined)
    if src is None:
        return None
    role = src.role if state.rng.random() < 0.7 and src.role != "acc" else "any"
    dst = target(state, src.dims, role, dtype="" if state.has("convert") else src.dtype)
    half = state.has("half") and dst.name in defined and state.rng.random() < 0.5
    return Move(src.name, dst.name, half) if src is not dst else None


def draw_fill(state: State, defined: frozenset[str]) -> Stmt | None:
    role = state.rng.choice(("small", "acc"))
    return Fill(target(state, _dims(state), role).name, state.rng.choice((0, 0, 1, -3)))


def draw_elementwise(state: State, defined: frozenset[str]) -> Stmt | None:
    rng = state.rng
    source = some_tile(state, lambda tile: True, defined)
    if source is None:
        return None
    role = "acc" if state.has("gemm") and rng.random() < 0.3 else "small"
    scatter = len(source.dims) == 2 and state.has("scatter") and rng.random() < 0.3
    dst = target(state, source.dims[::-1] if scatter else source.dims, role)
    if scatter:
        points = Tile("", dst.scope, source.dims, dst.dtype)
        factors = [factor for factor in _factors(state, points, defined) if factor.name != dst.name]
    else:
        factors = _factors(state, dst, defined)
    terms = tuple(tuple(rng.choice(factors) for _ in range(rng.choice((1, 1, 2)))) for _ in range(rng.choice((1, 2, 2, 3))))
    op = rng.choice(("sum", "sum", "max", "min", "select", "difference")) if len(terms) > 1 else "sum"
    guard = ""
    if state.has("guard") and dst.name in defined and rng.random() < 0.4:
        guard = rng.choice(["i % 2 == 0", "i > 3", "bx > 0"] + ["i >= j", "i + j < 20"] * (len(dst.dims) == 2))
    half = state.has("half") and dst.name in defined and rng.random() < 0.3
    form = "scatter" if scatter else "plain"
    if state.has("forms") and not scatter and rng.random() < 0.5:
        form = rng.choice(["let"] + ["repeat"] * (dst.name in defined) + ["else"] * bool(guard))
    return Elementwise(dst.name, op, terms, guard, half and not scatter, form)


def _factors(state: State, dst: Tile, defined: frozenset[str]) -> list[Factor]:
    """What an expression for elements of `dst` can read here."""
    found = [Factor("number", number=number) for number in (-1, 2)]
    found += [Factor("scalar", name) for name, _ in (*state.scalars, *state.loops)]
    for tile in state.tiles:
        if tile.name not in defined:
            continue
        if not tile.dims:
            found.append(Factor("scalar", tile.name))
        if tile.dims == dst.dims:
            found += [Factor("tile", tile.name)] * 4
        if tile.dims == dst.dims and state.has("reversed") and tile is not dst:
            found.append(Factor("reversed", tile.name))
        if len(dst.dims) == 2 and state.has("transpose") and tile.dims == dst.dims[::-1] and tile is not dst:
            found += [Factor("transposed", tile.name)] * 2
        if len(dst.dims) == 2 and state.has("broadcast") and len(tile.dims) == 1:
            found += [Factor("row", tile.name)] * 2 * (tile.dims[0] == dst.dims[1])
            found += [Factor("column", tile.name)] * 2 * (tile.dims[0] == dst.dims[0])
    if state.has("global"):
        fits = [tensor for tensor in state.inputs if tensor.dims == dst.dims and not tensor.lead and tensor.name.startswith("A")]
        found += [Factor("global", tensor.name) for tensor in fits]
    return found


def draw_reduce(state: State, defined: frozenset[str]) -> Stmt | None:
    rng = state.rng
    kind = rng.choice(("sum", "abssum", "max", "min", "absmax"))
    sums = kind in ("sum", "abssum")
    src = some_tile(state, lambda tile: len(tile.dims) == 2 and tile.role == "small", defined)
    if src is None:
        return None
    dim = rng.randint(0, 1)
    kept = (src.dims[1 - dim],)
    dst = target(state, kept, "acc", dtype="float32") if sums else target(state, kept, dtype=src.dtype)
    clear = dst.name not in defined or rng.random() < 0.5
    return Reduce(kind, src.name, dst.name, dim, clear)


def draw_gemm(state: State, defined: frozenset[str]) -> Stmt | None:
    rng = state.rng
    assert state.gemm_dims is not None
    m, n, k = state.gemm_dims
    transpose_a, transpose_b = rng.random() < 0.3, rng.random() < 0.4
    dtype = rng.choice(("float16", "bfloat16"))
    a_dims, b_dims = ((k, m) if transpose_a else (m, k)), ((n, k) if transpose_b else (k, n))
    a = some_tile(state, lambda tile: tile.dims == a_dims and tile.role == "small", defined)
    b = some_tile(state, lambda tile: tile.dims == b_dims and tile.role == "small" and tile.scope == "shared", defined)
    if a is None or b is None or a.dtype != b.dtype or a.dtype not in ("float16", "bfloat16"):
        return _operand(state, b_dims if a else a_dims, "shared" if a else "", a.dtype if a else dtype)
    c = target(state, (m, n), "acc", "fragment", "float32")
    return Gemm(a.name, b.name, c.name, transpose_a, transpose_b, clear=c.name not in defined or rng.random() < 0.2)


def _operand(state: State, dims: tuple[int, ...], scope: str, dtype: str) -> Stmt:
    """A load of what the gemm that was to be drawn lacks."""
    scope = scope or ("fragment" if state.rng.random() < 0.15 else "shared")
    tile = new_tile(state, dims, scope=scope, dtype=dtype if dtype in ("float16", "bfloat16") else "float16")
    terms = _terms(state, 0.6)
    crop = state.rng.choice((0, 1, 3, 8)) if state.has("ragged") else 0
    tensor = Tensor(state.fresh("A"), dims, tile.dtype, axis=state.rng.randrange(2), count=state.rng.randint(1, 4), crop=crop)
    state.inputs.append(tensor)
    return Load(tile.name, Place(tensor.name, terms), _how(state, tensor, bool(terms), 0))


def draw_assign(state: State, defined: frozenset[str]) -> Stmt | None:
    names = [name for name, _ in (*state.loops, *state.scalars)] + ["bx"] * 2
    return Assign("x", tuple(state.rng.sample(names, state.rng.randint(0, 1))), state.rng.choice((-1, 0, 1, 2)))
