"""The arithmetic of the storage types against oracles that share no code with it."""
from __future__ import annotations

import bisect
import functools
import math
import operator
from collections.abc import Callable

import numpy as np
import pytest

from tilelang.errors import InternalError, Unsupported
from tilelang.ir.types import DTYPE_NAMES, DType
from tilelang.sim import reference_values as values

F32, F64 = DType("float32"), DType("float64")
NARROW = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


# ---- conversions --------------------------------------------------------------------------------------------------------------


def every_value(name: str) -> np.ndarray:
    """All bit patterns of an 8- or 16-bit float dtype."""
    dtype = DType(name)
    return np.arange(2**dtype.bits, dtype=f"uint{dtype.bits}").view(dtype.numpy)


@functools.cache
def magnitudes(name: str) -> list[float]:
    """The finite values of a float dtype that are not negative, ascending: the index is the bit pattern."""
    sizes = np.unique(np.abs(every_value(name).astype(np.float64)))
    return sizes[np.isfinite(sizes)].tolist()


def nearest(value: float, name: str) -> float:
    """The value of the dtype that is nearest to `value`, ties to the even pattern; past them all infinity, float8 saturates."""
    grid, size = magnitudes(name), abs(value)
    largest = grid[-1]
    if size >= largest + (largest - grid[-2]) / 2:
        return math.copysign(largest if "float8" in name else math.inf, value)
    if size >= largest:
        return math.copysign(largest, value)
    at = bisect.bisect_right(grid, size)
    below, above = size - grid[at - 1], grid[at] - size
    chosen = at - 1 if below < above or (below == above and (at - 1) % 2 == 0) else at
    return math.copysign(grid[chosen], value)


def hard_values(name: str, count: int = 300) -> np.ndarray:
    """float64 numbers at, and just beside, the midpoints between neighbours of a narrow float."""
    rng = np.random.default_rng(len(name))
    grid = np.array(magnitudes(name))
    at = np.append(rng.integers(0, len(grid) - 1, count), [0, 1, len(grid) - 2])
    middle = (grid[at] + grid[at + 1]) / 2
    beside = [middle * (1 + 2.0**-45), middle * (1 - 2.0**-45)]
    near = np.concatenate([middle, *beside, grid[at], [grid[-1] * 4, 1e300, 1e-300, math.inf]])
    return np.concatenate([near, -near])


@pytest.mark.parametrize("name", NARROW)
def test_float64_rounds_once_to_nearest_even(name):
    given = hard_values(name)
    got = values.convert(given, F64, DType(name)).astype(np.float64)
    wanted = np.array([nearest(value, name) for value in given])
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


@pytest.mark.parametrize("name", NARROW)
def test_float32_rounds_to_nearest_even(name):
    given = hard_values(name).astype(np.float32)
    got = values.convert(given, F32, DType(name)).astype(np.float64)
    np.testing.assert_array_equal(got, [nearest(float(value), name) for value in given])


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("source", INTS)
def test_integers_round_once_to_narrow_floats(name, source):
    low, high = DType(source).limits
    rng = np.random.default_rng(1)
    numbers = {low, high, 0, 1, 127, 449, 465, 65519, 65520} | {2**p + d for p in range(8, 64) for d in (-1, 0, 1)}
    numbers |= {2**24 + 2**16 + 1, 2**40 + 2**32 + 1, 2**62 + 2**54 + 1, -(2**62 + 2**54 + 1)}
    numbers |= {int(x) for x in rng.integers(-(2**62), 2**62, 50)}
    chosen = sorted(n for n in numbers if low <= n <= high)
    got = values.convert(np.array(chosen, DType(source).numpy), DType(source), DType(name)).astype(np.float64)
    for number, result in zip(chosen, got, strict=True):
        wanted = nearest(float(number), name) if abs(number) < 2**53 else nearest_of_integer(number, name)
        assert result == wanted, (number, source)


def nearest_of_integer(number: int, name: str) -> float:
    """`nearest` for an integer of more than 53 bits, in integer arithmetic."""
    grid = magnitudes(name)
    if abs(number) >= grid[-1]:
        return math.copysign(grid[-1] if "float8" in name else math.inf, number)
    at = bisect.bisect_right(grid, abs(number))
    below, above = abs(number) - int(grid[at - 1]), int(grid[at]) - abs(number)
    chosen = at - 1 if below < above or (below == above and (at - 1) % 2 == 0) else at
    return math.copysign(grid[chosen], number)


@pytest.mark.parametrize("name", NARROW)
def test_widening_is_exact(name):
    every = every_value(name)
    for wide in (F32, F64):
        back = values.convert(values.convert(every, DType(name), wide), wide, DType(name))
        finite = np.isfinite(every.astype(np.float32))
        np.testing.assert_array_equal(back.view(f"uint{DType(name).bits}")[finite], every.view(f"uint{DType(name).bits}")[finite])
        assert np.isnan(back.astype(np.float32)[np.isnan(every.astype(np.float32))]).all()


@pytest.mark.parametrize("target", INTS)
@pytest.mark.parametrize("source", ["float32", "float64", *NARROW])
def test_float_to_integer_truncates_and_saturates(source, target):
    low, high = DType(target).limits
    picks = [0.0, -0.0, 0.5, -0.5, 0.999, 1.5, -1.5, 2.5, 126.9, 127.0, 128.0, -128.0, -128.9, -129.0, 255.9, 256.0]
    picks += [32768.0, -32769.0]
    picks += [2.0**31, 2.0**31 - 1, -(2.0**31), 2.0**32, 2.0**63, -(2.0**63), 2.0**64, 1e30, -1e30, math.inf, -math.inf, math.nan]
    given = values.convert(np.array(picks), F64, DType(source))
    wanted = []
    for value in given.astype(np.float64):
        number = 0 if math.isnan(value) else (high if value > 0 else low) if math.isinf(value) else int(value)
        wanted.append(min(max(number, low), high))
    got = values.convert(given, DType(source), DType(target))
    assert got.dtype == DType(target).numpy
    assert [int(x) for x in got] == wanted


@pytest.mark.parametrize("source", INTS)
@pytest.mark.parametrize("target", INTS)
def test_integer_to_integer_wraps(source, target):
    low, high = DType(source).limits
    given = [low, low + 1, high, high - 1, 0, 1, high // 3, low // 3]
    got = values.convert(np.array(given, DType(source).numpy), DType(source), DType(target))
    assert [int(x) for x in got] == [wrapped(number, target) for number in given]


def wrapped(number: int, name: str) -> int:
    low, _ = DType(name).limits
    return (number - low) % 2 ** DType(name).bits + low


@pytest.mark.parametrize("name", [name for name in DTYPE_NAMES if name != "bool"])
def test_to_bool_is_not_zero(name):
    given = np.array([0, 1, 2]).astype(DType(name).numpy)
    assert values.convert(given, DType(name), values.BOOL).tolist() == [False, True, True]
    assert values.convert(np.array([False, True]), values.BOOL, DType(name)).astype(np.float64).tolist() == [0.0, 1.0]


def test_reinterpret_keeps_bits():
    bits = values.reinterpret(np.array([1.0, -0.0], np.float32), DType("uint32"))
    assert [hex(x) for x in bits] == ["0x3f800000", "0x80000000"]
    assert values.reinterpret(np.float32(1.0), DType("int32")) == 0x3F800000
    assert values.reinterpret(np.uint16(0x3F80), DType("bfloat16")) == 1.0


@pytest.mark.parametrize("name", DTYPE_NAMES)
def test_constants_and_uninitialised(name):
    dtype = DType(name)
    assert values.constant(1, dtype) == 1
    assert values.constant(1, dtype).dtype == dtype.numpy
    fresh = values.uninitialised((2, 3), dtype)
    assert (fresh.shape, fresh.dtype) == ((2, 3), dtype.numpy)
    if dtype.is_float:
        assert np.isnan(fresh.astype(np.float64)).all()
    elif dtype.is_int:
        assert fresh.tobytes() == b"\x5a" * fresh.nbytes


def test_constants_of_integers_wrap():
    assert values.constant(-1, DType("uint32")) == 2**32 - 1
    assert values.constant(200, DType("int8")) == -56


# ---- operators ----------------------------------------------------------------------------------------------------------------

PAIRS8 = [(a, b) for a in range(-128, 128) for b in range(-128, 128)]


def shift(op: Callable[[int, int], int], lost: Callable[[int], int]) -> Callable[[int, int], int]:
    return lambda a, b: op(a, b) if 0 <= b < 8 else lost(a)


ORACLE8: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "min": min, "max": max, "//": lambda a, b: a // b if b else 0, "%": lambda a, b: a % b if b else 0,
    "<<": shift(operator.lshift, lambda a: 0), ">>": shift(operator.rshift, lambda a: -1 if a < 0 else 0),
    "pow": lambda a, b: a**b if b >= 0 else (1 if b % 2 == 0 else a) if a in (1, -1) else 0,
}  # fmt: skip


@pytest.mark.parametrize("op", ORACLE8)
def test_int8_operators_on_all_pairs(op):
    pairs = PAIRS8 if op != "pow" else [(a, b) for a, b in PAIRS8 if abs(b) <= 9]
    a, b = (np.array(side, np.int8) for side in zip(*pairs, strict=True))
    got = values.binary(op, a, b, DType("int8"))
    assert got.dtype == np.int8
    assert got.tolist() == [wrapped(ORACLE8[op](x, y), "int8") for x, y in pairs]


@pytest.mark.parametrize("name", ["uint8", "uint32", "int32", "int64", "uint64"])
@pytest.mark.parametrize("op", ["+", "-", "*", "//", "%", "&", "|", "^", "min", "max"])
def test_wide_integers_wrap(op, name):
    low, high = DType(name).limits
    picks = [low, low + 1, high, high - 1, 0, 1, 7, high // 3]
    for a in picks:
        for b in picks:
            scalars = (values.constant(a, DType(name)), values.constant(b, DType(name)))
            assert int(values.binary(op, *scalars, DType(name))) == wrapped(ORACLE8[op](a, b), name), (a, b)


def test_shifts_of_wide_types():
    one, big = np.uint32(1), np.uint32(2**31)
    assert values.binary("<<", one, np.uint32(31), DType("uint32")) == 2**31
    assert values.binary("<<", one, np.uint32(32), DType("uint32")) == 0
    assert values.binary(">>", big, np.uint32(31), DType("uint32")) == 1
    assert values.binary(">>", big, np.uint32(32), DType("uint32")) == 0


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("op", ["+", "-", "*", "/"])
def test_narrow_floats_compute_in_float32_and_round(op, name):
    every = every_value(name)
    finite = every[np.isfinite(every.astype(np.float32))]
    rng = np.random.default_rng(3)
    a, b = rng.choice(finite, 2000), rng.choice(finite, 2000)
    got = values.binary(op, a, b, DType(name)).astype(np.float64)
    exact = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[op](a.astype(np.float32), b.astype(np.float32))
    wanted = np.array([x if math.isnan(x) else nearest(float(x), name) for x in exact])
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_division_and_remainder_are_pythons(name):
    for a in (7.5, -7.5, 0.0, 6.0):
        for b in (2.0, -2.0, 0.5, -4.0):
            pair = (values.constant(a, DType(name)), values.constant(b, DType(name)))
            assert values.binary("//", *pair, DType(name)) == a // b
            assert values.binary("%", *pair, DType(name)) == a % b


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_max_and_min_of_special_values(name):
    dtype = DType(name)
    nan, inf = math.nan, math.inf
    table = [  # a, b, max, min
        (1.0, 2.0, 2.0, 1.0), (nan, 2.0, 2.0, 2.0), (-1.0, nan, -1.0, -1.0), (nan, nan, nan, nan),
        (0.0, -0.0, 0.0, -0.0), (-0.0, 0.0, 0.0, -0.0), (-0.0, -0.0, -0.0, -0.0), (inf, -inf, inf, -inf), (-inf, nan, -inf, -inf),
    ]  # fmt: skip
    a, b, high, low = (values.convert(np.array(column), F64, dtype) for column in zip(*table, strict=True))
    for op, wanted in (("max", high), ("min", low)):
        got = values.binary(op, a, b, dtype).astype(np.float64)
        np.testing.assert_array_equal(got, wanted.astype(np.float64))
        number = ~np.isnan(got)
        np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(wanted.astype(np.float64)[number]))


def test_comparisons_with_nan():
    nan, one = np.float32(math.nan), np.float32(1)
    assert [bool(values.compare(op, nan, one, F32)) for op in ("<", "<=", ">", ">=", "==", "!=")] == [False] * 5 + [True]


def test_bool_arithmetic_is_that_of_integers():
    f, t = np.bool_(False), np.bool_(True)
    assert bool(values.binary("+", t, t, values.BOOL)) is True
    assert bool(values.binary("-", t, t, values.BOOL)) is False
    assert [bool(values.binary("^", a, b, values.BOOL)) for a, b in ((f, t), (t, t))] == [True, False]
    assert bool(values.unary("~", t, values.BOOL)) is False
    assert bool(values.unary("-", t, values.BOOL)) is True


def test_unary():
    assert values.unary("-", np.int8(-128), DType("int8")) == -128
    assert values.unary("~", np.uint8(1), DType("uint8")) == 254
    assert np.signbit(values.unary("-", np.float16(0.0), DType("float16")))


@pytest.mark.parametrize(
    ("fn", "exact"),
    [
        ("exp", math.exp), ("exp2", math.exp2), ("log", math.log), ("log2", math.log2), ("sqrt", math.sqrt), ("tanh", math.tanh),
        ("rsqrt", lambda x: 1 / math.sqrt(x)), ("sigmoid", lambda x: 1 / (1 + math.exp(-x))), ("floor", math.floor),
        ("ceil", math.ceil), ("abs", abs),
    ],
)  # fmt: skip
def test_math_functions(fn, exact):
    x = np.concatenate([np.linspace(0.01, 9.0, 500), [1.0, 2.0, 4.0, 1e-30, 80.0]]).astype(np.float32)
    got = values.call(fn, [(x, F32)], F32)
    wanted = np.array([exact(float(v)) for v in x], np.float64).astype(np.float32)
    assert got.dtype == np.float32
    assert (np.abs(got.view(np.int32).astype(np.int64) - wanted.view(np.int32)) <= 1).all()


def test_math_functions_of_special_values():
    def of(fn: str, x: float) -> float:
        return float(values.call(fn, [(np.float32(x), F32)], F32))

    assert math.isnan(of("log", -1.0))
    assert of("log", 0.0) == -math.inf
    assert of("rsqrt", 0.0) == math.inf
    assert of("exp2", -math.inf) == 0.0
    assert of("exp", 1000.0) == math.inf
    assert (of("sigmoid", -math.inf), of("sigmoid", math.inf)) == (0.0, 1.0)
    assert of("floor", -0.5) == -1.0
    assert of("tanh", -math.inf) == -1.0


def test_math_of_integers_and_unknown_functions():
    assert values.call("abs", [(np.int8(-128), DType("int8"))], DType("int8")) == -128
    assert values.call("floor", [(np.int32(7), DType("int32"))], DType("int32")) == 7
    with pytest.raises(Unsupported, match="TL370") as caught:
        values.call("lgamma", [(np.float32(1), F32)], F32)
    assert "exp2" in str(caught.value)
    with pytest.raises(InternalError):
        values.binary("/", np.int32(1), np.int32(2), DType("int32"))
