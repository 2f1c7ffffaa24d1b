"""Words of the language by reference and by machine: what they compute, and that both agree."""
# ruff: noqa: F841 - kernels are written as their authors would

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import SyntaxProblem
from tilelang.ir import tile
from tilelang.ir.expr import Const
from tilelang.ir.types import DType
from tilelang.passes.pipeline import compile_kernel
from tilelang.sim import machine, reference
from tilelang.target import SM_90A

Argument = np.ndarray | int | float


def run(kernel: tile.Kernel, *arguments: Argument, close: float = 0) -> None:
    """Runs the kernel by reference, in place, after making sure that the machine agrees (up to a relative error)."""
    copies = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
    given = dict(zip(kernel.params, copies, strict=True))
    tensors = {param: value for param, value in given.items() if isinstance(value, np.ndarray)}
    scalars = {param: value for param, value in given.items() if not isinstance(value, np.ndarray)}
    machine.run(compile_kernel(kernel, SM_90A).device, tensors, scalars=scalars)
    reference.run(kernel, arguments)
    for expected, found in zip(arguments, copies, strict=True):
        if isinstance(expected, np.ndarray):
            np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=close, atol=close)


def elementwise(fn: Callable[[Any], Any], dtype: str, result: str) -> tile.Kernel:
    @T.prim_func
    def kernel(A: T.Tensor((128,), dtype), B: T.Tensor((128,), result)):
        with T.Kernel(1, threads=128) as bx:
            for i in T.Parallel(128):
                B[i] = fn(A[i])

    return kernel


def numbers(dtype: str) -> np.ndarray:
    """128 numbers of both signs, halves and zeros among them."""
    values = np.random.default_rng(5).normal(size=128) * 4
    values[:8] = (0.5, 1.5, -2.5, -0.5, 0, -0.0, 3, -7)
    return values.astype(DType(dtype).numpy)


FUNCTIONS = {
    "sin": np.sin, "cos": np.cos, "erf": np.vectorize(math.erf), "round": np.rint, "nearbyint": np.rint, "trunc": np.trunc,
    "fabs": np.abs,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one_number(name: str, dtype: str) -> None:
    data, result = numbers(dtype), np.zeros(128, DType(dtype).numpy)
    close = {"float32": 1e-6, "float16": 2e-3, "bfloat16": 1e-2}[dtype]
    run(elementwise(getattr(T, name), dtype, dtype), data, result, close=close)
    expected = FUNCTIONS[name](data.astype(np.float64)).astype(result.dtype)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn", "int32"])
@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
def test_kinds_of_numbers(name: str, dtype: str) -> None:
    values = np.arange(128, dtype=np.float64)
    if dtype != "int32":
        values[:3] = np.nan, np.inf, -np.inf
    data, result = values.astype(DType(dtype).numpy), np.zeros(128, bool)
    run(elementwise(getattr(T, name), dtype, "bool"), data, result)
    np.testing.assert_array_equal(result, getattr(np, name)(data.astype(np.float64)))
    assert result.any() == (name == "isfinite" or (dtype != "int32" and (name, dtype) != ("isinf", "float8_e4m3fn")))


def test_kinds_of_constants_are_known() -> None:
    assert T.isnan(math.nan) == Const(True, DType("bool"))
    assert T.isinf(-math.inf) == Const(True, DType("bool"))
    assert T.isfinite(1.5) == Const(True, DType("bool"))
    assert T.isnan(3) == Const(False, DType("bool"))
    assert T.round(T.int32(3)) == Const(3)


def test_other_spellings() -> None:
    assert T.Unroll is T.unroll
    assert T.Vectorized is T.vectorized
    kernel = elementwise(lambda v: T.Select(v > 0, v, T.bitwise_not(v)), "int32", "int32")
    data, result = np.arange(-64, 64, dtype=np.int32), np.zeros(128, np.int32)
    run(kernel, data, result)
    np.testing.assert_array_equal(result, np.where(data > 0, data, ~data))


# ---- T.grid -------------------------------------------------------------------------------------------------------------------


def test_a_grid_is_loops_inside_each_other() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, 8), "int32"), B: T.Tensor((2,), "int32"), n: T.int32):
        with T.Kernel(1) as bx:
            total = T.alloc_var("int32")
            for i, j in T.grid(4, n):
                if i == j:
                    continue
                total = total * 3 + A[i, j]
            B[0] = total
            for at in T.grid(2, 2, 2):
                total += at[0] * 4 + at[1] * 2 + at[2]
            for (k,) in T.grid(3):
                if k == 2:
                    break
                total += 100
            B[1] = total

    loops = [stmt for stmt in kernel.body if isinstance(stmt, tile.For)]
    assert [loop.var.name for loop in loops] == ["i", "at0", "k"]
    data, result = np.random.default_rng(1).integers(-2, 3, (4, 8)).astype(np.int32), np.zeros(2, np.int32)
    run(kernel, data, result, 5)
    total = 0
    for i in range(4):
        for j in range(5):
            total = total if i == j else total * 3 + int(data[i, j])
    assert list(result) == [total, total + 28 + 200]


def test_a_break_of_several_loops_is_refused() -> None:
    with pytest.raises(SyntaxProblem, match=r"TL107.*T\.grid"):

        @T.prim_func
        def kernel(A: T.Tensor((4, 8), "int32"), n: T.int32):
            with T.Kernel(1) as bx:
                for i, j in T.grid(4, 8):
                    if A[i, j] == n:
                        break


# ---- scalars and copies of every dtype ----------------------------------------------------------------------------------------

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32"]


@pytest.mark.parametrize("dtype", [*DTYPES, "float64"])
def test_scalar_parameters(dtype: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((128,), "float32"), s: dtype):
        with T.Kernel(1) as bx:
            for i in T.Parallel(128):
                A[i] = A[i] + T.cast(s, "float32")

    value = 1.5 if DType(dtype).is_float else 1
    data = np.arange(128, dtype=np.float32)
    run(kernel, data, value)
    np.testing.assert_array_equal(data, np.arange(128) + value)


@pytest.mark.parametrize("dtype", [*DTYPES, "float8_e4m3fn"])
def test_tiles_of_every_dtype(dtype: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((256,), dtype), B: T.Tensor((256,), dtype)):
        with T.Kernel(1) as bx:
            shared = T.alloc_shared((256,), dtype)
            own = T.alloc_fragment((256,), dtype)
            T.copy(A, shared)
            T.copy(shared, own)
            T.copy(own, B)

    kind = DType(dtype).numpy
    data, result = np.random.default_rng(2).integers(0, 2, 256).astype(kind), np.zeros(256, kind)
    run(kernel, data, result)
    np.testing.assert_array_equal(result, data)


# ---- control flow -------------------------------------------------------------------------------------------------------------


def test_branches_and_loops_around_tiles() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, 128), "float32"), n: T.int32):
        with T.Kernel(4) as bx:
            own = T.alloc_fragment((128,), "float32")
            k = T.alloc_var("int32", 0)
            T.copy(A[bx, 0], own)
            if bx == 0:
                while k < n:
                    k += 1
                    if k == 2:
                        continue
                    if k == 5:
                        break
                    for i in T.Parallel(128):
                        own[i] = own[i] * 2 + k
            elif bx == n % 4:
                T.clear(own)
            else:
                for i in T.Parallel(128):
                    own[i] += 1 if n > 3 else 2
            T.copy(own, A[bx, 0])

    data = np.random.default_rng(3).integers(-4, 5, (4, 128)).astype(np.float32)
    before = data.copy()
    run(kernel, data, 7)
    np.testing.assert_array_equal(data[0], ((before[0] * 2 + 1) * 2 + 3) * 2 + 4)
    np.testing.assert_array_equal(data[1:], np.stack([before[1] + 1, before[2] + 1, np.zeros(128)]))


def test_what_each_point_has_for_itself() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((128, 8), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1) as bx:
            for i in T.Parallel(128):
                total = T.alloc_var("float32", 0)
                mine = T.alloc_local((8,), "float32")
                for k in T.serial(8):
                    mine[k] = A[i, k] * 2
                for k in T.unroll(8):
                    if mine[k] > 0:
                        total += mine[k]
                B[i] = total

    data, result = np.random.default_rng(4).integers(-4, 5, (128, 8)).astype(np.float32), np.zeros(128, np.float32)
    run(kernel, data, result)
    np.testing.assert_array_equal(result, (data * 2 * (data > 0)).sum(1))
