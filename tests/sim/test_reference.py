"""What each statement of tile IR means, block by block."""
from __future__ import annotations

import sys

import numpy as np
import pytest

from tests.sim.reference_kernels import attention, buffer, gemm, kernel, matmul, points, serial, slice_of, store
from tilelang.errors import ArgumentError, HazardError, InternalError, ShapeProblem, Span, Unsupported
from tilelang.ir import device, expr, tile
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Binary, Cast, Compare, Const, Load, Select, Var, as_expr, compare
from tilelang.ir.types import DTYPE_NAMES, DType, LoopKind, ReduceKind, Scope
from tilelang.ir.verify import verify
from tilelang.sim import reference, reference_expr, reference_parallel
from tilelang.sim.reference import run

F32 = DType("float32")
FLOATS = ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"]


def subclasses(base: type) -> set[type]:
    """All subclasses outside device IR (a slotted dataclass leaves an unnamed twin behind, which does not count)."""
    found = {sub for direct in base.__subclasses__() for sub in {direct, *subclasses(direct)}}
    named = {sub for sub in found if getattr(sys.modules.get(sub.__module__), sub.__name__, None) is sub}
    return {sub for sub in named if sub.__module__ != device.__name__}


def execute(body, *arrays, params=(), buffers=(), **grid):
    """Runs one block of `body` (or the grid given) on the arrays, after verifying it."""
    built = kernel(tuple(params), tuple(buffers), tuple(body), **grid)
    verify(built)
    run(built, arrays)


def filled(name: str, *shape: int, dtype: str = "float32") -> tuple[Buffer, np.ndarray]:
    """A tensor parameter and an array of -1 for it."""
    return buffer(name, shape, dtype), np.full(shape, 1 if dtype.startswith(("u", "bool")) else -1).astype(DType(dtype).numpy)


# ---- tables -------------------------------------------------------------------------------------------------------------------


def test_every_node_has_a_meaning():
    assert set(reference.STATEMENTS) == subclasses(tile.Stmt)
    assert set(reference_parallel.STATEMENTS) == subclasses(tile.Stmt)
    assert set(reference_expr.EXPRESSIONS) == subclasses(expr.Expr)


def test_a_node_of_device_ir_is_an_internal_error():
    c, out = filled("C", 1)
    array = device.SharedArray(name="s", offset_bytes=0, stage_bytes=1, stages=1, swizzle_bytes=0)
    with pytest.raises(InternalError, match="SharedAddress"):
        run(kernel((c,), (), (store(c, (0,), device.SharedAddress(array)),)), [out])


# ---- gemm ---------------------------------------------------------------------------------------------------------------------


def integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, largest: int = 2) -> np.ndarray:
    low = 0 if dtype.startswith("u") else -largest
    return rng.integers(low, largest + 1, shape).astype(DType(dtype).numpy)


def exact_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64).astype(np.int64) @ b.astype(np.float64).astype(np.int64)


@pytest.mark.parametrize(
    ("m", "n", "k", "block"),
    [
        (256, 384, 192, (128, 128, 64)), (100, 72, 40, (64, 32, 16)), (33, 65, 1, (32, 32, 32)), (1, 1, 1, (16, 16, 16)),
        (64, 64, 0, (32, 32, 16)), (48, 80, 130, (48, 80, 48)), (130, 96, 64, (64, 96, 32)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("transposes", [(False, False), (True, False), (False, True), (True, True)])
def test_gemm_is_the_exact_product(m, n, k, block, transposes):
    rng = np.random.default_rng(m * n + k)
    a, b = integers(rng, (m, k), "float16"), integers(rng, (k, n), "float16")
    c = np.full((m, n), -1, np.float16)
    built = matmul(m, n, k, block, transpose_a=transposes[0], transpose_b=transposes[1])
    verify(built)
    run(built, [np.ascontiguousarray(a.T) if transposes[0] else a, np.ascontiguousarray(b.T) if transposes[1] else b, c])
    np.testing.assert_array_equal(c.astype(np.int64), exact_product(a, b))


@pytest.mark.parametrize(
    ("dtype", "accum", "out"),
    [
        ("float16", "float32", "float32"), ("bfloat16", "float32", "float32"), ("float8_e4m3fn", "float32", "float32"),
        ("float8_e5m2", "float32", "float32"), ("float32", "float32", "float32"), ("float64", "float64", "float64"),
        ("float32", "float64", "float64"), ("int8", "int32", "int32"), ("uint8", "int32", "int32"), ("int32", "int32", "int32"),
        ("int16", "int64", "int64"), ("float16", "float16", "float16"), ("bfloat16", "bfloat16", "bfloat16"),
    ],
)  # fmt: skip
def test_gemm_of_every_dtype(dtype, accum, out):
    rng = np.random.default_rng(7)
    largest = 1 if out == "bfloat16" else 2
    a, b = integers(rng, (70, 50), dtype, largest), integers(rng, (50, 40), dtype, largest)
    c = np.zeros((70, 40), DType(out).numpy)
    run(matmul(70, 40, 50, (32, 32, 16), dtype, accum, out), [a, b, c])
    np.testing.assert_array_equal(c.astype(np.float64), exact_product(a, b).astype(np.float64))


def test_int32_accumulation_wraps():
    a = np.full((16, 16), 2**31 - 1, np.int32)
    c = np.zeros((16, 16), np.int32)
    run(matmul(16, 16, 16, (16, 16, 16), "int32", "int32", "int32"), [a, a, c])
    assert (c == 16).all()  # (2^31 - 1)^2 * 16 = 16 modulo 2^32


def test_int8_accumulation_is_exact_at_the_extremes():
    a, b = np.full((16, 512), -128, np.int8), np.full((512, 16), -128, np.int8)
    c = np.zeros((16, 16), np.int32)
    run(matmul(16, 16, 512, (16, 16, 64), "int8", "int32", "int32"), [a, b, c])
    assert (c == 128 * 128 * 512).all()


@pytest.mark.parametrize(("dtype", "out", "u"), [("float16", "float16", 2.0**-11), ("bfloat16", "bfloat16", 2.0**-8)])
def test_gemm_of_reals_stays_inside_the_bound(dtype, out, u):
    rng = np.random.default_rng(11)
    a, b = (rng.standard_normal(shape).astype(DType(dtype).numpy) for shape in ((96, 320), (320, 64)))
    c = np.zeros((96, 64), DType(out).numpy)
    run(matmul(96, 64, 320, (32, 32, 64), dtype, out=out), [a, b, c])
    left, right = a.astype(np.float64), b.astype(np.float64)
    exact = left @ right
    bound = (4 * (320 / 16) ** 0.5 + 8) * 2.0**-24 * (np.abs(left) @ np.abs(right)) + u * np.abs(exact)
    assert (np.abs(c.astype(np.float64) - exact) <= bound).all()


@pytest.mark.parametrize("clear", [True, False, as_expr(1), compare("==", as_expr(1), as_expr(2)), "loop"])
def test_clear_accum(clear):
    a, x = buffer("A", (16, 16), "float32"), np.eye(16, dtype=np.float32)
    c, out = filled("C", 16, 16)
    k = Var("k")
    option = compare("==", k, 0) if clear == "loop" else clear
    body = serial(k, 2, tile.Gemm(a=a.whole(), b=a.whole(), c=c.whole(), clear_accum=option))
    execute([body], x, out, params=(a, c))
    keeps = option is False or (isinstance(option, Const) and not option.value)
    wanted = 2 * np.eye(16) - 1 if keeps else 2 * np.eye(16) if clear == "loop" else np.eye(16)
    np.testing.assert_array_equal(out, wanted)


def test_gemm_of_slices_and_of_stages():
    rng = np.random.default_rng(2)
    a, x = buffer("A", (3, 16, 32), "float32"), integers(rng, (3, 16, 32), "float32")
    b, y = buffer("B", (32, 16), "float32"), integers(rng, (32, 16), "float32")
    c, out = filled("C", 32, 16)
    body = tile.Gemm(a=a[1, :, 16:32], b=b[16:32, :], c=c[16:32, :], clear_accum=True)
    execute([body], x, y, out, params=(a, b, c))
    np.testing.assert_array_equal(out[16:], x[1, :, 16:] @ y[16:])
    assert (out[:16] == -1).all()


def test_gemm_with_one_row():
    a, x = buffer("A", (1, 32), "float32"), np.ones((1, 32), np.float32)
    b, y = buffer("B", (32, 8), "float32"), np.ones((32, 8), np.float32)
    c, out = filled("C", 1, 8)
    execute([gemm(a, b, c, clear_accum=True)], x, y, out, params=(a, b, c))
    assert (out == 32).all()


def test_gemm_shapes_that_do_not_fit():
    a, b, c = buffer("A", (16, 8), "float32"), buffer("B", (16, 8), "float32"), buffer("C", (16, 8), "float32")
    array = np.zeros((16, 8), np.float32)
    with pytest.raises(ShapeProblem, match="TL204"):
        run(kernel((a, b, c), (), (gemm(a, b, c),)), [array] * 3)


def test_attention():
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal((1, 128, 2, 32)).astype(np.float16) for _ in range(3))
    out = np.zeros_like(q)
    built = attention(1, 2, 128, 32, 32, 32)
    verify(built)
    run(built, [q, k, v, out])
    left, right, value = (x.astype(np.float64).transpose(0, 2, 1, 3) for x in (q, k, v))
    scores = np.where(np.tril(np.ones((128, 128), bool)), left @ right.swapaxes(2, 3) / 32**0.5, -np.inf)
    probs = np.exp(scores - scores.max(-1, keepdims=True))
    exact = ((probs / probs.sum(-1, keepdims=True)) @ value).transpose(0, 2, 1, 3)
    assert np.linalg.norm(out - exact) / np.linalg.norm(exact) < 1e-3


# ---- copy and fill ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", DTYPE_NAMES)
@pytest.mark.parametrize("target", DTYPE_NAMES)
def test_copy_converts(source, target):
    a, b = buffer("A", (7,), source), buffer("B", (7,), target)
    low = 0 if DType(target).kind == "uint" or DType(source).kind == "uint" else -2
    x = np.arange(low, low + 7).astype(DType(source).numpy)
    y = np.zeros(7, DType(target).numpy)
    execute([tile.Copy(src=a.whole(), dst=b.whole())], x, y, params=(a, b))
    wanted = x.astype(np.float64)
    np.testing.assert_array_equal(y.astype(np.float64), wanted != 0 if target == "bool" else wanted)


@pytest.mark.parametrize("base", [-20, -8, -3, 0, 2, 5, 9, 40])
@pytest.mark.parametrize("extent", [0, 1, 4, 8, 12])
def test_copy_clips_what_is_outside(base, extent):
    """A tile that lies partly or wholly outside the tensor, on both sides, against plain Python."""
    a, x = buffer("A", (3, 10), "int32"), np.arange(1, 31, dtype=np.int32).reshape(3, 10)
    t = buffer("t", (3, 12), "int32", Scope.SHARED)
    b, y = buffer("B", (3, 10), "int32"), np.full((3, 10), -1, np.int32)
    read = Region(a, (as_expr(0), as_expr(base)), (3, extent))
    slot = Region(t, (as_expr(0), as_expr(0)), (3, extent))
    write = Region(b, (as_expr(0), as_expr(base + 1)), (3, extent))
    body = [tile.Fill(dst=t.whole(), value=Const(7)), tile.Copy(src=read, dst=slot), tile.Copy(src=slot, dst=write)]
    execute(body, x, y, params=(a, b), buffers=(t,))
    wanted = np.full((3, 10), -1)
    for row in range(3):
        for at in range(extent):
            value = x[row, base + at] if 0 <= base + at < 10 else 0
            if 0 <= base + 1 + at < 10:
                wanted[row, base + 1 + at] = value
    np.testing.assert_array_equal(y, wanted)


def test_copy_matches_dimensions_that_are_not_one_in_order():
    a, x = buffer("A", (2, 6, 3, 5), "float32"), np.arange(180, dtype=np.float32).reshape(2, 6, 3, 5)
    b, y = filled("B", 4, 1, 5)
    bz, by = Var("bz"), Var("by")
    grid = (tile.GridAxis(bz, 1), tile.GridAxis(by, 1))
    execute([tile.Copy(src=a[bz + 1, 2:6, by + 2, :], dst=b.whole())], x, y, params=(a, b), grid=grid)
    np.testing.assert_array_equal(y[:, 0], x[1, 2:6, 2])


def test_copy_inside_one_buffer_reads_before_it_writes():
    a, x = buffer("A", (8,), "int32"), np.arange(8, dtype=np.int32)
    execute([tile.Copy(src=a[0:6], dst=a[2:8])], x, params=(a,))
    assert x.tolist() == [0, 1, 0, 1, 2, 3, 4, 5]


def test_copy_of_empty_tensors():
    a, b = buffer("A", (0, 4), "float32"), buffer("B", (4, 4), "float32")
    y = np.ones((4, 4), np.float32)
    copy = tile.Copy(src=Region(a, (as_expr(0), as_expr(0)), (4, 4)), dst=b.whole())
    execute([copy], np.zeros((0, 4), np.float32), y, params=(a, b))
    assert (y == 0).all()


def test_copy_with_extents_known_at_run_time():
    n, a, b = Var("n"), buffer("A", (10,), "float32"), buffer("B", (10,), "float32")
    y = np.zeros(10, np.float32)
    execute([tile.Copy(src=a[0:n], dst=b[0:n])], np.arange(10, dtype=np.float32), 4, y, params=(a, n, b))
    assert y.tolist() == [0, 1, 2, 3, 0, 0, 0, 0, 0, 0]


def test_copy_of_different_sizes_is_refused():
    n, a = Var("n"), buffer("A", (10,), "float32")
    with pytest.raises(ShapeProblem, match="TL205"):
        run(kernel((a, n), (), (tile.Copy(src=a[0:n], dst=a[0:4]),)), [np.zeros(10, np.float32), 5])


def test_fill_of_a_slice_and_past_the_end():
    c, out = filled("C", 4, 6)
    body = [tile.Fill(dst=c[1:3, 2:4], value=Const(2.5, F32)), tile.Fill(dst=c[3:9, 4:9], value=Const(7, DType("int32")))]
    execute(body, out, params=(c,))
    wanted = np.full((4, 6), -1.0)
    wanted[1:3, 2:4], wanted[3:, 4:] = 2.5, 7
    np.testing.assert_array_equal(out, wanted)


def test_blocks_begin_uninitialised_and_the_same():
    t = buffer("t", (4,), "float32", Scope.SHARED)
    n = buffer("n", (4,), "int32", Scope.FRAGMENT)
    c, out = filled("C", 2, 4)
    d, ints = filled("D", 2, 4, dtype="int32")
    bx = Var("bx")
    body = [
        tile.Copy(src=t.whole(), dst=c[bx, :]), tile.Copy(src=n.whole(), dst=d[bx, :]),
        tile.Fill(dst=t.whole(), value=Const(1.0, F32)), tile.Fill(dst=n.whole(), value=Const(1)),
    ]  # fmt: skip
    execute(body, out, ints, params=(c, d), buffers=(t, n), grid=(tile.GridAxis(bx, 2),))
    assert np.isnan(out).all()
    assert (ints == 0x5A5A5A5A).all()


# ---- reduce -------------------------------------------------------------------------------------------------------------------

NUMPY_OF = {
    ReduceKind.SUM: lambda x, dim: x.sum(dim),
    ReduceKind.MAX: lambda x, dim: x.max(dim), ReduceKind.MIN: lambda x, dim: x.min(dim),
    ReduceKind.ABSSUM: lambda x, dim: np.abs(x).sum(dim), ReduceKind.ABSMAX: lambda x, dim: np.abs(x).max(dim),
}  # fmt: skip


@pytest.mark.parametrize("kind", ReduceKind)
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(("source", "target"), [("float32",) * 2, ("float16", "float32"), ("int8", "int32"), ("int32",) * 2])
def test_reduce(kind, dim, clear, keep, source, target):
    rng = np.random.default_rng(3)
    a, x = buffer("A", (13, 37), source), integers(rng, (13, 37), source, 9)
    shape = [13, 37]
    shape[dim : dim + 1] = [1] if keep else []
    c, out = filled("C", *shape, dtype=target)
    execute([tile.Reduce(kind=kind, src=a.whole(), dst=c.whole(), dim=dim, clear=clear)], x, out, params=(a, c))
    wanted = NUMPY_OF[kind](x.astype(np.int64), dim)
    if not clear:
        fold = {ReduceKind.MAX: np.maximum, ReduceKind.ABSMAX: np.maximum, ReduceKind.MIN: np.minimum}.get(kind, np.add)
        wanted = fold(wanted, -1)
    np.testing.assert_array_equal(out.reshape(-1).astype(np.int64), wanted.reshape(-1))


def test_reduce_rounds_once():
    """2048 + 1 + 1 + ... in float16 would stay 2048."""
    a, x = buffer("A", (1, 65), "float16"), np.ones((1, 65), np.float16)
    x[0, 0] = 2048
    c, out = filled("C", 1, dtype="float16")
    execute([tile.Reduce(kind=ReduceKind.SUM, src=a.whole(), dst=c.whole(), dim=1)], x, out, params=(a, c))
    assert out[0] == 2112


@pytest.mark.parametrize(
    ("kind", "empty"),
    [(ReduceKind.SUM, 0), (ReduceKind.MAX, -np.inf), (ReduceKind.MIN, np.inf), (ReduceKind.ABSMAX, 0), (ReduceKind.ABSSUM, 0)],
)
def test_reduce_of_nothing_and_of_nan(kind, empty):
    a, c = buffer("A", (2, 0), "float32"), buffer("C", (2,), "float32")
    out = np.ones(2, np.float32)
    execute([tile.Reduce(kind=kind, src=a.whole(), dst=c.whole(), dim=1)], np.zeros((2, 0), np.float32), out, params=(a, c))
    assert (out == empty).all()
    a, x = buffer("A", (2, 3), "float32"), np.array([[1, np.nan, -2], [np.nan, np.inf, 0]], np.float32)
    execute([tile.Reduce(kind=kind, src=a.whole(), dst=c.whole(), dim=1)], x, out, params=(a, c))
    if kind in (ReduceKind.SUM, ReduceKind.ABSSUM):
        assert np.isnan(out).all()
    else:
        assert out.tolist() == {"max": [1, np.inf], "min": [-2, 0], "absmax": [2, np.inf]}[kind]


def test_reduce_that_does_not_fit():
    a, c = buffer("A", (4, 5), "float32"), buffer("C", (5,), "float32")
    with pytest.raises(ShapeProblem, match="TL208"):
        run(
            kernel((a, c), (), (tile.Reduce(kind=ReduceKind.SUM, src=a.whole(), dst=c.whole(), dim=1),)),
            [np.zeros((4, 5), np.float32), np.zeros(5, np.float32)],
        )


# ---- control flow -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [(0, 5, 1), (3, 3, 1), (5, 0, 1), (1, 10, 3), (9, 0, -2), (0, -4, -1), (2, 5, -1)])
@pytest.mark.parametrize("kind", LoopKind)
def test_for_is_pythons_range(bounds, kind):
    c, out = filled("C", 16, dtype="int32")
    count, i = buffer("count", (), "int32", Scope.VAR), Var("i")
    start, stop, step = bounds
    loop = tile.For(
        var=i, start=as_expr(start), stop=as_expr(stop), step=step, kind=kind,
        body=(store(c, (count[()],), i), store(count, (), count[()] + 1)),
    )  # fmt: skip
    execute([store(count, (), 0), loop], out, params=(c,), buffers=(count,))
    wanted = list(range(start, stop, step))
    assert out.tolist() == wanted + [-1] * (16 - len(wanted))


def test_break_and_continue_leave_the_innermost_loop():
    c, out = filled("C", 4, 8, dtype="int32")
    i, j = Var("i"), Var("j")
    inner = serial(
        j, 8, tile.If(condition=compare("==", j, 5), then=(tile.Break(),)),
        tile.If(condition=compare("==", j % 2, 1), then=(tile.Continue(),), otherwise=(store(c, (i, j), i),)),
        store(c, (i, 7), j),
    )  # fmt: skip
    execute([serial(i, 4, tile.If(condition=compare("==", i, 2), then=(tile.Continue(),)), inner)], out, params=(c,))
    wanted = np.full((4, 8), -1)
    for row in (0, 1, 3):
        wanted[row, [0, 2, 4]], wanted[row, 7] = row, 4
    np.testing.assert_array_equal(out, wanted)


def test_while_collatz():
    c, out = filled("C", 1, dtype="int32")
    x, n = buffer("x", (), "int32", Scope.VAR), buffer("n", (), "int32", Scope.VAR)
    odd = compare("==", x[()] % 2, 1)
    step = tile.If(condition=odd, then=(store(x, (), 3 * x[()] + 1),), otherwise=(store(x, (), x[()] // 2),))
    loop = tile.While(condition=compare("!=", x[()], 1), body=(step, store(n, (), n[()] + 1)))
    execute([store(x, (), 27), store(n, (), 0), loop, store(c, (0,), n[()])], out, params=(c,), buffers=(x, n))
    assert out[0] == 111


def test_while_left_by_break():
    x = buffer("x", (), "int32", Scope.VAR)
    c, out = filled("C", 1, dtype="int32")
    body = (store(x, (), x[()] + 1), tile.If(condition=compare(">=", x[()], 7), then=(tile.Break(),)))
    loop = tile.While(condition=as_expr(True), body=body)
    execute([store(x, (), 0), loop, store(c, (0,), x[()])], out, params=(c,), buffers=(x,))
    assert out[0] == 7


@pytest.mark.parametrize("inside", [False, True])
def test_an_endless_while_is_a_hazard(monkeypatch, inside):
    for module in (reference, reference_parallel):
        monkeypatch.setattr(module, "MAX_WHILE_TRIPS", 50)
    i, span = Var("i"), Span("kernel.py", 3)
    loop = tile.While(condition=compare("<", i, 3), body=(), span=span)
    wrapped = points((i,), (4,), loop) if inside else serial(i, 1, loop)
    with pytest.raises(HazardError, match=r"TL861.*while i < 3") as caught:
        execute([wrapped])
    assert caught.value.span == span


def test_let_is_visible_to_what_follows():
    c, out = filled("C", 2, dtype="int64")
    x = Var("x", DType("int64"))
    execute([tile.Let(var=x, value=Const(2**40, DType("int64"))), store(c, (1,), x * 2)], out, params=(c,))
    assert out.tolist() == [-1, 2**41]


def test_elements_outside_read_zero_and_are_not_written():
    a, x = buffer("A", (3, 3), "float32"), np.ones((3, 3), np.float32)
    c, out = filled("C", 5)
    outside = [(-1, 0), (3, 0), (0, -1), (0, 3)]
    body = [tile.Store(buffer=c, indices=(as_expr(n),), value=Load(a, (Const(i), Const(j)))) for n, (i, j) in enumerate(outside)]
    body += [tile.Store(buffer=a, indices=(Const(i), Const(j)), value=Const(9.0, F32)) for i, j in outside]
    body += [tile.Store(buffer=c, indices=(Const(-1),), value=Const(9.0, F32))]
    execute(body, x, out, params=(a, c))
    assert out.tolist() == [0, 0, 0, 0, -1]
    assert (x == 1).all()


def test_a_store_converts():
    c, out = filled("C", 3, dtype="int8")
    numbers = (Const(1e9, F32), Const(-2.7, F32), Const(300))
    body = [tile.Store(buffer=c, indices=(as_expr(i),), value=number) for i, number in enumerate(numbers)]
    execute(body, out, params=(c,))
    assert out.tolist() == [127, -2, 44]


def test_select_takes_one_side():
    c, out = filled("C", 2, dtype="int32")
    d = Var("d")
    safe = Select(Compare("!=", d, Const(0)), Binary("//", Const(12), d), Const(-5))
    execute([serial(d, 2, store(c, (d,), safe))], out, params=(c,))
    assert out.tolist() == [-5, 12]


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_expressions_round_at_each_operation(dtype):
    """x * y + z in the dtype, against two roundings spelled out."""
    rng = np.random.default_rng(4)
    kind = DType(dtype).numpy
    x, y, z = (rng.uniform(-2, 2, 40).astype(kind) for _ in range(3))
    a, b, d, c = (buffer(name, (40,), dtype) for name in "ABDC")
    out, i = np.zeros(40, kind), Var("i")
    execute([points((i,), (40,), store(c, (i,), a[i] * b[i] + d[i]))], x, y, z, out, params=(a, b, d, c))
    wide = np.float64 if dtype == "float64" else np.float32
    product = (x.astype(wide) * y.astype(wide)).astype(kind)
    np.testing.assert_array_equal(out, (product.astype(wide) + z.astype(wide)).astype(kind))


def test_a_cast_and_a_bool_index():
    a, x = buffer("A", (2,), "int32"), np.array([5, 6], np.int32)
    c, out = filled("C", 3)
    i = Var("i")
    value = Cast(a[Cast(compare(">", i, 0), DType("int32"))], F32)
    execute([points((i,), (3,), store(c, (i,), value))], x, out, params=(a, c))
    assert out.tolist() == [5, 6, 6]
    run(kernel((a, c), (), (points((i,), (3,), store(c, (i,), Load(a, (compare(">", i, 1),)))),)), [x, out])
    assert out.tolist() == [5, 5, 6]


# ---- grid and arguments -------------------------------------------------------------------------------------------------------


def test_blocks_run_with_axis_0_fastest():
    c, out = filled("C", 24, 3, dtype="int32")
    ticket, order = buffer("ticket", (1,), "int32"), np.zeros(1, np.int32)
    axes = [Var("bx"), Var("by"), Var("bz")]
    body = [store(c, (ticket[as_expr(0)], d), axis) for d, axis in enumerate(axes)]
    body.append(store(ticket, (0,), ticket[as_expr(0)] + 1))
    grid = tuple(tile.GridAxis(axis, extent) for axis, extent in zip(axes, (2, 3, 4), strict=True))
    execute(body, out, order, params=(c, ticket), grid=grid)
    assert out.tolist() == [[x, y, z] for z in range(4) for y in range(3) for x in range(2)]


def test_chosen_blocks():
    c, out = filled("C", 4, dtype="int32")
    bx = Var("bx")
    built = kernel((c,), (), (store(c, (bx,), bx),), grid=(tile.GridAxis(bx, 4),))
    run(built, [out], blocks=[(2,), (0,)])
    assert out.tolist() == [0, -1, 2, -1]
    for wrong in ((4,), (-1,), (0, 0)):
        with pytest.raises(ArgumentError, match="TL508"):
            run(built, [out], blocks=[wrong])


def test_shapes_and_grid_with_symbols():
    n, bx = Var("n"), Var("bx")
    a, c = Buffer("A", (n, 4), DType("float32"), Scope.GLOBAL), Buffer("C", (n * 4,), DType("float32"), Scope.GLOBAL)
    body = (tile.Copy(src=a[bx, :], dst=c[slice_of(bx, 4)]),)
    built = tile.Kernel(name="k", params=(a, c), grid=(tile.GridAxis(bx, n),), threads=32, buffers=(), body=body)
    x, y = np.arange(20, dtype=np.float32).reshape(5, 4), np.zeros(20, np.float32)
    run(built, [x, y])
    assert y.tolist() == list(range(20))
    with pytest.raises(ArgumentError, match="TL505"):
        run(built, [x, np.zeros(21, np.float32)])


def test_arrays_that_are_not_contiguous():
    a, c = buffer("A", (4, 6), "float32"), buffer("C", (4, 6), "float32")
    base, target = np.arange(48, dtype=np.float32).reshape(6, 8), np.zeros((8, 12), np.float32)
    execute([tile.Copy(src=a.whole(), dst=c.whole())], base[:, ::2].T, target[::2, ::2], params=(a, c))
    np.testing.assert_array_equal(target[::2, ::2], base[:, ::2].T)
    assert (target[1::2] == 0).all()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([np.zeros(4, np.float32)], "TL501"),
        ([[1.0] * 4, 3], "TL502"),
        ([np.zeros(4, np.float16), 3], "TL503"),
        ([np.zeros((4, 1), np.float32), 3], "TL504"),
        ([np.zeros(5, np.float32), 3], "TL505"),
        ([np.broadcast_to(np.float32(0), (4,)), 3], "TL506"),
        ([np.zeros(4, np.float32), 2**31], "TL507"),
        ([np.zeros(4, np.float32), 1.5], "TL507"),
        ([np.zeros(4, np.float32), None], "TL507"),
    ],
)
def test_arguments_that_do_not_fit(arguments, code):
    c, n = buffer("C", (4,), "float32"), Var("n")
    with pytest.raises(ArgumentError, match=code):
        run(kernel((c, n), (), (store(c, (0,), Cast(n, F32)),)), arguments)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_scalars_of_every_dtype(dtype):
    n = Var("n", DType(dtype))
    c, out = filled("C", 2, dtype=dtype)
    execute([store(c, (0,), n), store(c, (1,), n)], np.float32(1) if DType(dtype).is_float else 1, out, params=(n, c))
    assert (out.astype(np.float64) == 1).all()


def test_an_error_carries_the_place_of_its_statement():
    span = Span("kernel.py", 12)
    c, out = filled("C", 4)
    bad = tile.Store(buffer=c, indices=(as_expr(0),), value=Var("lost", F32), span=span)
    for body in (serial(Var("i"), 2, bad), points((Var("i"),), (4,), bad)):
        with pytest.raises(InternalError, match="lost") as caught:
            run(kernel((c,), (), (body,)), [out])
        assert caught.value.span == span


def test_undeclared_buffers_are_internal_errors():
    lost = buffer("lost", (4,), "float32", Scope.SHARED)
    with pytest.raises(InternalError, match="TL913"):
        run(kernel((), (), (tile.Fill(dst=lost.whole(), value=Const(0.0, F32)),)), [])


def test_no_warning_leaks_and_no_bare_exception():
    """Division by zero, overflow, NaN to integer: values, never warnings (pytest makes them errors)."""
    a, x = buffer("A", (3,), "float32"), np.array([0.0, np.nan, 3e38], np.float32)
    c, out = filled("C", 3, dtype="int32")
    i, big = Var("i"), Const(2**31 - 1)
    value = Cast(a[i] * 10.0 / a[i], DType("int32")) + big + Binary("//", big, i) + Binary("%", big, i)
    execute([points((i,), (3,), store(c, (i,), value))], x, out, params=(a, c))
    quotient = Binary("//", Const(12.5, F32), Const(0.0, F32))
    execute([store(a, (0,), quotient), store(a, (1,), Binary("pow", Const(0.0, F32), Const(-1.0, F32)))], x, params=(a,))
    assert x[:2].tolist() == [np.inf, np.inf]


def test_a_local_that_differs_between_threads_is_refused_as_a_tile():
    t, i = buffer("t", (4,), "float32", Scope.LOCAL), Var("i")
    c, out = filled("C", 4)
    body = [points((i,), (4,), store(t, (0,), 1.0)), tile.Copy(src=t.whole(), dst=c.whole())]
    with pytest.raises(Unsupported, match="TL372"):
        execute(body, out, params=(c,), buffers=(t,))

