"""Plain Python functions that a kernel calls: by name, as an attribute of a module or object, or held in a variable.

They run as they are, except that their `==`, `!=`, `and`, `or`, `not`, chained comparisons, conditional expressions and calls are
rewritten like the kernel's own: Python cannot overload them all, so `x == 0` of an expression would otherwise silently mean
something else.  Their statements stay Python's; an `if` on a value of the kernel is refused there.  Functions of the standard
library, of installed packages and of this package are left alone, and so is what Python calls by itself: constructors,
properties and operators of the author's own classes.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from copy import deepcopy
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from tilelang.errors import SyntaxProblem
from tilelang.frontend import plain
from tilelang.frontend.expressions import Expressions, is_dynamic
from tilelang.frontend.rewrite_expressions import BUILDER, HelperRewriter
from tilelang.frontend.source import parsed_file

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_TAKE_FUNCTIONS: tuple[object, ...] = (map, filter, sorted, min, max, functools.reduce)
_HELD = "__tl__"  # what a twin's closure calls `__tl`, which would be a private name in a method
Definition = ast.FunctionDef | ast.Lambda
Twins = dict[FunctionType, FunctionType]
_CODES: dict[tuple[str, CodeType], CodeType | None] = {}


def callable_twin(function: Any, known: Twins) -> Any:
    """What to call instead of `function`: its rewritten twin where it is, or stands for, a plain function of the author's.

    `known` holds the twins made for the kernel at work.  SyntaxProblem TL106 where it cannot be told which lambda is called."""
    if isinstance(function, FunctionType):
        return _twin(function, known)
    if isinstance(function, MethodType) and isinstance(function.__func__, FunctionType):
        return _bound(function.__func__, function.__self__, function, known)
    if isinstance(function, functools.partial):
        return functools.partial(callable_twin(function.func, known), *function.args, **function.keywords)
    if isinstance(function, functools._lru_cache_wrapper):
        return callable_twin(function.__wrapped__, known)
    if any(function is taker for taker in _TAKE_FUNCTIONS):
        return plain.with_arguments(function, lambda value: callable_twin(value, known) if callable(value) else value)
    bases = () if isinstance(function, type) else type(function).__mro__
    method = next((vars(base)["__call__"] for base in bases if "__call__" in vars(base)), None)
    return _bound(method, function, function, known) if isinstance(method, FunctionType) else function


def _bound(function: FunctionType, owner: object, whole: object, known: Twins) -> object:
    twin = _twin(function, known)
    return whole if twin is function else MethodType(twin, owner)


def _twin(function: FunctionType, known: Twins) -> FunctionType:
    """The rewritten twin of a user's function; the function itself where nothing in it needs rewriting."""
    if function not in known:
        is_rewritten = not {BUILDER, _HELD}.isdisjoint(function.__code__.co_freevars)  # defined in a kernel or in a twin
        known[function] = _made(function) if _is_users(function) and not is_rewritten else function
    return known[function]


def _made(function: FunctionType) -> FunctionType:
    key = (function.__code__.co_filename, function.__code__)
    if key not in _CODES:
        definition = _definition(function)
        if definition is None and _compares(function.__code__):
            return _checked(function)
        needed = definition is not None and any(map(_needs_rewriting, ast.walk(definition)))
        _CODES[key] = _compiled(definition, function) if definition is not None and needed else None
    code = _CODES[key]
    if code is None:
        return function
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[_HELD] = CellType(Expressions)
    closure = tuple(cells[name] for name in code.co_freevars)
    twin = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    twin.__kwdefaults__ = function.__kwdefaults__
    return twin


def _is_users(function: FunctionType) -> bool:
    file = function.__code__.co_filename
    root = (function.__module__ or "").partition(".")[0]
    foreign = file.startswith((_PACKAGE, _LIBRARY, "<frozen")) or "site-packages" in file
    return root not in sys.stdlib_module_names and not foreign


def _needs_rewriting(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return len(node.ops) > 1 or isinstance(node.ops[0], (ast.Eq, ast.NotEq, ast.In, ast.NotIn))
    return isinstance(node, (ast.BoolOp, ast.IfExp, ast.Call)) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))


# ---- source -------------------------------------------------------------------------------------------------------------------


def _definition(function: FunctionType) -> Definition | None:
    """The helper's `def` or `lambda`; None where its source cannot be read.  SyntaxProblem TL106 for one lambda among several."""
    code = function.__code__
    try:
        tree = parsed_file(function)
    except SyntaxProblem:
        return None
    found: list[Definition] = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda if code.co_name == "<lambda>" else ast.FunctionDef)
        and min([node.lineno, *(part.lineno for part in getattr(node, "decorator_list", []))]) == code.co_firstlineno
        and getattr(node, "name", "<lambda>") == code.co_name
    ]
    if len(found) > 1:
        found = _around(found, code)
    if len(found) > 1 and any(map(_needs_rewriting, (part for node in found for part in ast.walk(node)))):
        raise SyntaxProblem(
            f"{code.co_filename}:{code.co_firstlineno} holds several lambdas, and which one the kernel calls cannot be told",
            code="TL106", hint="put each on a line of its own",
        )  # fmt: skip
    return found[0] if len(found) == 1 else None


def _around(found: list[Definition], code: CodeType) -> list[Definition]:
    """Of several lambdas on a line the innermost that the instructions of `code` come from, where Python kept their columns."""
    places = [place for place in code.co_positions() if place[2] is not None and place[3] is not None and place[2] != place[3]]
    if not places:
        return found
    first = min((place[0], place[2]) for place in places)  # type: ignore[type-var]
    last = max((place[1], place[3]) for place in places)  # type: ignore[type-var]
    fits: list[Definition] = [
        node for node in found
        if isinstance(node, ast.Lambda)
        and (node.body.lineno, node.body.col_offset) <= first
        and last <= (node.body.end_lineno or 0, node.body.end_col_offset or 0)
    ]  # fmt: skip
    return sorted(fits, key=lambda node: node.col_offset)[-1:] or found


def _compiled(definition: Definition, function: FunctionType) -> CodeType:
    rewriter = HelperRewriter(function.__code__.co_filename, set(), set)
    new = deepcopy(definition)
    inner: ast.stmt
    if isinstance(new, ast.Lambda):
        new.body = rewriter.visit(new.body)  # type: ignore[assignment]
        inner = ast.copy_location(ast.Expr(new), new)
    else:
        new.decorator_list, new.returns = [], None
        inner = rewriter.helper(new)
    from tilelang.frontend.functions import compile_inside

    for node in ast.walk(inner):
        if isinstance(node, ast.Name) and node.id == BUILDER:
            node.id = _HELD
    return compile_inside(inner, function.__code__, _HELD)


# ---- functions without source -------------------------------------------------------------------------------------------------


def _compares(code: CodeType) -> bool:
    """Whether a function, or one inside it, tests values for equality."""
    import dis

    tests = (step for step in dis.get_instructions(code) if step.opname in ("COMPARE_OP", "CONTAINS_OP"))
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return any(step.opname == "CONTAINS_OP" or str(step.argval) in ("==", "!=") for step in tests) or any(map(_compares, inner))


def _checked(function: FunctionType) -> FunctionType:
    """`function`, refusing values of the kernel, which its comparisons would take for different from everything."""

    @functools.wraps(function)
    def checked(*args: object, **options: object) -> object:
        if any(is_dynamic(value) for value in (*args, *options.values())):
            raise SyntaxProblem(
                f"{function.__name__} compares values of the kernel, and its source cannot be found", code="TL106",
                hint="put the function into a .py file and import it",
            )  # fmt: skip
        return function(*args, **options)

    return checked  # type: ignore[return-value]
