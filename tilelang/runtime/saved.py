"""Texts that are kept for a report: a CUDA text that does not compile, the reproduction of a failure of this compiler."""
from __future__ import annotations

import hashlib
import os
from pathlib import Path


def save(text: str, name: str, suffix: str) -> str:
    """Writes `text` into the folder TILELANG_TMP_DIR, else the system's for temporary files, and says where, or why not.

    The name comes from the content, so that a failure that repeats keeps one file.  Never raises OSError.
    """
    import tempfile

    folder = Path(os.environ.get("TILELANG_TMP_DIR") or tempfile.gettempdir())
    content = text.encode(errors="backslashreplace")
    path = folder / f"tilelang-{name}-{hashlib.sha256(content).hexdigest()[:16]}{suffix}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("wb", dir=folder, suffix=suffix, delete=False) as file:
            file.write(content)
        os.replace(file.name, path)
    except OSError as error:
        return f"the text could not be saved: {error}"
    return f"the text is saved in {path}"
