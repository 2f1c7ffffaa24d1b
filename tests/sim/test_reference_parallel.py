"""`Parallel` on whole grids against plain Python, one point after the other; and the points that must not meet."""
from __future__ import annotations

import operator
import random
from itertools import product

import numpy as np
import pytest

from tests.sim.reference_kernels import buffer, kernel, points, serial, store
from tilelang.errors import HazardError, Unsupported
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Binary, Cast, Compare, Const, Expr, Load, Select, Unary, Var, as_expr, compare
from tilelang.ir.text import render
from tilelang.ir.types import DType, LoopKind, Scope
from tilelang.ir.verify import verify
from tilelang.sim import reference_expr
from tilelang.sim.reference import run

I32, F32 = DType("int32"), DType("float32")
ROW, COL = Var("i"), Var("j")

# ---- the oracle: a small interpreter of one point, with Python integers and float32 scalars ------------------------------------

OPS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "min": min, "max": max}
TESTS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne}


class Left(Exception):
    """break or continue."""


class Skipped(Exception):
    """continue."""


def wrap(value):
    return (value + 2**31) % 2**32 - 2**31 if isinstance(value, int) else value


def value_of(e: Expr, env: dict, cells: dict):
    match e:
        case Const(value, dtype):
            return np.float32(value) if dtype.is_float else value
        case Var():
            return env[e]
        case Load(array, indices):
            at = tuple(value_of(index, env, cells) for index in indices)
            if not all(0 <= x < n for x, n in zip(at, array.shape, strict=True)):
                return np.float32(0) if array.dtype.is_float else 0
            return cells[array][at]
        case _:
            return operation(e, env, cells)


def operation(e: Expr, env: dict, cells: dict):
    match e:
        case Unary("not", value):
            return not value_of(value, env, cells)
        case Binary("and", a, b):
            return value_of(a, env, cells) and value_of(b, env, cells)
        case Binary("//" | "%" as op, a, b):
            left, right = value_of(a, env, cells), value_of(b, env, cells)
            return 0 if right == 0 else wrap(left // right if op == "//" else left % right)
        case Binary(op, a, b):
            return wrap(OPS[op](value_of(a, env, cells), value_of(b, env, cells)))
        case Compare(op, a, b):
            return bool(TESTS[op](value_of(a, env, cells), value_of(b, env, cells)))
        case Select(condition, then, otherwise):
            return value_of(then if value_of(condition, env, cells) else otherwise, env, cells)
        case Cast(value, dtype):
            inner = value_of(value, env, cells)
            return np.float32(inner) if dtype == "float32" else int(inner)
    raise AssertionError(e)


def step(body: tile.Body, env: dict, cells: dict) -> None:
    for stmt in body:
        match stmt:
            case tile.Let():
                env[stmt.var] = value_of(stmt.value, env, cells)
            case tile.Store():
                at = tuple(value_of(index, env, cells) for index in stmt.indices)
                if all(0 <= x < n for x, n in zip(at, stmt.buffer.shape, strict=True)):
                    cells[stmt.buffer][at] = value_of(stmt.value, env, cells)
            case tile.If():
                step(stmt.then if value_of(stmt.condition, env, cells) else stmt.otherwise, env, cells)
            case tile.For():
                trips = range(value_of(stmt.start, env, cells), value_of(stmt.stop, env, cells), stmt.step)
                loop(stmt.body, ({stmt.var: trip} for trip in trips), env, cells)
            case tile.While():
                loop(stmt.body, iter(lambda s=stmt: {} if value_of(s.condition, env, cells) else None, None), env, cells)
            case tile.Break():
                raise Left
            case tile.Continue():
                raise Skipped


def loop(body: tile.Body, trips, env: dict, cells: dict) -> None:
    try:
        for more in trips:
            env.update(more)
            try:
                step(body, env, cells)
            except Skipped:
                continue
    except Left:
        return


def one_by_one(stmt: tile.Parallel, grid: tuple[int, ...], arrays: dict[Buffer, np.ndarray], private: dict) -> None:
    """All points, in a shuffled order, each with its own copy of the private buffers."""
    order = list(product(*(range(n) for n in grid)))
    random.Random(0).shuffle(order)
    shared = {b: {at: a[at].item() if b.dtype.is_int else a[at] for at in np.ndindex(a.shape)} for b, a in arrays.items()}
    for point in order:
        step(stmt.body, dict(zip(stmt.vars, point, strict=True)), {**shared, **{b: dict(cells) for b, cells in private.items()}})
    for b, cells in shared.items():
        for at, value in cells.items():
            arrays[b][at] = value


# ---- random bodies ------------------------------------------------------------------------------------------------------------


class Maker:
    """Random bodies of a Parallel over (i, j): every store to a shared buffer goes to the point's own element."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.a, self.n = buffer("A", (6, 8), "float32"), buffer("N", (6, 8), "int32")
        self.out, self.m = buffer("Out", (5, 7), "float32"), buffer("M", (5, 7), "int32", Scope.FRAGMENT)
        self.x, self.t = buffer("x", (), "int32", Scope.VAR), buffer("t", (3,), "float32", Scope.LOCAL)
        self.ints: list[Expr] = [ROW, COL, self.x[()], self.m[ROW, COL]]
        self.budget = 14

    def integer(self, depth: int = 2) -> Expr:
        pick = self.rng.random()
        if depth == 0 or pick < 0.35:
            return self.rng.choice([*self.ints, as_expr(self.rng.randint(-3, 9))])
        if pick < 0.5:
            return Load(self.n, (self.integer(depth - 1), self.integer(depth - 1)))
        if pick < 0.6:
            return Select(self.condition(depth - 1), self.integer(depth - 1), self.integer(depth - 1))
        if pick < 0.7:
            return Binary(self.rng.choice(["//", "%"]), self.integer(depth - 1), as_expr(self.rng.choice([2, 3, -4])))
        return Binary(self.rng.choice(["+", "-", "*", "min", "max"]), self.integer(depth - 1), self.integer(depth - 1))

    def number(self, depth: int = 2) -> Expr:
        pick = self.rng.random()
        if depth == 0 or pick < 0.3:
            small = Binary("%", self.integer(0), as_expr(3))
            return self.rng.choice([Const(self.rng.uniform(-2, 2), F32), Cast(self.integer(0), F32), Load(self.t, (small,))])
        if pick < 0.55:
            return Load(self.a, (self.integer(depth - 1), self.integer(depth - 1)))
        if pick < 0.65:
            return Select(self.condition(depth - 1), self.number(depth - 1), self.number(depth - 1))
        if pick < 0.75:
            return self.out[ROW, COL]
        return Binary(self.rng.choice(["+", "-", "*", "min", "max"]), self.number(depth - 1), self.number(depth - 1))

    def condition(self, depth: int = 1) -> Expr:
        test = Compare(self.rng.choice(list(TESTS)), self.integer(depth), self.integer(depth))
        if self.rng.random() < 0.2:
            return Binary("and", test, Unary("not", Compare("==", ROW, as_expr(2))))
        return test

    def body(self, depth: int, in_loop: bool) -> tile.Body:
        known = len(self.ints)
        made = tuple(self.stmt(depth, in_loop) for _ in range(self.rng.randint(1, 4)))
        del self.ints[known:]
        return made

    def stmt(self, depth: int, in_loop: bool) -> tile.Stmt:
        self.budget -= 1
        pick = self.rng.random()
        if depth == 0 or self.budget < 0 or pick < 0.45:
            return self.simple()
        if pick < 0.7:
            leave = (self.rng.choice([tile.Break, tile.Continue])(),) if in_loop and self.rng.random() < 0.8 else ()
            then = self.body(depth - 1, in_loop) + leave
            return tile.If(condition=self.condition(), then=then, otherwise=self.body(depth - 1, in_loop) if pick < 0.58 else ())
        if pick < 0.9:
            return self.loop(depth)
        count = tile.Store(buffer=self.x, indices=(), value=Binary("+", self.x[()], as_expr(self.rng.randint(1, 3))))
        test = Compare("<", self.x[()], Binary("%", self.integer(1), as_expr(9)))
        return tile.While(condition=test, body=(count, *(s for s in self.body(depth - 1, True) if not self.lowers(s))))

    def lowers(self, stmt: tile.Stmt) -> bool:
        """Whether a statement may store to x, on which the end of a `while` depends."""
        return "x = " in render(kernel((), (self.x,), (stmt,))).split("alloc_var", 1)[1]

    def loop(self, depth: int) -> tile.For:
        var = Var("k")
        start = self.rng.choice([as_expr(0), as_expr(2), Binary("%", ROW, as_expr(3)), Binary("%", self.integer(1), as_expr(4))])
        stop = self.rng.choice([as_expr(4), COL, Binary("%", self.integer(1), as_expr(5))])
        self.ints.append(var)
        body = self.body(depth - 1, True)
        self.ints.remove(var)
        return tile.For(var=var, start=start, stop=stop, step=self.rng.choice([1, 1, 2, -1]), kind=LoopKind.SERIAL, body=body)

    def simple(self) -> tile.Stmt:
        pick = self.rng.random()
        if pick < 0.2:
            let = tile.Let(var=Var("y"), value=self.integer())
            self.ints.append(let.var)
            return let
        if pick < 0.35:
            return store(self.x, (), self.integer())
        if pick < 0.5:
            return tile.Store(buffer=self.t, indices=(self.integer(1),), value=self.number())
        if pick < 0.65:
            return store(self.m, (ROW, COL), self.integer())
        return store(self.out, (ROW, COL), self.number())


@pytest.mark.parametrize("seed", range(150))
def test_random_bodies_equal_point_by_point(seed):
    maker, rng = Maker(seed), np.random.default_rng(seed)
    loop = points((ROW, COL), (5, 7), *maker.body(3, False), store(maker.out, (ROW, COL), maker.number()))
    final = buffer("Final", (5, 7), "int32")
    halves = tile.Fill(dst=maker.t.whole(), value=Const(0.5, F32))
    begin = (tile.Fill(dst=maker.m.whole(), value=Const(3)), store(maker.x, (), 1), halves)
    built = kernel(
        (maker.a, maker.n, maker.out, final), (maker.m, maker.x, maker.t),
        (*begin, loop, tile.Copy(src=maker.m.whole(), dst=final.whole())),
    )  # fmt: skip
    verify(built)
    a, n = rng.standard_normal((6, 8)).astype(np.float32), rng.integers(-4, 9, (6, 8)).astype(np.int32)
    out = rng.standard_normal((5, 7)).astype(np.float32)
    expected = {maker.a: a.copy(), maker.n: n.copy(), maker.out: out.copy(), maker.m: np.full((5, 7), 3, np.int32)}
    ends = np.zeros((5, 7), np.int32)
    run(built, [a, n, out, ends])
    with np.errstate(all="ignore"):
        one_by_one(loop, (5, 7), expected, {maker.x: {(): 1}, maker.t: {(k,): np.float32(0.5) for k in range(3)}})
    np.testing.assert_array_equal(out, expected[maker.out], err_msg=render(built))
    np.testing.assert_array_equal(ends, expected[maker.m], err_msg=render(built))


# ---- points that meet ---------------------------------------------------------------------------------------------------------


def attempt(*body: tile.Stmt, extents: tuple[int, ...] = (4, 6), size: int = 24) -> np.ndarray:
    """Runs `body` for all points of (i, j) on one vector x of 0, 1, 2, ..., and returns it."""
    array = np.arange(size, dtype=np.float32)
    built = kernel((X,), (S,), (store(S, (), 0.0), points((ROW, COL)[: len(extents)], extents, *body)))
    verify(built)
    run(built, [array])
    return array


X, S = buffer("x", (24,), "float32"), buffer("s", (), "float32", Scope.VAR)
K = Var("k")


@pytest.mark.parametrize(
    "body",
    [
        store(X, (ROW,), X[ROW] + COL),  # a sum over j without a reduction
        store(X, (ROW,), Cast(COL, F32)),  # different values into one element
        store(X, (ROW,), X[ROW] + 1.0),  # the same value, but read before
        store(X, (ROW * 6 + COL,), X[ROW * 6 + COL + 1]),  # a neighbour that another point writes
        store(X, (23 - ROW * 6 - COL,), X[ROW * 6 + COL]),  # reversal in place
        store(X, (Binary("%", ROW * 6 + COL, as_expr(23)),), Cast(ROW, F32)),  # two of 24 points meet
        serial(K, 2, store(X, (ROW * 6 + COL + K,), Cast(ROW, F32))),  # a loop runs into the neighbour
        store(X, (Cast(X[ROW * 6 + COL], I32) // 2,), Cast(ROW, F32)),  # indices that are read from what is written
    ],
)
def test_points_that_meet_are_a_hazard(body):
    with pytest.raises(HazardError, match=r"TL860.*x") as caught:
        attempt(body)
    assert "T.reduce" in str(caught.value)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (store(X, (ROW * 6 + COL,), X[ROW * 6 + COL] * 2.0), np.arange(24) * 2.0),
        (store(X, (23 - ROW * 6 - COL,), Cast(ROW, F32)), np.repeat([3, 2, 1, 0], 6)),
        (store(X, (COL,), Const(9.0, F32)), [9.0] * 6 + list(range(6, 24))),  # all points agree
        (tile.If(condition=compare("==", COL, 0), then=(store(X, (ROW,), X[ROW] + 1.0),)), [1, 2, 3, 4, *range(4, 24)]),
        (
            tile.If(condition=compare("<", ROW, 2), then=(store(X, (ROW * 6 + COL,), X[ROW * 6 + COL + 12]),)),
            [*range(12, 24), *range(12, 24)],
        ),
        (store(X, (ROW * 6 + COL,), Select(compare(">=", ROW * 6 + COL, 30), X[ROW * 6 + COL - 1], as_expr(1.0))), np.ones(24)),
    ],
)  # fmt: skip
def test_points_that_do_not_meet(body, expected):
    np.testing.assert_array_equal(attempt(body), expected)


def test_proved_accesses_are_not_recorded(monkeypatch):
    """Indices `variable + uniform` need no bookkeeping, and `A[bx * 4 + i, j]` is of this kind."""
    monkeypatch.setattr(reference_expr.Claims, "write", lambda *a: pytest.fail("recorded"))
    monkeypatch.setattr(reference_expr.Claims, "read", lambda *a: pytest.fail("recorded"))
    c, out, bx = buffer("C", (8, 6), "float32"), np.zeros((8, 6), np.float32), Var("bx")
    body = points((ROW, COL), (4, 6), store(c, (bx * 4 + ROW, COL), c[bx * 4 + ROW, COL] + 1.0))
    run(kernel((c,), (), (body,), grid=(tile.GridAxis(bx, 2),)), [out])
    assert (out == 1).all()
    with pytest.raises(pytest.fail.Exception):
        attempt(store(X, (ROW * 6 + COL,), Cast(ROW, F32)))


# ---- shapes of the loop -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extents", [(0, 6), (4, 0), (1, 1), (4, 6)])
def test_boxes_of_any_size(extents):
    array = attempt(store(X, (ROW * 6 + COL,), 7.0), extents=extents)
    assert (array == 7).sum() == extents[0] * extents[1] + (1 if extents != (4, 6) and extents[0] * extents[1] < 8 else 0)


def test_nested_parallel_is_one_box():
    c, out = buffer("C", (4, 6), "int32"), np.zeros((4, 6), np.int32)
    run(kernel((c,), (), (points((ROW,), (4,), points((COL,), (6,), store(c, (ROW, COL), ROW * 10 + COL))),)), [out])
    np.testing.assert_array_equal(out, np.arange(4)[:, None] * 10 + np.arange(6))


def test_nested_parallel_with_other_statements_and_uneven_extents():
    c, out = buffer("C", (4, 6), "int32"), np.zeros((4, 6), np.int32)
    y = Var("y")
    body = points((ROW,), (4,), tile.Let(var=y, value=ROW * 2), points((COL,), (5,), store(c, (ROW, COL), y + COL)))
    run(kernel((c,), (), (body,)), [out])
    np.testing.assert_array_equal(out[:, :5], np.arange(4)[:, None] * 2 + np.arange(5))
    uneven = tile.Parallel(vars=(COL,), extents=(ROW,), body=(store(c, (ROW, COL), 1),))
    with pytest.raises(Unsupported, match="TL371"):
        run(kernel((c,), (), (points((ROW,), (4,), uneven),)), [out])


@pytest.mark.parametrize("leave", [tile.Break, tile.Continue])
@pytest.mark.parametrize("kind", ["for", "for to col", "while"])
def test_points_leave_a_loop_on_their_own(leave, kind):
    """Each point counts the rounds that reach the end of the body, all but those from (or at) round `row`."""
    count, at = buffer("count", (), "int32", Scope.VAR), buffer("at", (), "int32", Scope.VAR)
    c, out, k = buffer("C", (4, 6), "int32"), np.zeros((4, 6), np.int32), Var("k")
    now = at[()] if kind == "while" else k
    out_of = tile.If(condition=compare("==", now, ROW), then=(leave(),), otherwise=(store(count, (), count[()] + 1),))
    body = (out_of, store(count, (), count[()] + 10))
    if kind == "while":
        first = store(at, (), -1)
        loop = tile.While(condition=compare("<", at[()], 4), body=(store(at, (), at[()] + 1), *body))
    else:
        first, loop = store(at, (), 0), serial(k, COL if kind == "for to col" else 5, *body)
    whole = points((ROW, COL), (4, 6), store(count, (), 0), first, loop, store(c, (ROW, COL), count[()]))
    run(kernel((c,), (count, at), (whole,)), [out])
    for row, col in np.ndindex(4, 6):
        trips = col if kind == "for to col" else 5
        reached = min(row, trips) if leave is tile.Break else trips - (row < trips)
        assert out[row, col] == 11 * reached


def test_all_points_leave_at_once():
    k = Var("k")
    array = attempt(serial(k, 5, store(S, (), S[()] + 1.0), tile.Break()), store(X, (ROW * 6 + COL,), S[()]))
    assert (array == 1).all()


def test_stores_outside_are_dropped_point_by_point():
    c, out = buffer("C", (3, 3), "float32"), np.zeros((3, 3), np.float32)
    run(kernel((c,), (), (points((ROW, COL), (5, 5), store(c, (ROW - 1, COL + 1), 1.0)),)), [out])
    np.testing.assert_array_equal(out, [[0, 1, 1]] * 3)


@pytest.mark.parametrize("op", ["copy", "fill", "gemm", "reduce"])
def test_tile_ops_inside_are_refused(op):
    t = buffer("t", (4, 4), "float32", Scope.SHARED)
    made = {
        "copy": tile.Copy(src=t.whole(), dst=t.whole()), "fill": tile.Fill(dst=t.whole(), value=Const(0.0, F32)),
        "gemm": tile.Gemm(a=t.whole(), b=t.whole(), c=t.whole()),
        "reduce": tile.Reduce(kind="sum", src=t.whole(), dst=t.whole(), dim=0),
    }[op]  # fmt: skip
    with pytest.raises(Unsupported, match=f"TL373.*T.{op}"):
        run(kernel((), (t,), (points((ROW,), (2,), made),)), [])


# ---- private buffers ----------------------------------------------------------------------------------------------------------


def test_a_local_array_of_each_point():
    t, k = buffer("t", (4,), "float32", Scope.LOCAL), Var("k")
    total = store(X, (ROW * 6 + COL,), t[as_expr(0)] + t[as_expr(3)])
    array = np.zeros(24, np.float32)
    body = points((ROW, COL), (4, 6), serial(k, 4, store(t, (k,), ROW * 10 + COL + k)), total)
    run(kernel((X,), (t,), (body,)), [array])
    np.testing.assert_array_equal(array, (2 * (np.arange(4)[:, None] * 10 + np.arange(6)) + 3).ravel())


@pytest.mark.parametrize("again", [False, True])
def test_a_variable_after_its_parallel(again):
    """Each thread has its own value: it cannot be read as one, until it is written as one."""
    body = [store(S, (), 0.0), points((ROW,), (4,), store(S, (), ROW))]
    body += [store(S, (), 5.0)] if again else []
    body += [store(X, (0,), S[()])]
    array = np.zeros(24, np.float32)
    if again:
        run(kernel((X,), (S,), tuple(body)), [array])
        assert array[0] == 5
        return
    with pytest.raises(Unsupported, match="TL372"):
        run(kernel((X,), (S,), tuple(body)), [array])


def test_a_variable_used_by_two_parallels():
    array = np.zeros(24, np.float32)
    first, write = points((ROW,), (4,), store(S, (), ROW)), store(S, (), ROW * 2)
    use = store(X, (ROW,), S[()])
    run(kernel((X,), (S,), (first, points((ROW,), (4,), write, use))), [array])
    assert array[:4].tolist() == [0, 2, 4, 6]
    partly = tile.If(condition=compare("<", ROW, 2), then=(write,))
    for body in ((use, write), (partly, use)):
        with pytest.raises(Unsupported, match="TL372"):
            run(kernel((X,), (S,), (first, points((ROW,), (4,), *body))), [array])
    partly = tile.If(condition=compare("<", ROW, 2), then=(write, use))
    run(kernel((X,), (S,), (first, points((ROW,), (4,), partly))), [array])


def test_a_variable_that_is_only_read_is_the_blocks():
    array = attempt(store(X, (ROW * 6 + COL,), S[()] + 3.0))
    assert (array == 3).all()
