"""Golden CUDA text: `UPDATE_GOLDEN=1 pytest tests/codegen` rewrites it; read the difference before keeping it."""
from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "codegen"


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compares a text with the golden file of a name."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("UPDATE_GOLDEN") == "1":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        wanted = path.read_text() if path.exists() else ""
        names = f"golden/codegen/{name}", "now"
        difference = difflib.unified_diff(wanted.splitlines(), text.splitlines(), *names, lineterm="", n=2)
        assert text == wanted, "\n".join(difference)

    return compare
