"""Compiled programs by everything that decides them: first in this process, then on disk, else compiled.

A key holds all that the CUDA compiler sees, so a program is found again only where compiling it would give the same; the cache
makes things faster and changes nothing else.  Variables of the environment: TILELANG_CACHE_DIR (default: `tilelang` below
XDG_CACHE_HOME, else below ~/.cache) and TILELANG_DISABLE_CACHE.
"""
from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from weakref import WeakValueDictionary

from tilelang.runtime import nvrtc
from tilelang.runtime.disk import Store
from tilelang.runtime.entry import SCHEMA
from tilelang.runtime.log import logger
from tilelang.runtime.nvrtc import Cubin
from tilelang.runtime.toolchain import Toolchain, toolchain

_LIMIT = 512
_TRUE = ("1", "true", "yes", "on")
_FOLDER = "cubin"

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"][^>"\n]*[>"])', re.MULTILINE)
# options by which the compiler reads or writes files whose content no key covers: -I and --include-path, --pre-include,
# precompiled headers, files of options, files of timings
_FILES = re.compile(r"-I|@|-{1,2}[\w-]*(include|pch|optf|time)|.*options-file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """All that decides a cubin and its report.

    `arguments` are the compiler's in their order, the architecture among them; `headers` those that the text includes, directly
    or not, in the order of their names; `environment` the variables that NVRTC reads.
    """

    schema: int
    name: str
    text: str
    headers: tuple[tuple[str, str], ...]
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    toolchain: Toolchain | None

    def digest(self) -> str:
        """The SHA-256 of all fields, in hexadecimal."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def facts(self) -> dict[str, object]:
        """What a person who looks into an entry wants to know."""
        facts = asdict(self)
        del facts["text"], facts["headers"]
        return facts


class _Cache:
    """The programs of this process, oldest first, and whether the cache is on."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.entries: OrderedDict[str, Cubin] = OrderedDict()
        self.lock = threading.Lock()
        self.turns: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    def find(self, digest: str) -> Cubin | None:
        with self.lock:
            return self.entries.get(digest)

    def keep(self, digest: str, cubin: Cubin) -> None:
        with self.lock:
            if self.enabled:
                self.entries[digest] = cubin
            while len(self.entries) > _LIMIT:
                self.entries.popitem(last=False)

    @contextmanager
    def turn(self, digest: str) -> Iterator[None]:
        """Threads that want one program come one after the other: the first compiles it, the others find it."""
        with self.lock:
            lock = self.turns.get(digest)
            if lock is None:
                lock = self.turns[digest] = threading.Lock()
        with lock:
            yield

    def unlock(self) -> None:
        """In a child process after a fork: the threads that held locks are not there."""
        self.lock = threading.Lock()
        self.turns = WeakValueDictionary()


_cache = _Cache(os.environ.get("TILELANG_DISABLE_CACHE", "0").lower() not in _TRUE)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _cache.unlock())  # noqa: PLW0108 - tests put another cache there


def compile_cached(
    text: str, headers: Mapping[str, str], arch: str, options: tuple[str, ...], name: str, standalone: Callable[[str], str]
) -> Cubin:
    """`nvrtc.compile_text`, or its earlier result for the same key.  What failed is not kept.  Raises what it raises."""
    used = included(text, headers)
    seen = headers if used is None else used

    def compiled() -> Cubin:
        return nvrtc.compile_text(text, arch=arch, headers=seen, options=options, name=name, standalone=standalone)

    environment = _environment()
    if used is None or not _cache.enabled or any(_FILES.match(word) for word in (*options, *_words(environment))):
        return compiled()
    key = Key(
        schema=SCHEMA, name=name, text=text, headers=tuple(sorted(used.items())), arguments=nvrtc.arguments(arch, options),
        environment=environment, toolchain=toolchain(),
    )  # fmt: skip
    digest = key.digest()
    with _cache.turn(digest):
        found = _cache.find(digest) or _on_disk(key, digest)
        if found is None:
            found = compiled()
            _publish(key, digest, found)
        else:
            nvrtc.judge(found.remarks, name, text, standalone)
        _cache.keep(digest, found)
    return found


def included(text: str, headers: Mapping[str, str]) -> dict[str, str] | None:
    """The headers that a text includes, directly or not; None where it includes a file that is not among `headers`.

    Files in angle brackets are only the compiler's own: without -I, which bypasses the cache, it searches no folder for them.
    """
    found: dict[str, str] = {}
    texts = [text]
    while texts:
        for match in _INCLUDE.finditer(texts.pop()):
            name = match[1][1:-1]
            if name not in headers:
                if match[1].startswith('"'):
                    return None
            elif name not in found:
                found[name] = headers[name]
                texts.append(headers[name])
    return found


def _environment() -> tuple[tuple[str, str], ...]:
    """NVRTC_DISABLE_PCH and the like: all by their prefix, since the library knows more than are documented."""
    return tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("NVRTC_")))


def _words(environment: tuple[tuple[str, str], ...]) -> list[str]:
    return [word for _, value in environment for word in value.split()]


def _on_disk(key: Key, digest: str) -> Cubin | None:
    store = _store()
    return store.find(digest) if store is not None and key.toolchain is not None else None


def _publish(key: Key, digest: str, cubin: Cubin) -> None:
    """Puts a new program on disk, if the library that the key names is still the one that compiles: it is loaded by now."""
    store = _store()
    if store is not None and key.toolchain is not None and key.toolchain == toolchain():
        store.publish(digest, key.facts(), cubin)


def _store() -> Store | None:
    folder = cache_folder()
    return None if folder is None else _store_of(folder)


@cache
def _store_of(folder: str) -> Store:
    return Store(folder)


def cache_folder() -> str | None:
    """Where programs are kept on disk: `cubin` below TILELANG_CACHE_DIR, else below `tilelang` in the user's folder for caches;
    None, said once, for a user who has no home."""
    chosen = os.environ.get("TILELANG_CACHE_DIR")
    if chosen:
        return os.path.join(os.path.abspath(os.path.expanduser(chosen)), _FOLDER)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the XDG base directory specification: relative paths are invalid and ignored
        base = os.path.expanduser(os.path.join("~", ".cache"))
    if not os.path.isabs(base):
        _say_homeless()
        return None
    return os.path.join(base, "tilelang", _FOLDER)


@cache
def _say_homeless() -> None:
    logger().warning("there is no home folder and TILELANG_CACHE_DIR is not set: programs are compiled in each process")


def enable_cache() -> None:
    """Programs that were compiled before, here or by another process, are used again (the default)."""
    _cache.enabled = True


def disable_cache() -> None:
    """Every kernel is compiled anew, and none is kept, here or on disk."""
    with _cache.lock:
        _cache.enabled = False
        _cache.entries.clear()


def is_cache_enabled() -> bool:
    """Whether compiled programs are kept; off from the start where TILELANG_DISABLE_CACHE is set."""
    return _cache.enabled
