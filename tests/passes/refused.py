"""The smallest programs that the passes refuse, one for each reason."""
from __future__ import annotations

from collections.abc import Callable

from tests.passes.kernels import gemm_kernel
from tests.passes.maker import Maker, tile
from tests.passes.programs import BX, I, T
from tests.passes.refused_explicit import REFUSED_EXPLICIT
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Const, Expr, Load, Var, compare
from tilelang.ir.tile import Kernel, Parallel, Reduce, Stmt, Store, While
from tilelang.ir.types import DType, ReduceKind, Scope, WarpPolicy


class Small(Maker):
    """A 64 x 48 x 32 product to vary: tensors, tiles, accumulator."""

    def __init__(self, m: int = 64, n: int = 48, k: int = 32, dtype: str = "float16", accumulator: str = "float32") -> None:
        super().__init__()
        self.a, self.b, self.c = self.tensor("A", m, k, dtype=dtype), self.tensor("B", k, n, dtype=dtype), self.tensor("C", m, n)
        self.a_s, self.b_s = self.shared("A_s", m, k, dtype=dtype), self.shared("B_s", k, n, dtype=dtype)
        self.acc = self.fragment("acc", m, n, dtype=accumulator)

    def program(self, *body: Stmt, threads: int = 128) -> Kernel:
        """Loads, `body`, store."""
        loads = self.copy(self.a, self.a_s), self.copy(self.b, self.b_s)
        return self.kernel({BX: 1}, *loads, *body, self.copy(self.acc, self.c), threads=threads)

    def plain(self, threads: int = 128) -> Kernel:
        return self.program(self.gemm(self.a_s, self.b_s, self.acc, clear_accum=True), threads=threads)

    def over(self, *body: Stmt, extents: tuple[int | Expr, ...] = (64, 48), variables: tuple[Var, ...] = (T, I)) -> Parallel:
        sizes = tuple(extent if isinstance(extent, Expr) else Const(extent) for extent in extents)
        return Parallel(vars=variables, extents=sizes, body=body, span=self.span())

    def store(self, buffer: Buffer, indices: tuple[Expr, ...], value: Expr) -> Store:
        return Store(buffer=buffer, indices=indices, value=value, span=self.span())


def local_array() -> Kernel:
    small = Small()
    scratch = small.alloc("scratch", (4,), "float32", Scope.LOCAL)
    return small.program(small.store(scratch, (Const(0),), Const(1.0, scratch.dtype)))


def while_on_shared() -> Kernel:
    small = Small()
    condition = compare(">", Load(small.a_s, (Const(0), Const(0))), 0)
    return small.program(While(condition=condition, body=(small.clear(small.acc),), span=small.span()))


def while_on_a_tensor() -> Kernel:
    """Counts in memory: the condition would be read by some threads before others have stored."""
    mk = Maker()
    count = mk.tensor("count", 1, dtype="int32")
    element = Load(count, (Const(0),))
    more = Store(buffer=count, indices=(Const(0),), value=element + 1, span=mk.span())
    return mk.kernel({BX: 1}, While(condition=compare("<", element, 3), body=(more,), span=mk.span()))


def two_policies() -> Kernel:
    small = Small(128, 64)
    gemms = (
        small.gemm(small.a_s, small.b_s, small.acc, clear_accum=True),
        small.gemm(small.a_s, small.b_s, small.acc, policy=WarpPolicy.FULL_COL),
    )
    return small.program(*gemms, threads=256)


def fragment_b() -> Kernel:
    small = Small()
    b = small.fragment("B_local", 32, 48, dtype="float16")
    return small.program(small.copy(small.b_s, b), small.gemm(small.a_s, b, small.acc, clear_accum=True))


def part_of_a_buffer() -> Kernel:
    small = Small()
    rows = tile(small.a_s, (0, 0), 64, 16)
    small_b = small.shared("B_half", 16, 48)
    return small.program(small.copy(tile(small.b, (0, 0), 16, 48), small_b), small.gemm(rows, small_b, small.acc))  # type: ignore[arg-type]


def two_layouts() -> Kernel:
    """S is read in rows as operand A, and in halves of 160 columns as operand B."""
    mk = Maker()
    s, b, c, e = mk.tensor("S", 64, 320), mk.tensor("B", 320, 16), mk.tensor("C", 64, 16), mk.tensor("E", 64, 320)
    s_s, b_s, a_s = mk.shared("S_s", 64, 320), mk.shared("B_s", 320, 16), mk.shared("A_s", 64, 64)
    first, second = mk.fragment("first", 64, 16), mk.fragment("second", 64, 320)
    return mk.kernel(
        {BX: 1}, mk.copy(s, s_s), mk.copy(b, b_s), mk.copy(tile(s, (0, 0), 64, 64), a_s),
        mk.gemm(s_s, b_s, first, clear_accum=True),
        mk.gemm(a_s, s_s, second, clear_accum=True), mk.copy(first, c), mk.copy(second, e),
    )  # fmt: skip


def transposed_registers() -> Kernel:
    small = Small(64, 48, 64)
    a = small.fragment("A_local", 64, 64, dtype="float16")
    return small.program(small.copy(small.a_s, a), small.gemm(a, small.b_s, small.acc, transpose_a=True, clear_accum=True))


def run_time_extent() -> Kernel:
    mk = Maker()
    n = Var("n")
    mk.params.append(n)
    a, d = mk.tensor("A", 64, 64), mk.tensor("D", 64, 64)
    zero = (Const(0), Const(0))
    return mk.kernel({BX: 1}, mk.copy(tile(a, zero, n, 64), tile(d, zero, n, 64)))  # type: ignore[arg-type]


def run_time_loop() -> Kernel:
    small = Small()
    n = Var("n")
    small.params.append(n)
    loop = small.over(small.store(small.acc, (T, I), Const(1.0, small.acc.dtype)), extents=(n, 48))
    return small.program(small.gemm(small.a_s, small.b_s, small.acc, clear_accum=True), loop)


def run_time_copy() -> Kernel:
    mk = Maker()
    n = Var("n")
    mk.params.append(n)
    a, d = mk.tensor("A", 64, 64), mk.tensor("D", 64, 64)
    store = Store(buffer=d, indices=(T, I), value=Load(a, (T, I)), span=mk.span())
    return mk.kernel({BX: 1}, Parallel(vars=(T, I), extents=(n, Const(64)), body=(store,), span=mk.span()))


def shifted_index() -> Kernel:
    """Not refused: the fragment goes through shared memory."""
    small = Small()
    loop = small.over(small.store(small.acc, (T, I + 1), Const(1.0, small.acc.dtype)), extents=(64, 47))
    return small.program(small.gemm(small.a_s, small.b_s, small.acc, clear_accum=True), loop)


def element_of_a_fragment() -> Kernel:
    small = Small()
    return small.program(small.store(small.acc, (Const(0), Const(0)), Const(1.0, small.acc.dtype)))


def conflict() -> Kernel:
    """Not refused either: `x` is laid out like the rows of one accumulator and like the columns of another."""
    mk = Maker()
    a, b, c, d = mk.tensor("A", 64, 32), mk.tensor("B", 32, 64), mk.tensor("C", 64, 64), mk.tensor("D", 64, 64)
    a_s, b_s = mk.shared("A_s", 64, 32), mk.shared("B_s", 32, 64)
    first, second, x = mk.fragment("first", 64, 64), mk.fragment("second", 64, 64), mk.fragment("x", 64)
    loops = [
        Parallel(
            vars=(T, I), extents=(Const(64), Const(64)), span=mk.span(),
            body=(Store(buffer=acc, indices=(T, I), value=Load(acc, (T, I)) + Load(x, (index,)), span=mk.span()),),
        )
        for acc, index in ((first, T), (second, I))
    ]  # fmt: skip
    gemms = [mk.gemm(a_s, b_s, acc, clear_accum=True) for acc in (first, second)]
    loads, stores = (mk.copy(a, a_s), mk.copy(b, b_s)), (mk.copy(first, c), mk.copy(second, d))
    return mk.kernel({BX: 1}, *loads, mk.clear(x), *gemms, *loops, *stores)


def run_time_tensor() -> Kernel:
    """A tensor whose first extent is a variable."""
    mk = Maker()
    a = Buffer("A", (Var("n"), 32), DType("float16"), Scope.GLOBAL, mk.span())
    mk.params.append(a)
    return mk.kernel({BX: 1}, mk.copy(tile(a, (0, 0), 64, 32), mk.shared("A_s", 64, 32)))


def beyond_a_fragment() -> Kernel:
    small = Small()
    loop = small.over(small.store(small.acc, (T, I), Const(1.0, small.acc.dtype)), extents=(65, 48))
    return small.program(small.gemm(small.a_s, small.b_s, small.acc, clear_accum=True), loop)


def view_across_digits() -> Kernel:
    """64 x 48 as 48 x 64: 6 blocks of 8 columns make no part of 64 columns."""
    small = Small()
    view = Buffer("seen", (48, 64), small.acc.dtype, Scope.FRAGMENT, small.span(), view_of=small.acc)
    small.buffers.append(view)
    loop = small.over(small.store(view, (T, I), Const(1.0, view.dtype)), extents=(48, 64))
    return small.program(small.gemm(small.a_s, small.b_s, small.acc, clear_accum=True), loop)


def wide_reduction() -> Kernel:
    mk = Maker()
    a, c = mk.tensor("A", 16, 64, dtype="int64"), mk.tensor("C", 16, dtype="int64")
    x, y = mk.fragment("x", 16, 64, dtype="int64"), mk.fragment("y", 16, dtype="int64")
    fold = Reduce(kind=ReduceKind.SUM, src=x.whole(), dst=y.whole(), dim=1, span=mk.span())
    return mk.kernel({BX: 1}, mk.copy(a, x), fold, mk.copy(y, c))


def local_beside_copies() -> Kernel:
    """Threads hold copies of `x`, and the loop also changes the memory that it computes it from."""
    mk = Maker()
    c, x = mk.tensor("C", 64, dtype="float32"), mk.fragment("x", 64)
    body = (
        Store(buffer=x, indices=(I,), value=Load(c, (I,)), span=mk.span()),
        Store(buffer=c, indices=(I,), value=Load(x, (I,)) + 1, span=mk.span()),
    )
    return mk.kernel({BX: 1}, Parallel(vars=(I,), extents=(Const(64),), body=body, span=mk.span()))


def loop_of_each_point() -> Kernel:
    """A loop inside T.Parallel that each point leaves at another time."""
    small = Small()
    add = small.store(small.acc, (T, I), Load(small.acc, (T, I)) + 1)
    return small.program(
        small.gemm(small.a_s, small.b_s, small.acc, clear_accum=True), small.over(small.loop(Var("k"), I, add)),
    )  # fmt: skip


def while_of_each_point() -> Kernel:
    small = Small()
    again = While(condition=compare("<", T, I), body=(), span=small.span())
    return small.program(small.gemm(small.a_s, small.b_s, small.acc, clear_accum=True), small.over(again))


REFUSED: dict[str, Callable[[], Kernel]] = {
    "threads": lambda: Small().plain(threads=2048),
    "tensor of run-time shape": run_time_tensor,
    "part of a warp": lambda: Small().plain(threads=100),
    "part of a warpgroup": lambda: Small().plain(threads=96),
    "local array outside of a loop": local_array,
    "while on shared memory": while_on_shared,
    "while on a tensor that is written": while_on_a_tensor,
    "too small for its warpgroups": lambda: Small(64, 16).plain(threads=256),
    "two policies": two_policies,
    "operand B in registers": fragment_b,
    "int8 operands": lambda: Small(dtype="int8", accumulator="int32").plain(),
    "float16 accumulator": lambda: Small(accumulator="float16").plain(),
    "part of an operand": part_of_a_buffer,
    "M of 32": lambda: Small(m=32).plain(),
    "N of 24": lambda: Small(n=24).plain(),
    "K of 8": lambda: Small(k=8).plain(),
    "operand in two layouts": two_layouts,
    "transposed A in registers": transposed_registers,
    "copy of run-time extent": run_time_extent,
    "loop of run-time extent": run_time_copy,
    "element of a fragment": element_of_a_fragment,
    "shared memory": lambda: gemm_kernel(1024, 1024, 1024, 128, 128, 64, 8),
    "accumulator registers": lambda: gemm_kernel(1024, 1024, 1024, 128, 256, 64, 2),
    "loop beyond a fragment": beyond_a_fragment,
    "view that cuts digits": view_across_digits,
    "reduction of 64 bits": wide_reduction,
    "copies of a fragment beside changed memory": local_beside_copies,
    "loop of each point": loop_of_each_point,
    "while of each point": while_of_each_point,
    "grid": lambda: gemm_kernel(64 * 65536, 64, 64, 64, 64, 64, 1),
    **REFUSED_EXPLICIT,
}  # fmt: skip
