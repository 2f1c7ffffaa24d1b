"""From a Python function to its rewritten twin, which takes an `Activation` before its own arguments."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from copy import deepcopy
from types import CodeType, FunctionType
from typing import Any

from tilelang.errors import SyntaxProblem
from tilelang.frontend.rewrite import rewrite_function
from tilelang.frontend.source import function_tree

_INNER = "__tl_function"
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
    closure = tuple(cells[name] for name in code.co_freevars)
    return tree, FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)


def _compiled(tree: ast.FunctionDef, original: CodeType) -> CodeType:
    """The code of the rewritten function."""
    return compile_inside(rewrite_function(deepcopy(tree), original.co_filename), original)


def compile_inside(inner: ast.stmt, original: CodeType, *names: str) -> CodeType:
    """The code of the function defined by `inner`, whose free names are those of `original` and `names`.

    It is compiled inside a function whose parameters are these names, so that they are free in the new code as well, and inside a
    class of the original's name where that is a method; none of these ever runs.  SyntaxProblem TL101 where Python refuses the
    text."""
    if isinstance(inner, ast.FunctionDef):
        inner.name = _INNER  # its own name must stay free in it, as a recursive function's is
    owner = _owner(original)
    free = [ast.arg(arg=name) for name in (*original.co_freevars, *names)]
    arguments = ast.arguments(posonlyargs=[], args=free, kwonlyargs=[], kw_defaults=[], defaults=[])
    body: list[ast.stmt] = [inner]
    if owner is not None:
        body = [ast.ClassDef(owner, bases=[], keywords=[], body=body, decorator_list=[])]
    outer = ast.FunctionDef(name="__tl_closure", args=arguments, body=body, decorator_list=[], returns=None, type_comment=None)
    if sys.version_info >= (3, 12):
        outer.type_params = []
        if isinstance(body[0], ast.ClassDef):
            body[0].type_params = []
    module = ast.fix_missing_locations(ast.Module([ast.copy_location(outer, inner)], []))
    try:
        code = compile(module, original.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise SyntaxProblem(f"{original.co_name} cannot be compiled as Python: {error}", code="TL101") from error
    innermost = _INNER if isinstance(inner, ast.FunctionDef) else "<lambda>"
    for name in ("__tl_closure", owner, innermost):
        code = code if name is None else _inner(code, name)
    return code.replace(co_name=original.co_name, co_qualname=original.co_qualname)


def _owner(code: CodeType) -> str | None:
    """The class that a method is defined in, by whose name Python mangles private names."""
    parts = code.co_qualname.split(".")
    return parts[-2] if len(parts) > 1 and parts[-2] != "<locals>" else None


def _inner(code: CodeType, name: str) -> CodeType:
    """The code object of the function `name` defined directly in `code`."""
    return next(constant for constant in code.co_consts if isinstance(constant, CodeType) and constant.co_name == name)
