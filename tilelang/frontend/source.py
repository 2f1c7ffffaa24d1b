"""The syntax tree of a function as it stands in its file, with the file's own line numbers."""

from __future__ import annotations

import ast
import inspect
import linecache
from types import FunctionType

from tilelang.errors import Span, SyntaxProblem

_PARSED: dict[str, tuple[list[str], ast.Module]] = {}


def function_tree(function: FunctionType) -> ast.FunctionDef:
    """The definition of `function`.  SyntaxProblem TL106 where its source cannot be read or is no plain `def`."""
    code = function.__code__
    tree = parsed_file(function)
    for node in ast.walk(tree):
        if (
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and node.name == code.co_name
            and _first_line(node) == code.co_firstlineno
        ):
            if isinstance(node, ast.AsyncFunctionDef):
                raise SyntaxProblem(
                    f"{node.name} is async; a kernel is a plain def", code="TL101", span=header_span(code.co_filename, node)
                )
            return node
    raise _no_source(
        function, "the file does not hold it at the line where it was defined; it may have changed since it was imported"
    )


def parsed_file(function: FunctionType) -> ast.Module:
    """The syntax tree of the file a function comes from.  SyntaxProblem TL106 where it cannot be read."""
    return _parsed(function.__code__.co_filename, _lines(function), function.__name__)


def header_span(file: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Span:
    """The `def name` of a definition."""
    word = "async def " if isinstance(node, ast.AsyncFunctionDef) else "def "
    return Span(file, node.lineno, node.col_offset, node.lineno, node.col_offset + len(word) + len(node.name))


def node_span(file: str, node: ast.AST) -> Span:
    """The place of any node that has one."""
    return Span(file, node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)  # type: ignore[attr-defined]


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The line Python records for a function: its first decorator's."""
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _lines(function: FunctionType) -> list[str]:
    try:
        lines, _ = inspect.findsource(function)
    except (OSError, TypeError) as error:
        raise _no_source(function, "code made by exec, or typed at a prompt, has no source to read") from error
    return lines


def _parsed(file: str, lines: list[str], name: str) -> ast.Module:
    known = _PARSED.get(file)
    if known is None or known[0] != lines:
        try:
            known = _PARSED[file] = (lines, ast.parse("".join(lines), file))
        except SyntaxError as error:
            raise SyntaxProblem(
                f"{file}, which defines {name}, cannot be parsed: {error.msg}", code="TL106", span=Span(file, error.lineno or 1)
            ) from error
    return known[1]


def _no_source(function: FunctionType, why: str) -> SyntaxProblem:
    code = function.__code__
    span = Span(code.co_filename, code.co_firstlineno) if linecache.getline(code.co_filename, code.co_firstlineno) else None
    return SyntaxProblem(
        f"the source of {function.__name__} ({code.co_filename}, line {code.co_firstlineno}) cannot be found: {why}",
        code="TL106", span=span, hint="put the kernel into a .py file and import it",
    )  # fmt: skip
