"""Expressions on the machine: widths, wrapping, overflow, rounding, laziness, uniform and per-thread alike."""

from __future__ import annotations

import math
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest

from tests.sim.machine_kernels import TILE, execute, raises, role, value_of
from tilelang.errors import InternalError
from tilelang.ir import device as d
from tilelang.ir import expr as ex
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import THREAD, i32, u32
from tilelang.ir.expr import (
    BOOL,
    FLOAT32,
    INT32,
    UINT32,
    UINT64,
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Reinterpret,
    Select,
    Unary,
)
from tilelang.ir.types import DType, Scope
from tilelang.sim.convert import convert
from tilelang.sim.memory import WINDOW_BASE
from tilelang.sim.values import EVALUATE

HALF, BF16, INT64 = DType("float16"), DType("bfloat16"), DType("int64")


def f32(value: float) -> Const:
    return Const(value, FLOAT32)


def spread(value: int, dtype: DType = INT32) -> Expr:
    """`value` as an expression that is computed per thread."""
    return Const(value, dtype) + Cast(Binary("*", THREAD, i32(0)), dtype)


def both(make: object, *values: int, dtype: DType = INT32) -> tuple[int, int]:
    """The value of `make(*operands)` computed uniformly and per thread (Binary nodes are made without folding)."""
    uniform = value_of(make(*(Const(value, dtype) for value in values)))  # type: ignore[operator]
    threaded = value_of(make(*(spread(value, dtype) for value in values)))  # type: ignore[operator]
    assert (uniform == uniform[0]).all()
    assert (threaded == threaded[0]).all()
    return uniform[0], threaded[0]


def test_every_kind_of_expression_has_a_rule() -> None:
    def leaves(module: ModuleType) -> set[type]:
        kinds = (value for value in vars(module).values() if isinstance(value, type))
        return {kind for kind in kinds if issubclass(kind, Expr) and kind is not Expr and kind.__module__ == module.__name__}

    assert set(EVALUATE) == leaves(ex) | leaves(d)


@pytest.mark.parametrize(
    ("op", "a", "b", "expected"),
    [
        ("+", 5, -7, -2), ("-", 5, 7, -2), ("*", -6, 7, -42), ("//", -7, 2, -4), ("%", -7, 2, 1), ("//", 7, -2, -4),
        ("%", 7, -2, -1), ("<<", 3, 4, 48), (">>", -16, 2, -4), ("&", 12, 10, 8), ("|", 12, 10, 14), ("^", 12, 10, 6),
        ("min", -3, 2, -3), ("max", -3, 2, 2), ("+", 2**31 - 2, 1, 2**31 - 1), ("-", -(2**31) + 1, 1, -(2**31)),
        ("*", 2**15, -(2**16), -(2**31)), ("&", -1, -(2**31), -(2**31)),
    ],
)  # fmt: skip
def test_int32(op: str, a: int, b: int, expected: int) -> None:
    assert both(lambda x, y: Binary(op, x, y), a, b) == (expected, expected)


@pytest.mark.parametrize(
    ("op", "a", "b"), [("+", 2**31 - 1, 1), ("-", -(2**31), 1), ("*", 2**16, 2**15), ("<<", 1, 31), ("//", -(2**31), -1)]
)
@pytest.mark.parametrize("per_thread", [False, True])
def test_int32_overflow_is_reported(op: str, a: int, b: int, per_thread: bool) -> None:
    make = spread if per_thread else i32
    with raises("TL840"):
        value_of(Binary(op, make(a), make(b)))


def test_overflow_in_inactive_threads_does_not_count() -> None:
    big = Binary("*", THREAD, i32(1 << 25))
    chosen = Select(Compare("<", THREAD, i32(64)), big, i32(-1))
    assert value_of(chosen)[63] == 63 << 25
    assert value_of(chosen)[64] == -1
    with raises("TL840"):
        value_of(big)
    guard = Binary("and", Compare("<", THREAD, i32(64)), Compare(">=", big, i32(0)))
    assert value_of(guard).sum() == 64


def test_int64() -> None:
    assert both(lambda x, y: Binary("*", x, y), 2**40, 2**20, dtype=INT64) == (2**60, 2**60)
    for make in (lambda: Const(2**62, INT64), lambda: spread(2**62, INT64)):
        with raises("TL840"):
            value_of(Binary("*", make(), make()))
    with raises("TL840"):
        value_of(Unary("-", spread(-(2**31))))


@pytest.mark.parametrize(
    ("op", "a", "b", "expected"),
    [
        ("+", 2**32 - 1, 1, 0), ("-", 0, 1, 2**32 - 1), ("*", 2**31 + 1, 2, 2), ("*", 2**32 - 1, 2**32 - 1, 1),
        ("<<", 3, 31, 2**31), (">>", 2**31, 31, 1), ("//", 2**32 - 1, 2, 2**31 - 1),
        ("max", 2**31, 1, 2**31), ("^", 2**32 - 1, 1, 2**32 - 2),
    ],
)  # fmt: skip
def test_uint32_wraps(op: str, a: int, b: int, expected: int) -> None:
    assert both(lambda x, y: Binary(op, x, y), a, b, dtype=UINT32) == (expected, expected)
    assert both(lambda x: Unary("~", x), 0, dtype=UINT32) == (2**32 - 1, 2**32 - 1)


def test_uint64_wraps() -> None:
    assert both(lambda x, y: Binary("+", x, y), 2**64 - 1, 2, dtype=UINT64) == (1, 1)
    assert both(lambda x, y: Binary("*", x, y), 2**63 + 1, 3, dtype=UINT64) == ((2**63 + 1) * 3 % 2**64,) * 2


@pytest.mark.parametrize("per_thread", [False, True])
def test_division_by_zero_and_shift_counts(per_thread: bool) -> None:
    make = spread if per_thread else i32
    for op, count in (("//", 0), ("%", 0), ("<<", 32), (">>", -1)):
        with raises("TL841"):
            value_of(Binary(op, make(5), make(count)))
    lazy = Select(Compare("!=", make(0), i32(0)), Binary("//", i32(5), make(0)), i32(9))
    assert (value_of(lazy) == 9).all()


def test_per_thread_select_takes_both_sides() -> None:
    lane = Binary("%", THREAD, i32(32))
    assert list(value_of(Select(Compare("<", lane, i32(2)), lane, -lane))[:4]) == [0, 1, -2, -3]


@pytest.mark.parametrize(("op", "expected"), [("and", [0, 0, 0, 1]), ("or", [0, 1, 1, 1])])
def test_logic(op: str, expected: list[int]) -> None:
    low, high = (Compare("!=", Binary("&", THREAD, i32(bit)), i32(0)) for bit in (1, 2))
    assert list(value_of(Binary(op, low, high))[:4]) == expected
    assert list(value_of(Binary(op, Const(op == "and", BOOL), high))[:4]) == [0, 0, 1, 1]
    assert list(value_of(Unary("not", low))[:2]) == [1, 0]


@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "==", "!="])
def test_comparisons(op: str) -> None:
    expected = [eval(f"{a} {op} 1") for a in range(3)]
    assert list(value_of(Compare(op, THREAD, i32(1)))[:3]) == expected
    assert list(value_of(Compare(op, Cast(THREAD, FLOAT32), f32(1.0)))[:3]) == expected


def test_float32_rounds_after_every_operation() -> None:
    one, tiny = Cast(Binary("*", THREAD, i32(0)), FLOAT32) + 1.0, f32(2.0**-24)
    assert (value_of((one + tiny) + tiny) == 1).all()
    assert (value_of(f32(1.0) + (tiny + tiny)) > 1).all()


@pytest.mark.parametrize("dtype", [HALF, BF16])
def test_narrow_floats_are_computed_in_float32(dtype: DType) -> None:
    """a * b + c rounded to the dtype after each operation, never in between."""
    a, b = Const(1.5, dtype), Cast(Cast(Binary("+", THREAD, i32(250)), FLOAT32), dtype)
    found = value_of(a * b)
    expected = (np.float32(1.5) * np.arange(250, 378).astype(np.float32).astype(dtype.numpy).astype(np.float32)).astype(
        dtype.numpy
    )
    assert found.dtype == dtype.numpy
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    ("value", "expected"), [(2.9, 2), (-2.9, -2), (3e9, 2**31 - 1), (-3e9, -(2**31)), (math.inf, 2**31 - 1), (math.nan, 0)]
)
def test_float_to_int_truncates_and_saturates(value: float, expected: int) -> None:
    assert (value_of(Cast(f32(value), INT32)) == expected).all()
    assert (value_of(Cast(f32(value) + Cast(Binary("*", THREAD, i32(0)), FLOAT32), INT32)) == expected).all()


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [(-1, INT32, UINT32, 2**32 - 1), (2**32 - 1, UINT32, INT32, -1), (-1, INT32, INT64, -1), (-1, INT32, UINT64, 2**64 - 1),
     (2**40 + 5, INT64, INT32, 5), (300, INT32, DType("uint8"), 44), (7, INT32, BOOL, True)],
)  # fmt: skip
def test_int_conversions_are_modulo(value: int, source: DType, target: DType, expected: int) -> None:
    assert both(lambda x: Cast(x, target), value, dtype=source) == (expected, expected)


def test_float_conversions_round_to_even() -> None:
    assert (value_of(Cast(f32(2049.0), HALF)) == 2048).all()
    assert (value_of(Cast(f32(2051.0), HALF)) == 2052).all()
    assert np.isinf(value_of(Cast(f32(70000.0), HALF))).all()
    assert (value_of(Cast(f32(257.0), BF16)) == 256).all()


def test_reinterpret() -> None:
    assert (value_of(Reinterpret(f32(1.0), UINT32)) == 0x3F800000).all()
    assert (value_of(Reinterpret(Cast(THREAD, UINT32) + 0x3F800000, FLOAT32))[:2] == [1.0, np.nextafter(np.float32(1), 2)]).all()
    with raises("TL932", InternalError):
        value_of(Reinterpret(f32(1.0), UINT64))


@pytest.mark.parametrize("dtype", [HALF, BF16])
def test_pack(dtype: DType) -> None:
    low, high = (Cast(Cast(THREAD, FLOAT32) + offset, dtype) for offset in (0.0, 1.0))
    found = value_of(Call("pack", (low, high), UINT32)).view(dtype.numpy).reshape(-1, 2)
    assert np.array_equal(found.astype(int), [[t, t + 1] for t in range(128)])
    uniform = value_of(Call("pack", (Cast(f32(1.0), dtype), Cast(f32(-2.0), dtype)), UINT32))
    assert list(uniform[:1].view(dtype.numpy).astype(int)) == [1, -2]


def test_descriptors() -> None:
    low = Call("descriptor_low", (u32(0x41400), u32(8192)), UINT32)  # bits above 17 of the address do not count
    assert (value_of(low) == (8192 >> 4 << 16 | 0x1400 >> 4)).all()
    word = Call("matrix_descriptor", (low + 2, u32(1024), u32(128)), UINT64)
    assert (value_of(word) == np.uint64(1 << 62 | 64 << 32 | 512 << 16 | 0x142)).all()
    threaded = Call("matrix_descriptor", (low + Cast(THREAD, UINT32), u32(256), u32(32)), UINT64)
    assert (value_of(threaded) == np.uint64(3 << 62 | 16 << 32 | 512 << 16 | 0x140) + np.arange(128, dtype=np.uint64)).all()
    for address, leading in ((8, 16), (16, 8), (16, 1 << 18)):
        with raises("TL822"):
            value_of(Call("descriptor_low", (u32(address), u32(leading)), UINT32))
    for stride, span in ((1024, 48), (8, 128)):
        with raises("TL822"):
            value_of(Call("matrix_descriptor", (low, u32(stride), u32(span)), UINT64))


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "sigmoid", "floor", "ceil", "abs"])
def test_math(name: str) -> None:
    reference = {"rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x))}.get(name) or getattr(np, name)
    argument = Cast(THREAD, FLOAT32) * 0.25 + 0.5
    found = value_of(Call(name, (argument,), FLOAT32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, reference(np.arange(128) * 0.25 + 0.5), rtol=1e-6)


def test_shared_address_is_absolute() -> None:
    assert (value_of(d.SharedAddress(TILE)) == WINDOW_BASE).all()


def test_what_means_nothing() -> None:
    buffer = Buffer("A", (4,), FLOAT32, Scope.GLOBAL)
    for bad, code in (
        (ex.Load(buffer, (i32(0),)), "TL930"),
        (ex.Var("ghost"), "TL931"),
        (Binary("+", i32(1), u32(1)), "TL932"),
        (Binary("pow", i32(1), i32(1)), "TL932"),
        (Call("no_such", (f32(1.0),), FLOAT32), "TL932"),
    ):
        with raises(code, InternalError):
            value_of(bad)


def test_registers_are_defined_before_they_are_read() -> None:
    acc = d.Registers(name="acc", dtype=FLOAT32, shape=(4,))
    declare = d.DeclareRegisters(registers=acc)
    with raises("TL814"):
        value_of(d.RegisterLoad(acc, (i32(0),)), 128, declare)
    half = d.If(condition=THREAD < 64, then=(d.RegisterStore(registers=acc, indices=(i32(0),), value=f32(1.0)),), uniform=False)
    with raises("TL814"):
        value_of(d.RegisterLoad(acc, (i32(0),)), 128, declare, half)
    with raises("TL811"):
        value_of(d.RegisterLoad(acc, (i32(4),)), 128, declare)
    with raises("TL931", InternalError):
        value_of(d.RegisterLoad(acc, (i32(0),)))


def test_a_value_read_from_a_register_does_not_follow_it() -> None:
    acc, old = d.Registers(name="acc", dtype=FLOAT32, shape=(1,)), ex.Var("old", FLOAT32)
    body = (
        d.DeclareRegisters(registers=acc),
        d.RegisterStore(registers=acc, indices=(i32(0),), value=f32(1.0)),
        d.Declare(var=old, value=d.RegisterLoad(acc, (i32(0),))),
        d.RegisterStore(registers=acc, indices=(i32(0),), value=f32(2.0)),
    )
    assert (value_of(old, 128, *body) == 1).all()


def test_stored_values_take_the_register_dtype() -> None:
    acc = d.Registers(name="acc", dtype=BF16, shape=(1,))
    store = d.RegisterStore(registers=acc, indices=(i32(0),), value=f32(257.0))
    found = value_of(d.RegisterLoad(acc, (i32(0),)), 32, d.DeclareRegisters(registers=acc), store)
    assert found.dtype == ml_dtypes.bfloat16
    assert (found == 256).all()


def test_undeclared_shared_array() -> None:
    other = d.SharedArray(name="other", offset_bytes=0, stage_bytes=16, stages=1, swizzle_bytes=0)
    with raises("TL922", InternalError):
        execute(role(d.StoreShared(address=d.SharedAddress(other), values=(u32(0),))))


@pytest.mark.parametrize(("name", "largest"), [("float8_e4m3fn", 448.0), ("float8_e5m2", 57344.0)])
def test_float8_saturates(name: str, largest: float) -> None:
    dtype = DType(name)
    for value in (math.inf, 1e30, largest * 1.2):
        assert (value_of(Cast(f32(value), dtype)).astype(np.float32) == largest).all()
        assert (value_of(Const(-value, dtype)).astype(np.float32) == -largest).all()
    assert (value_of(Binary("/", Const(1.0, dtype), Const(0.0, dtype))).astype(np.float32) == largest).all()
    assert (value_of(Cast(Const(10**6), dtype)).astype(np.float32) == largest).all()
    assert np.isnan(value_of(Cast(f32(math.nan), dtype)).astype(np.float32)).all()


@pytest.mark.parametrize(
    ("source", "number", "target", "wanted"),
    [
        ("float64", 1 + 2.0**-8 + 2.0**-40, "bfloat16", 1 + 2.0**-7), ("float64", 1 + 2.0**-4 + 2.0**-40, "float8_e4m3fn", 1.125),
        ("float64", 1 + 2.0**-11 + 2.0**-40, "float16", 1 + 2.0**-10), ("int32", 2**24 + 2**16 + 1, "bfloat16", 2.0**24 + 2**17),
        ("int64", 2**40 + 2**32 + 1, "bfloat16", 2.0**40 + 2**33), ("uint64", 2**63 + 2**55 + 1, "bfloat16", 2.0**63 + 2**56),
        ("int64", 2**60 + 2**36 + 1, "float32", 2.0**60 + 2**37),
    ],
)  # fmt: skip
def test_wide_numbers_round_once(source: str, number: float, target: str, wanted: float) -> None:
    """Just above the middle of two values, where float32 or float64 on the way would round to it and then down."""
    uniform = np.float64(number) if source == "float64" else number  # one integer for all threads is Python's own
    each = np.full(32, number, DType(source).numpy)
    for value in (uniform, each):
        assert (convert(value, DType(source), DType(target)).astype(np.float64) == wanted).all()
