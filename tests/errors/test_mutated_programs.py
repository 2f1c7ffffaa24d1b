"""Programs with words exchanged at random: whatever the author wrote, nothing but an error of ours with a place may come out."""
from __future__ import annotations

import io
import linecache
import random
import tokenize
import warnings
from pathlib import Path

import pytest

import tilelang
from tilelang.errors import InternalError, TileError

PROGRAM = (Path(__file__).parent / "program.py.txt").read_text() + "\n\nfactory(64, 64)\n"
_WORDS = """
    A B n s bx x tile frag row loc total count None True 0 -1 7 64.5 'x' () [] T range T.float16 T.serial(4) T.Kernel(4)
    T.Parallel(4,4) T.alloc_var('int32') A[0,0] A[0:32] tile[0] helper act and or == * / // in is < , =
"""
POOL = _WORDS.split()
PACKAGE = str(Path(tilelang.__file__).parent)
FIRST_LINE = PROGRAM[: PROGRAM.index("    @T.prim_func")].count("\n") + 1


def mutated(seed: int) -> str:
    """The program with one to three words of its kernel replaced; always acceptable to Python."""
    choose = random.Random(seed)
    words = [word for word in tokenize.generate_tokens(io.StringIO(PROGRAM).readline) if word.type in (1, 2, 3, 54)]
    words = [word for word in words if word.start[0] > FIRST_LINE and word.start[0] == word.end[0]]
    while True:
        lines = PROGRAM.splitlines(keepends=True)
        for word in sorted(choose.sample(words, choose.randint(1, 3)), key=lambda word: word.start, reverse=True):
            at, (start, end) = word.start[0] - 1, (word.start[1], word.end[1])
            new = choose.choice([choose.choice(POOL), choose.choice(words).string, ""])
            lines[at] = lines[at][:start] + new + lines[at][end:]
        text = "".join(lines)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(text, "mutated.py", "exec")
        except (SyntaxError, ValueError):
            continue
        return text


def outcome(text: str, name: str) -> Exception | None:
    """What running a program raises."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(text, name, "exec"), {"__name__": "mutated"})
    except (TileError, NameError, AttributeError, TypeError, ValueError, ZeroDivisionError) as error:
        return error
    finally:
        linecache.cache.pop(name, None)
    return None


@pytest.mark.parametrize("group", range(8))
def test_nothing_else_comes_out(group: int) -> None:
    refused = 0
    for seed in range(group * 50, group * 50 + 50):
        error = outcome(mutated(seed), f"mutated-{seed}.py")
        if isinstance(error, TileError):
            refused += 1
            assert not isinstance(error, InternalError), f"seed {seed}: {error}"
            assert error.span is not None, f"seed {seed}: {error}"
        elif error is not None:
            # Annotations and the factory itself are plain Python; what they raise never passes through this package.
            paths = [str(entry.path) for entry in pytest.ExceptionInfo.from_exception(error).traceback]
            assert not any(path.startswith(PACKAGE) for path in paths), f"seed {seed}: {error}"
    assert refused > 10
