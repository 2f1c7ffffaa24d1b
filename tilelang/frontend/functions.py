"""From a Python function to its rewritten twin, which takes an `Activation` before its own arguments."""

from __future__ import annotations

import ast
from collections.abc import Callable
from copy import deepcopy
from types import CodeType, FunctionType
from typing import Any

from tilelang.errors import SyntaxProblem
from tilelang.frontend.rewrite import rewrite_function
from tilelang.frontend.source import function_tree

# Rewriting depends on a function's source and free names only, so every instance of a closure shares one code object.
_CODES: dict[tuple[str, CodeType], tuple[ast.FunctionDef, CodeType]] = {}


def rewritten(function: FunctionType) -> tuple[ast.FunctionDef, Callable[..., Any]]:
    """(the original tree, the rewritten function in the original's globals and on the original's closure)."""
    key = (function.__code__.co_filename, function.__code__)
    if key not in _CODES:
        tree = function_tree(function)
        _CODES[key] = tree, _compiled(tree, function.__code__)
    tree, code = _CODES[key]
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    return tree, FunctionType(
        code, function.__globals__, function.__name__, None, tuple(cells[name] for name in code.co_freevars)
    )


def _compiled(tree: ast.FunctionDef, original: CodeType) -> CodeType:
    """The code of the rewritten function.  It is compiled inside a function whose parameters are the free names of the original,
    so that these are free names of the new code as well; that outer function never runs."""
    inner = rewrite_function(deepcopy(tree), original.co_filename)
    names = [ast.arg(arg=name) for name in original.co_freevars]
    arguments = ast.arguments(posonlyargs=[], args=names, kwonlyargs=[], kw_defaults=[], defaults=[])
    outer = ast.FunctionDef(name="__tl_closure", args=arguments, body=[inner], decorator_list=[], returns=None, type_comment=None)
    if hasattr(tree, "type_params"):
        outer.type_params = []  # type: ignore[attr-defined]
    module = ast.fix_missing_locations(ast.Module([ast.copy_location(outer, tree)], []))
    try:
        code = compile(module, original.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise SyntaxProblem(f"{tree.name} cannot be compiled as Python: {error}", code="TL101") from error
    return _inner(_inner(code, "__tl_closure"), inner.name)


def _inner(code: CodeType, name: str) -> CodeType:
    """The code object of the function `name` defined directly in `code`."""
    return next(constant for constant in code.co_consts if isinstance(constant, CodeType) and constant.co_name == name)
