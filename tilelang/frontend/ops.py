"""The tile ops: what their operands must be, and the statements they become."""

from __future__ import annotations

from tilelang.errors import KernelError, ShapeProblem, TypeProblem
from tilelang.frontend.builder import Builder, truth
from tilelang.frontend.describe import place_text, shape_text, tile_text
from tilelang.frontend.dtypes import literal
from tilelang.frontend.operands import Operand, as_operand, as_region, require_scope, static_tile
from tilelang.ir import tile
from tilelang.ir.arith import add_forms
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Expr, Load
from tilelang.ir.types import DType, ReduceKind, Scope, WarpPolicy

# Accumulator dtypes that matrix instructions have for each operand dtype.
_ACCUMULATORS = {
    "float16": ("float32", "float16"), "bfloat16": ("float32",), "float32": ("float32",), "float64": ("float64",),
    "float8_e4m3fn": ("float32", "float16"), "float8_e5m2": ("float32", "float16"), "int8": ("int32",), "uint8": ("int32",),
}  # fmt: skip


def _require_block(builder: Builder, what: str) -> None:
    builder.require_kernel(what)
    if builder.inside("parallel"):
        raise TypeProblem(
            f"{what} acts on a whole tile and cannot stand inside T.Parallel",
            code="TL219",
            hint="assign single elements there, or move it out",
        )


# ---- copy, fill ---------------------------------------------------------------------------------------------------------------


def copy(builder: Builder, src: object, dst: object) -> None:
    """`dst = src`.  Raises ShapeProblem TL205 where the tiles differ, KernelError TL220 where they overlap."""
    source, target = copy_regions(builder, src, dst, "T.copy")
    _refuse_shift(builder, source, target)
    if not _is_empty(source):
        builder.emit(tile.Copy, src=source, dst=target)


def _is_empty(region: Region) -> bool:
    """Whether a region has no elements: a whole tensor with an extent of 0."""
    return any(isinstance(extent, int) and extent == 0 for extent in region.extents)


def _refuse_shift(builder: Builder, source: Region, target: Region) -> None:
    """KernelError TL220 where the copy surely reads, at one place, what it writes at another: its elements have no order."""
    if source.buffer is not target.buffer or source.extents != target.extents:
        return
    forms = [add_forms(builder.facts.form(a), builder.facts.form(b), -1) for a, b in zip(source.base, target.base, strict=True)]
    pairs = zip(forms, source.extents, strict=True)
    meets = all(not terms and isinstance(extent, int) and abs(step) < extent for (step, terms), extent in pairs)
    if meets and any(step for step, _ in forms):
        raise KernelError(
            f"T.copy reads {tile_text(source)} and writes {tile_text(target)}, which overlap, and its elements have no order",
            code="TL220", hint="copy through another buffer",
        )  # fmt: skip




def copy_regions(builder: Builder, src: object, dst: object, what: str) -> tuple[Region, Region]:
    """The two sides of a copy; a bare element takes its extents from the other.  ShapeProblem TL205 where the tiles differ."""
    _require_block(builder, what)
    a, b = as_operand(src, f"the source of {what}"), as_operand(dst, f"the destination of {what}")
    source_tile = () if isinstance(a, Load) else static_tile(builder, a)
    target_tile = () if isinstance(b, Load) else static_tile(builder, b)
    source, target = as_region(builder, a, target_tile), as_region(builder, b, source_tile)
    if source.tile_shape != target.tile_shape:
        raise ShapeProblem(
            f"{what} needs two tiles of one shape: {tile_text(a)} is {shape_text(source.extents)} and {tile_text(b)} is "
            f"{shape_text(target.extents)}",
            code="TL205", hint=_copy_hint(a, b, source, target), notes=(place_text(a), place_text(b)),
        )  # fmt: skip
    return source, target


def _copy_hint(a: Operand, b: Operand, source: Region, target: Region) -> str:
    if source.tile_shape == target.tile_shape[::-1]:
        return "T.copy does not transpose; give both tiles one shape, and transpose in T.gemm by transpose_A or transpose_B"
    for operand in (a, b):
        if isinstance(operand, Buffer) and operand.scope is Scope.GLOBAL:
            zeros = ", ".join("0" for _ in operand.shape)
            return f"to copy one tile of {operand.name} give its first element: {operand.name}[{zeros}]"
    return "slice the larger one, or allocate both with one shape; extents of 1 do not count"


def fill(builder: Builder, dst: object, value: object, what: str = "T.fill") -> None:
    """Every element of `dst` becomes `value`."""
    _require_block(builder, what)
    region = as_region(builder, as_operand(dst, f"the tile of {what}"))
    if isinstance(value, (Buffer, Region)):
        raise TypeProblem(f"the value of {what} must be a scalar", code="TL213", hint="use T.copy for tiles")
    if not _is_empty(region):
        builder.emit(tile.Fill, dst=region, value=literal(value, region.buffer.dtype))


# ---- gemm ---------------------------------------------------------------------------------------------------------------------


def gemm(
    builder: Builder,
    a: object,
    b: object,
    c: object,
    *,
    transpose_a: object,
    transpose_b: object,
    policy: object,
    clear_accum: object,
) -> None:
    """`c += op(a) @ op(b)`.  Raises ShapeProblem TL204, TypeProblem TL211 (dtypes), TL212 (scopes) and TL216 (options)."""
    _require_block(builder, "T.gemm")
    flags = _flag(transpose_a, "transpose_A"), _flag(transpose_b, "transpose_B")
    operands = [as_operand(value, f"{name} of T.gemm") for name, value in zip("ABC", (a, b, c), strict=True)]
    hint = "copy the tile to shared memory first: T.copy(tensor[...], tile)"
    require_scope(operands[0], "A of T.gemm", (Scope.SHARED, Scope.FRAGMENT), hint)
    require_scope(operands[1], "B of T.gemm", (Scope.SHARED, Scope.FRAGMENT), hint)
    require_scope(operands[2], "C of T.gemm", (Scope.FRAGMENT,), "allocate the accumulator by T.alloc_fragment")
    regions = _gemm_regions(builder, operands, flags)
    _check_gemm_dtypes(operands, *(region.buffer.dtype for region in regions))
    builder.emit(
        tile.Gemm, a=regions[0], b=regions[1], c=regions[2], transpose_a=flags[0], transpose_b=flags[1],
        clear_accum=_condition(clear_accum, "clear_accum"), policy=_policy(policy),
    )  # fmt: skip


def _flag(value: object, name: str) -> bool:
    if isinstance(value, Expr) or not isinstance(value, (bool, int)):
        shown = "an expression" if isinstance(value, Expr) else repr(value)
        raise TypeProblem(f"{name} must be a Python bool, not {shown}", code="TL216")
    return bool(value)


def _condition(value: object, name: str) -> Expr | bool:
    if not isinstance(value, (bool, int, Expr)):
        message = f"{name} must be a bool or a condition of the kernel, not {value!r}"
        raise TypeProblem(message, code="TL216", hint=f"{name}=k == 0")
    return truth(value)


def _policy(value: object) -> WarpPolicy:
    if isinstance(value, WarpPolicy):
        return value
    raise TypeProblem(
        f"policy={value!r}; it must be T.GemmWarpPolicy.Square, .FullRow or .FullCol",
        code="TL216",
        hint="leave it out for Square",
    )


def _gemm_regions(builder: Builder, operands: list[Operand], flags: tuple[bool, bool]) -> list[Region]:
    """The three regions; one bare element among them takes its tile from the other two."""
    bare = [name for name, operand in zip("ABC", operands, strict=True) if isinstance(operand, Load)]
    if len(bare) > 1:
        raise ShapeProblem(
            f"{' and '.join(bare)} of T.gemm are single elements", code="TL204", hint="write slices, such as A[k, :, :]"
        )
    regions = {name: as_region(builder, operand) for name, operand in zip("ABC", operands, strict=True) if name not in bare}
    sizes = {name: _matrix(region, f"{name} of T.gemm") for name, region in regions.items()}
    (ta, tb) = flags
    if bare:
        rows = sizes["C"][0] if "C" in sizes else sizes["A"][1 if ta else 0]
        columns = sizes["C"][1] if "C" in sizes else sizes["B"][0 if tb else 1]
        depth = sizes["B"][1 if tb else 0] if "B" in sizes else sizes["A"][0 if ta else 1]
        wanted = {
            "A": (depth, rows) if ta else (rows, depth),
            "B": (columns, depth) if tb else (depth, columns),
            "C": (rows, columns),
        }
        name = bare[0]
        regions[name] = as_region(builder, operands["ABC".index(name)], wanted[name])
        sizes[name] = _matrix(regions[name], f"{name} of T.gemm")
    _check_gemm_sizes(operands, sizes, flags)
    return [regions[name] for name in "ABC"]


def _matrix(region: Region, what: str) -> tuple[int, int]:
    """(rows, columns) of the last two dimensions; the others must have extent 1."""
    extents = region.extents
    if len(extents) < 2 or any(extent != 1 for extent in extents[:-2]):
        raise ShapeProblem(
            f"{what} must be a matrix, and {tile_text(region)} is {shape_text(extents)}", code="TL204",
            hint="only the last two dimensions may be larger than 1", notes=(place_text(region),),
        )  # fmt: skip
    return extents[-2], extents[-1]  # type: ignore[return-value]


def _check_gemm_sizes(operands: list[Operand], sizes: dict[str, tuple[int, int]], flags: tuple[bool, bool]) -> None:
    ta, tb = flags
    a, b, c = sizes["A"], sizes["B"], sizes["C"]
    (m, ka), (kb, n) = (a[::-1] if ta else a), (b[::-1] if tb else b)
    if ka != kb:
        _mismatch("K of A and B", operands, (0, 1), (f"K={ka}", f"K={kb}"), _transpose_hint(a, b, c, flags))
    if m != c[0]:
        _mismatch("M of A and C", operands, (0, 2), (f"M={m}", f"M={c[0]}"), _transpose_hint(a, b, c, flags))
    if n != c[1]:
        _mismatch("N of B and C", operands, (1, 2), (f"N={n}", f"N={c[1]}"), _transpose_hint(a, b, c, flags))


def _mismatch(what: str, operands: list[Operand], which: tuple[int, int], sizes: tuple[str, str], hint: str) -> None:
    shown = [
        f"{'ABC'[at]} = {tile_text(operands[at])} is {shape_text(_extents(operands[at]))} ({size})"
        for at, size in zip(which, sizes, strict=True)
    ]
    raise ShapeProblem(
        f"T.gemm needs {what} to agree: {shown[0]}, {shown[1]}",
        code="TL204",
        hint=hint,
        notes=tuple(place_text(operands[at]) for at in which),
    )


def _extents(operand: Operand) -> tuple[object, ...]:
    return operand.extents if isinstance(operand, Region) else (operand if isinstance(operand, Buffer) else operand.buffer).shape


def _transpose_hint(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int], flags: tuple[bool, bool]) -> str:
    """The change of transpose_A and transpose_B that makes the sizes fit, if one does."""
    for change in ((False, True), (True, False), (True, True)):
        ta, tb = flags[0] ^ change[0], flags[1] ^ change[1]
        (m, ka), (kb, n) = (a[::-1] if ta else a), (b[::-1] if tb else b)
        if (m, ka, n) == (c[0], kb, c[1]):
            words = [
                f"transpose_{name}={value}" for name, value, changed in (("A", ta, change[0]), ("B", tb, change[1])) if changed
            ]
            return f"{' and '.join(words)} would fit"
    return "A is M x K (K x M with transpose_A), B is K x N (N x K with transpose_B), C is M x N"


def _check_gemm_dtypes(operands: list[Operand], a: DType, b: DType, c: DType) -> None:
    if a != b and not (a.kind == b.kind == "float8") and not {a, b} <= {"int8", "uint8"}:
        raise TypeProblem(
            f"T.gemm needs one dtype for A and B: {tile_text(operands[0])} is {a} and {tile_text(operands[1])} is {b}",
            code="TL211", hint=f"allocate both as {a}; T.copy converts on the way",
            notes=(place_text(operands[0]), place_text(operands[1])),
        )  # fmt: skip
    allowed = _ACCUMULATORS.get(a, ())
    if c not in allowed:
        hint = f"allocate {tile_text(operands[2])} as {allowed[0]}" if allowed else f"operands may be {', '.join(_ACCUMULATORS)}"
        rule = f"T.gemm of {a} accumulates in {' or '.join(allowed)}, and C = {tile_text(operands[2])} is {c}"
        raise TypeProblem(
            rule if allowed else f"T.gemm cannot multiply {a}", code="TL211", hint=hint,
            notes=(place_text(operands[0]), place_text(operands[2])),
        )  # fmt: skip


# ---- reduce -------------------------------------------------------------------------------------------------------------------


def reduce(builder: Builder, kind: ReduceKind, src: object, dst: object, dim: object, clear: object) -> None:
    """Reduces dimension `dim` of `src` into `dst`.  Raises ShapeProblem TL208 for extents that do not fit."""
    what = f"T.reduce_{kind}"
    _require_block(builder, what)
    a, b = as_operand(src, f"the source of {what}"), as_operand(dst, f"the result of {what}")
    for operand, role in ((a, "the source"), (b, "the result")):
        require_scope(operand, f"{role} of {what}", (Scope.SHARED, Scope.FRAGMENT), "copy it to a fragment first")
    if isinstance(a, Load) or isinstance(b, Load):
        hint = "pass the tile itself, or a slice of it"
        raise ShapeProblem(f"{what} takes whole tiles or slices, not single elements", code="TL208", hint=hint)
    source, target = as_region(builder, a), as_region(builder, b)
    axis = _dimension(dim, len(source.extents), what)
    kept = (*source.extents[:axis], 1, *source.extents[axis + 1 :])
    dropped = source.extents[:axis] + source.extents[axis + 1 :]
    if target.extents not in (kept, dropped):
        raise ShapeProblem(
            f"{what} of {tile_text(a)} ({shape_text(source.extents)}) over dimension {axis} gives {shape_text(dropped or kept)}"
            f"{f' or {shape_text(kept)}' if dropped else ''}, and {tile_text(b)} is {shape_text(target.extents)}",
            code="TL208", hint=_reduce_hint(source, target, tile_text(b), dropped or kept), notes=(place_text(a), place_text(b)),
        )  # fmt: skip
    builder.emit(tile.Reduce, kind=kind, src=source, dst=target, dim=axis, clear=_flag(clear, "clear"))


def _reduce_hint(source: Region, target: Region, name: str, wanted: tuple[object, ...]) -> str:
    """Another `dim` that fits, else the shape to allocate."""
    for axis in range(len(source.extents)):
        others = source.extents[:axis] + source.extents[axis + 1 :]
        if target.extents in (others, (*source.extents[:axis], 1, *source.extents[axis + 1 :])):
            return f"dim={axis} would fit"
    return f"allocate {name} as ({', '.join(map(str, wanted))}{',' if len(wanted) == 1 else ''})"


def _dimension(dim: object, rank: int, what: str) -> int:
    if isinstance(dim, bool) or not isinstance(dim, int) or not -rank <= dim < rank:
        raise ShapeProblem(
            f"dim={dim!r} of {what}: the tile has {rank} dimensions, so dim is {-rank} to {rank - 1}", code="TL208",
            hint=f"dim={rank - 1} reduces within rows" if rank > 1 else "dim=0",
        )  # fmt: skip
    return dim % rank
