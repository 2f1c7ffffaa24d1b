"""Tile programs without a pipeline: element-wise loops, reductions, views, fragments spread in several ways."""
from __future__ import annotations

from collections.abc import Callable

from tests.passes.maker import Maker, region, tile
from tests.passes.programs import BX, I, T
from tests.passes.refused import conflict, shifted_index
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Const, Expr, Load, Var
from tilelang.ir.tile import Kernel, Parallel, Reduce, Store
from tilelang.ir.types import ReduceKind, Scope

ROWS, COLUMNS = 64, 48


def points(mk: Maker, buffer: Buffer, indices: tuple[Expr, ...], value: Expr, *extents: int) -> Parallel:
    """A loop over the last of T and I that stores one element at each point."""
    store = Store(buffer=buffer, indices=indices, value=value, span=mk.span())
    variables = (T, I)[-len(extents) :]
    return Parallel(vars=variables, extents=tuple(Const(extent) for extent in extents), body=(store,), span=mk.span())


def epilogue() -> Kernel:
    """C = A @ B + bias, whose row is loaded ahead of the loop."""
    mk = Maker()
    a, b = mk.tensor("A", ROWS, 96), mk.tensor("B", 96, COLUMNS)
    bias, c = mk.tensor("bias", COLUMNS), mk.tensor("C", ROWS, COLUMNS)
    a_s, b_s, acc = mk.shared("A_s", ROWS, 32), mk.shared("B_s", 32, COLUMNS), mk.fragment("acc", ROWS, COLUMNS)
    ko = Var("ko")
    loads = mk.copy(tile(a, (0, ko * 32), ROWS, 32), a_s), mk.copy(tile(b, (ko * 32, 0), 32, COLUMNS), b_s)
    loop = mk.loop(ko, 3, *loads, mk.gemm(a_s, b_s, acc), stages=2)
    add = points(mk, acc, (T, I), Load(acc, (T, I)) + Load(bias, (I,)).astype("float32"), ROWS, COLUMNS)
    return mk.kernel({BX: 1}, mk.clear(acc), loop, add, mk.copy(acc, c))


def transposed_fragment() -> Kernel:
    """C = X + X^T, so that one fragment is wanted in two layouts."""
    mk = Maker()
    a, c = mk.tensor("A", ROWS, ROWS, dtype="float32"), mk.tensor("C", ROWS, ROWS, dtype="float32")
    x, y = mk.fragment("x", ROWS, ROWS), mk.fragment("y", ROWS, ROWS)
    both = points(mk, y, (T, I), Load(x, (T, I)) + Load(x, (I, T)), ROWS, ROWS)
    return mk.kernel({BX: 1}, mk.copy(a, x), both, mk.copy(y, c))


def reductions(clear: bool = True, scope: Scope = Scope.SHARED) -> Kernel:
    """Row sums of a tile in shared memory, into shared memory; then column maxima of the same rows."""
    mk = Maker()
    a = mk.tensor("A", ROWS, COLUMNS, dtype="float32")
    c, d = mk.tensor("C", ROWS, dtype="float32"), mk.tensor("D", COLUMNS, dtype="float32")
    s, sums = mk.shared("s", ROWS, COLUMNS, dtype="float32"), mk.alloc("sums", (ROWS,), "float32", scope)
    largest = mk.fragment("largest", COLUMNS)
    x = mk.fragment("x", ROWS, COLUMNS)
    return mk.kernel(
        {BX: 1}, mk.copy(a, s), mk.fill(sums, 2),
        Reduce(kind=ReduceKind.SUM, src=region(s), dst=region(sums), dim=1, clear=clear, span=mk.span()),
        mk.copy(s, x), Reduce(kind=ReduceKind.MAX, src=region(x), dst=region(largest), dim=0, span=mk.span()),
        mk.copy(sums, c), mk.copy(largest, d),
    )  # fmt: skip


def views() -> Kernel:
    """A fragment and a shared tile, each also seen in another shape."""
    mk = Maker()
    a, c = mk.tensor("A", 32, 64, dtype="float32"), mk.tensor("C", 64, 32, dtype="float32")
    x, s = mk.fragment("x", 32, 64), mk.shared("s", 32, 64, dtype="float32")
    seen = Buffer("seen", (32, 4, 16), x.dtype, Scope.FRAGMENT, mk.span(), view_of=x)
    wide = Buffer("wide", (64, 32), s.dtype, Scope.SHARED, mk.span(), view_of=s)
    mk.buffers += [seen, wide]
    j = Var("j")
    store = Store(buffer=seen, indices=(T, I, j), value=Load(seen, (T, I, j)) + 1, span=mk.span())
    loop = Parallel(vars=(T, I, j), extents=(Const(32), Const(4), Const(16)), body=(store,), span=mk.span())
    return mk.kernel({BX: 1}, mk.copy(a, x), loop, mk.copy(x, s), points(mk, c, (T, I), Load(wide, (T, I)), 64, 32))


def parts() -> Kernel:
    """Fills and loops over part of a fragment and of a shared tile."""
    mk = Maker()
    a, c, d = (mk.tensor(name, ROWS, COLUMNS, dtype="float32") for name in "ACD")
    x, s = mk.fragment("x", ROWS, COLUMNS), mk.shared("s", ROWS, COLUMNS, dtype="float32")
    return mk.kernel(
        {BX: 1}, mk.copy(a, x), mk.fill(tile(x, (0, 0), ROWS, 16), 5), mk.copy(a, s), mk.fill(tile(s, (8, 4), 16, 8), 7),
        points(mk, x, (T, I), Load(x, (T, I)) * 2, 40, COLUMNS), mk.copy(x, c), mk.copy(s, d),
    )  # fmt: skip


def moved_rows() -> Kernel:
    """Rows of a shared tile and of a fragment, copied to rows of the same that overlap them."""
    mk = Maker()
    a, c = mk.tensor("A", ROWS, COLUMNS, dtype="float32"), mk.tensor("C", ROWS, COLUMNS, dtype="float32")
    s, x = mk.shared("s", ROWS, COLUMNS, dtype="float32"), mk.fragment("x", ROWS, COLUMNS)
    in_s = mk.copy(tile(s, (0, 0), 40, COLUMNS), tile(s, (8, 0), 40, COLUMNS))
    in_x = mk.copy(tile(x, (0, 0), 40, COLUMNS), tile(x, (3, 0), 40, COLUMNS))
    return mk.kernel({BX: 1}, mk.copy(a, s), in_s, mk.copy(s, x), in_x, mk.copy(x, c))


def first_rows() -> Kernel:
    """The first rows of a fragment in a fragment of their own."""
    mk = Maker()
    a, c = mk.tensor("A", ROWS, COLUMNS, dtype="float32"), mk.tensor("C", 40, COLUMNS, dtype="float32")
    x, y = mk.fragment("x", ROWS, COLUMNS), mk.fragment("y", 40, COLUMNS)
    loops = points(mk, y, (T, I), Load(x, (T, I)), 40, COLUMNS), points(mk, c, (T, I), Load(y, (T, I)), 40, COLUMNS)
    return mk.kernel({BX: 1}, mk.copy(a, x), *loops)


LOOPS: dict[str, Callable[[], Kernel]] = {
    "epilogue": epilogue,
    "transposed fragment": transposed_fragment,
    "reductions through shared memory": reductions,
    "reductions added to old values": lambda: reductions(clear=False),
    "reductions in registers": lambda: reductions(clear=False, scope=Scope.FRAGMENT),
    "views": views,
    "parts": parts,
    "moved rows": moved_rows,
    "first rows": first_rows,
    "shifted index": shifted_index,
    "one fragment, two accumulators": conflict,
}  # fmt: skip
