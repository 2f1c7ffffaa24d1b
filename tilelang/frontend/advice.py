"""What to say of an exception that Python's own operations raised on values of a kernel: its text in other words, a hint."""

from __future__ import annotations

import re

from tilelang.errors import Span

_VALUE = "a value of the kernel"
_WORDS = {
    "Buffer": "a buffer", "Mbarriers": "mbarriers", "Region": "a slice", "LoopSpec": "a loop", "ParallelSpec": "T.Parallel",
    "GridSpec": "T.grid",
    **dict.fromkeys(
        ("Const", "Var", "Unary", "Binary", "Compare", "Select", "Cast", "Reinterpret", "Call", "Load"), _VALUE
    ),
}  # fmt: skip
_KIND = re.compile(rf"(?:object of type )?'({'|'.join(_WORDS)})'(?: object)?|(?<=not )({'|'.join(_WORDS)})\b")
_VARIABLE = re.compile(r"Var\(name='(\w+)', dtype='\w+'\)")
_CALLED = re.compile(r"^(\w+)\(\) (?:got|takes|missing)")
_UNKNOWN = re.compile(r"unexpected keyword argument '(\w+)'")
_BUILTIN = re.compile(r"(?<![\w.])(max|min|abs|pow|round)\(")
_LIBRARY = re.compile(r"\b(?:np|numpy|math|torch)\.(\w+)\(")
_SAME = {"maximum": "max", "minimum": "min", "absolute": "abs", "fabs": "abs", "power": "pow", "where": "if_then_else"}
_TORCH = {"float": "float32", "half": "float16", "bfloat16": "bfloat16", "double": "float64", "int": "int32", "long": "int64"}


def in_words(text: str) -> str:
    """An exception's text without the names of our classes."""
    return _KIND.sub(lambda found: _WORDS[found[1] or found[2]], _VARIABLE.sub(r"\1", text))


def advise(error: Exception, span: Span | None) -> tuple[str, str]:
    """(code, the edit that helps or nothing) for a TypeError: TL218 where Python needs what only the running kernel knows."""
    text = str(error)
    code, advice = next(((code, advice) for code, pattern, advice in _ADVICE if re.search(pattern, text)), ("TL213", ""))
    name = _called_name(span.source_line()) if span is not None and _ON_VALUES.search(text) else ""
    return code, f"use T.{name}" if name else advice or _signature(text)


def _called_name(line: str) -> str:
    """The language's name of a function of Python's or NumPy's that a line calls; empty for none."""
    import tilelang.language as language

    found = _BUILTIN.search(line) or _LIBRARY.search(line)
    name = _SAME.get(found[1], found[1]) if found is not None else ""
    return name if name in language.__all__ else ""


def attribute_hint(owner: object, name: str) -> str:
    """For a value of the kernel without the attribute `name`."""
    if type(owner).__name__ in _WORDS and (name in _TORCH or name in ("to", "type", "cast")):
        return f"convert it: value.astype({_TORCH.get(name, 'float32')!r})"
    return ""


_ON_VALUES = re.compile("truth value|bad operand|real number|has no len|doesn't define __round__|loop of ufunc|no callable")
_ADVICE = (
    (
        "TL218", "no truth value",
        "write `if`, `and`, `or`, `not` in the kernel itself or in a T.macro; plain helpers cannot branch on it",
    ),
    (
        "TL218", "indices must be integers|cannot be interpreted as an integer|__index__",
        "this value is known only when the kernel runs; loop over a Python list, such as list(range(n)), to have it now",
    ),
    (
        "TL218", "object does not support item assignment",
        "a plain helper function can only build expressions; decorate it with @T.macro to store into buffers",
    ),
    ("TL218", r"for \*\*", "use T.pow(x, y)"),
    ("TL213", r"not tuple \(Var\(", "name each variable of the loop: for i, j in T.Parallel(rows, columns):"),
    ("TL213", "'(Region|Buffer)' object is not subscriptable", "index all dimensions at once: A[i, j]"),
    ("TL213", "type '(Region|Buffer)' has no len", "its extents are A.shape"),
    ("TL213", "operand.*'(Region|Buffer)'", "arithmetic acts on elements: index every dimension, tile[i, j], inside T.Parallel"),
    ("TL213", r"(float|int)\(\) argument must be", "use T.cast(value, dtype)"),
    ("TL213", "must be real number|loop of ufunc|no callable", "use the functions of the language, such as T.exp and T.sqrt"),
)  # fmt: skip


def _signature(text: str) -> str:
    """What a function of the language takes, where `text` says that it was called in another way."""
    called = _CALLED.match(text)
    if called is None:
        return ""
    import inspect

    import tilelang.language as language
    from tilelang.frontend.problems import close_match

    function = vars(language).get(called[1])
    if called[1] not in language.__all__ or not inspect.isfunction(function):
        return ""
    parameters = inspect.signature(function).parameters.values()
    shown = ", ".join(f"{p.name}=" if p.default is not p.empty else p.name for p in parameters)
    unknown = _UNKNOWN.search(text)
    meant = close_match(unknown[1], [p.name for p in parameters]) if unknown is not None else None
    return (f"did you mean {meant}=? " if meant else "") + f"it takes T.{called[1]}({shown})"
