"""Compiled programs on disk: a folder with one self-checking file (`runtime/entry.py`) for each.

A file is written under a temporary name, flushed to the disk and moved to its own name by one `os.replace`: readers see the whole
file or none.  Nothing is locked and nothing is read back: processes that compile the same program at once each use what they
made, and the last one's file stays.  Whatever the disk does, the caller keeps the program in memory; what fails is said once.
"""
from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tilelang.runtime import entry
from tilelang.runtime.log import logger
from tilelang.runtime.nvrtc import Cubin

SUFFIX = ".cubin"
TEMPORARY = "tmp-"
# a temporary file this old belongs to a writer that died
STALE_SECONDS = 3600
LIMIT_BYTES = 1 << 30
# what is removed at once when there is more, so that not every program removes one
KEPT_SHARE = 0.75
ENTRY_BYTES_MAX = 1 << 28
# an entry that is read gets a new time at most this often; the oldest go first
TOUCH_SECONDS = 24 * 3600
SWEEP_EVERY = 256


class Files:
    """Every call of the operating system that the cache makes; a test makes each of them fail with each error."""

    makedirs = staticmethod(os.makedirs)
    open = staticmethod(os.open)
    fstat = staticmethod(os.fstat)
    read = staticmethod(os.read)
    write = staticmethod(os.write)
    fsync = staticmethod(os.fsync)
    close = staticmethod(os.close)
    replace = staticmethod(os.replace)
    rename = staticmethod(os.rename)
    unlink = staticmethod(os.unlink)
    listdir = staticmethod(os.listdir)
    stat = staticmethod(os.stat)
    utime = staticmethod(os.utime)


class Store:
    """The entries of one folder.  No method raises OSError."""

    def __init__(self, folder: str, files: Any = Files) -> None:
        self.folder, self._files = folder, files
        self._warned = False
        self._published = 0

    def find(self, digest: str) -> Cubin | None:
        """The program under a digest, or None where there is none that is whole."""
        path = self._path(digest)
        try:
            raw, status = self._read(path)
            found = entry.decode(raw, digest)
        except FileNotFoundError:
            return None
        except entry.BadEntry as bad:
            logger().warning("the cached program %s is damaged and is compiled anew: %s", path, bad)
            return None
        except OSError as error:
            self._warn("cannot be read", error)
            return None
        self._touch(path, status)
        return found

    def publish(self, digest: str, facts: Mapping[str, object], cubin: Cubin) -> None:
        """Makes a program readable to all processes, replacing what is there under its digest."""
        try:
            self._write(self._path(digest), entry.encode(digest, facts, cubin))
        except OSError as error:
            self._warn("cannot be written", error)
            return
        if self._published % SWEEP_EVERY == 0:
            self.sweep()
        self._published += 1

    def sweep(self) -> None:
        """Removes what writers that died left, and the oldest entries while all are more than LIMIT_BYTES."""
        entries: list[tuple[int, int, tuple[int, ...], str]] = []
        for name in self._names():
            path = os.path.join(self.folder, name)
            status = self._status(path)
            if status is None or not stat.S_ISREG(status.st_mode):
                continue
            if name.startswith(TEMPORARY) and time.time() - status.st_mtime > STALE_SECONDS:
                self._remove(path)
            elif name.endswith(SUFFIX):
                entries.append((status.st_mtime_ns, status.st_size, _state(status), path))
        self._evict(entries)

    def _evict(self, entries: list[tuple[int, int, tuple[int, ...], str]]) -> None:
        total = sum(size for _, size, _, _ in entries)
        if total <= LIMIT_BYTES:
            return
        for _, size, seen, path in sorted(entries):
            if total <= KEPT_SHARE * LIMIT_BYTES:
                return
            status = self._status(path)
            if status is not None and _state(status) == seen:  # else it was replaced or used since
                self._remove(path)
            total -= size

    def _path(self, digest: str) -> str:
        return os.path.join(self.folder, digest + SUFFIX)

    def _read(self, path: str) -> tuple[bytes, os.stat_result]:
        """The bytes of a file.  Raises OSError, and BadEntry for what cannot be an entry."""
        files = self._files
        # a named pipe in the place of an entry must not block
        handle = files.open(path, os.O_RDONLY | _flag("O_CLOEXEC") | _flag("O_NONBLOCK") | _flag("O_BINARY"))
        try:
            status = files.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise entry.BadEntry("it is no regular file")
            if status.st_size > ENTRY_BYTES_MAX:
                raise entry.BadEntry(f"it has {status.st_size} bytes")
            parts = []
            while part := files.read(handle, 1 << 20):
                parts.append(part)
            return b"".join(parts), status
        finally:
            self._quietly(files.close, handle)

    def _write(self, path: str, content: bytes) -> None:
        files = self._files
        files.makedirs(self.folder, mode=0o700, exist_ok=True)
        temporary = os.path.join(self.folder, f"{TEMPORARY}{os.getpid()}-{os.urandom(8).hex()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _flag("O_CLOEXEC") | _flag("O_BINARY")
        handle = files.open(temporary, flags, 0o600)
        try:
            try:
                self._write_all(handle, content)
                files.fsync(handle)
            finally:
                files.close(handle)  # a network file system may report a full disk only here
            self._move(temporary, path)
        except BaseException:
            self._remove(temporary)
            raise

    def _write_all(self, handle: int, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            written = self._files.write(handle, rest)
            if written == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            rest = rest[written:]

    def _move(self, temporary: str, path: str) -> None:
        try:
            self._files.replace(temporary, path)
        except IsADirectoryError:
            # a folder in the place of an entry is nobody's: it is put aside with all that is in it
            self._files.rename(path, f"{temporary}-aside")
            self._files.replace(temporary, path)

    def _touch(self, path: str, status: os.stat_result) -> None:
        if time.time() - status.st_mtime > TOUCH_SECONDS:
            self._quietly(self._files.utime, path)

    def _names(self) -> list[str]:
        try:
            return sorted(self._files.listdir(self.folder))
        except OSError:
            return []

    def _status(self, path: str) -> os.stat_result | None:
        try:
            return self._files.stat(path, follow_symlinks=False)
        except OSError:
            return None

    def _remove(self, path: str) -> None:
        self._quietly(self._files.unlink, path)

    def _quietly(self, function: Any, *arguments: Any) -> None:
        """Calls what may fail without harm: somebody else was quicker, or it is tried again another time."""
        with suppress(OSError):
            function(*arguments)

    def _warn(self, fault: str, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            logger().warning(
                "the cache of compiled programs in %s %s (%s): what it cannot hold is compiled in each process",
                self.folder, fault, error,
            )  # fmt: skip


def _state(status: os.stat_result) -> tuple[int, ...]:
    """What tells a file from one that replaced it."""
    return status.st_ino, status.st_size, status.st_mtime_ns


def _flag(name: str) -> int:
    """A flag of os.open that not every platform has."""
    return getattr(os, name, 0)
