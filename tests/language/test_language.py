"""The names of the language: what they accept, what they give, what importing them costs."""
# ruff: noqa: F821, F841, PLC2401, RUF001 - kernels are written as their authors would

import importlib
import math
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import tilelang.language as T
import tilelang.language as tl
from tests.conftest import slowness
from tilelang.errors import NameProblem, SyntaxProblem, TileError, TypeProblem, Unsupported
from tilelang.ir import expr, tile
from tilelang.ir.expr import Binary, Call, Cast, Const, Reinterpret, Select, Var
from tilelang.ir.types import DTYPE_NAMES, DType, ReduceKind, Scope, WarpPolicy
from tilelang.language.later import INSTEAD, NAMES

N, X = Var("n"), Var("x", DType("float32"))


# ---- names --------------------------------------------------------------------------------------------------------------------


def test_everything_named_is_there() -> None:
    assert len(T.__all__) == len(set(T.__all__))
    for name in T.__all__:
        assert getattr(T, name) is not None
    assert not NAMES & set(T.__all__)


def test_names_that_come_later_say_so() -> None:
    for name in NAMES:
        with pytest.raises(Unsupported) as caught:
            getattr(T, name)
        assert caught.value.code == "TL301"
        assert f"T.{name}" in caught.value.message
        assert caught.value.hint or "copy" in str(caught.value), "what to write instead, or what there is"


@pytest.mark.parametrize(
    ("name", "said"), [("relu", "T.max(x, 0)"), ("gelu", "T.erf"), ("silu", "T.sigmoid"), ("softmax", "T.reduce_max")]
)
def test_what_people_look_for_is_said_in_the_language(name: str, said: str) -> None:
    with pytest.raises(NameProblem) as caught:
        getattr(T, name)
    assert said in caught.value.hint


def test_what_is_not_there_yet_has_a_way_round_it() -> None:
    for name in INSTEAD:
        with pytest.raises(Unsupported) as caught:
            getattr(T, name)
        assert caught.value.hint == INSTEAD[name]
        assert "there is:" not in str(caught.value)


def test_unknown_names_are_attribute_errors_as_well() -> None:
    assert not hasattr(T, "coppy")
    assert getattr(T, "coppy", None) is None
    with pytest.raises(NameProblem, match="coppy"):
        T.coppy  # noqa: B018
    with pytest.raises(ImportError):
        importlib.import_module("tilelang.language.coppy")


def test_importing_is_quick_and_needs_no_numpy(run_python) -> None:
    program = (
        "import sys, time; t = time.process_time(); import tilelang.language; t = time.process_time() - t;"
        "print(t, *sorted(set(m.partition('.')[0] for m in sys.modules)))"
    )
    seconds, *modules = min((run_python("-c", program).stdout.split() for _ in range(3)), key=lambda words: float(words[0]))
    assert not {"numpy", "ml_dtypes", "torch", "cuda", "rich", "difflib"} & set(modules)
    assert float(seconds) < 0.12 * slowness()  # 0.06 on an idle machine


def test_star_import() -> None:
    names: dict[str, Any] = {}
    exec("from tilelang.language import *", names)
    assert set(T.__all__) <= set(names)


# ---- dtypes -------------------------------------------------------------------------------------------------------------------


def test_dtype_objects_are_their_names() -> None:
    for name in DTYPE_NAMES:
        assert getattr(T, name) == name
        assert T.dtype(name) == name
    aliases = {"half": "float16", "float": "float32", "double": "float64", "int": "int32", "uint": "uint32", "long": "int64"}
    for alias, name in aliases.items():
        assert getattr(T, alias) == name
    assert T.float8_e4m3 == "float8_e4m3fn"


def test_dtype_spellings() -> None:
    import ml_dtypes
    import numpy as np

    class Torch:
        def __str__(self) -> str:
            return "torch.bfloat16"

    spellings = [("float", "float32"), (float, "float32"), (int, "int32"), (bool, "bool"), (Torch(), "bfloat16")]
    spellings += [(np.float16, "float16"), (np.dtype("int8"), "int8"), (np.dtype(ml_dtypes.bfloat16), "bfloat16")]
    for value, name in spellings:
        assert T.dtype(value) == name
    for value in ("half", "fp16", "bf16", "e4m3", "", 3, None, [1]):
        with pytest.raises(TypeProblem):
            T.dtype(value)
    for value in ("int4", "float32x4", "tfloat32"):
        with pytest.raises(Unsupported):
            T.dtype(value)


def test_dtypes_convert() -> None:
    assert T.float32(3) == Const(3, DType("float32"))
    assert T.float16(X) == Cast(X, DType("float16"))
    assert X.astype("int32") == Cast(X, DType("int32"))


# ---- parameters ---------------------------------------------------------------------------------------------------------------


def params(kernel: tile.Kernel) -> list[tuple[Any, ...]]:
    return [(param.name, getattr(param, "shape", None), param.dtype) for param in kernel.params]


def test_forms_of_parameters() -> None:
    M = 4

    @T.prim_func
    def kernel(
        A: T.Tensor((M, 8), T.float16), B: T.Tensor[(M, 8), "bfloat16"], C: T.Tensor[[M], T.int8], D: T.Buffer((2, 3)),
        E: T.Tensor(5, "int32"), F: T.Tensor[M, 8], n: T.int32, s: "float16", flag: T.bool, i: int, f: float, b: bool,
        G: T.Tensor([1], "uint8", scope="global"),
    ):  # fmt: skip
        with T.Kernel(1):
            pass

    assert params(kernel) == [
        ("A", (4, 8), "float16"), ("B", (4, 8), "bfloat16"), ("C", (4,), "int8"), ("D", (2, 3), "float32"), ("E", (5,), "int32"),
        ("F", (4, 8), "float32"), ("n", None, "int32"), ("s", None, "float16"), ("flag", None, "bool"), ("i", None, "int32"),
        ("f", None, "float32"), ("b", None, "bool"), ("G", (1,), "uint8"),
    ]  # fmt: skip


def test_scalars_of_every_dtype_and_defaults() -> None:
    for name in DTYPE_NAMES:

        @T.prim_func
        def kernel(A: T.Tensor((4,), "float32"), n: DType(name), m: T.int32 = 3):
            with T.Kernel(1):
                A[0] = T.cast(n, "float32") + m

        assert params(kernel)[1] == ("n", None, name)


def test_text_annotations(tmp_path: Path) -> None:
    path = tmp_path / "text_annotations.py"
    path.write_text(
        "from __future__ import annotations\nimport tilelang.language as T\n\n"
        "def make(M, dtype):\n"
        "    @T.prim_func\n    def kernel(A: T.Tensor((M, 8), dtype), n: T.int32):\n"
        "        with T.Kernel(M):\n            A[0, 0] = n\n"
        "    return kernel\n"
    )
    import runpy

    assert params(runpy.run_path(str(path))["make"](3, "int8")) == [("A", (3, 8), "int8"), ("n", None, "int32")]


# ---- the launch ---------------------------------------------------------------------------------------------------------------


def launched(*blocks: Any, **options: Any) -> tile.Kernel:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "float32")):
        with T.Kernel(*blocks, **options):
            pass

    return kernel


def test_launches() -> None:
    assert [(axis.var.name, axis.extent) for axis in launched(2, 3, 4).grid] == [("bx", 2), ("by", 3), ("bz", 4)]
    assert launched(1).threads == 128
    for threads, total in ((32, 32), (1024, 1024), ((128,), 128), ((32, 4), 128), ([8, 4, 4], 128), (None, 128)):
        assert launched(1, threads=threads).threads == total
    for threads in (0, -32, 33, 100, 1056, 2048, True, 128.0, (), (1, 2, 3, 4), (64, -2), "128"):
        with pytest.raises(TypeProblem) as caught:
            launched(1, threads=threads)
        assert caught.value.code == "TL215"
    assert launched(1, cluster_dims=1).threads == 128
    assert launched(0).grid[0].extent == 0


def test_one_axis_is_a_bare_variable_or_a_tuple() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32")):
        with T.Kernel(4) as block:
            (x,) = block
            A[block] = x

    @T.prim_func
    def unpacked(A: T.Tensor((4,), "int32")):
        with T.Kernel(4) as (block,):
            A[block] = block

    @T.prim_func
    def together(A: T.Tensor((4,), "int32")):
        with T.Kernel(4, 2) as blocks:
            x, y = blocks
            A[x] = y

    for built in (kernel, unpacked):
        assert built.grid[0].var.name == "block"
        store = built.body[0]
        assert isinstance(store, tile.Store)
        assert store.value is built.grid[0].var
    assert [axis.var.name for axis in together.grid] == ["bx", "by"]


def test_use_swizzle() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32"), enable: T.int32):
        with T.Kernel(4):
            T.use_swizzle(8)

    @T.prim_func
    def off(A: T.Tensor((4,), "int32")):
        with T.Kernel(4):
            T.use_swizzle(panel_size=8, enable=False)

    assert (kernel.swizzle_panel, off.swizzle_panel) == (8, 0)


# ---- tiles --------------------------------------------------------------------------------------------------------------------


def test_allocations() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1):
            s = T.alloc_shared((64, 64), "float16", scope="shared")
            f = T.alloc_fragment([64], T.float32)
            t = T.alloc_local(8, "int8")
            v = T.alloc_var(T.int64, 5)
            w = T.alloc_var("float32", init=2.5)
            a, b = T.alloc_shared((4,), "int8"), T.alloc_shared((5,), "int8")
            ring = [T.alloc_shared((6,), "int8") for _ in range(2)]
            T.clear(T.alloc_fragment((7,), "int8"))

    found = [(buffer.name, buffer.shape, buffer.dtype, buffer.scope) for buffer in kernel.buffers]
    assert found == [
        ("s", (64, 64), "float16", Scope.SHARED), ("f", (64,), "float32", Scope.FRAGMENT), ("t", (8,), "int8", Scope.LOCAL),
        ("v", (), "int64", Scope.VAR), ("w", (), "float32", Scope.VAR), ("a", (4,), "int8", Scope.SHARED),
        ("b", (5,), "int8", Scope.SHARED), ("ring", (6,), "int8", Scope.SHARED), ("ring_1", (6,), "int8", Scope.SHARED),
        ("fragment", (7,), "int8", Scope.FRAGMENT),
    ]  # fmt: skip
    inits = [statement.value for statement in kernel.body if isinstance(statement, tile.Store)]
    assert inits == [Const(5, DType("int64")), Const(2.5, DType("float32"))]


def test_copies() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((1, 64, 64), "float16"), B: T.Tensor((256, 64), "float32")):
        with T.Kernel(4) as bx:
            s = T.alloc_shared((64, 64), "float16")
            T.copy(A, s, coalesced_width=8, disable_tma=True, eviction_policy="evict_first")
            T.copy(A, s, prefer_instruction="tma", loop_layout=None)
            T.copy(s[:, 0:32], B[bx * 64, 32])
            T.copy(s, B[bx * 64 : (bx + 1) * 64, :])
            T.copy(s[-64, 0], B[-1, -1])
            T.copy(A[0, ...], s)

    copies = [statement for statement in kernel.body if isinstance(statement, tile.Copy)]
    assert [(copy.src.extents, copy.dst.extents) for copy in copies] == [
        ((1, 64, 64), (64, 64)), ((1, 64, 64), (64, 64)), ((64, 32), (64, 32)), ((64, 64), (64, 64)),
        ((1, 1), (1, 1)), ((1, 64, 64), (64, 64)),
    ]  # fmt: skip
    assert copies[4].dst.base == (Const(255), Const(63))
    assert copies[4].src.base == (Const(0), Const(0))


def test_block_dependent_slices_of_tensors_may_hang_over() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((100, 64), "float16")):
        with T.Kernel(2) as bx:
            s = T.alloc_shared((64, 64), "float16")
            row = bx * 64
            T.copy(A[row : bx * 64 + 64, :], s)
            T.copy(A[row, 0], s)

    copies = [statement for statement in kernel.body if isinstance(statement, tile.Copy)]
    assert [copy.src.extents for copy in copies] == [(64, 64), (64, 64)]


def test_guarded_indices_are_the_author_s_business() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((100,), "float16")):
        with T.Kernel(1):
            s = T.alloc_shared((64,), "float16")
            T.clear(s)
            for i in T.serial(100):
                if i < 64:
                    s[i] = 0
            for i in T.serial(100):
                if i >= 64:
                    break
                s[i] = 1
            for i in T.Parallel(100):
                A[i] = T.if_then_else(i < 64, s[i], 0)

    assert len(kernel.body) == 4


def test_gemm_options() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float16"), n: T.int32):
        with T.Kernel(1):
            a = T.alloc_shared((2, 32, 64), "float16")
            b = T.alloc_shared((128, 32), "float16")
            c = T.alloc_fragment((64, 128), "float32")
            T.clear(a)
            T.clear(b)
            T.clear(c)
            T.gemm(a[n, :, :], b, c, True, True, T.GemmWarpPolicy.FullCol, n == 0, k_pack=1)
            T.gemm(a[0, :, :], b, c, transpose_A=True, transpose_B=True, clear_accum=True)

    first, second = (statement for statement in kernel.body if isinstance(statement, tile.Gemm))
    assert (first.transpose_a, first.transpose_b, first.policy) == (True, True, WarpPolicy.FULL_COL)
    assert first.clear_accum == expr.compare("==", kernel.params[1], 0)  # type: ignore[arg-type]
    assert first.a.extents == (1, 32, 64)
    assert second.clear_accum is True
    assert second.policy is WarpPolicy.SQUARE


@pytest.mark.parametrize(
    ("operand", "accumulator", "fits"),
    [
        ("float16", "float32", True), ("float16", "float16", True), ("bfloat16", "float32", True),
        ("bfloat16", "bfloat16", False),
        ("float32", "float32", True), ("float64", "float64", True), ("int8", "int32", True), ("uint8", "int32", True),
        ("int8", "float32", False), ("float16", "int32", False), ("float8_e4m3fn", "float32", True),
        ("bool", "int32", False),
    ],
)  # fmt: skip
def test_gemm_dtypes(operand: str, accumulator: str, fits: bool) -> None:
    def build() -> None:
        @T.prim_func
        def kernel(A: T.Tensor((64, 64), "float16")):
            with T.Kernel(1):
                a = T.alloc_shared((64, 64), operand)
                c = T.alloc_fragment((64, 64), accumulator)
                T.clear(a)
                T.clear(c)
                T.gemm(a, a, c)

    if fits:
        build()
    else:
        with pytest.raises(TypeProblem) as caught:
            build()
        assert caught.value.code == "TL211"


def test_mixed_float8_operands() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1):
            a = T.alloc_shared((64, 64), "float8_e4m3fn")
            b = T.alloc_shared((64, 64), "float8_e5m2")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(a)
            T.clear(b)
            T.gemm(a, b, c, clear_accum=True)

    assert isinstance(kernel.body[2], tile.Gemm)


def test_reductions() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1):
            a = T.alloc_fragment((64, 32), "float32")
            rows = T.alloc_fragment((64,), "float32")
            kept = T.alloc_shared((64, 1), "float32")
            columns = T.alloc_fragment((32,), "float16")
            one = T.alloc_fragment((1,), "float32")
            T.clear(a)
            T.reduce_max(a, rows, dim=1, clear=True)
            T.reduce_min(a, kept)
            T.reduce_sum(a, columns, 0)
            T.reduce_abssum(a, rows, dim=-1, clear=False)
            T.reduce_absmax(rows, one, batch=2)

    reduces = [statement for statement in kernel.body if isinstance(statement, tile.Reduce)]
    assert [(reduce.kind, reduce.dim, reduce.clear, reduce.dst.extents) for reduce in reduces] == [
        (ReduceKind.MAX, 1, True, (64,)), (ReduceKind.MIN, 1, True, (64, 1)), (ReduceKind.SUM, 0, True, (32,)),
        (ReduceKind.ABSSUM, 1, False, (64,)), (ReduceKind.ABSMAX, 0, True, (1,)),
    ]  # fmt: skip


def test_a_tile_nobody_wrote_warns_at_its_line() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        @T.prim_func
        def kernel(A: T.Tensor((64, 64), "float16")):
            with T.Kernel(1):
                a = T.alloc_shared((64, 64), "float16")
                c = T.alloc_fragment((64, 64), "float32")
                T.copy(A, a)
                T.gemm(a, a, c)

    (warning,) = caught
    assert warning.filename == __file__
    assert kernel.body[1].span is not None
    assert warning.lineno == kernel.body[1].span.line
    assert str(warning.message).startswith("c is read here")


# ---- scalars ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "sigmoid", "floor", "ceil", "abs"])
def test_functions_of_one_number(name: str) -> None:
    function = getattr(T, name)
    assert function(X) == Call(name, (X,), X.dtype)
    half = Var("h", DType("float16"))
    assert function(half).dtype == "float16"
    if name in ("floor", "ceil"):
        assert function(N) is N
    elif name == "abs":
        assert function(N) == Call("abs", (N,), N.dtype)
        unsigned = Var("u", DType("uint8"))
        assert function(unsigned) is unsigned
    else:
        assert function(N) == Call(name, (Cast(N, X.dtype),), X.dtype)
        assert function(2) == Call(name, (Const(2.0, X.dtype),), X.dtype)


def test_functions_of_two_numbers() -> None:
    assert T.max(3, 4) == 4
    assert T.min(3, 4.5) == 3
    assert T.max(N, 4) == Binary("max", N, Const(4))
    assert T.min(0.5, X) == Binary("min", Const(0.5, X.dtype), X)
    assert T.max(N, X).dtype == "float32"  # type: ignore[union-attr]
    assert T.clamp(X, 0, 1) == Binary("min", Binary("max", X, Const(0.0, X.dtype)), Const(1.0, X.dtype))
    assert T.clamp(7, 0, 5) == 5
    assert T.pow(X, 2) == Binary("pow", X, Const(2.0, X.dtype))
    assert T.shift_left(N, 3) == Binary("<<", N, Const(3))
    assert T.bitwise_and(N, 7) == Binary("&", N, Const(7))
    assert T.floordiv(N, 2) == Binary("//", N, Const(2))
    assert T.floormod(N, 2) == Binary("%", N, Const(2))
    assert (T.floordiv(-7, 2), T.floormod(-7, 2)) == (-4, 1)


def test_conversions() -> None:
    assert T.cast(X, "float16") == Cast(X, DType("float16"))
    assert T.cast(X, T.float32) is X
    assert T.Cast("float16", X) == Cast(X, DType("float16"))
    assert T.reinterpret(X, "int32") == Reinterpret(X, DType("int32"))
    assert T.reinterpret(N, "int32") is N
    assert T.infinity("float16") == Const(math.inf, DType("float16"))
    assert -T.infinity(T.float32) == Const(-math.inf, DType("float32"))
    assert isinstance(T.if_then_else(N > 3, X, 0), Select)
    assert T.if_then_else(True, 2, X) == Const(2)


def test_ceildiv_is_right_for_any_signs() -> None:
    assert T.cdiv is T.ceildiv
    for a in range(-9, 10):
        for b in [*range(-4, 0), *range(1, 5)]:
            expected = math.ceil(a / b)
            assert T.ceildiv(a, b) == expected
            for built in (T.ceildiv(N, b), T.ceildiv(N, Var("m"))):
                assert _evaluate(built, {"n": a, "m": b}) == expected
    assert isinstance(T.ceildiv(7, 2), int)
    unsigned = Var("n", DType("uint32"))
    assert _evaluate(T.ceildiv(unsigned, 4), {"n": 9}) == 3


def _evaluate(node: Any, env: dict[str, int]) -> int:
    match node:
        case Const(value=value):
            return int(value)
        case Var(name=name):
            return env[name]
        case expr.Unary(op="-", value=value):
            return -_evaluate(value, env)
        case Binary(op=op, a=a, b=b):
            left, right = _evaluate(a, env), _evaluate(b, env)
            return {"+": left + right, "-": left - right}.get(op, left // right if op == "//" else 0)
    raise AssertionError(node)


# ---- odd things ---------------------------------------------------------------------------------------------------------------


def test_decorators_on_several_lines() -> None:
    @T.prim_func(
        eager_jit=False,
    )
    def kernel(
        A: T.Tensor(
            (4,),
            "int32",
        ),
    ):
        """A kernel with a docstring."""
        with T.Kernel(
            4,
        ) as bx:
            A[bx] = 1

    assert len(kernel.body) == 1
    assert kernel.name == "kernel"


def test_closures_over_loop_variables() -> None:
    kernels = []
    for value in range(3):

        @T.prim_func
        def kernel(A: T.Tensor((value + 1,), "int32")):
            with T.Kernel(1):
                A[0] = value  # noqa: B023 - it runs at once

        kernels.append(kernel)
    assert [kernel.params[0].shape for kernel in kernels] == [(1,), (2,), (3,)]  # type: ignore[union-attr]
    assert [kernel.body[0].value for kernel in kernels] == [Const(0), Const(1), Const(2)]  # type: ignore[attr-defined]


def test_two_kernels_of_one_name_in_a_file() -> None:
    def first() -> tile.Kernel:
        @T.prim_func
        def kernel(A: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                A[0] = 1

        return kernel

    def second() -> tile.Kernel:
        @T.prim_func
        def kernel(A: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                A[0] = 2

        return kernel

    assert [kernel.body[0].value for kernel in (first(), second(), first())] == [Const(1), Const(2), Const(1)]  # type: ignore[attr-defined]


def test_another_alias_and_plain_names(tmp_path: Path) -> None:
    @tl.prim_func
    def kernel(A: tl.Tensor((4,), tl.int32)):
        with tl.Kernel(1):
            for i in tl.serial(4):
                A[i] = tl.max(i, 2)

    assert len(kernel.body) == 1
    path = tmp_path / "plain.py"
    path.write_text(
        "from tilelang.language import *\n\n@prim_func\ndef kernel(A: Tensor((4,), int32)):\n"
        "    with Kernel(2) as bx:\n        tile = alloc_shared((4,), int32)\n        copy(A, tile)\n        copy(tile, A)\n"
    )
    import runpy

    assert len(runpy.run_path(str(path))["kernel"].body) == 2


def test_unicode_and_long_names() -> None:
    long = "x" * 300

    @T.prim_func
    def kernel(α: T.Tensor((4,), "float32"), ñandú: T.float32):
        with T.Kernel(4) as блок:
            плитка = T.alloc_shared((4,), "float32")
            плитка[блок] = ñandú
            α[блок] = плитка[блок]

    assert [param.name for param in kernel.params] == ["α", "ñandú"]
    assert kernel.buffers[0].name == "плитка"
    source = f"import tilelang.language as T\n\n@T.prim_func\ndef {long}({long}_1: T.int32):\n"
    source += "    with T.Kernel(1):\n        pass\n"
    import linecache

    linecache.cache["<long>"] = (len(source), None, source.splitlines(keepends=True), "<long>")
    space: dict[str, Any] = {}
    exec(compile(source, "<long>", "exec"), space)
    assert space[long].name == long


def test_source_made_by_exec_is_refused_clearly() -> None:
    source = "@T.prim_func\ndef kernel(A: T.Tensor((4,), 'int32')):\n    with T.Kernel(1):\n        pass\n"
    with pytest.raises(SyntaxProblem) as caught:
        exec(source, {"T": T})
    assert caught.value.code == "TL106"
    assert "exec" in caught.value.message


def test_a_file_changed_after_its_import_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "changing.py"
    text = (
        "import tilelang.language as T\n\ndef make():\n    @T.prim_func\n    def kernel(A: T.Tensor((4,), 'int32')):\n"
        "        with T.Kernel(1):\n            pass\n    return kernel\n"
    )
    path.write_text(text)
    import runpy

    make = runpy.run_path(str(path))["make"]
    path.write_text("# a new first line\n" + text)
    with pytest.raises(SyntaxProblem) as caught:
        make()
    assert caught.value.code == "TL106"


def test_a_kernel_made_in_a_method_and_a_class_body() -> None:
    class Factory:
        size = 4

        def make(self) -> tile.Kernel:
            @T.prim_func
            def kernel(A: T.Tensor((self.size,), "int32")):
                with T.Kernel(self.size) as bx:
                    A[bx] = self.size

            return kernel

        @T.prim_func
        def inside(A: T.Tensor((size,), "int32")):
            with T.Kernel(1):
                A[0] = 1

    assert Factory().make().grid[0].extent == 4
    assert Factory.inside.name == "inside"


def test_errors_leave_the_next_kernel_alone() -> None:
    def wrong() -> None:
        @T.prim_func
        def kernel(A: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                for i in T.serial(4):
                    A[i, i] = 0

    for _ in range(2):
        with pytest.raises(TileError):
            wrong()
    assert len(launched(1).body) == 0


def test_a_kernel_inside_a_kernel() -> None:
    @T.prim_func
    def outer(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):

            @T.prim_func
            def inner(B: T.Tensor((4,), "int32")):
                with T.Kernel(2):
                    B[0] = 2

            A[0] = len(inner.body)

    assert outer.body[0].value == Const(1)  # type: ignore[attr-defined]


def test_building_is_quick() -> None:
    def build(count: int) -> tile.Kernel:
        @T.prim_func
        def kernel(A: T.Tensor((4096,), "float32")):
            with T.Kernel(1) as bx:
                for i in list(range(count)):
                    A[bx + i] = A[bx + i] * 2 + i

        return kernel

    build(1)
    start = time.process_time()
    assert len(build(1000).body) == 1000
    assert time.process_time() - start < 2 * slowness()
