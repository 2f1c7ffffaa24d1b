"""Python's own expression forms that cannot be overloaded: and, or, not, conditional expressions, ==, != and chains.

Each keeps Python's meaning, laziness included, as long as the value that decides is a Python value, and builds IR otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

from tilelang.errors import TypeProblem
from tilelang.frontend import plain
from tilelang.frontend.builder import truth
from tilelang.frontend.describe import expr_text, tile_text
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Const, Expr, as_expr, binary, compare, select, unary


def is_dynamic(value: object) -> bool:
    """Whether `value` is decided by the running kernel (tiles included, whose use as a condition is refused later)."""
    return isinstance(value, (Expr, Buffer, Region)) and not isinstance(value, Const)


class Expressions:
    """The expression half of what rewritten source calls."""

    @staticmethod
    def and_(left: object, right: Callable[[], object]) -> object:
        if not is_dynamic(left):
            return right() if _holds(left) else left
        return _joined("and", truth(left), truth(right()))

    @staticmethod
    def or_(left: object, right: Callable[[], object]) -> object:
        if not is_dynamic(left):
            return left if _holds(left) else right()
        return _joined("or", truth(left), truth(right()))

    @staticmethod
    def not_(value: object) -> object:
        return unary("not", truth(value)) if is_dynamic(value) else not _holds(value)

    @staticmethod
    def select(condition: object, then: Callable[[], object], otherwise: Callable[[], object]) -> object:
        if not is_dynamic(condition):
            return then() if _holds(condition) else otherwise()
        return choose(condition, then(), otherwise())

    @staticmethod
    def callee(function: object) -> object:
        """What is called: a plain function of the author's with its expressions rewritten, anything else as it is."""
        from tilelang.frontend.builder import twins
        from tilelang.frontend.helpers import callable_twin

        return callable_twin(function, twins())

    @staticmethod
    def equal(a: object, b: object) -> object:
        return _equality("==", a, b)

    @staticmethod
    def not_equal(a: object, b: object) -> object:
        return _equality("!=", a, b)

    @classmethod
    def chain(cls, left: object, *steps: object) -> object:
        """`left op1 right1 op2 right2 ...`; the steps alternate operators and functions that give the operands."""
        result: object = True
        for op, operand in zip(steps[::2], steps[1::2], strict=True):
            right = operand()  # type: ignore[operator]
            link = cls.comparison(op, left, right)  # type: ignore[arg-type]
            result = cls.and_(result, lambda link=link: link)
            if not is_dynamic(result) and not _holds(result):
                return result
            left = right
        return result

    @classmethod
    def comparison(cls, op: str, a: object, b: object) -> object:
        """One link of a chain."""
        if op in ("==", "!="):
            return _equality(op, a, b)
        if op in ("in", "not in"):
            return cls.contains(a, b) if op == "in" else cls.not_(cls.contains(a, b))
        return plain.comparison(op, a, b)

    @staticmethod
    def contains(item: object, container: object) -> bool:
        """`item in container`, for Python values.  TypeProblem TL213 where the running kernel would have to decide."""
        if is_dynamic(item) and isinstance(item, Expr):
            raise TypeProblem(
                f"`in` cannot test {expr_text(item)}, which is known only when the kernel runs", code="TL213",
                hint="write the comparisons: x == a or x == b",
            )  # fmt: skip
        return plain.is_in(item, container)


def choose(condition: object, then: object, otherwise: object) -> object:
    """A conditional value; TypeProblem TL213 where its sides are no scalars."""
    for side in (then, otherwise):
        if isinstance(side, (Buffer, Region)) or not (
            isinstance(side, Expr) or hasattr(side, "item") or isinstance(side, (int, float))
        ):
            name = type(side).__name__ if not isinstance(side, Buffer) else f"the tile {side.name}"
            raise TypeProblem(
                f"a conditional value must be a scalar on both sides, not {name}", code="TL213", hint="use an if statement"
            )
    return select(truth(condition), as_expr(then, getattr(otherwise, "dtype", None)), otherwise)  # type: ignore[arg-type]


def _holds(value: object) -> bool:
    """Whether a value that is decided already is true."""
    return plain.is_true(value.value if isinstance(value, Const) else value)


def _joined(op: str, a: Expr | bool, b: Expr | bool) -> object:
    if isinstance(b, bool):
        return a if b == (op == "and") else b
    return binary(op, a, b)


def _equality(op: str, a: object, b: object) -> object:
    """`==` and `!=`: a comparison of the kernel where a side is an expression, else Python's."""
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)) and len(a) == len(b) and _holds_expressions(a, b):
        result: object = True
        for x, y in zip(a, b, strict=True):
            result = Expressions.and_(result, lambda x=x, y=y: _equality("==", x, y))
        return result if op == "==" else Expressions.not_(result)
    for tile, other in ((a, b), (b, a)):
        if isinstance(tile, (Buffer, Region)) and (_is_scalar(other) or (isinstance(tile, Region) and isinstance(other, Region))):
            raise TypeProblem(
                f"{tile_text(tile)} {op} ... compares a whole tile", code="TL213",
                hint="compare elements, tile[i, j] == value, inside T.Parallel",
            )  # fmt: skip
    if (isinstance(a, Expr) and _is_scalar(b)) or (isinstance(b, Expr) and _is_scalar(a)):
        return compare(op, a, b)  # type: ignore[arg-type]
    return plain.comparison(op, a, b)


def _holds_expressions(*groups: object) -> bool:
    return any(isinstance(item, (Expr, tuple, list)) for group in groups for item in group)  # type: ignore[attr-defined]


def _is_scalar(value: object) -> bool:
    return isinstance(value, (Expr, int, float)) or (hasattr(value, "item") and not isinstance(value, (Buffer, Region)))
