"""The folder of compiled programs: what is found, replaced, swept; dead writers; everything that a disk can refuse."""
from __future__ import annotations

import errno
import logging
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks import cache_stress
from tilelang.runtime import disk, entry
from tilelang.runtime.disk import STALE_SECONDS, SUFFIX, TEMPORARY, Files, Store
from tilelang.runtime.nvrtc import Cubin, Resources

DIGEST, OTHER = "0a" * 32, "1b" * 32


def cubin(seed: int = 0, size: int = 3000) -> Cubin:
    return Cubin(b"\x7fELF" + bytes([seed]) * size, {"f": Resources(seed, 0, 0, 0, 0)}, (), "log")


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "below" / "cubin"


@pytest.fixture
def warnings(caplog):
    """The messages so far, at the level of warnings."""
    caplog.set_level(logging.WARNING, "tilelang")
    return lambda: [record.message for record in caplog.records]


def path(folder: Path, digest: str = DIGEST) -> Path:
    return folder / (digest + SUFFIX)


def test_what_is_published_is_found_by_others(folder, warnings):
    assert Store(str(folder)).find(DIGEST) is None
    Store(str(folder)).publish(DIGEST, {}, cubin(1))
    assert Store(str(folder)).find(DIGEST) == cubin(1)
    assert Store(str(folder)).find(OTHER) is None
    assert os.listdir(folder) == [DIGEST + SUFFIX]
    assert warnings() == []


def test_only_the_user_can_look_into_it(folder):
    Store(str(folder)).publish(DIGEST, {}, cubin())
    assert folder.stat().st_mode & 0o077 == 0
    assert path(folder).stat().st_mode & 0o077 == 0


def flipped(raw: bytes) -> bytes:
    return raw[:-1] + bytes([raw[-1] ^ 1])


DAMAGE = {
    "empty": lambda raw: b"", "cut": lambda raw: raw[: len(raw) // 2], "flipped": flipped, "longer": lambda raw: raw + b"\0",
    "foreign": lambda raw: b"#!/bin/sh\n" * 50, "another program's": lambda raw: entry.encode(OTHER, {}, cubin(2)),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_entry_is_said_once_and_replaced(folder, warnings, damage):
    store = Store(str(folder))
    store.publish(DIGEST, {}, cubin(1))
    path(folder).write_bytes(damage(path(folder).read_bytes()))
    assert store.find(DIGEST) is None
    (message,) = warnings()
    assert message.startswith(f"the cached program {path(folder)} is damaged and is compiled anew: it")
    store.publish(DIGEST, {}, cubin(1))
    assert store.find(DIGEST) == cubin(1)
    assert len(warnings()) == 1


def test_an_entry_too_large_to_be_one_is_not_read(folder, warnings):
    folder.mkdir(parents=True)
    with path(folder).open("wb") as file:
        file.truncate(disk.ENTRY_BYTES_MAX + 1)  # sparse: takes no room
    assert Store(str(folder)).find(DIGEST) is None
    assert "it has 268435457 bytes" in warnings()[0]


@pytest.mark.parametrize("content", [(), ("a file",)])
def test_a_folder_in_the_place_of_an_entry_is_put_aside(folder, warnings, content):
    path(folder).mkdir(parents=True)
    for name in content:
        (path(folder) / name).write_text("kept")
    store = Store(str(folder))
    assert store.find(DIGEST) is None
    store.publish(DIGEST, {}, cubin(1))
    assert store.find(DIGEST) == cubin(1)
    assert [message.rpartition(": ")[2] for message in warnings()] == ["it is no regular file"]
    (aside,) = (other for other in folder.iterdir() if other != path(folder))
    assert sorted(os.listdir(aside)) == list(content)


@pytest.mark.skipif(sys.platform == "win32", reason="no named pipes")
def test_a_named_pipe_in_the_place_of_an_entry_does_not_block(folder, warnings):
    folder.mkdir(parents=True)
    os.mkfifo(path(folder))
    store = Store(str(folder))
    assert store.find(DIGEST) is None
    store.publish(DIGEST, {}, cubin(1))
    assert store.find(DIGEST) == cubin(1)


# ---- what cannot be used


def refused(folder: Path, warnings: Any) -> str:
    """The one warning of a process that finds and keeps nothing in `folder`."""
    store = Store(str(folder))
    for seed in range(3):
        assert store.find(DIGEST) is None
        store.publish(DIGEST, {}, cubin(seed))
    (message,) = warnings()
    return message


@pytest.mark.parametrize("below", ["", "cubin", "a/b/cubin"])
def test_a_file_where_the_folder_should_be(tmp_path, warnings, below):
    (tmp_path / "file").write_text("mine")
    message = refused(tmp_path / "file" / below, warnings)
    assert message.startswith(f"the cache of compiled programs in {tmp_path / 'file' / below} cannot be ")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("mode", [0o000, 0o500])
def test_a_folder_without_permission(folder, warnings, mode):
    folder.mkdir(parents=True)
    folder.chmod(mode)
    try:
        assert "Permission denied" in refused(folder, warnings)
    finally:
        folder.chmod(0o700)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_disk_that_takes_nothing_more(folder, warnings, number):
    for name in ("makedirs", "write", "fsync", "close"):
        store = Store(str(folder), cache_stress.Faulty(lambda _, called, name=name: called == name, number))
        before = len(warnings())
        for _ in range(2):
            store.publish(DIGEST, {}, cubin())
            assert store.find(DIGEST) is None
        assert [os.strerror(number) in message for message in warnings()[before:]] == [True]
        assert not folder.exists() or os.listdir(folder) == []


def test_a_disk_that_writes_a_few_bytes_at_a_time(folder):
    class Slow(Files):
        @staticmethod
        def write(handle, content):
            return os.write(handle, content[:100])

        @staticmethod
        def read(handle, size):
            return os.read(handle, min(size, 77))

    store = Store(str(folder), Slow)
    store.publish(DIGEST, {}, cubin(1))
    assert store.find(DIGEST) == cubin(1)


def test_a_disk_that_writes_nothing_is_full(folder, warnings):
    class Stuck(Files):
        @staticmethod
        def write(handle, content):
            return 0

    assert os.strerror(errno.ENOSPC) in (Store(str(folder), Stuck).publish(DIGEST, {}, cubin()) or warnings()[0])


def test_every_error_at_every_call(tmp_path):
    """A part of the error numbers; benchmarks/cache_stress.py tries all."""
    numbers = [errno.ENOSPC, errno.ENOENT, errno.EISDIR]
    hits, wrong = cache_stress.faults(numbers, tmp_path)
    assert wrong == []
    assert set(hits) == set(cache_stress.CALLS)


# ---- writers that die


class Died(BaseException):
    """Stands in for SIGKILL: nothing that comes after it is done."""


class Dying:
    """A disk whose writer is killed after a number of bytes, or before a call by name."""

    def __init__(self, after_bytes: int = 1 << 60, before: str = "") -> None:
        self._left, self._before, self._dead = after_bytes, before, False

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            if self._dead or name == self._before:
                self._dead = True
                raise Died
            if name == "write":
                handle, content = arguments
                written = os.write(handle, content[: min(len(content), self._left)])
                self._left -= written
                if self._left == 0:
                    self._dead = True
                return written
            return getattr(Files, name)(*arguments, **keywords)

        return call


@pytest.mark.parametrize("there", [False, True])
def test_a_writer_killed_after_any_byte_leaves_the_entry_as_it_was(folder, there):
    store, new = Store(str(folder)), cubin(2, 100)
    if there:
        store.publish(DIGEST, {}, cubin(1))
    expected = cubin(1) if there else None
    size = len(entry.encode(DIGEST, {}, new))
    deaths: list[dict[str, Any]] = [{"after_bytes": count} for count in range(1, size)]
    deaths += [{"before": name} for name in ("makedirs", "open", "write", "fsync", "close", "replace")]
    for death in deaths:
        with pytest.raises(Died):
            Store(str(folder), Dying(**death)).publish(DIGEST, {}, new)
        assert store.find(DIGEST) == expected, death


def test_an_interrupted_writer_leaves_nothing(folder):
    class Interrupted(Files):
        @staticmethod
        def fsync(handle):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Store(str(folder), Interrupted).publish(DIGEST, {}, cubin())
    assert os.listdir(folder) == []


def test_processes_that_share_a_folder_and_are_killed(tmp_path):
    """A small run of benchmarks/cache_stress.py."""
    counts = cache_stress.stress(processes=3, keys=8, seconds=2.5, folder=str(tmp_path / "shared"), kill_every=0.6)
    assert counts["kills"] >= 3
    assert counts["reads"] > 50
    assert counts["deletions"] > 0
    assert (counts["corrupt"], counts["corrupt_left"], counts["temporary_files_after_sweep"]) == (0, 0, 0)


# ---- sweeping


def aged(file: Path, seconds: float) -> Path:
    stamp = time.time() - seconds
    os.utime(file, (stamp, stamp))
    return file


def test_what_dead_writers_left_goes_after_an_hour(folder):
    folder.mkdir(parents=True)
    for name in ("old", "new"):
        (folder / f"{TEMPORARY}{name}").write_text("x")
    (folder / "somebody's file").write_text("x")
    (folder / f"{TEMPORARY}folder").mkdir()
    for file in folder.iterdir():
        aged(file, STALE_SECONDS + 10)
    aged(folder / f"{TEMPORARY}new", STALE_SECONDS - 100)
    Store(str(folder)).publish(DIGEST, {}, cubin())
    left = sorted(os.listdir(folder))
    assert left == sorted([DIGEST + SUFFIX, "somebody's file", f"{TEMPORARY}folder", f"{TEMPORARY}new"])


def fill(folder: Path, count: int) -> list[Path]:
    """Entries of about 1 kB, the first the oldest."""
    store = Store(str(folder))
    for i in range(count):
        store.publish(f"{i:064}", {}, cubin(i, 1000))
    return [aged(path(folder, f"{i:064}"), 1000 * (count - i)) for i in range(count)]


def test_the_oldest_go_when_there_are_too_many(folder, monkeypatch):
    files = fill(folder, 8)
    monkeypatch.setattr(disk, "LIMIT_BYTES", 6 * files[0].stat().st_size)
    Store(str(folder)).sweep()
    assert [file.exists() for file in files] == [False] * 4 + [True] * 4
    Store(str(folder)).sweep()
    assert [file.exists() for file in files] == [False] * 4 + [True] * 4


def test_an_entry_that_is_read_counts_as_new(folder):
    files = fill(folder, 2)
    for file in files:
        aged(file, disk.TOUCH_SECONDS + 10)
    assert Store(str(folder)).find(f"{0:064}") == cubin(0, 1000)
    assert time.time() - files[0].stat().st_mtime < 60
    assert time.time() - files[1].stat().st_mtime > disk.TOUCH_SECONDS


def test_an_entry_replaced_since_it_was_listed_is_not_removed(folder, monkeypatch):
    files = fill(folder, 4)
    size = files[0].stat().st_size
    monkeypatch.setattr(disk, "LIMIT_BYTES", 3 * size)
    replaced = []

    class Racing(Files):
        @staticmethod
        def stat(where, **keywords):
            status = os.stat(where, **keywords)
            if where == str(files[0]) and not replaced:
                replaced.append(shutil.copy(files[0], folder / "another process's"))
                os.replace(replaced[0], files[0])
            return status

    Store(str(folder), Racing).sweep()
    assert replaced
    assert [file.exists() for file in files] == [True, False, True, True]


def test_sweeping_a_folder_that_is_not_there(folder):
    Store(str(folder)).sweep()
