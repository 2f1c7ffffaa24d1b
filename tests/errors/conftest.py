"""Reads the files of mistakes: a program, and the message its author sees."""
from __future__ import annotations

import os
import re
from pathlib import Path

HERE = Path(__file__).parent
UPDATE = os.environ.get("UPDATE_GOLDEN") == "1"


def read_cases(path: Path) -> list[tuple[str, str, str]]:
    """(name, program, message) of each case of one file."""
    cases = []
    for section in re.split(r"^### ", path.read_text(), flags=re.MULTILINE)[1:]:
        name, _, rest = section.partition("\n")
        program, _, message = rest.partition("--- message\n")
        cases.append((name.strip(), program, message.rstrip("\n")))
    return cases


def write_cases(path: Path, cases: list[tuple[str, str, str]]) -> None:
    text = "".join(f"### {name}\n{program.rstrip()}\n--- message\n{message}\n\n" for name, program, message in cases)
    path.write_text(text.rstrip("\n") + "\n")
