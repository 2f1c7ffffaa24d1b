"""What a kernel's author sees for each mistake: class, code, place, caret, notes and hint.

`UPDATE_GOLDEN=1 pytest tests/errors` rewrites the messages; read the difference before keeping it."""
from __future__ import annotations

import importlib.util
import re
import runpy
import warnings
from pathlib import Path

import pytest

import tilelang.language as T
from tilelang.errors import InternalError, TileError
from tilelang.language import types

HERE = Path(__file__).parent
_SPEC = importlib.util.spec_from_file_location("error_cases", HERE / "conftest.py")
assert _SPEC is not None
assert _SPEC.loader is not None
cases = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(cases)

FILES = sorted(HERE.glob("*.txt"))
CASES = [pytest.param(path, name, id=f"{path.stem}-{name}") for path in FILES for name, _, _ in cases.read_cases(path)]
ROOT = HERE.parent.parent


def message_of(program: str, folder: Path) -> str:
    """The message a program ends in, its path shortened."""
    path = folder / "mistake.py"
    lines = program.splitlines(keepends=True)
    future = lines[0] if lines[0].startswith("from __future__") else ""
    path.write_text(f"{future}import tilelang.language as T\n{''.join(lines[1:] if future else lines)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(TileError) as caught:
            runpy.run_path(str(path))
    assert not isinstance(caught.value, InternalError), str(caught.value)
    text = re.sub(r" at 0x[0-9a-f]+", "", str(caught.value).replace(str(path), "mistake.py"))
    return re.sub(f"there is: {', '.join(names_there_are())}$", "there is: (all names)", text, flags=re.MULTILINE)


def names_there_are() -> list[str]:
    """The language's names in the order of messages, which grows."""
    dtypes = set(types.__all__) - {"Tensor", "GemmWarpPolicy"}
    return sorted(set(T.__all__) - dtypes)


@pytest.mark.parametrize(("path", "name"), CASES)
def test_message(path: Path, name: str, tmp_path: Path) -> None:
    known = cases.read_cases(path)
    at = next(at for at, case in enumerate(known) if case[0] == name)
    seen = message_of(known[at][1], tmp_path)
    if cases.UPDATE:
        known[at] = (name, known[at][1], seen)
        cases.write_cases(path, known)
    assert seen == known[at][2]


def test_names_are_unique() -> None:
    names = [name for path in FILES for name, _, _ in cases.read_cases(path)]
    assert len(names) == len(set(names))


def test_every_code_of_the_front_end_has_a_message() -> None:
    folders = (ROOT / "tilelang" / "frontend", ROOT / "tilelang" / "language")
    sources = [path for folder in folders for path in folder.glob("*.py")] + [ROOT / "tilelang" / "ir" / "buffer.py"]
    used = {code for path in sources for code in re.findall(r'code="(TL\d{3})"', path.read_text())}
    shown = {message.split()[0] for path in FILES for _, _, message in cases.read_cases(path)}
    assert used - shown - {"TL901"} == set()
