"""Makes a failing program smaller while it goes on failing in the same way.

Tried again and again, larger steps first, until none helps: leave a statement out, put a loop's or a condition's body in its
place, take fewer blocks, threads, stages and trips, smaller sizes, plainer element types, simpler expressions and places.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzz.program import (
    INDEX_LIMIT,
    Condition,
    Elementwise,
    Gemm,
    If,
    Load,
    Loop,
    Move,
    Program,
    Stmt,
    Store,
    Tensor,
    Tile,
    is_valid,
    used,
)

Fails = Callable[[Program], bool]


def shrink(program: Program, fails: Fails, most_tries: int = 600) -> Program:
    """The smallest program found; `fails` says whether one still shows the fault."""
    tries = 0
    progress = True
    while progress and tries < most_tries:
        progress = False
        for candidate in candidates(program):
            if candidate == program or not is_valid(candidate):
                continue
            tries += 1
            if fails(candidate):
                program, progress = used(candidate), True
                break
            if tries >= most_tries:
                break
    return program


def candidates(program: Program) -> Iterator[Program]:
    """Programs that are a step smaller, the largest steps first."""
    for body in smaller_bodies(program.body):
        yield replace(program, body=body)
    yield from _smaller_launch(program)
    yield from _smaller_sizes(program)
    yield from _plainer_buffers(program)


# ---- statements ---------------------------------------------------------------------------------------------------------------


def smaller_bodies(body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    """Bodies with one change: half of the statements gone, one gone, one replaced by its body, one made simpler."""
    if len(body) > 3:
        half = len(body) // 2
        yield body[:half]
        yield body[half:]
    for i, stmt in enumerate(body):
        before, after = body[:i], body[i + 1 :]
        yield before + after
        match stmt:
            case Loop():
                yield before + tuple(_unbound(inner, stmt.var) for inner in stmt.body) + after
            case If():
                yield before + stmt.then + after
                yield before + stmt.otherwise + after
    for i, stmt in enumerate(body):
        for simpler in simpler_statements(stmt):
            yield (*body[:i], simpler, *body[i + 1 :])


def _unbound(stmt: Stmt, var: str) -> Stmt:
    """The statement without its use of a variable in a place."""
    if isinstance(stmt, (Load, Store)):
        terms = tuple((name, factor) for name, factor in stmt.place.terms if name != var)
        return replace(stmt, place=replace(stmt.place, terms=terms))
    return stmt


def simpler_statements(stmt: Stmt) -> Iterator[Stmt]:
    match stmt:
        case Loop():
            yield from _simpler_loop(stmt)
        case If():
            yield from (replace(stmt, then=body) for body in smaller_bodies(stmt.then))
            yield from (replace(stmt, otherwise=body) for body in smaller_bodies(stmt.otherwise))
            yield replace(stmt, condition=Condition("bx == 0", ("bx",)))
        case Elementwise():
            yield from _simpler_elementwise(stmt)
        case Load() | Store():
            yield from _simpler_copy(stmt)
        case Move(half=True):
            yield replace(stmt, half=False)
        case Gemm():
            yield replace(stmt, clear=not stmt.clear)


def _simpler_loop(loop: Loop) -> Iterator[Stmt]:
    yield from (replace(loop, body=body) for body in smaller_bodies(loop.body))
    if loop.stop or loop.skip:
        yield replace(loop, stop=None)
        yield replace(loop, skip=None)
    if loop.start or loop.down:
        yield replace(loop, start=0, down=False)
    if isinstance(loop.trips, str):
        yield replace(loop, trips=loop.most)
    else:
        yield from (replace(loop, trips=trips, most=max(trips, 1)) for trips in (1, 2, loop.trips - 1) if 0 < trips < loop.trips)
    if loop.kind != "serial":
        yield replace(loop, kind="serial", stages=0)
    yield from (replace(loop, stages=stages) for stages in (1, 2, loop.stages - 1) if 0 < stages < loop.stages)


def _simpler_elementwise(stmt: Elementwise) -> Iterator[Stmt]:
    if stmt.form in ("let", "repeat", "else"):
        yield replace(stmt, form="plain")
    if stmt.guard and stmt.form != "else":
        yield replace(stmt, guard="")
    if stmt.half:
        yield replace(stmt, half=False)
    if stmt.op != "sum":
        yield replace(stmt, op="sum")
    for i, term in enumerate(stmt.terms):
        if len(stmt.terms) > 1:
            yield replace(stmt, terms=stmt.terms[:i] + stmt.terms[i + 1 :], op="sum")
        for j in range(len(term) if len(term) > 1 else 0):
            yield replace(stmt, terms=(*stmt.terms[:i], term[:j] + term[j + 1 :], *stmt.terms[i + 1 :]))


def _simpler_copy(stmt: Load | Store) -> Iterator[Stmt]:
    if stmt.how != "base":
        yield replace(stmt, how="base")
    if stmt.place.offset:
        yield replace(stmt, place=replace(stmt.place, offset=0))
    if isinstance(stmt, Load) and stmt.place.terms:
        yield replace(stmt, place=replace(stmt.place, terms=stmt.place.terms[:-1]))


# ---- sizes and types ----------------------------------------------------------------------------------------------------------


def _smaller_launch(program: Program) -> Iterator[Program]:
    if len(program.grid) > 1 and "by" not in str(program.body):
        yield replace(program, grid=program.grid[:1])
    for i, blocks in enumerate(program.grid):
        if blocks > 1:
            yield replace(program, grid=(*program.grid[:i], 1, *program.grid[i + 1 :]))
            yield replace(program, grid=(*program.grid[:i], blocks - 1, *program.grid[i + 1 :]))
    yield from (replace(program, threads=threads) for threads in (32, 64, 128, 256) if threads < program.threads)
    if program.threads % 128:
        yield replace(program, threads=128)


def _smaller_sizes(program: Program) -> Iterator[Program]:
    for i, size in enumerate(program.dims):
        for smaller in (INDEX_LIMIT, 16, 32, 64, size // 2, size - size % 16):
            if INDEX_LIMIT <= smaller < size:
                yield replace(program, dims=(*program.dims[:i], smaller, *program.dims[i + 1 :]))


def _plainer_buffers(program: Program) -> Iterator[Program]:
    for i, tile in enumerate(program.tiles):
        for plainer in _plainer_tiles(tile):
            yield replace(program, tiles=(*program.tiles[:i], plainer, *program.tiles[i + 1 :]))
    for name in ("inputs", "outputs"):
        tensors: tuple[Tensor, ...] = getattr(program, name)
        for i, tensor in enumerate(tensors):
            for plainer in _plainer_tensors(tensor, program):
                yield replace(program, **{name: (*tensors[:i], plainer, *tensors[i + 1 :])})


def _plainer_tiles(tile: Tile) -> Iterator[Tile]:
    if tile.dims and tile.dtype not in ("float16", "float32"):
        yield replace(tile, dtype="float32")
        yield replace(tile, dtype="float16")
    if tile.scope == "fragment":
        yield replace(tile, scope="shared")


def _plainer_tensors(tensor: Tensor, program: Program) -> Iterator[Tensor]:
    if tensor.crop or tensor.extra:
        yield replace(tensor, crop=0, extra=0)
    if tensor.lead:
        yield replace(tensor, lead=0)
    if not tensor.name.startswith(("index", "O")) and tensor.count > 1:
        yield replace(tensor, count=1)
    plain = [dtype for dtype in ("float16", "float32") if dtype != tensor.dtype]
    if not tensor.name.startswith("index"):
        yield from (replace(tensor, dtype=dtype) for dtype in plain if tensor.dtype not in ("float16", "float32"))
        own = {tile.dtype for tile in program.tiles if tile.dims == tensor.dims} - {tensor.dtype}
        yield from (replace(tensor, dtype=dtype) for dtype in sorted(own))
