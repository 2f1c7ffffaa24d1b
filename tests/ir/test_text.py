"""Tile IR as text: golden lines, precedence, names, and the text as a program that makes the same kernel again."""
from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path

import pytest

from tests.conftest import RunPython
from tests.sim.reference_kernels import attention, buffer, gemm, kernel, matmul, points, serial, store
from tests.sim.test_reference import subclasses
from tilelang.errors import TypeProblem
from tilelang.ir import device, text, tile
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Binary, Call, Cast, Compare, Const, Expr, Reinterpret, Select, Unary, Var, as_expr, compare
from tilelang.ir.text import render, render_expr, render_region, render_statement
from tilelang.ir.types import DType, LoopKind, ReduceKind, Scope, WarpPolicy

F16, F32, I64 = DType("float16"), DType("float32"), DType("int64")
I, J, H = Var("i"), Var("j"), Var("h", F16)  # noqa: E741
X, B = Var("x", F32), Var("flag", DType("bool"))

MATMUL = '''\
@T.prim_func
def kernel(A: T.Tensor((256, 96), "float16"), B: T.Tensor((96, 128), "float16"), C: T.Tensor((256, 128), "float16")):
    with T.Kernel(1, 2, threads=128) as (bx, by):
        A_shared = T.alloc_shared((128, 64), "float16")
        B_shared = T.alloc_shared((64, 128), "float16")
        C_local = T.alloc_fragment((128, 128), "float32")
        T.clear(C_local)
        for ko in T.Pipelined(2, num_stages=3):
            T.copy(A[by * 128 : by * 128 + 128, ko * 64 : ko * 64 + 64], A_shared)
            T.copy(B[ko * 64 : ko * 64 + 64, bx * 128 : bx * 128 + 128], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * 128 : by * 128 + 128, bx * 128 : bx * 128 + 128])
'''


def test_every_node_has_a_text():
    assert set(text.STATEMENTS) == subclasses(tile.Stmt)
    assert set(text.EXPRESSIONS) == subclasses(Expr)


def test_printing_a_kernel_or_an_element_shows_its_text():
    made = matmul(256, 128, 96)
    assert str(made) == render(made)
    assert str(Var("i") * 2 + 1) == "i * 2 + 1"


def test_calling_what_is_not_compiled_says_what_to_do():
    with pytest.raises(TypeProblem, match="has to be compiled before it is called") as caught:
        matmul(256, 128, 96)(1, 2)
    assert caught.value.hint.startswith("kernel = tilelang.compile(")


def test_a_matmul():
    assert render(matmul(256, 128, 96)) == MATMUL


@pytest.mark.parametrize(
    ("expr", "wanted"),
    [
        ((I + J) * 2, "(i + j) * 2"), (I + J * 2, "i + j * 2"), (I - (J - 1), "i - (j - 1)"), (I - J - 1, "i - j - 1"),
        (I // (J * 2), "i // (j * 2)"), (I * J // 2, "i * j // 2"), (-I * 2, "-i * 2"), (-(I * 2), "-(i * 2)"),
        (Unary("-", -I), "--i"),
        (~(I & 3), "~(i & 3)"), (Compare("==", I & 3, as_expr(0)), "i & 3 == 0"), (I | J & 1, "i | j & 1"),
        ((I | J) & 1, "(i | j) & 1"), (I << 2 + J, "i << 2 + j"), ((I << 2) + J, "(i << 2) + j"),
        (Binary("and", compare("<", I, 3), Binary("or", B, compare(">", J, 0))), "i < 3 and (flag or j > 0)"),
        (Unary("not", Binary("and", B, B)), "not (flag and flag)"), (Binary("and", Unary("not", B), B), "not flag and flag"),
        (Compare("==", Compare("<", I, J), B), "(i < j) == flag"), (Binary("min", I, J + 1), "T.min(i, j + 1)"),
        (Binary("max", X, Const(0.0, F32)), "T.max(x, 0.0)"), (Binary("pow", X, X) * 2, "T.pow(x, x) * 2.0"),
        (Select(B, X, Const(-math.inf, F32)), 'T.if_then_else(flag, x, -T.infinity("float32"))'),
        (Cast(I + 1, F32) * X, 'T.cast(i + 1, "float32") * x'), (Reinterpret(X, DType("int32")), 'T.reinterpret(x, "int32")'),
        (Call("exp2", (X - 1.0,), F32), "T.exp2(x - 1.0)"), (I - Const(-3), "i - -3"), (Const(-3) - I, "-3 - i"),
        (Unary("-", Const(3)), "-(3)"), (Const(-3) * I, "-3 * i"),
    ],
)  # fmt: skip
def test_parentheses_only_where_they_are_needed(expr, wanted):
    assert render_expr(expr) == wanted


@pytest.mark.parametrize(
    ("expr", "wanted"),
    [
        (Const(3), "3"), (Const(2.0, F32), "2.0"), (Const(True, DType("bool")), "True"), (Const(3, I64), "T.int64(3)"),
        (Const(1.5, F16), "T.float16(1.5)"), (H * 1.5, "h * 1.5"),
        (Const(1.5, F16) + Const(1.0, F16), "T.float16(1.5) + T.float16(1.0)"),
        (Cast(I, I64) + Const(1, I64), 'T.cast(i, "int64") + 1'), (Const(math.inf, F16), 'T.infinity("float16")'),
        (Const(math.nan, F32), 'T.cast(float("nan"), "float32")'), (Const(-0.0, F32), "-0.0"), (Const(0.1, F32), "0.1"),
    ],
)  # fmt: skip
def test_constants_show_a_dtype_where_the_place_does_not(expr, wanted):
    assert render_expr(expr) == wanted


@pytest.mark.parametrize(
    ("region", "wanted"),
    [
        (lambda a: a.whole(), "A"), (lambda a: a[1], "A[1, :, :]"), (lambda a: a[I, 2:4, 0:9], "A[i, 2:4, 0:9]"),
        (lambda a: a[0:4, :, I : I + 1], "A[:, :, i]"),
        (lambda a: Region(a, (I, J, I), (1, 1, 1)), "A[i : i + 1, j : j + 1, i : i + 1]"),
        (lambda a: a[0:J, 3 : I + 3, 2:4], "A[0:j, 3 : i + 3, 2:4]"), (lambda a: a[I:J, 0, 0], "A[i:j, 0, 0]"),
    ],
)  # fmt: skip
def test_regions(region, wanted):
    assert render_region(region(buffer("A", (4, 8, 16), "float32"))) == wanted


A, S, V = buffer("A", (8, 8), "float32"), buffer("S", (8,), "float16", Scope.SHARED), buffer("n", (), "int32", Scope.VAR)


@pytest.mark.parametrize(
    ("stmt", "wanted"),
    [
        (tile.Let(var=Var("y"), value=I + 1), "y = i + 1"),
        (store(A, (I, J), A[I, J] * 2.0), "A[i, j] = A[i, j] * 2.0"),
        (store(S, (I,), 1.5), "S[i] = 1.5"),
        (store(V, (), V[()] + 1), "n = n + 1"),
        (serial(I, 4, tile.Continue()), "for i in range(4):\n    continue"),
        (serial(I, 4, start=1), "for i in range(1, 4):\n    pass"),
        (serial(I, 0, tile.Break(), start=9, step=-2), "for i in range(9, 0, -2):\n    break"),
        (
            tile.For(var=I, start=J, stop=as_expr(8), step=2, kind=LoopKind.UNROLL, body=(tile.Break(),)),
            "for i in T.unroll(j, 8, 2):\n    break",
        ),
        (
            tile.For(var=I, start=as_expr(0), stop=as_expr(8), step=1, kind=LoopKind.VECTORIZED, body=()),
            "for i in T.vectorized(8):\n    pass",
        ),
        (
            tile.For(var=I, start=as_expr(2), stop=J, step=1, kind=LoopKind.PIPELINED, num_stages=2, body=()),
            "for i in T.Pipelined(2, j, num_stages=2):\n    pass",
        ),
        (points((I, J), (4, 8), store(A, (I, J), 0.0)), "for i, j in T.Parallel(4, 8):\n    A[i, j] = 0.0"),
        (tile.While(condition=compare("<", V[()], 3), body=(store(V, (), 3),)), "while n < 3:\n    n = 3"),
        (
            tile.If(
                condition=B, then=(tile.Break(),), otherwise=(
                    tile.If(condition=compare("<", I, 1), then=(tile.Continue(),), otherwise=(store(V, (), 1), store(V, (), 2))),
                ),
            ),
            "if flag:\n    break\nelif i < 1:\n    continue\nelse:\n    n = 1\n    n = 2",
        ),
        (tile.Fill(dst=A.whole(), value=Const(0.0, F32)), "T.clear(A)"),
        (tile.Fill(dst=A.whole(), value=Const(-0.0, F32)), "T.fill(A, -0.0)"),
        (tile.Fill(dst=A[0:4, :], value=X), "T.fill(A[0:4, :], x)"),
        (tile.Copy(src=A[I, :], dst=S.whole()), "T.copy(A[i, :], S)"),
        (gemm(A, A, A), "T.gemm(A, A, A)"),
        (
            gemm(A, A, A, transpose_a=True, transpose_b=True, clear_accum=True, policy=WarpPolicy.FULL_ROW),
            "T.gemm(A, A, A, transpose_A=True, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)",
        ),
        (gemm(A, A, A, clear_accum=compare("==", I, 0)), "T.gemm(A, A, A, clear_accum=i == 0)"),
        (tile.Reduce(kind=ReduceKind.ABSMAX, src=A.whole(), dst=S.whole(), dim=1), "T.reduce_absmax(A, S, dim=1)"),
        (
            tile.Reduce(kind=ReduceKind.MIN, src=A.whole(), dst=S.whole(), dim=0, clear=False),
            "T.reduce_min(A, S, dim=0, clear=False)",
        ),
    ],
)  # fmt: skip
def test_statements(stmt, wanted):
    assert render_statement(stmt) == wanted


def test_names_that_collide_are_told_apart():
    first, second, third = Var("k"), Var("k"), Var("k_1")
    a, b = buffer("k", (4,), "int32"), buffer("T", (4,), "int32")
    body = (serial(first, 4, serial(second, 4, serial(third, 2, store(a, (first,), second + third)))), store(b, (1,), 0))
    lines = render(kernel((a, b), (), body)).splitlines()
    assert lines[1] == 'def kernel(k: T.Tensor((4,), "int32"), T_1: T.Tensor((4,), "int32")):'
    assert [line.strip() for line in lines[3:]] == [
        "for k_1 in range(4):", "for k_2 in range(4):", "for k_1_1 in range(2):", "k[k_1] = k_2 + k_1_1", "T_1[1] = 0",
    ]  # fmt: skip


def test_a_name_is_free_again_after_its_scope():
    y, z = Var("y"), Var("y")
    first = serial(Var("i"), 2, tile.Let(var=y, value=as_expr(1)), store(V, (), y))
    second = points((Var("i"),), (2,), tile.Let(var=z, value=as_expr(2)), store(V, (), z))
    assert render(kernel((), (V,), (first, second))).split("as bx:\n")[1] == (
        '        n = T.alloc_var("int32")\n        for i in range(2):\n            y = 1\n            n = y\n'
        "        for i in T.Parallel(2):\n            y = 2\n            n = y\n"
    )


def test_a_kernel_with_everything_in_its_head():
    n = Var("n")
    a, w = Buffer("A", (n, 4), F32, Scope.GLOBAL), buffer("w", (4,), "int8", Scope.GLOBAL)
    buffers = (buffer("x", (), "int32", Scope.VAR), buffer("t", (3,), "float32", Scope.LOCAL), w)
    params, grid = (a, n, Var("s", F32)), (tile.GridAxis(Var("bx"), n),)
    built = tile.Kernel(name="f", params=params, grid=grid, threads=64, buffers=buffers, body=(), swizzle_panel=8)
    assert render(built) == (
        '@T.prim_func\ndef f(A: T.Tensor((n, 4), "float32"), n: T.int32, s: T.float32):\n'
        '    with T.Kernel(n, threads=64) as bx:\n        x = T.alloc_var("int32")\n        t = T.alloc_local((3,), "float32")\n'
        '        w = T.alloc_global((4,), "int8")\n        T.use_swizzle(8)\n'
    )


def test_an_empty_kernel_passes():
    assert render(kernel((), (), ())).splitlines()[-1] == "        pass"


def program(tmp_path: Path, source: str) -> tile.Kernel:
    """The kernel that a text makes when it is run as a program."""
    path = tmp_path / "program.py"
    path.write_text(f"import tilelang.language as T\n\n{source}")
    spec = importlib.util.spec_from_file_location("program", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules.pop("program", None)
    spec.loader.exec_module(module)
    return module.kernel


@pytest.mark.parametrize(
    "built",
    [
        matmul(256, 128, 96), matmul(100, 72, 40, (64, 32, 16), transpose_a=True, transpose_b=True),
        matmul(64, 64, 64, (64, 64, 64), "bfloat16", out="float32"), attention(1, 2, 256, 64), attention(2, 3, 100, 32, 32, 64),
    ],
    ids=range(5),
)  # fmt: skip
def test_the_text_is_a_program_for_the_same_kernel(tmp_path, built):
    source = render(built)
    assert render(program(tmp_path, source)) == source


def test_the_text_is_the_same_in_every_process(run_python: RunPython):
    imports = "from tests.sim.reference_kernels import attention; from tilelang.ir.text import render"
    code = f"{imports}; print(render(attention(1, 2, 256, 64)))"
    texts = {run_python("-c", code, PYTHONHASHSEED=seed).stdout for seed in ("0", "7")}
    assert texts == {render(attention(1, 2, 256, 64)) + "\n"}


def test_a_leaf_of_device_ir_does_not_break_a_message():
    array = device.SharedArray(name="s", offset_bytes=0, stage_bytes=1, stages=1, swizzle_bytes=0)
    assert render_expr(device.SharedAddress(array)) == "<SharedAddress>"
