"""Golden text files: `UPDATE_GOLDEN=1 pytest tests/frontend` rewrites them; read the difference before keeping it."""
from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "frontend"


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compares a text with the golden file of a name."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("UPDATE_GOLDEN") == "1":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert text == path.read_text()

    return compare
