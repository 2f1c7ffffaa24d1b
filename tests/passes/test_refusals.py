"""What the passes refuse, word for word: `UPDATE_GOLDEN=1 pytest tests/passes` rewrites the file; read the difference."""
from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import tilelang.passes
from tests.passes.maker import FILE
from tests.passes.refused import REFUSED
from tests.passes.running import compiled
from tilelang.errors import KernelError

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "passes" / "refusals.txt"
# No program here reaches these: the sizes checked before leave no operand whose rows are not whole 32 bytes (317), loops take the
# layout of an operand in registers that they touch (340), and fragments needed in two layouts go through shared memory (701).
UNREACHED = {"TL317", "TL340", "TL701"}


def refusal(name: str) -> KernelError:
    with pytest.raises(KernelError) as caught:
        compiled(REFUSED[name]())
    return caught.value


def kept() -> dict[str, str]:
    """The messages of the golden file by name."""
    parts = re.split(r"^== (.*)\n", GOLDEN.read_text(), flags=re.MULTILINE)[1:]
    return {name: text.strip("\n") for name, text in zip(parts[::2], parts[1::2], strict=True)}


@pytest.mark.parametrize("name", REFUSED)
def test_message(name: str) -> None:
    if os.environ.get("UPDATE_GOLDEN") == "1" and name == next(iter(REFUSED)):
        GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        GOLDEN.write_text("\n".join(f"== {each}\n{refusal(each)}\n" for each in REFUSED))
    assert str(refusal(name)) == kept()[name]


def test_the_file_has_no_other_messages() -> None:
    assert list(kept()) == list(REFUSED)


@pytest.mark.parametrize("name", REFUSED)
def test_every_refusal_has_a_place(name: str) -> None:
    error = refusal(name)
    assert re.fullmatch(r"TL[2347]\d\d", error.code)
    assert error.span is not None or name in ("shared memory", "accumulator registers", "grid"), "kernels made without spans"
    assert error.span is None or error.span.file == FILE


def test_every_code_of_the_passes_is_here() -> None:
    """Every error that a pass can raise because of the kernel."""
    codes: set[str] = set()
    for path in Path(tilelang.passes.__file__).parent.glob("*.py"):
        codes.update(re.findall(r'code="(TL[1-8]\d\d)"', path.read_text()))
    assert len(codes) > 25
    assert codes - UNREACHED == {refusal(name).code for name in REFUSED}


def test_a_code_means_one_thing() -> None:
    """No room uses a code of the passes, and none uses an InternalError's of another room."""
    package = Path(tilelang.passes.__file__).parent.parent
    rooms: dict[str, set[str]] = {}
    for path in package.rglob("*.py"):
        for code in re.findall(r'code="(TL\d\d\d)"', path.read_text()):
            rooms.setdefault(code, set()).add(path.relative_to(package).parts[0])
    shared = {code: where for code, where in rooms.items() if len(where) > 1 and ("passes" in where or code.startswith("TL9"))}
    assert shared == {}
