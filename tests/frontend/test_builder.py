"""The builder without any source: structure, spans, names, and what it knows of variables."""
from __future__ import annotations

import threading
import warnings

import pytest

import tilelang.language as T
from tilelang.errors import NameProblem, Span, SyntaxProblem, TileError, TypeProblem
from tilelang.frontend.builder import Builder, is_building
from tilelang.ir import tile
from tilelang.ir.expr import Binary, Const, Load, Var
from tilelang.ir.types import LoopKind, Scope, WarpPolicy


def test_a_gemm_by_hand() -> None:
    b = Builder("gemm", Span("gemm.py", 1))
    A, B, C = (b.tensor(name, (256, 256), "float16") for name in "ABC")
    with b.kernel(2, 2, threads=128, names=("bx", "by")) as (bx, by):
        a = b.alloc("a", (128, 64), "float16", Scope.SHARED)
        w = b.alloc("w", (64, 128), "float16", Scope.SHARED)
        acc = b.alloc("acc", (128, 128), "float", Scope.FRAGMENT)
        T.clear(acc)
        with b.loop(T.Pipelined(4, num_stages=3), "ko") as ko:
            T.copy(A[by * 128, ko * 64], a)
            T.copy(B[ko * 64, bx * 128], w)
            T.gemm(a, w, acc, policy=T.GemmWarpPolicy.FullRow)
        T.copy(acc, C[by * 128, bx * 128])
    kernel = b.finish()
    assert kernel.name == "gemm"
    assert kernel.params == (A, B, C)
    assert kernel.tensors == (A, B, C)
    assert [(axis.var.name, axis.extent) for axis in kernel.grid] == [("bx", 2), ("by", 2)]
    assert kernel.threads == 128
    assert kernel.buffers == (a, w, acc)
    assert [type(statement) for statement in kernel.body] == [tile.Fill, tile.For, tile.Copy]
    loop = kernel.body[1]
    assert isinstance(loop, tile.For)
    assert (loop.kind, loop.num_stages, loop.start, loop.stop, loop.step) == (LoopKind.PIPELINED, 3, Const(0), Const(4), 1)
    assert loop.var is ko
    gemm = loop.body[2]
    assert isinstance(gemm, tile.Gemm)
    assert (gemm.a, gemm.b, gemm.c) == (a.whole(), w.whole(), acc.whole())
    assert gemm.policy is WarpPolicy.FULL_ROW
    assert gemm.clear_accum is False
    assert all(statement.span == Span("gemm.py", 1) for statement in kernel.body)
    assert all(buffer.span == Span("gemm.py", 1) for buffer in kernel.buffers)


def test_spans_are_those_of_the_moment() -> None:
    b = Builder("kernel")
    A = b.tensor("A", (64,), "float16")
    with b.kernel(1):
        b.span = Span("k.py", 3)
        with b.loop(T.serial(4), "i"):
            b.span = Span("k.py", 4)
            T.clear(A)
        b.span = Span("k.py", 5)
        T.clear(A)
    loop, last = b.finish().body
    assert (loop.span, last.span) == (Span("k.py", 3), Span("k.py", 5))
    assert isinstance(loop, tile.For)
    assert loop.body[0].span == Span("k.py", 4)


def test_names_are_made_unique() -> None:
    b = Builder("kernel")
    b.tensor("tile", (64,), "float16")
    with b.kernel(1):
        names = [b.alloc("tile", (4,), "float16", Scope.SHARED).name for _ in range(3)]
    assert names == ["tile_1", "tile_2", "tile_3"]


def test_parameters_in_the_callers_order() -> None:
    b = Builder("kernel")
    n = b.scalar("n", "int64")
    A = b.tensor("A", (4,), "float16")
    with b.kernel(1):
        pass
    kernel = b.finish()
    assert kernel.params == (n, A)
    assert kernel.tensors == (A,)
    assert isinstance(n, Var)
    assert n.dtype == "int64"
    with pytest.raises(NameProblem):
        b.scalar("A", "int32")


def test_lets_and_variables() -> None:
    b = Builder("kernel")
    with b.kernel(8, names=("bx",)) as (bx,):
        row = b.let("row", bx * 64)
        x = b.variable("x", "float32", 2)
        b.store(x, x + 1)
    let, init, store = b.finish().body
    assert isinstance(let, tile.Let)
    assert isinstance(init, tile.Store)
    assert isinstance(store, tile.Store)
    assert let.var is row
    assert init.value == Const(2.0, x.dtype)
    assert (init.indices, store.indices) == ((), ())
    assert store.value == Binary("+", x, Const(1.0, x.dtype))
    assert b.facts.range_of(row) == (0, 7 * 64)


def test_variables_start_at_zero() -> None:
    b = Builder("kernel")
    with b.kernel(1):
        b.variable("x", "int32")
    store = b.finish().body[0]
    assert isinstance(store, tile.Store)
    assert store.value == Const(0)


def test_conditions_by_hand() -> None:
    b = Builder("kernel")
    A = b.tensor("A", (64,), "float16")
    with b.kernel(8, names=("bx",)) as (bx,), b.when(bx < 3):
        T.clear(A)
    branch = b.finish().body[0]
    assert isinstance(branch, tile.If)
    assert branch.condition == (bx < 3)
    assert isinstance(branch.then[0], tile.Fill)
    assert branch.otherwise == ()


def test_parallel_by_hand() -> None:
    b = Builder("kernel")
    A = b.tensor("A", (64, 32), "float16")
    with b.kernel(1), b.loop(T.Parallel(64, 32), "i", "j") as (i, j):
        b.store(Load(A, (i, j)), 1)
    loop = b.finish().body[0]
    assert isinstance(loop, tile.Parallel)
    assert loop.vars == (i, j)
    assert loop.extents == (Const(64), Const(32))


def test_ranges_of_loops() -> None:
    b = Builder("kernel")
    with b.kernel(8, names=("bx",)) as (bx,):
        with b.loop(T.serial(2, 10, 3), "i") as i:
            assert b.facts.range_of(i) == (2, 8)
        with b.loop(T.serial(10, 2, -3), "i") as i:
            assert b.facts.range_of(i) == (4, 10)
        with b.loop(T.serial(bx * 4, bx * 4 + 4), "i") as i:
            assert b.facts.range_of(i) == (0, 31)
        with b.loop(T.serial(0), "i") as i:
            assert b.facts.range_of(i) is None
        with b.loop(T.serial(b.scalar("n", "int32")), "i") as i:
            assert b.facts.range_of(i) is None


def test_one_kernel() -> None:
    b = Builder("kernel")
    with b.kernel(1):
        pass
    with pytest.raises(SyntaxProblem, match="second"), b.kernel(1):
        pass
    with pytest.raises(SyntaxProblem, match=r"no T\.Kernel"):
        Builder("kernel").finish()


def test_statements_belong_into_the_kernel() -> None:
    b = Builder("kernel")
    with pytest.raises(SyntaxProblem) as caught:
        b.alloc("a", (4,), "float16", Scope.SHARED)
    assert caught.value.code == "TL112"


def test_a_failed_build_leaves_nothing_behind() -> None:
    b = Builder("kernel")
    A = b.tensor("A", (64,), "float16")
    with pytest.raises(TileError), b.kernel(1):
        T.copy(A, 3)
    assert not is_building()


def test_builders_of_two_threads_do_not_meet() -> None:
    results: dict[int, tile.Kernel] = {}

    def build(number: int, barrier: threading.Barrier) -> None:
        b = Builder(f"kernel{number}")
        A = b.tensor("A", (64,), "float16")
        with b.kernel(number + 1):
            barrier.wait(10)
            T.fill(A, number)
            barrier.wait(10)
        results[number] = b.finish()

    barrier = threading.Barrier(2)
    threads = [threading.Thread(target=build, args=(number, barrier)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(2):
        assert len(results[number].body) == 1
        fill = results[number].body[0]
        assert isinstance(fill, tile.Fill)
        assert fill.value == Const(float(number), fill.dst.buffer.dtype)


# ---- reading what nobody wrote ------------------------------------------------------------------------------------------------


def unwritten(kernel_of) -> list[str]:
    """The warnings of building a kernel by hand."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        b = Builder("kernel")
        b.tensor("A", (64, 64), "float16")
        with b.kernel(1):
            b.span = Span("kernel.py", 7)
            kernel_of(b)
        b.finish()
    assert all((warning.filename, warning.lineno) == ("kernel.py", 7) for warning in caught)
    return [str(warning.message).split(" is read")[0] for warning in caught]


def tiles(b: Builder) -> tuple[object, object, object]:
    return (
        b.alloc("a", (64, 64), "float16", Scope.SHARED),
        b.alloc("b", (64, 64), "float16", Scope.SHARED),
        b.alloc("c", (64, 64), "float32", Scope.FRAGMENT),
    )


def test_a_gemm_without_clear_warns() -> None:
    def body(b: Builder, clear: bool, clear_accum: bool = False) -> None:
        x, y, z = tiles(b)
        T.copy(b.params[0], x)
        T.copy(b.params[0], y)
        if clear:
            T.clear(z)
        with b.loop(T.serial(4), "k"):
            T.gemm(x, y, z, clear_accum=clear_accum)

    assert unwritten(lambda b: body(b, clear=False)) == ["c"]
    assert unwritten(lambda b: body(b, clear=True)) == []
    assert unwritten(lambda b: body(b, clear=False, clear_accum=True)) == []


def test_each_buffer_warns_once() -> None:
    def body(b: Builder) -> None:
        x, y, _ = tiles(b)
        T.copy(x, b.params[0])
        T.copy(x, b.params[0])
        T.copy(y, b.params[0])

    assert unwritten(body) == ["a", "b"]


def test_a_write_later_in_the_loop_counts() -> None:
    def body(b: Builder) -> None:
        x, _, _ = tiles(b)
        with b.loop(T.serial(4), "k") as k:
            with b.when(k > 0):
                T.copy(x, b.params[0])
            T.copy(b.params[0], x)

    assert unwritten(body) == []


def test_updating_an_element_is_no_first_write() -> None:
    def body(b: Builder) -> None:
        c = b.alloc("c", (64,), "float32", Scope.FRAGMENT)
        with b.loop(T.Parallel(64), "i") as (i,):
            b.store(Load(c, (i,)), Load(c, (i,)) + 1)

    assert unwritten(body) == ["c"]


def test_a_reduction_that_keeps_the_old_value_reads_it() -> None:
    def body(b: Builder, clear: bool) -> None:
        _, _, c = tiles(b)
        row = b.alloc("row", (64,), "float32", Scope.FRAGMENT)
        T.clear(c)
        T.reduce_sum(c, row, dim=1, clear=clear)

    assert unwritten(lambda b: body(b, clear=False)) == ["row"]
    assert unwritten(lambda b: body(b, clear=True)) == []


def test_values_of_conditions_and_loads_count_as_reads() -> None:
    def body(b: Builder) -> None:
        c = b.alloc("c", (64,), "float32", Scope.FRAGMENT)
        with b.when(Load(c, (Const(0),)) > 0):
            b.let("x", Load(c, (Const(1),)))

    assert unwritten(body) == ["c"]


def test_wrong_kinds_are_refused() -> None:
    b = Builder("kernel")
    A = b.tensor("A", (64,), "float16")
    with b.kernel(1):
        with pytest.raises(TypeProblem):
            b.store(Load(A, (Const(0),)), A)
        with pytest.raises(TypeProblem):
            b.store(Load(A, (Const(0),)), "text")
