"""Faults that were found and mended: what is right there, or refused by name."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.passes import programs
from tests.passes.kernels import gemm_kernel
from tests.passes.loops import points
from tests.passes.maker import Maker, tile
from tests.passes.programs import BX, KO, I, T
from tests.passes.refused import Small, run_time_loop
from tests.passes.running import assert_same_bits, check, compiled, integers, meaning, on_the_machine
from tilelang.errors import KernelError
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Const, Expr, Load, Var, as_expr, binary, compare
from tilelang.ir.tile import Break, Continue, If, Kernel, Parallel, Reduce, Stmt, Store, While
from tilelang.ir.types import DType, ReduceKind, Scope
from tilelang.target import SM_90A

Q, ROW = Var("q"), Var("row")


def refused(code: str, kernel: Kernel) -> None:
    with pytest.raises(KernelError) as caught:
        compiled(kernel)
    assert caught.value.code == code


def test_clear_of_a_part() -> None:
    small = Small()
    part = small.clear(tile(small.acc, (0, 0), 64, 16))
    check(small.program(small.fill(small.acc, 3), part, small.gemm(small.a_s, small.b_s, small.acc)), ("fifo",))


def test_fill_of_a_part() -> None:
    small = Small()
    part = small.fill(tile(small.acc, (0, 0), 64, 16), 3)
    check(small.program(small.clear(small.acc), part, small.gemm(small.a_s, small.b_s, small.acc)), ("fifo",))


def test_loop_over_a_part() -> None:
    small = Small()
    loop = small.over(small.store(small.acc, (T, I), Const(5.0, small.acc.dtype)), extents=(64, 16))
    check(small.program(small.gemm(small.a_s, small.b_s, small.acc, clear_accum=True), loop), ("fifo",))


@pytest.mark.parametrize("part", [16, 48, 63])
def test_a_fragment_whose_first_loop_does_a_part_of_it(part: int) -> None:
    """The layout is the whole fragment's."""
    mk = Maker()
    a, c, x = mk.tensor("A", 64, dtype="float32"), mk.tensor("C", 64, dtype="float32"), mk.fragment("x", 64)
    loops = points(mk, x, (I,), Load(a, (I,)), part), points(mk, x, (I,), Load(x, (I,)) + 1, part)
    kernel = mk.kernel({BX: 1}, points(mk, x, (I,), Const(2.0, x.dtype), 64), *loops, points(mk, c, (I,), Load(x, (I,)), 64))
    exact(kernel)
    exact(mk.kernel({BX: 1}, loops[0], points(mk, x, (I,), Const(2.0, x.dtype), 64), points(mk, c, (I,), Load(x, (I,)), 64)))


def test_loop_over_a_part_whose_points_have_copies() -> None:
    """64 elements over 128 threads: only one of the two that hold a point may add to it."""
    mk = Maker()
    a, c, x = mk.tensor("A", 64, dtype="float32"), mk.tensor("C", 64, dtype="float32"), mk.fragment("x", 64)
    first = Store(buffer=c, indices=(I,), value=Load(a, (I,)), span=mk.span())
    more = Store(buffer=c, indices=(I,), value=Load(c, (I,)) + Load(x, (I,)), span=mk.span())
    loops = [Parallel(vars=(I,), extents=(Const(n),), body=(store,), span=mk.span()) for n, store in ((64, first), (16, more))]
    check(mk.kernel({BX: 1}, mk.copy(a, x), *loops), ("fifo", "reverse", "lazy-async"))


def test_loop_over_a_run_time_part() -> None:
    """Fewer rows than the fragment has would have to leave the others alone."""
    refused("TL343", run_time_loop())


def test_run_time_shape() -> None:
    mk = Maker()
    a = Buffer("A", (Var("n"), 32), DType("float16"), Scope.GLOBAL, mk.span())
    mk.params.append(a)
    b, c = mk.tensor("B", 32, 48), mk.tensor("C", 64, 48)
    a_s, b_s, acc = mk.shared("A_s", 64, 32), mk.shared("B_s", 32, 48), mk.fragment("acc", 64, 48)
    loads = mk.copy(tile(a, (0, 0), 64, 32), a_s), mk.copy(b, b_s)
    refused("TL304", mk.kernel({BX: 1}, *loads, mk.gemm(a_s, b_s, acc, clear_accum=True), mk.copy(acc, c)))


def test_two_accumulators_that_do_not_fit_together() -> None:
    mk = Maker()
    tensors = [mk.tensor(name, 128, 128) for name in "ABDCE"]
    a_s, b_s, d_s = (mk.shared(f"{name}_s", 128, 128) for name in "ABD")
    first, second = mk.fragment("first", 128, 128), mk.fragment("second", 128, 128)
    gemms = mk.gemm(a_s, b_s, first, clear_accum=True), mk.gemm(a_s, d_s, second, clear_accum=True)
    loads = (mk.copy(tensor, tile_) for tensor, tile_ in zip(tensors, (a_s, b_s, d_s), strict=False))
    kernel = mk.kernel({BX: 1}, *loads, *gemms, mk.copy(first, tensors[3]), mk.copy(second, tensors[4]))
    refused("TL402", kernel)


def test_shared_memory_counts_the_mbarriers() -> None:
    """90 stages of 2560 bytes and a tile of 2048 are 232448 bytes, all there is; the 180 mbarriers come on top."""
    kernel = gemm_kernel(64, 16, 64, 64, 16, 16, 90, through_shared=True)
    refused("TL401", kernel)


@pytest.mark.parametrize("threads", [1024, 2048])
def test_more_threads_than_a_block_has(threads: int) -> None:
    """1024 and a producer warpgroup on top are too many."""
    kernel = gemm_kernel(1024, 256, 64, 512, 128, 64, 1, threads=threads)
    with pytest.raises(KernelError) as caught:
        compiled(kernel)
    assert caught.value.code.startswith("TL4")
    assert SM_90A.threads_per_block_max == 1024


def test_registers_of_many_warpgroups() -> None:
    """512 x 128 over 512 threads: 128 registers of accumulators, and about 120 registers a thread in all."""
    refused("TL402", gemm_kernel(1024, 256, 64, 512, 128, 64, 1, threads=512))


WIDE = {"int64", "uint64", "float64"}
REDUCED = [
    ("uint32", "uint32"), ("uint32", "int32"), ("int16", "int32"), ("uint8", "uint8"), ("int64", "int64"), ("int32", "uint64"),
    ("float64", "float64"), ("float16", "float64"),
]  # fmt: skip


@pytest.mark.parametrize("kind", list(ReduceKind), ids=str)
@pytest.mark.parametrize("dtypes", REDUCED, ids="-".join)
def test_reductions_of_every_width(kind: ReduceKind, dtypes: tuple[str, str]) -> None:
    """Elements up to the ends of their type: right, or refused where 32-bit registers do not hold them."""
    mk = Maker()
    a, c = mk.tensor("A", 16, 64, dtype=dtypes[0]), mk.tensor("C", 16, dtype=dtypes[1])
    x, y = mk.fragment("x", 16, 64, dtype=dtypes[0]), mk.fragment("y", 16, dtype=dtypes[1])
    fold = Reduce(kind=kind, src=x.whole(), dst=y.whole(), dim=1, span=mk.span())
    kernel = mk.kernel({BX: 1}, mk.copy(a, x), fold, mk.copy(y, c))
    if WIDE & set(dtypes):
        with pytest.raises(KernelError) as caught:
            compiled(kernel)
        assert caught.value.code == "TL334"
        return
    extreme = kind in (ReduceKind.MAX, ReduceKind.MIN)
    low, high = (limit if extreme else limit // 128 for limit in a.dtype.limits)
    arrays = integers(kernel, 0)
    arrays[a] = np.random.default_rng(0).integers(low, high, (16, 64), a.dtype.numpy, endpoint=True)
    assert_same_bits(meaning(kernel, arrays), on_the_machine(compiled(kernel), arrays, "fifo"), f"{kind} of {dtypes}")


NEIGHBOURS: dict[str, Callable[[Expr], Expr]] = {
    "j % 4": lambda j: j % 4, "j // 2": lambda j: j // 2, "j // 4": lambda j: j // 4, "min(j, 2)": lambda j: binary("min", j, 2),
    "max(j, 3)": lambda j: binary("max", j, 3), "j ^ 4": lambda j: j ^ 4, "j & 5": lambda j: j & 5, "7 - j": lambda j: 7 - j,
    "j": lambda j: j, "0": lambda j: Const(0),
}  # fmt: skip


@pytest.mark.parametrize("name", NEIGHBOURS)
@pytest.mark.parametrize("scope", [Scope.GLOBAL, Scope.SHARED], ids=str)
def test_elements_that_begin_like_neighbours(name: str, scope: Scope) -> None:
    """The columns are a vector of each thread; what two of its elements have in common need not go for all."""
    mk = Maker()
    a, c, s = mk.tensor("A", 128, 8), mk.tensor("C", 128, 8), mk.shared("s", 128, 8)
    source = a if scope is Scope.GLOBAL else s
    store = Store(buffer=c, indices=(T, I), value=Load(source, (T, NEIGHBOURS[name](I))), span=mk.span())
    loop = Parallel(vars=(T, I), extents=(Const(128), Const(8)), body=(store,), span=mk.span())
    kernel = mk.kernel({BX: 1}, *([mk.copy(a, s)] if scope is Scope.SHARED else []), loop)
    arrays = integers(kernel, 0)
    arrays[c] = np.zeros(c.shape, np.float16)  # type: ignore[arg-type]
    assert_same_bits(meaning(kernel, arrays), on_the_machine(compiled(kernel), arrays, "fifo"), name)


# ---- what the producer follows ------------------------------------------------------------------------------------------------


class Following(Maker):
    """A 64 x 48 product of 4 k steps, with a scalar to steer the loads by."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = self.tensor("A", 64, 128), self.tensor("B", 128, 48), self.tensor("C", 64, 48)
        self.flags = self.tensor("F", 4, dtype="int32")
        self.a_s, self.b_s, self.acc = self.shared("A_s", 64, 32), self.shared("B_s", 32, 48), self.fragment("acc", 64, 48)
        self.scalar = self.alloc("v", (), "int32", Scope.VAR)

    @property
    def value(self) -> Expr:
        return Load(self.scalar, ())

    def set(self, value: Expr | int) -> Store:
        return Store(buffer=self.scalar, indices=(), value=as_expr(value), span=self.span())

    def step(self, k: Expr) -> tuple[Stmt, ...]:
        """Two loads and the gemm of the k-th 32 columns and rows."""
        loads = self.copy(tile(self.a, (0, k * 32), 64, 32), self.a_s), self.copy(tile(self.b, (k * 32, 0), 32, 48), self.b_s)
        return (*loads, self.gemm(self.a_s, self.b_s, self.acc))

    def whole(self, *body: Stmt) -> Kernel:
        return self.kernel({BX: 1}, self.clear(self.acc), *body, self.copy(self.acc, self.c))


@pytest.mark.parametrize("leave", [Break, Continue])
@pytest.mark.parametrize("place", ["in front", "behind"])
@pytest.mark.parametrize("known", [True, False], ids=["from a tensor", "from shared memory"])
def test_loops_that_are_left_early(leave: type[Stmt], place: str, known: bool) -> None:
    """The producer leaves when the consumers do; where it cannot know when, it does not go ahead."""
    mk = Following()
    flags = mk.shared("F_s", 4, dtype="int32")
    read = mk.set(Load(mk.flags if known else flags, (KO,)))
    out = If(condition=compare(">", mk.value, 0), then=(leave(span=mk.span()),), span=mk.span())
    body = (read, out, *mk.step(KO)) if place == "in front" else (*mk.step(KO), read, out)
    kernel = mk.whole(mk.copy(mk.flags, flags), mk.loop(KO, 4, *body, stages=2))
    lowered, arrays = compiled(kernel), integers(kernel, 0)
    assert bool(lowered.plans.channels) == known
    for flags_now in ([0, 1, 0, 0], [1, 0, 0, 1]):
        arrays[mk.flags][:] = flags_now
        for schedule in ("fifo", "reverse", "lazy-async"):
            assert_same_bits(meaning(kernel, arrays), on_the_machine(lowered, arrays, schedule), schedule)


SETTERS: dict[str, Callable[[Following], Stmt]] = {
    "for": lambda mk: mk.loop(T, 3, mk.set(mk.value + 1)),
    "nested for": lambda mk: mk.loop(T, 3, mk.loop(I, 1, mk.set(mk.value + 1))),
    "while": lambda mk: While(condition=compare("<", mk.value, 3), body=(mk.set(mk.value + 1),), span=mk.span()),
    "if": lambda mk: If(condition=compare("<", mk.value, 3), then=(mk.set(3),), span=mk.span()),
}


@pytest.mark.parametrize("name", SETTERS)
def test_scalars_that_loads_depend_on(name: str) -> None:
    """Set by statements without any load in them."""
    mk = Following()
    kernel = mk.whole(mk.set(0), SETTERS[name](mk), *mk.step(mk.value))
    assert compiled(kernel).plans.channels
    check(kernel, ("fifo", "reverse", "lazy-async"))


def test_tensors_that_the_kernel_writes_steer_no_producer() -> None:
    """The flag that a load depends on is written by the same kernel."""
    mk = Following()
    first = Store(buffer=mk.flags, indices=(Const(0),), value=Const(2), span=mk.span())
    kernel = mk.whole(first, mk.set(Load(mk.flags, (Const(0),))), *mk.step(mk.value))
    lowered = compiled(kernel)
    assert not lowered.plans.channels
    check(kernel, ("fifo", "reverse", "lazy-async"))


# ---- where consumers must meet ------------------------------------------------------------------------------------------------


def test_a_break_between_a_write_and_its_barrier() -> None:
    """The loop is left with `s` just written; what follows reads other threads' elements.  A loop behind the break forgets
    nothing."""
    mk = Maker()
    a, c, d = (mk.tensor(name, 64, 64, dtype="float32") for name in "ACD")
    flag, s, v = mk.tensor("F", 1, dtype="int32"), mk.shared("s", 64, 64, dtype="float32"), mk.alloc("v", (), "int32", Scope.VAR)

    def copied(source: Buffer, target: Buffer, indices: tuple[Var, Var]) -> Parallel:
        store = Store(buffer=target, indices=(T, I), value=Load(source, indices), span=mk.span())
        return Parallel(vars=(T, I), extents=(Const(64), Const(64)), body=(store,), span=mk.span())

    out = If(condition=compare(">", Load(flag, (Const(0),)), 0), then=(Break(span=mk.span()),), span=mk.span())
    inner = mk.loop(Var("q"), 1, Store(buffer=v, indices=(), value=Const(1), span=mk.span()))
    loop = mk.loop(KO, 2, copied(a, s, (T, I)), out, copied(s, d, (I, T)), inner)
    kernel = mk.kernel({BX: 1}, loop, copied(s, c, (I, T)))
    for value in (0, 1):
        arrays = integers(kernel, 0)
        arrays[flag][:] = value
        for schedule in ("fifo", "reverse"):
            assert_same_bits(meaning(kernel, arrays), on_the_machine(compiled(kernel), arrays, schedule), schedule)


def test_an_index_that_a_copy_loads_from_shared_memory() -> None:
    """Where the tile is stored is in shared memory, just written by other threads."""
    mk = Maker()
    rows, c = mk.tensor("R", 256, dtype="int32"), mk.tensor("C", 512, 64, dtype="float32")
    s, acc = mk.shared("s", 256, dtype="int32"), mk.fragment("acc", 64, 64)
    a, b, a_s, b_s = mk.tensor("A", 64, 32), mk.tensor("B", 32, 64), mk.shared("A_s", 64, 32), mk.shared("B_s", 32, 64)
    fill = Store(buffer=s, indices=(I,), value=Load(rows, (255 - I,)), span=mk.span())
    loop = Parallel(vars=(I,), extents=(Const(256),), body=(fill,), span=mk.span())
    at = Load(s, (Const(3),)) * 64
    gemm = mk.gemm(a_s, b_s, acc, clear_accum=True)
    kernel = mk.kernel({BX: 1}, mk.copy(a, a_s), mk.copy(b, b_s), gemm, loop, mk.copy(acc, tile(c, (at, 0), 64, 64)))
    arrays = integers(kernel, 0)
    arrays[rows][:] = np.arange(256) % 8
    for schedule in ("fifo", "reverse"):
        assert_same_bits(meaning(kernel, arrays), on_the_machine(compiled(kernel), arrays, schedule), schedule)


# ---- clears that a gemm takes over --------------------------------------------------------------------------------------------


def test_a_clear_that_a_break_separates_from_its_gemm() -> None:
    """The last turn ends between the two, so zeros are what is stored."""
    mk = Following()
    out = If(condition=compare("==", KO, 2), then=(Break(span=mk.span()),), span=mk.span())
    loop = mk.loop(KO, 4, mk.clear(mk.acc), out, *mk.step(KO))
    check(mk.kernel({BX: 1}, loop, mk.copy(mk.acc, mk.c)), ("fifo", "lazy-async"))


@pytest.mark.parametrize("condition", [True, compare("==", binary("&", KO, 1), 0)], ids=["always", "every second time"])
def test_a_clear_in_front_of_a_gemm_that_clears(condition: Expr | bool) -> None:
    mk = Following()
    *loads, _ = mk.step(KO)
    gemm = mk.gemm(mk.a_s, mk.b_s, mk.acc, clear_accum=condition)
    check(mk.whole(mk.loop(KO, 4, *loads, gemm, stages=2)), ("fifo", "lazy-async"))


# ---- tensors that several statements write ------------------------------------------------------------------------------------


def exact(kernel: Kernel) -> int:
    """Asserts that the machine finds no race and the reference's values; returns how many barriers were planned."""
    arrays = integers(kernel, 0)
    for tensor in kernel.tensors:
        arrays[tensor] = np.nan_to_num(arrays[tensor].astype(np.float32)).astype(tensor.dtype.numpy)
    lowered = compiled(kernel)
    for schedule in ("fifo", "reverse", "lazy-async"):
        assert_same_bits(meaning(kernel, arrays), on_the_machine(lowered, arrays, schedule), schedule)
    return len(lowered.plans.syncs)


@pytest.mark.parametrize("first", [True, False], ids=["threads, then a tile", "a tile, then threads"])
def test_a_tensor_that_threads_and_tiles_write(first: bool) -> None:
    """TMA's stores and ordinary ones are not ordered, so threads store the tile, too."""
    mk = Following()
    loop = points(mk, mk.c, (T, I), Const(7.0, mk.c.dtype), 64, 48)
    store = mk.copy(mk.acc, mk.c)
    kernel = mk.kernel({BX: 1}, mk.clear(mk.acc), *mk.step(Const(0)), *((loop, store) if first else (store, loop)))
    assert exact(kernel) > 0


WRITES: dict[str, tuple[int, Callable[[Maker, Buffer], tuple[Stmt, ...]]]] = {
    "the same place, transposed": (1, lambda mk, c: (
        points(mk, c, (T, I), Const(1.0, c.dtype), 64, 64), points(mk, c, (I, T), Const(2.0, c.dtype), 64, 64))),
    "a row that moves by one": (1, lambda mk, c: (
        mk.loop(KO, 4, points(mk, c, (Const(0), I + KO), KO.astype("float32"), 60)),)),
    "rows that overlap, by a name": (1, lambda mk, c: (
        mk.loop(KO, 3, mk.let(ROW, KO * 8), points(mk, c, (T + ROW, I), KO.astype("float32"), 16, 64)),)),
    "a tile and one element": (1, lambda mk, c: (
        points(mk, c, (T, I), Const(1.0, c.dtype), 64, 64),
        Store(buffer=c, indices=(Const(5), Const(9)), value=Const(3.0, c.dtype), span=mk.span()))),
    "tile after tile": (0, lambda mk, c: (
        mk.loop(KO, 4, points(mk, c, (T + KO * 16, I), KO.astype("float32"), 16, 64)),)),
    "tiles of two loops, down": (0, lambda mk, c: (
        mk.loop(
            KO, -1, mk.loop(Q, 2, points(mk, c, (T + KO * 32, I + Q * 32), KO.astype("float32"), 32, 32)), start=1, step=-1,
        ),)),
    "rows between rows": (0, lambda mk, c: (
        mk.loop(KO, 4, points(mk, c, (T * 4 + KO, I), KO.astype("float32"), 16, 64)),)),
    "tile after tile, if": (0, lambda mk, c: (
        mk.loop(KO, 4, If(
            condition=compare("<", KO, 3), then=(points(mk, c, (T + KO * 16, I), KO.astype("float32"), 16, 64),), span=mk.span(),
        )),)),
    "the same place in every turn": (0, lambda mk, c: (
        mk.loop(KO, 4, points(mk, c, (T, I), KO.astype("float32"), 64, 64)),)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
def test_tensors_that_are_written_more_than_once(name: str) -> None:
    """A barrier where threads may write what others wrote, and none where they cannot."""
    barriers, body = WRITES[name]
    mk = Maker()
    c = mk.tensor("C", 64, 64, dtype="float32")
    assert exact(mk.kernel({BX: 1}, *body(mk, c))) == barriers


def test_boxes_that_would_begin_between_the_hardwares_units() -> None:
    """300 rows of 32 bytes are two boxes of 150 rows, the second at 4800 bytes, which is no multiple of 128."""
    check(programs.through_shared(shape=(300, 16), extents=(300, 16)), ("fifo",))
    check(programs.through_shared(shape=(5, 48), extents=(5, 48)), ("fifo",))


@pytest.mark.parametrize("rows", [0, 1, 8, 31, 32])
@pytest.mark.parametrize("scope", [Scope.GLOBAL, Scope.SHARED, Scope.FRAGMENT], ids=str)
def test_copies_within_one_buffer(scope: Scope, rows: int) -> None:
    """All elements are read before any is written."""
    mk = Maker()
    a, c = mk.tensor("A", 64, 64, dtype="float32"), mk.tensor("C", 64, 64, dtype="float32")
    s = a if scope is Scope.GLOBAL else mk.alloc("s", (64, 64), "float32", scope)
    move = mk.copy(tile(s, (0, 0), 32, 64), tile(s, (rows, 0), 32, 64))
    exact(mk.kernel({BX: 1}, *([] if s is a else [mk.copy(a, s)]), move, mk.copy(s, c)))


@pytest.mark.parametrize("columns", [8, 13, 40, 45, 47, 48])
def test_a_loop_that_reads_part_of_a_fragment(columns: int) -> None:
    """The loop goes by the fragment's vectors, and ends within one or not."""
    mk = Maker()
    a, c, x = mk.tensor("A", 64, 48), mk.tensor("C", 64, 48), mk.fragment("x", 64, 48, dtype="float16")
    exact(mk.kernel({BX: 1}, mk.copy(a, x), points(mk, c, (T, I), Load(x, (T, I)), 50, columns)))
