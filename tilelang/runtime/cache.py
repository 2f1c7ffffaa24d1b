"""Compiled programs of this process, by everything that the compiler is given."""
from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilelang.runtime import nvrtc
from tilelang.runtime.nvrtc import Cubin

_LIMIT = 512


@dataclass(frozen=True, slots=True)
class Key:
    """All that decides a cubin: the texts as the compiler sees them, the architecture, the options and the compiler itself."""

    text: str
    headers: tuple[tuple[str, str], ...]
    arch: str
    options: tuple[str, ...]
    nvrtc: tuple[int, int]


class _Cache:
    """The entries, oldest first, and whether the cache is on."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.entries: OrderedDict[Key, Cubin] = OrderedDict()
        self.lock = threading.Lock()

    def find(self, key: Key) -> Cubin | None:
        with self.lock:
            return self.entries.get(key) if self.enabled else None

    def keep(self, key: Key, cubin: Cubin) -> None:
        with self.lock:
            if self.enabled:
                self.entries[key] = cubin
            while len(self.entries) > _LIMIT:
                self.entries.popitem(last=False)


_cache = _Cache(os.environ.get("TILELANG_DISABLE_CACHE", "0").lower() not in ("1", "true", "yes", "on"))


def compile_cached(
    text: str, headers: Mapping[str, str], arch: str, options: tuple[str, ...], name: str, standalone: Callable[[str], str]
) -> Cubin:
    """`nvrtc.compile_text`, or its earlier result for the same key.  What failed is not kept."""
    key = Key(text, tuple(sorted(headers.items())), arch, options, nvrtc.version())
    found = _cache.find(key)
    if found is None:
        found = nvrtc.compile_text(text, arch=arch, headers=headers, options=options, name=name, standalone=standalone)
        _cache.keep(key, found)
    return found


def enable_cache() -> None:
    """Programs that were compiled before are used again (the default)."""
    _cache.enabled = True


def disable_cache() -> None:
    """Every kernel is compiled anew, and none is kept."""
    with _cache.lock:
        _cache.enabled = False
        _cache.entries.clear()


def is_cache_enabled() -> bool:
    """Whether compiled programs are kept; off from the start where TILELANG_DISABLE_CACHE is set."""
    return _cache.enabled
