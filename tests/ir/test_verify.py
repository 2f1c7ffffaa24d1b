"""Each fact that `verify` checks, by one kernel that breaks it and nothing else."""
from __future__ import annotations

import pytest

from tests.sim.reference_kernels import attention, buffer, gemm, kernel, matmul, points, serial, store
from tests.sim.test_reference import subclasses
from tilelang.errors import InternalError, Span
from tilelang.ir import tile
from tilelang.ir import verify as module
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Binary, Cast, Compare, Const, Load, Reinterpret, Select, Unary, Var, as_expr, compare
from tilelang.ir.types import DType, LoopKind, ReduceKind, Scope
from tilelang.ir.verify import verify

F32, BOOL = DType("float32"), DType("bool")
A, S = buffer("A", (8, 16), "float32"), buffer("S", (8, 16), "float32", Scope.SHARED)
V, R, N = buffer("v", (), "int32", Scope.VAR), buffer("R", (8,), "float32", Scope.FRAGMENT), buffer("N", (8, 16), "int32")
ROW, COL, SCALAR = Var("i"), Var("j"), Var("n")
ZERO, ONE = Const(0), Const(1.0, F32)


def built(*body: tile.Stmt, grid=None) -> tile.Kernel:
    return kernel((A, N, SCALAR), (S, V, R), body, grid)


def test_every_statement_is_checked():
    assert set(module.STATEMENTS) == subclasses(tile.Stmt)


@pytest.mark.parametrize(
    "body",
    [
        (), (tile.Let(var=ROW, value=SCALAR), store(V, (), ROW)),
        (serial(ROW, SCALAR, store(A, (ROW, 0), 1.0), tile.Break()),),
        (points((ROW, COL), (8, 16), tile.If(condition=compare("<", ROW, COL), then=(store(S, (ROW, COL), A[ROW, COL]),))),),
        (points((ROW,), (8,), serial(COL, 4, tile.Continue())),),
        (tile.While(condition=compare("<", V[()], 3), body=(tile.Break(),)),),
        (serial(ROW, 4), serial(ROW, 4)),  # one variable in two scopes, one after the other
        (tile.Copy(src=A[3, :], dst=S[1:2, :]),),
        (tile.Copy(src=Region(A, (ZERO, ZERO), (0, 4)), dst=Region(S, (ZERO, ZERO), (0, 4))),),
        (tile.Copy(src=A[0:SCALAR, :], dst=S.whole()),),  # an extent that is not known may fit
        (tile.Gemm(a=A.whole(), b=S.whole(), c=S[:, 8:16], transpose_b=True, clear_accum=compare("==", SCALAR, 0)),),
        (tile.Reduce(kind=ReduceKind.MAX, src=A.whole(), dst=R.whole(), dim=1),),
        (tile.Reduce(kind=ReduceKind.MAX, src=A.whole(), dst=S[:, 0:1], dim=1),),
        (tile.Fill(dst=A[2:4, :], value=Const(7)),),
    ],
)  # fmt: skip
def test_kernels_that_are_well_formed(body):
    verify(built(*body))


@pytest.mark.parametrize("whole", [matmul(100, 72, 40, transpose_a=True, transpose_b=True), attention(1, 2, 100, 64)])
def test_whole_kernels(whole):
    verify(whole)


LOST = Var("lost")
BAD_STATEMENTS = {
    "lost is not in scope": store(A, (LOST, 0), 1.0),
    "i is bound twice": serial(ROW, 2, serial(ROW, 2)),
    "n is bound twice": tile.Let(var=SCALAR, value=ZERO),
    "v is int32 and its value float32": tile.Let(var=Var("v"), value=ONE),
    "2 variables and 1 extents": tile.Parallel(vars=(ROW, COL), extents=(ZERO,), body=()),
    "one variable is bound twice": points((ROW, ROW), (2, 2)),
    "A has 2 dimensions and 1 indices": tile.Store(buffer=A, indices=(ZERO,), value=ONE),
    "buffer W is not declared": store(buffer("W", (4,), "float32", Scope.SHARED), (0,), 1.0),
    "index 1.0 of A is float32": tile.Store(buffer=A, indices=(ZERO, ONE), value=ONE),
    r"in A\[0, lost\] \+ 1.0: lost is not in scope": store(A, (0, 0), Load(A, (ZERO, LOST)) + 1.0),
    "step of a loop is 0": serial(ROW, 4, step=0),
    "num_stages is -1": tile.For(var=ROW, start=ZERO, stop=ZERO, step=1, kind=LoopKind.PIPELINED, body=(), num_stages=-1),
    "num_stages on a serial loop": tile.For(var=ROW, start=ZERO, stop=ZERO, step=1, kind=LoopKind.SERIAL, body=(), num_stages=2),
    "1.0 is float32 and must be an integer": serial(ROW, ONE),
    "break outside a loop": tile.Break(),
    "continue outside a loop": serial(ROW, 4, points((COL,), (4,), tile.Continue())),
    "a tile op inside a parallel loop": points((ROW,), (4,), tile.Fill(dst=A.whole(), value=ONE)),
    r"two sides of a copy differ: \(8, 16\) and \(16\)": tile.Copy(src=A.whole(), dst=S[0:1, :]),
    r"two sides of a copy differ: \(8, 16\) and \(4, 16\)": tile.Copy(src=A.whole(), dst=S[0:4, :]),
    "A has 1 extents": tile.Fill(dst=Region(A, (ZERO, ZERO), (8,)), value=ONE),
    "an extent is -1": tile.Fill(dst=Region(A, (ZERO, ZERO), (8, -1)), value=ONE),
    r"K of a gemm differ: \(16\) and \(8\)": gemm(A, S, A),
    r"M and N of a gemm differ: \(8, 8\) and \(8, 16\)": gemm(A, S, A, transpose_b=True),
    "a gemm mixes integers and floats": tile.Gemm(a=N.whole(), b=N.whole(), c=A[:, 0:8], transpose_b=True),
    r"R is not a matrix": tile.Gemm(a=R.whole(), b=S.whole(), c=A.whole()),
    r"dimension 2 of 2": tile.Reduce(kind=ReduceKind.SUM, src=A.whole(), dst=R.whole(), dim=2),
    r"keeps and its result differ: \(16\) and \(8\)": tile.Reduce(kind=ReduceKind.SUM, src=A.whole(), dst=R.whole(), dim=0),
    "300 is not in the range of int8": tile.Store(buffer=A, indices=(ZERO, ZERO), value=Const(300, DType("int8"))),
}


@pytest.mark.parametrize("message", BAD_STATEMENTS)
def test_statements_that_are_not(message):
    with pytest.raises(InternalError, match=f"TL920.*{message}"):
        verify(built(BAD_STATEMENTS[message]))


@pytest.mark.parametrize(
    "value",
    [
        Binary("+", ZERO, ONE), Binary("/", ZERO, ZERO), Binary("&", ONE, ONE), Binary("@", ONE, ONE), Compare("<", ZERO, ONE),
        Select(Const(True, BOOL), ZERO, ONE), Unary("~", ONE), Unary("+", ONE), Reinterpret(ONE, DType("int16")),
        Cast(Binary("<<", ONE, ONE), F32),
    ],
)  # fmt: skip
def test_operators_with_operands_of_the_wrong_dtypes(value):
    with pytest.raises(InternalError, match=r"operands of the wrong dtypes: (int32|float32|bool)"):
        verify(built(store(A, (0, 0), value)))


def test_scopes_end():
    with pytest.raises(InternalError, match="i is not in scope"):
        verify(built(serial(ROW, 4), store(V, (), ROW)))
    with pytest.raises(InternalError, match="j is not in scope"):
        verify(built(tile.If(condition=as_expr(True), then=(tile.Let(var=COL, value=ZERO),)), store(V, (), COL)))


def test_facts_of_the_whole_kernel():
    def fails(message: str, **change) -> None:
        grid = (tile.GridAxis(Var("bx"), 4),)
        fields = {"name": "k", "params": (A, SCALAR), "grid": grid, "threads": 32, "buffers": (S,), "body": ()}
        with pytest.raises(InternalError, match=message):
            verify(tile.Kernel(**{**fields, **change}))

    fails("declared twice", buffers=(S, A))
    fails("grid has 0 axes", grid=())
    fails("0 threads", threads=0)
    fails("the parameter S is shared", params=(S,), buffers=())
    fails("the variable v has a shape", buffers=(buffer("v", (2,), "int32", Scope.VAR),))
    fails("lost is not in scope", grid=(tile.GridAxis(Var("bx"), LOST),))
    fails("n is bound twice", grid=(tile.GridAxis(SCALAR, 2),))
    axis = tile.GridAxis(Var("bx"), 4)
    fails("bx is not in scope", grid=(axis,), buffers=(Buffer("t", (axis.var,), F32, Scope.SHARED),))


def test_views_have_the_elements_of_a_declared_buffer():
    def view(shape=(128,), dtype=F32, scope=Scope.SHARED, of=S) -> Buffer:
        return Buffer("w", shape, dtype, scope, None, of)

    def fails(message: str, *buffers: Buffer) -> None:
        with pytest.raises(InternalError, match=message):
            verify(kernel((A,), buffers, ()))

    verify(kernel((A,), (S, view(), view((2, 64)), view((128,), scope=Scope.GLOBAL, of=A)), ()))
    fails("w is a view of S, which is no storage", view())
    fails("w is a view of w, which is no storage", S, view(), view(of=view()))
    fails("w and S, whose elements it has, differ in dtype", S, view(dtype=DType("int32")))
    fails("w and S, whose elements it has, differ in dtype or scope", S, view(scope=Scope.FRAGMENT))
    fails("w has more or fewer elements than S", S, view((127,)))


def test_shapes_may_name_their_own_sizes():
    m = Var("m")
    a = Buffer("A", (m, 4), F32, Scope.GLOBAL)
    body = (serial(ROW, m, store(a, (ROW, 0), 1.0)),)
    verify(kernel((a,), (), body, (tile.GridAxis(Var("bx"), m),)))


def test_a_failure_shows_the_statement_and_its_place():
    span = Span("program.py", 7)
    with pytest.raises(InternalError) as caught:
        verify(built(serial(ROW, 4, tile.Copy(src=A.whole(), dst=S[0:4, :], span=span))))
    assert caught.value.span == span
    assert "note: T.copy(A, S[0:4, :])" in str(caught.value)
