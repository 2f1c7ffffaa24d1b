"""Which NVRTC library would compile here, found out without importing its bindings and without loading it.

The bindings load the library through cuda.pathfinder: one that the process has already loaded, else the one of the wheel
nvidia-cuda-nvrtc, else what a search finds.  The first two are looked up here in the same order, at the price of a few calls of
the file system; only where neither is there is cuda.pathfinder itself asked, which loads the library.  A library is identified by
what is in it (its GNU build ID, else the SHA-256 of the file), never by its path or time: environments with the same wheel share
a cache.
"""
from __future__ import annotations

import ctypes
import hashlib
import os
import site
import struct
import sys
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

# in the order in which cuda.pathfinder prefers them
_SONAMES = ("libnvrtc.so.13", "libnvrtc.so.12")
_WHEEL = Path("nvidia", "cu13", "lib", "libnvrtc.so.13")
_BUILTINS = "*nvrtc-builtins*"

_ELF64_LITTLE = b"\x7fELF\x02\x01"
_PT_NOTE, _NT_GNU_BUILD_ID = 4, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """The NVRTC library: its version ("13.0", empty where its files do not say), its identity, and the identities of the files
    with the built-in headers beside it."""

    version: str
    library: str
    builtins: tuple[tuple[str, str], ...]


def toolchain() -> Toolchain | None:
    """The library that the bindings use or would load now; None where there is none or it cannot be read."""
    path = library_path()
    if path is None:
        return None
    try:
        real = path.resolve(strict=True)
        builtins = tuple((file.name, _identity(file)) for file in sorted({f.resolve() for f in real.parent.glob(_BUILTINS)}))
        return Toolchain(version=_version(real.parent), library=_identity(real), builtins=builtins)
    except OSError:
        return None


def library_path() -> Path | None:
    """Where the library is that the bindings use or would load."""
    if sys.platform == "linux":
        for soname in _SONAMES:
            if _is_loaded(soname):
                return _mapped(soname) or _asked()
        wheel = next((path for folder in _site_packages() if (path := Path(folder) / _WHEEL).exists()), None)
        if wheel is not None:
            return wheel
    return _asked()


def _is_loaded(soname: str) -> bool:
    try:
        ctypes.CDLL(soname, mode=os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


def _mapped(soname: str) -> Path | None:
    """The file that this process has mapped under a name; None where that is not one file."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        files = {line.split(maxsplit=5)[5].rstrip("\n") for line in maps if soname in line}
    return Path(files.pop()) if len(files) == 1 else None


def _site_packages() -> list[str]:
    """Where wheels are installed, in the order of cuda.pathfinder: a virtual environment's, the user's, the system's."""
    folders = list(site.getsitepackages())
    if site.ENABLE_USER_SITE and (user := site.getusersitepackages()):
        folders.insert(1 if sys.prefix != sys.base_prefix else 0, user)
    return folders


def _asked() -> Path | None:
    """What cuda.pathfinder finds, and loads."""
    try:
        found = import_module("cuda.pathfinder").load_nvidia_dynamic_lib("nvrtc").abs_path
    except (ImportError, OSError, RuntimeError):  # not installed; it cannot be loaded; its own "not found" is a RuntimeError
        return None
    return Path(found) if found else None


def _version(folder: Path) -> str:
    """Major.minor, which the name of the file with the built-in headers carries: libnvrtc-builtins.so.13.0."""
    suffixes = (path.name.partition(".so.")[2] for path in folder.glob("libnvrtc-builtins.so.*"))
    return min((".".join(suffix.split(".")[:2]) for suffix in suffixes), default="")


def _identity(path: Path) -> str:
    status = path.stat()
    return _content(path, status.st_ino, status.st_size, status.st_mtime_ns)


@cache
def _content(path: Path, *_state: int) -> str:
    """What is in a file: read once for each state of the file."""
    with path.open("rb") as file:
        build = build_id(file.read(64 * 1024))
        if build:
            return f"build-id {build}, {path.stat().st_size} bytes"
        file.seek(0)
        return f"sha256 {hashlib.file_digest(file, 'sha256').hexdigest()}"


def build_id(head: bytes) -> str:
    """The GNU build ID in hexadecimal of the 64-bit ELF file that starts with `head`; empty where there is none.

    (System V ABI, "ELF header", "Program header", "Note section".)
    """
    if head[:6] != _ELF64_LITTLE or len(head) < 64:
        return ""
    (table,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    for at in range(table, table + size * count, size or 1):
        if at + 56 > len(head):
            break
        kind, _, start, _, _, length = struct.unpack_from("<IIQQQQ", head, at)
        found = _note(head[start : start + length]) if kind == _PT_NOTE else ""
        if found:
            return found
    return ""


def _note(notes: bytes) -> str:
    """The build ID in a segment of notes."""
    at = 0
    while at + 12 <= len(notes):
        name, size, kind = struct.unpack_from("<III", notes, at)
        start = at + 12 + -(-name // 4) * 4
        if kind == _NT_GNU_BUILD_ID and notes[at + 12 : at + 12 + name] == b"GNU\0":
            return notes[start : start + size].hex()
        at = start + -(-size // 4) * 4
    return ""
