"""The `.cuh` files of our PTX wrappers: read from the package, or inlined into a standalone file."""
from __future__ import annotations

import re
from functools import cache
from importlib import resources

_INCLUDE = re.compile(r'^#include "(tl_\w+\.cuh)"\n', re.MULTILINE)


@cache
def header_texts() -> dict[str, str]:
    """File name -> text of every header a kernel may include."""
    folder = resources.files("tilelang.codegen") / "device"
    entries = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".cuh")), key=lambda entry: entry.name)
    return {entry.name: entry.read_text() for entry in entries}


_DEFINES = re.compile(r"TL_DEVICE [\w: ]+\*? (\w+)\(")
_USES = re.compile(r"\btl::(\w+)")


@cache
def _header_of() -> dict[str, str]:
    """Wrapper name -> the header that defines it."""
    return {name: header for header, text in header_texts().items() for name in _DEFINES.findall(text)}


def needed(text: str) -> tuple[str, ...]:
    """The headers whose wrappers a kernel's text uses, the types first."""
    used = {_header_of()[name] for name in _USES.findall(text) if name in _header_of()}
    return ("tl_types.cuh", *sorted(used - {"tl_types.cuh"}))


def standalone(text: str) -> str:
    """`text` with each of our headers inlined once, where it is first included: a file that plain nvcc accepts."""
    seen: set[str] = set()

    def inline(match: re.Match[str]) -> str:
        name = match[1]
        if name in seen:
            return ""
        seen.add(name)
        body = header_texts()[name].replace("#pragma once\n", "")
        return f"// ---- {name}\n{_INCLUDE.sub(inline, body)}\n"

    return _INCLUDE.sub(inline, text)
