"""Plain Python functions that a kernel calls by name.

They run as they are, except that their `==`, `!=`, `and`, `or`, `not`, chained comparisons and conditional expressions are
rewritten like the kernel's own: Python cannot overload them all, so `x == 0` of an expression would otherwise silently mean
something else.  Their statements stay Python's; an `if` on a value of the kernel is refused there.  Functions of the standard
library, of installed packages and of this package are left alone.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable
from copy import deepcopy
from types import CellType, CodeType, FunctionType

from tilelang.errors import SyntaxProblem
from tilelang.frontend.expressions import Expressions
from tilelang.frontend.rewrite_expressions import BUILDER, ExpressionRewriter
from tilelang.frontend.source import parsed_file

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
Definition = ast.FunctionDef | ast.Lambda


Twins = dict[FunctionType, FunctionType]


def with_helpers(code: CodeType, function: FunctionType, known: Twins) -> FunctionType:
    """A function of `code` in the globals and closure of `function`, the helpers it names replaced by their rewritten twins."""
    space = dict(function.__globals__)
    for name in _named(code):
        if name in space and isinstance(space[name], FunctionType):
            space[name] = _helper(space[name], known)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple(_cell(cells[name], known) for name in code.co_freevars)
    return FunctionType(code, space, function.__name__, function.__defaults__, closure)


def _named(code: CodeType) -> Iterable[str]:
    """Global names a function or a function inside it may read."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _named(constant)


def _cell(cell: CellType, known: Twins) -> CellType:
    try:
        value = cell.cell_contents
    except ValueError:
        return cell
    helper = _helper(value, known) if isinstance(value, FunctionType) else value
    return cell if helper is value else CellType(helper)


def _helper(function: FunctionType, known: Twins) -> FunctionType:
    """The rewritten twin of a user's function; the function itself where nothing in it needs rewriting."""
    if function in known:
        return known[function]
    known[function] = function
    if not _is_users(function):
        return function
    definition = _definition(function)
    if definition is None or not any(map(_needs_rewriting, ast.walk(definition))):
        return function
    code = _compiled(definition, function.__code__)
    twin = with_helpers(code, function, known)
    twin.__globals__[BUILDER] = Expressions
    twin.__kwdefaults__ = function.__kwdefaults__
    known[function] = twin
    return twin


def _is_users(function: FunctionType) -> bool:
    file = function.__code__.co_filename
    root = (function.__module__ or "").partition(".")[0]
    return root not in sys.stdlib_module_names and not file.startswith(_PACKAGE) and "site-packages" not in file


def _needs_rewriting(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return len(node.ops) > 1 or isinstance(node.ops[0], (ast.Eq, ast.NotEq, ast.In, ast.NotIn))
    return isinstance(node, (ast.BoolOp, ast.IfExp)) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))


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
    if len(found) > 1 and any(map(_needs_rewriting, (part for node in found for part in ast.walk(node)))):
        raise SyntaxProblem(
            f"{code.co_filename}:{code.co_firstlineno} holds several lambdas, and which one the kernel calls cannot be told",
            code="TL106", hint="put each on a line of its own",
        )  # fmt: skip
    return found[0] if len(found) == 1 else None


def _compiled(definition: Definition, original: CodeType) -> CodeType:
    rewriter = ExpressionRewriter(original.co_filename, set(), set)
    new = deepcopy(definition)
    inner: ast.stmt
    if isinstance(new, ast.Lambda):
        new.body = rewriter.visit(new.body)  # type: ignore[assignment]
        inner = ast.copy_location(ast.Expr(new), new)
    else:
        new.decorator_list, new.returns = [], None
        inner = rewriter.helper(new)
    from tilelang.frontend.functions import compile_inside

    return compile_inside(inner, original)
