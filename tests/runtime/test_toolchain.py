"""Which NVRTC library would compile: found without loading it, told apart by what is in it."""
from __future__ import annotations

import hashlib
import os
import struct
import sys
import types
from pathlib import Path

import pytest

from tilelang.runtime import toolchain
from tilelang.runtime.toolchain import build_id

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looked up on Linux only")


def note(name: bytes, kind: int, content: bytes) -> bytes:
    return struct.pack("<III", len(name), len(content), kind) + name.ljust(-(-len(name) // 4) * 4, b"\0") + content


def elf(identity: bytes | None, padding: bytes = b"") -> bytes:
    """A 64-bit ELF file with a loadable segment and one of notes, the build ID the second of these."""
    notes = note(b"stapsdt\0", 3, b"other") .ljust(28, b"\0")
    notes += note(b"GNU\0", 3, identity) if identity is not None else b""
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    segments = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 0, 0, 0) + struct.pack("<IIQQQQQQ", 4, 4, 176, 0, 0, len(notes), 0, 4)
    return header + segments + notes + padding


def test_the_build_id_of_a_file():
    assert build_id(elf(bytes.fromhex("00ff10"))) == "00ff10"
    assert build_id(elf(None)) == ""
    for other in (b"", b"\x7fELF", b"MZ" + bytes(100), elf(b"\1")[:170], elf(b"\1")[:64], b"\x7fELF\x01\x01" + bytes(100)):
        assert build_id(other) == ""


def test_any_bytes_have_an_answer():
    whole = elf(b"\1\2\3\4")
    for at in range(len(whole)):
        for value in (0, 255):
            build_id(whole[:at] + bytes([value]) + whole[at + 1 :])


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """Two folders for wheels, nothing loaded, and no answer from cuda.pathfinder."""
    monkeypatch.setattr(toolchain.site, "getsitepackages", lambda: [str(tmp_path / "a"), str(tmp_path / "b")])
    monkeypatch.setattr(toolchain.site, "ENABLE_USER_SITE", False)
    monkeypatch.setattr(toolchain, "_is_loaded", lambda soname: False)
    monkeypatch.setattr(toolchain, "_asked", lambda: None)
    return tmp_path


def install(base: Path, identity: bytes | None = b"\1\2", builtins: bytes = b"\3", version: str = "13.0") -> Path:
    folder = base / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    (folder / "libnvrtc.so.13").write_bytes(elf(identity))
    (folder / f"libnvrtc-builtins.so.{version}").write_bytes(elf(builtins))
    return folder / "libnvrtc.so.13"


def test_the_wheel_is_found_without_asking(wheels):
    assert toolchain.toolchain() is None
    library = install(wheels / "b")
    assert toolchain.library_path() == library
    found = toolchain.toolchain()
    assert found is not None
    size = library.stat().st_size
    assert (found.version, found.library) == ("13.0", f"build-id 0102, {size} bytes")
    assert found.builtins == (("libnvrtc-builtins.so.13.0", f"build-id 03, {size - 1} bytes"),)


def test_the_first_folder_wins(wheels):
    install(wheels / "b")
    first = install(wheels / "a")
    assert toolchain.library_path() == first


def test_the_users_folder_is_the_second_in_a_virtual_environment_and_the_first_outside(wheels, monkeypatch):
    monkeypatch.setattr(toolchain.site, "ENABLE_USER_SITE", True)
    monkeypatch.setattr(toolchain.site, "getusersitepackages", lambda: "user")
    monkeypatch.setattr(toolchain.sys, "base_prefix", "elsewhere")
    assert toolchain._site_packages()[1] == "user"
    monkeypatch.setattr(toolchain.sys, "base_prefix", sys.prefix)
    assert toolchain._site_packages()[0] == "user"


def test_equal_libraries_in_two_places_are_one_and_time_is_nothing(wheels):
    first = install(wheels / "a")
    found = toolchain.toolchain()
    os.utime(first, (1, 1))
    assert toolchain.toolchain() == found
    first.unlink()
    install(wheels / "b")
    assert toolchain.toolchain() == found


def test_every_difference_between_libraries_is_one(wheels, monkeypatch):
    variants = [
        {}, {"identity": b"\1\3"}, {"identity": b"\1\2\3"}, {"identity": None}, {"builtins": b"\4"}, {"version": "13.1"},
    ]  # fmt: skip
    found = []
    for i, variant in enumerate(variants):
        base = wheels / f"{i}"
        install(base, **variant)
        monkeypatch.setattr(toolchain.site, "getsitepackages", lambda base=base: [str(base)])
        found.append(toolchain.toolchain())
    assert None not in found
    assert len(set(found)) == len(variants)


def test_a_library_replaced_in_its_place_is_seen(wheels):
    library = install(wheels / "a")
    before = toolchain.toolchain()
    library.unlink()
    library.write_bytes(elf(b"\7\7"))
    assert toolchain.toolchain() not in (before, None)


def test_a_library_without_build_id_is_told_by_all_its_bytes(wheels):
    library = install(wheels / "a", identity=None)
    found = toolchain.toolchain()
    assert found is not None
    assert found.library == f"sha256 {hashlib.sha256(library.read_bytes()).hexdigest()}"


def test_a_library_that_is_loaded_comes_first(wheels, monkeypatch):
    install(wheels / "a")
    other = install(wheels / "elsewhere")
    monkeypatch.setattr(toolchain, "_is_loaded", lambda soname: soname == "libnvrtc.so.12")
    monkeypatch.setattr(toolchain, "_mapped", lambda soname: other)
    assert toolchain.library_path() == other


def test_what_is_loaded_is_read_from_the_process():
    assert not toolchain._is_loaded("libno-such-library.so.1")
    assert toolchain._is_loaded("libc.so.6")
    mapped = toolchain._mapped("libc.so.6")
    assert mapped is not None
    assert mapped.exists()
    assert toolchain._mapped("libno-such-library.so.1") is None


def test_a_library_that_is_gone_has_no_identity(wheels, monkeypatch):
    monkeypatch.setattr(toolchain, "library_path", lambda: wheels / "libnvrtc.so.13 (deleted)")
    assert toolchain.toolchain() is None


def test_without_a_wheel_cuda_pathfinder_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(toolchain.site, "getsitepackages", list)
    monkeypatch.setattr(toolchain.site, "ENABLE_USER_SITE", False)
    monkeypatch.setattr(toolchain, "_is_loaded", lambda soname: False)
    library = install(tmp_path)
    finder = types.SimpleNamespace(load_nvidia_dynamic_lib=lambda name: types.SimpleNamespace(abs_path=str(library)))
    monkeypatch.setattr(toolchain, "import_module", lambda name: finder)
    assert toolchain.library_path() == library


@pytest.mark.parametrize("error", [ImportError("no cuda"), RuntimeError("not found"), OSError("cannot be loaded")])
def test_an_answer_that_fails_is_none(monkeypatch, error):
    def failing(name: str) -> None:
        raise error

    monkeypatch.setattr(toolchain, "import_module", failing)
    assert toolchain._asked() is None
