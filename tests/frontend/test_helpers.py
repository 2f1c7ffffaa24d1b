"""Plain functions that a kernel calls, however it gets hold of them, mean what the kernel's own expressions would."""
# ruff: noqa: F841, PLC3002, PLW0108, PLW0603, RUF015 - kernels and helpers are written as their authors would

import functools
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tilelang.language as T
from tilelang.errors import SyntaxProblem
from tilelang.ir.text import render_statement
from tilelang.ir.tile import Kernel

calls = 0


def is_zero(x: Any) -> Any:
    return x == 0


def through_another(x: Any) -> Any:
    return is_zero(x)


def counted(x: Any) -> Any:
    global calls
    calls += 1
    return through_another(x)


def chosen(x: Any, *, by: Any = is_zero) -> Any:
    return 1 if by(x) else 2


def numbers(x: Any) -> Iterator[Any]:
    for i in range(3):
        if i != 1:
            yield i + (1 if x == i else 2)


def named_on_the_way(x: Any) -> Any:
    return (y := x == 0) if x is not None else (y := None)


def again(n: int, x: Any) -> Any:
    return again(n - 1, x) if n != 0 else x == 9


@functools.lru_cache
def remembered(x: Any) -> Any:
    return x == 4


class Base:
    __bias = 5

    def __init__(self, k: int) -> None:
        self.k = k

    def method(self, x: Any) -> Any:
        return x + self.__bias if x == self.k else 0

    def __call__(self, x: Any) -> Any:
        return self.method(x)

    @staticmethod
    def static(x: Any) -> Any:
        return x == 1

    @classmethod
    def of_the_class(cls, x: Any) -> Any:
        return cls.static(x)


class Derived(Base):
    def method(self, x: Any) -> Any:
        return super().method(x) * 2


module = types.SimpleNamespace(is_zero=is_zero, counted=counted, chosen=chosen, numbers=numbers)
lambdas = lambda x: x == 5, lambda x: (lambda y: y == 6)(x), lambda x: x != 7
table = {"zero": lambda x: x == 0, "plus": operator.add}
partial = functools.partial(lambda a, b: a == b, 7)
thing = Derived(3)


def applied(fn: Callable[[Any], Any], x: Any) -> Any:
    return fn(x)


def value_of(fn: Callable[[Any], Any]) -> str:
    """The text of what `fn` gives for a value of the kernel."""

    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(1):
            A[0] = fn(n)

    return text_of(kernel)


def text_of(kernel: Kernel) -> str:
    return render_statement(kernel.body[0]).removeprefix("A[0] = ")


ZERO = "T.if_then_else(n == 0, 1, 2)"
CASES = {
    "an attribute": (lambda n: module.is_zero(n), "n == 0"),
    "one that calls another": (lambda n: through_another(n), "n == 0"),
    "one that changes a global": (lambda n: module.counted(n), "n == 0"),
    "a default": (lambda n: module.chosen(n), ZERO),
    "an argument": (lambda n: module.chosen(n, by=lambdas[0]), "T.if_then_else(n == 5, 1, 2)"),
    "a generator": (lambda n: list(module.numbers(n))[1], "2 + T.if_then_else(n == 2, 1, 2)"),
    "named on the way": (named_on_the_way, "n == 0"),
    "recursion": (lambda n: again(2, n), "n == 9"),
    "a cache": (lambda n: remembered(n), "n == 4"),
    "a method": (lambda n: thing.method(n), "T.if_then_else(n == 3, n + 5, 0) * 2"),
    "an object": (lambda n: thing(n), "T.if_then_else(n == 3, n + 5, 0) * 2"),
    "a static method": (lambda n: Base.static(n), "n == 1"),
    "a class method": (lambda n: Derived.of_the_class(n), "n == 1"),
    "a lambda of several": (lambda n: lambdas[0](n), "n == 5"),
    "a lambda in a lambda": (lambda n: lambdas[1](n), "n == 6"),
    "the last lambda": (lambda n: lambdas[2](n), "n != 7"),
    "a table": (lambda n: table["zero"](n), "n == 0"),
    "a function of the library": (lambda n: table["plus"](n, 1), "n + 1"),
    "partial": (lambda n: partial(n), "7 == n"),
    "map": (lambda n: list(map(is_zero, [n]))[0], "n == 0"),
    "reduce": (lambda n: functools.reduce(operator.add, map(chosen, [n, n + 1])), f"{ZERO} + T.if_then_else(n + 1 == 0, 1, 2)"),
    "an argument of a helper": (lambda n: applied(module.is_zero, n), "n == 0"),
    "a lambda as an argument": (lambda n: applied(lambda v: v == 3, n), "n == 3"),
}


@pytest.mark.parametrize("name", CASES)
def test_expressions_mean_what_the_kernels_would(name: str) -> None:
    fn, expected = CASES[name]
    assert value_of(fn) == expected


def test_a_name_in_the_kernel() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(1):
            test = module.is_zero
            for i in T.serial(4):
                A[i] = test(n)

    assert "n == 0" in render_statement(kernel.body[0])


def test_python_values_stay_python_values() -> None:
    before = calls
    assert value_of(lambda n: module.chosen(0) + len(list(module.numbers(5)))) == "3"
    value_of(lambda n: module.counted(0))
    assert calls == before + 1
    assert module.is_zero(0) is True


def test_functions_without_source() -> None:
    space: dict[str, Any] = {"T": T, "__name__": "made_up"}
    text = "def compares(x): return x == 0\ndef computes(x): return T.max(x, 0) + 1\nwhole = [lambda x: [y == x for y in (1,)]]"
    exec(text, space)
    assert value_of(lambda n: space["computes"](n)) == "T.max(n, 0) + 1"
    assert value_of(lambda n: 5 if space["compares"](0) else 6) == "5"
    for function in (space["compares"], space["whole"][0]):
        with pytest.raises(SyntaxProblem, match=r"TL106.*source cannot be found"):
            value_of(lambda n, function=function: function(n))
