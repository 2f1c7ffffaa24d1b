"""Rewriting, text to text.  Each golden file holds the source, then what it becomes."""
from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tilelang.errors import SyntaxProblem
from tilelang.frontend.rewrite import rewrite_function, rewritten_text

SOURCES = {
    "gemm": '''
def kernel(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C=None):
    """What it does."""
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), "float16")
        C_local = T.alloc_fragment((block_M, block_N), "float")
        T.clear(C_local)
        for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, ko * block_K], A_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * block_M, bx * block_N])
''',
    "assignments": '''
def kernel(A, obj):
    x = 1
    x = y = A[0]
    a, b = b, a
    (a, [c, *d]), A[0] = obj
    x: T.int32 = 3
    z: T.int32
    x += 1
    A[i, j] *= x
    A[i, 2:3, ::2] = x
    A[i][j] = x
''',
    "branches": '''
def kernel(A, n):
    if n > 3:
        A[0] = 1
    elif n == 2:
        A[0] = 2
    else:
        A[0] = 3
    if n:
        pass
''',
    "loops": '''
def kernel(A, n):
    for i in range(n):
        A[i] = 0
    for i, j in T.Parallel(4, 4):
        continue
    for i, (a, b) in enumerate(pairs):
        break
    for i in range(0, n, step=2):
        "a text on its own"
    while n > 0 and A[0] == 1:
        n -= 1
    return
''',
    "expressions": '''
def kernel(A, n, flag):
    T.fill(A, 1 if n == 2 else 0)
    T.fill(A, flag and n or not A)
    T.fill(A, 0 <= n < 4 != flag)
    T.fill(A, n in (1, 2) and n not in A)
    T.fill(A, [x == n for x in A if x != 3])
    T.fill(A, (lambda n, k=2: n == k)(n))
    T.fill(A, n is None)
    T.fill(A, f"{n == 1}")
''',
    "names": '''
def kernel(A, n):
    with T.Kernel(4) as bx, open(n) as f:
        live = 1
        for i in T.serial(n):
            inner = live + i
            T.fill(A, inner)
        T.fill(A, inner + i + live)
        if n:
            side = 1
        T.fill(A, [side for side in A])
        T.fill(A, side)
        inner = 2
        T.fill(A, inner)
''',
    "nested": '''
def kernel(A, n):
    @T.macro
    def untouched(x):
        if x == 1:
            A[0] = 1

    def helper(x):
        y = x == 1
        return y and n

    assert helper(n), "text"
    assert n
    untouched(1)
''',
}


@pytest.mark.parametrize("name", SOURCES)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    source = SOURCES[name].lstrip("\n")
    golden(f"{name}.txt", f"{source}\n# becomes\n\n{rewritten_text(source)}")


def test_rewriting_keeps_no_state() -> None:
    assert rewritten_text(SOURCES["loops"].lstrip()) == rewritten_text(SOURCES["loops"].lstrip())


@pytest.mark.parametrize("name", SOURCES)
def test_every_node_keeps_a_place_of_the_source(name: str) -> None:
    source = SOURCES[name].lstrip("\n")
    tree = rewrite_function(ast.parse(source).body[0], "kernel.py")  # type: ignore[arg-type]
    lines = source.count("\n") + 1
    for node in ast.walk(tree):
        if "lineno" in node._attributes:
            assert 1 <= node.lineno <= lines  # type: ignore[attr-defined]
            assert node.end_lineno is not None  # type: ignore[attr-defined]
    compile(ast.Module([tree], []), "kernel.py", "exec")


def test_statements_carry_their_own_lines() -> None:
    source = "def kernel(A):\n    x = 1\n\n    if x:\n        T.fill(A,\n               x)\n"
    tree = rewrite_function(ast.parse(source).body[0], "kernel.py")  # type: ignore[arg-type]
    places = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "at"]
    spans = sorted(tuple(argument.value for argument in place.args[:4]) for place in places)  # type: ignore[attr-defined]
    assert spans == [(2, 4, 2, 9), (4, 4, 4, 8), (5, 8, 6, 17)]


@pytest.mark.parametrize(
    "statement",
    [
        "try:\n        pass\n    finally:\n        pass",
        "raise ValueError",
        "global x",
        "nonlocal_ = 1\n    del nonlocal_",
        "class C: pass",
        "import os",
        "from os import path",
        "match 1:\n        case _: pass",
        "async def f(): pass",
        "for i in x:\n        pass\n    else:\n        pass",
        "while x:\n        pass\n    else:\n        pass",
        "x = (y := 1)",
        "x = (yield)",
        "x = yield from y",
        "x.y = 1",
        "x.y += 1",
        "for x.y in z: pass",
        "with x as y.z: pass",
        "x, y.z = 1, 2",
    ],
)
def test_statements_off_the_list_are_refused(statement: str) -> None:
    source = f"def kernel(x):\n    pass\n    {statement}\n"
    with pytest.raises(SyntaxProblem) as caught:
        rewritten_text(source, "kernel.py")
    assert caught.value.code == "TL101"
    assert caught.value.span is not None
    assert caught.value.span.line >= 3
    assert caught.value.hint


def test_unparsed_result_is_python_again() -> None:
    for source in SOURCES.values():
        ast.parse(rewritten_text(source.lstrip("\n")))
