"""Turns whatever goes wrong while a kernel is being built into an error of `tilelang.errors` at the author's line."""

from __future__ import annotations

import builtins
import linecache
import os
import sys
from collections.abc import Iterable
from types import CodeType, FrameType, TracebackType

from tilelang.errors import InternalError, KernelError, NameProblem, Span, TileError, TypeProblem

_PLAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "plain.py")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def close_match(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` most probably misspells."""
    import difflib

    found = difflib.get_close_matches(name, sorted(set(candidates)), n=1, cutoff=0.7)
    return found[0] if found else None


def code_span(code: CodeType, offset: int, line: int) -> Span:
    """The source position of one bytecode instruction (`offset` in bytes)."""
    positions = list(code.co_positions())
    at = positions[offset // 2] if 0 <= offset // 2 < len(positions) else (line, None, None, None)
    if at[2] is None or at[3] is None:
        return Span(code.co_filename, line)
    return Span(code.co_filename, at[0] or line, at[2], at[1] or line, at[3])


def caller_span() -> Span | None:
    """Where the innermost frame outside this package is; None if there is none with a real file."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((_PACKAGE, "<frozen")):
        frame = frame.f_back
    if frame is None or not linecache.getline(frame.f_code.co_filename, frame.f_lineno):
        return None
    return code_span(frame.f_code, frame.f_lasti, frame.f_lineno)


def located(error: Exception, span: Span | None, kernel_file: str) -> TileError:
    """`error` as an error of this package, at its own place or else at `span`, the statement being built."""
    if isinstance(error, TileError):
        if error.span is None:
            error.span = span
        return error
    if isinstance(error, NameError):
        return _name_problem(error, span, kernel_file)
    if isinstance(error, RecursionError):
        return KernelError("the kernel's Python code recurses too deeply", code="TL117", span=span)
    if _raised_by_us(error) and not _is_users_value_error(error):
        return InternalError(
            f"{type(error).__name__}: {error}",
            code="TL901",
            span=span,
            hint="a fault of this compiler; please report it with the kernel",
        )
    if isinstance(error, AttributeError):
        return _attribute_problem(error, span, kernel_file)
    if isinstance(error, TypeError):
        from tilelang.frontend.advice import advise, in_words

        code, hint = advise(error, span)
        return TypeProblem(in_words(str(error)), code=code, span=span, hint=hint)
    if isinstance(error, ValueError) and str(error).startswith("unknown dtype "):
        return _dtype_problem(str(error), span)
    return KernelError(f"the kernel's Python code raised {type(error).__name__}: {error}", code="TL117", span=span)


def _frames(error: BaseException) -> list[TracebackType]:
    found, traceback = [], error.__traceback__
    while traceback is not None:
        found.append(traceback)
        traceback = traceback.tb_next
    return found


def _raised_by_us(error: Exception) -> bool:
    frames = _frames(error)
    file = frames[-1].tb_frame.f_code.co_filename if frames else ""
    return file.startswith(_PACKAGE) and file != _PLAIN


def _is_users_value_error(error: Exception) -> bool:
    """The IR's own constructors refuse values of a wrong kind by TypeError and ValueError; those are the author's mistakes."""
    frame = _frames(error)[-1].tb_frame
    return isinstance(error, (TypeError, ValueError, OverflowError)) and os.path.dirname(frame.f_code.co_filename).endswith("ir")


def _kernel_frame(error: Exception, kernel_file: str) -> TracebackType | None:
    """The innermost traceback entry inside the kernel's file."""
    return next((entry for entry in reversed(_frames(error)) if entry.tb_frame.f_code.co_filename == kernel_file), None)


def _exact_span(error: Exception, span: Span | None, kernel_file: str) -> Span | None:
    """The expression that failed, where the interpreter knows it; else the statement."""
    entry = _kernel_frame(error, kernel_file)
    if entry is None:
        return span
    exact = code_span(entry.tb_frame.f_code, entry.tb_lasti, entry.tb_lineno)
    return exact if exact.end_column else span


def _name_problem(error: NameError, span: Span | None, kernel_file: str) -> NameProblem:
    name = error.name or _quoted(str(error))
    entry = _kernel_frame(error, kernel_file)
    names: set[str] = set(dir(builtins))
    if entry is not None:
        names |= {key for key in (*entry.tb_frame.f_locals, *entry.tb_frame.f_globals) if not key.startswith("__")}
    found = close_match(name, names - {name})
    unbound = isinstance(error, UnboundLocalError)
    hint = f"did you mean {found!r}?" if found else "define it before the kernel, or assign it first"
    message = f"{name!r} is used before it has a value" if unbound else f"name {name!r} is not defined"
    return NameProblem(message, code="TL102", span=_exact_span(error, span, kernel_file), hint=hint)


def _attribute_problem(error: AttributeError, span: Span | None, kernel_file: str) -> NameProblem:
    from tilelang.frontend.advice import attribute_hint, in_words

    names = [name for name in dir(error.obj) if not name.startswith("_")] if error.obj is not None else []
    found = close_match(error.name or "", names)
    hint = f"did you mean {found!r}?" if found else attribute_hint(error.obj, error.name or "")
    return NameProblem(in_words(str(error)), code="TL102", span=_exact_span(error, span, kernel_file), hint=hint)


def _dtype_problem(text: str, span: Span | None) -> TileError:
    """The error for a dtype that `value.astype(...)` does not know."""
    from tilelang.frontend.dtypes import as_dtype

    try:
        as_dtype(_quoted(text))
    except TileError as error:
        error.span = span
        return error
    return KernelError(text, code="TL117", span=span)


def _quoted(text: str) -> str:
    parts = text.split("'")
    return parts[1] if len(parts) > 2 else text
