"""Python's own operations, carried out for a kernel's author: what goes wrong in here is the author's mistake, not ours."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

_INPLACE: dict[str, Callable[[object, object], object]] = {
    "+": operator.iadd, "-": operator.isub, "*": operator.imul, "/": operator.itruediv, "//": operator.ifloordiv,
    "%": operator.imod, "<<": operator.ilshift, ">>": operator.irshift, "&": operator.iand, "|": operator.ior,
    "^": operator.ixor, "**": operator.ipow, "@": operator.imatmul,
}  # fmt: skip
_COMPARE: dict[str, Callable[[Any, Any], object]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "is": operator.is_, "is not": operator.is_not,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def inplace(op: str, a: object, b: object) -> object:
    """`a op= b`, which gives the new value."""
    return _INPLACE[op](a, b)


def comparison(op: str, a: object, b: object) -> object:
    """`a op b`."""
    return _COMPARE[op](a, b)


def is_in(item: object, container: object) -> bool:
    """`item in container`."""
    return item in container  # type: ignore[operator]


def is_true(value: object) -> bool:
    """`bool(value)`."""
    return bool(value)


def get_item(target: object, key: object) -> object:
    """`target[key]`."""
    return target[key]  # type: ignore[index]


def set_item(target: object, key: object, value: object) -> None:
    """`target[key] = value`."""
    target[key] = value  # type: ignore[index]


def items(value: object) -> Iterator[object]:
    """`iter(value)`."""
    return iter(value)  # type: ignore[call-overload]


def with_arguments(function: Any, change: Callable[[object], object]) -> Callable[..., object]:
    """`function`, each of its arguments changed by `change` first."""

    def changed(*args: object, **options: object) -> object:
        return function(*map(change, args), **{name: change(value) for name, value in options.items()})

    return changed


def call(function: object, *args: object, **options: object) -> object:
    """`function(...)`."""
    return function(*args, **options)  # type: ignore[operator]
