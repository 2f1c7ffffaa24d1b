"""The cache of compiled programs: what decides a key, who compiles and who finds, and the environment's word."""
from __future__ import annotations

import dataclasses
import json
import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import tilelang
from benchmarks import cache_stress
from tests.conftest import slowness
from tests.runtime.kernels import add
from tests.runtime.test_kernel import TEXT, jitted
from tilelang.errors import InternalError, Unavailable
from tilelang.runtime import cache, nvrtc, toolchain
from tilelang.runtime.cache import Key, cache_folder, compile_cached, included
from tilelang.runtime.entry import PREFIX_BYTES
from tilelang.runtime.nvrtc import Cubin, Remark, Resources
from tilelang.runtime.toolchain import Toolchain

HERE = Toolchain(version="13.0", library="build-id 1, 7 bytes", builtins=(("libnvrtc-builtins.so.13.0", "build-id 2, 8 bytes"),))
MADE = Cubin(b"\x7fELF made", {"f": Resources(8, 0, 0, 0, 0)}, (), "log")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A cache of this test's own, in memory and on disk; returns where the entries are."""
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    for name in [name for name in os.environ if name.startswith("NVRTC_")]:
        monkeypatch.delenv(name)
    forget(monkeypatch)
    return tmp_path / "cache" / "cubin"


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process."""
    monkeypatch.setattr(cache, "_cache", cache._Cache(True))
    cache._store_of.cache_clear()
    cache._say_homeless.cache_clear()


@pytest.fixture
def compiled(monkeypatch):
    """A stand-in for the compiler; returns the texts that it was asked to compile."""
    texts: list[str] = []
    monkeypatch.setattr(nvrtc, "compile_text", lambda text, **_: texts.append(text) or MADE)
    monkeypatch.setattr(cache, "toolchain", lambda: HERE)
    return texts


def compile_one(text: str = TEXT, **changes: Any) -> Cubin:
    words: dict[str, Any] = {"headers": {}, "arch": "sm_90a", "options": (), "name": "add", "standalone": str}
    return compile_cached(text, **{**words, **changes})


# ---- the key

KEY = Key(
    schema=1, name="gemm", text="text", headers=(("tl_a.cuh", "a"), ("tl_b.cuh", "b")), arguments=("--std=c++17", "-DX"),
    environment=(("NVRTC_APPEND_FLAGS", "-DY"),), toolchain=HERE,
)  # fmt: skip


def others(value: Any) -> list[Any]:
    """Values near `value`, each different from it and from each other."""
    return list({repr(other): other for other in _near(value) if other != value}.values())


def _near(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [value + " ", value[:-1], value.swapcase()]
    if isinstance(value, int):
        return [value + 1]
    if dataclasses.is_dataclass(value):
        changed = [(field.name, other) for field in dataclasses.fields(value) for other in others(getattr(value, field.name))]
        return [dataclasses.replace(value, **{name: other}) for name, other in changed] + [None]
    assert isinstance(value, tuple), value
    inside = [(*value[:i], other, *value[i + 1 :]) for i, item in enumerate(value) for other in others(item)]
    return [*inside, (), value[1:], value + value, value[::-1]]


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Key)])
def test_every_field_of_the_key_counts(field):
    value = getattr(KEY, field)
    changed = [dataclasses.replace(KEY, **{field: other}) for other in others(value)]
    assert changed
    assert len({key.digest() for key in (KEY, *changed)}) == 1 + len(changed)


def test_every_field_of_the_toolchain_counts():
    assert {field.name for field in dataclasses.fields(Toolchain)} == {"version", "library", "builtins"}
    assert len(others(HERE)) > 6


def test_text_cannot_move_from_one_field_to_the_next():
    moved = [
        dataclasses.replace(KEY, headers=(("tl_a.cuh", "atl_b.cuh"),)),
        dataclasses.replace(KEY, headers=(("tl_a.cuha", ""), ("tl_b.cuh", "b"))),
        dataclasses.replace(KEY, arguments=("--std=c++17 -DX",)),
        dataclasses.replace(KEY, name="gemmtext", text=""),
    ]
    assert len({key.digest() for key in (KEY, *moved)}) == 1 + len(moved)


def test_the_digest_is_the_same_in_every_process(run_python):
    code = (
        "from tilelang.runtime.cache import Key; from tilelang.runtime.toolchain import Toolchain;"
        f"print(({KEY!r}).digest())"
    )  # fmt: skip
    assert {run_python("-c", code, PYTHONHASHSEED=seed).stdout.strip() for seed in ("1", "2")} == {KEY.digest()}


def test_the_key_of_a_program_holds_what_the_compiler_gets(compiled, monkeypatch):
    seen: list[Key] = []
    digest = Key.digest
    monkeypatch.setattr(Key, "digest", lambda self: seen.append(self) or digest(self))
    monkeypatch.setenv("NVRTC_APPEND_FLAGS", "-DZ")
    headers = {"a.cuh": '#include "b.cuh"\n', "b.cuh": "", "c.cuh": ""}
    compile_one('#include "a.cuh"\n' + TEXT, headers=headers, options=("-lineinfo",))
    (key,) = seen
    assert key == Key(
        schema=1, name="add", text='#include "a.cuh"\n' + TEXT, headers=(("a.cuh", '#include "b.cuh"\n'), ("b.cuh", "")),
        arguments=nvrtc.arguments("sm_90a", ("-lineinfo",)), environment=(("NVRTC_APPEND_FLAGS", "-DZ"),), toolchain=HERE,
    )  # fmt: skip


def test_the_compiler_gets_what_the_key_holds(monkeypatch):
    """Headers that are not in the key are not given to NVRTC."""
    asked: list[Any] = []
    real = nvrtc.compile_text
    monkeypatch.setattr(nvrtc, "compile_text", lambda text, **k: asked.append(k["headers"]) or real(text, **k))
    assert compile_one('#include "a.cuh"\n' + TEXT, headers={"a.cuh": "", "b.cuh": "#error"}).image[:4] == b"\x7fELF"
    assert asked == [{"a.cuh": ""}]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []), ('#include "a"', ["a"]), ('  #  include "b" // words', ["b", "c"]),
        ("#include <c>\n#include <stdint.h>", ["c"]), ('#include "missing"', None), ('#include "d"', None),
        ('// #include "missing"\n"#include <x>"', []),
    ],
)  # fmt: skip
def test_headers_that_are_included(text, names):
    headers = {"a": '#include "a"', "b": "\n#include <c>\n", "c": "", "d": '#include "missing"'}
    found = included(text, headers)
    assert found == (None if names is None else {name: headers[name] for name in names})


# ---- who compiles and who finds


def test_a_program_is_compiled_once_in_a_process(compiled):
    assert compile_one() is compile_one()
    assert compiled == [TEXT]


def test_another_process_compiles_nothing(compiled, monkeypatch, folder):
    compile_one()
    forget(monkeypatch)
    assert compile_one() == MADE
    assert compiled == [TEXT]
    assert len(list(folder.iterdir())) == 1


CHANGES: list[dict[str, Any]] = [
    {}, {"text": TEXT + "\n"}, {"text": '#include "a"\n' + TEXT}, {"text": '#include "a"\n' + TEXT, "headers": {"a": " "}},
    {"options": ("--use_fast_math",)}, {"arch": "sm_100a"}, {"name": "sub"},
]  # fmt: skip


def test_every_part_of_a_program_counts(compiled):
    for _ in range(2):
        for change in CHANGES:
            compile_one(**{"text": TEXT, "headers": {"a": ""}, **change})
        assert len(compiled) == len(CHANGES)


@pytest.mark.parametrize("change", [{"version": "13.1"}, {"library": "build-id 56, 7 bytes"}, {"builtins": ()}])
def test_another_compiler_compiles_anew(compiled, monkeypatch, change):
    compile_one()
    forget(monkeypatch)
    monkeypatch.setattr(cache, "toolchain", lambda: dataclasses.replace(HERE, **change))
    compile_one()
    assert len(compiled) == 2


def test_flags_in_the_environment_count(compiled, monkeypatch):
    compile_one()
    monkeypatch.setenv("NVRTC_APPEND_FLAGS", "--use_fast_math")
    compile_one()
    compile_one()
    assert len(compiled) == 2


FILES = ["-I/tmp", "--include-path=x", "--pre-include=x.h", "-include", "--use-pch=x", "@flags", "-time=x", "--optf=x"]


@pytest.mark.parametrize("option", FILES)
def test_options_that_read_files_are_compiled_each_time(compiled, folder, monkeypatch, option):
    for _ in range(2):
        compile_one(options=(option,))
    monkeypatch.setenv("NVRTC_APPEND_FLAGS", f"-DX {option}")
    compile_one()
    compile_one('#include "of the working directory"\n')
    assert len(compiled) == 4
    assert not folder.exists()


def test_a_library_that_turns_out_to_be_another_keeps_nothing_on_disk(compiled, monkeypatch, folder):
    found = iter([HERE, dataclasses.replace(HERE, version="13.1")])
    monkeypatch.setattr(cache, "toolchain", lambda: next(found))
    compile_one()
    assert not folder.exists()


def test_a_library_that_cannot_be_identified_keeps_programs_in_memory(compiled, monkeypatch, folder):
    monkeypatch.setattr(cache, "toolchain", lambda: None)
    assert compile_one() is compile_one()
    assert len(compiled) == 1
    assert not folder.exists()


def test_without_nvrtc_it_says_what_to_install(monkeypatch):
    def missing() -> None:
        raise Unavailable("no NVRTC", code="TL601")

    monkeypatch.setattr(cache, "toolchain", lambda: None)
    monkeypatch.setattr(nvrtc, "bindings", missing)
    with pytest.raises(Unavailable):
        compile_one()


def test_what_failed_is_not_kept(monkeypatch, folder):
    monkeypatch.setenv("TILELANG_TMP_DIR", str(folder.parent / "tmp"))
    for _ in range(2):
        with pytest.raises(InternalError):
            compile_one("not CUDA")
    assert not folder.exists()


def test_a_remark_is_judged_again_in_the_next_process(monkeypatch, compiled, tmp_path):
    """TILELANG_PTXAS_REMARKS=warn let it pass in the one that compiled it."""
    monkeypatch.setenv("TILELANG_TMP_DIR", str(tmp_path / "tmp"))
    remarked = dataclasses.replace(MADE, remarks=(Remark("C7508", "ignored"),))
    monkeypatch.setattr(nvrtc, "compile_text", lambda text, **_: remarked)
    compile_one()
    forget(monkeypatch)
    with pytest.raises(InternalError) as caught:
        compile_one()
    assert caught.value.code == "TL952"
    assert "the text is saved in" in caught.value.notes[0]
    monkeypatch.setenv("TILELANG_PTXAS_REMARKS", "warn")
    assert compile_one() == remarked


def test_a_real_program_comes_back_whole(monkeypatch):
    made = jitted(add())
    first = (made.cubin, made.resources, made.n_regs)
    forget(monkeypatch)
    monkeypatch.setattr(nvrtc, "compile_text", lambda text, **_: pytest.fail("compiled"))
    again = jitted(add())
    assert (again.cubin, again.resources, again.n_regs) == first
    assert first[0][:4] == b"\x7fELF"


def test_what_is_kept_in_memory_is_bounded(compiled, monkeypatch):
    monkeypatch.setattr(cache, "_LIMIT", 2)
    for i in range(5):
        compile_one(f"{i}")
    assert len(cache._cache.entries) == 2
    compile_one("0")
    assert compiled == ["0", "1", "2", "3", "4"]


# ---- threads and forks


def in_threads(count: int, work: Any) -> None:
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)


def test_threads_that_want_one_program_compile_it_once(compiled, monkeypatch):
    def slow(text: str, **_: Any) -> Cubin:
        compiled.append(text)
        time.sleep(0.02)
        return MADE

    monkeypatch.setattr(nvrtc, "compile_text", slow)
    found: list[Cubin] = []
    in_threads(16, lambda i: found.extend(compile_one(f"{i % 3}") for _ in range(5)))
    assert sorted(compiled) == ["0", "1", "2"]
    assert found == [MADE] * 80


def test_threads_that_want_different_programs_do_not_wait_for_each_other(compiled, monkeypatch):
    together = threading.Barrier(4, timeout=20)
    monkeypatch.setattr(nvrtc, "compile_text", lambda text, **_: together.wait() is None or MADE)
    in_threads(4, lambda i: compile_one(f"{i}"))
    assert not together.broken


def test_a_thread_that_fails_lets_the_next_one_try(compiled, monkeypatch):
    calls: list[str] = []

    def fails_once(text: str, **_: Any) -> Cubin:
        calls.append(text)
        time.sleep(0.01)
        if len(calls) == 1:
            raise InternalError("once", code="TL951")
        return MADE

    monkeypatch.setattr(nvrtc, "compile_text", fails_once)
    results: list[Any] = []

    def work(_: int) -> None:
        try:
            results.append(compile_one())
        except InternalError as error:
            results.append(error)

    in_threads(4, work)
    assert len(calls) == 2
    assert [result for result in results if result == MADE] == [MADE] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_forked_while_another_thread_compiles_is_not_held_up(run_python):
    code = """
import os, sys, threading, warnings
warnings.simplefilter("ignore")
from tilelang.runtime import cache, nvrtc
made = nvrtc.Cubin(b"", {}, (), "")
started, go_on = threading.Event(), threading.Event()
nvrtc.compile_text = lambda text, **_: (started.set(), go_on.wait(10)) and made
words = ("text", {}, "sm_90a", (), "f", str)
thread = threading.Thread(target=cache.compile_cached, args=words)
thread.start()
started.wait()
child = os.fork()
if child == 0:
    nvrtc.compile_text = lambda text, **_: made
    os._exit(0 if cache.compile_cached(*words) is made else 1)
_, status = os.waitpid(child, 0)
go_on.set()
thread.join()
print(status)
"""
    assert run_python("-c", code).stdout == "0\n"


# ---- on and off, and where


def test_the_cache_can_be_off(compiled, folder):
    assert tilelang.is_cache_enabled()
    tilelang.disable_cache()
    assert not tilelang.is_cache_enabled()
    for _ in range(2):
        compile_one()
    assert len(compiled) == 2
    assert not folder.exists()
    tilelang.enable_cache()
    for _ in range(2):
        compile_one()
    assert len(compiled) == 3
    assert len(list(folder.iterdir())) == 1


def test_while_it_is_off_nothing_is_read(compiled, monkeypatch):
    compile_one()
    forget(monkeypatch)
    tilelang.disable_cache()
    compile_one()
    assert len(compiled) == 2


def test_the_environment_can_switch_it_off(run_python):
    code = "import tilelang; print(tilelang.is_cache_enabled())"
    assert run_python("-c", code, TILELANG_DISABLE_CACHE="1").stdout == "False\n"
    assert run_python("-c", code, TILELANG_DISABLE_CACHE="0").stdout == "True\n"


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"TILELANG_CACHE_DIR": "/a/b"}, "/a/b/cubin"),
        ({"TILELANG_CACHE_DIR": "~/b", "HOME": "/home/u"}, "/home/u/b/cubin"),
        ({"HOME": "/home/u"}, "/home/u/.cache/tilelang/cubin"),
        ({"TILELANG_CACHE_DIR": "", "HOME": "/home/u"}, "/home/u/.cache/tilelang/cubin"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/home/u"}, "/x/tilelang/cubin"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/u"}, "/home/u/.cache/tilelang/cubin"),
    ],
)
def test_where_it_is(monkeypatch, variables, folder):
    for name in ("TILELANG_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == folder


def test_a_relative_folder_is_one_of_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("TILELANG_CACHE_DIR", "here")
    monkeypatch.chdir(tmp_path)
    assert cache_folder() == str(tmp_path / "here" / "cubin")


def test_without_a_home_it_works_from_memory_and_says_so_once(compiled, monkeypatch, caplog):
    monkeypatch.delenv("TILELANG_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # a user without HOME and without an entry in the user database
    with caplog.at_level(logging.WARNING, "tilelang"):
        for text in ("a", "b", "a"):
            compile_one(text)
    assert len(compiled) == 2
    assert [record.message for record in caplog.records] == [
        "there is no home folder and TILELANG_CACHE_DIR is not set: programs are compiled in each process"
    ]


def test_a_folder_that_cannot_be_used_is_said_once(compiled, monkeypatch, caplog, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING, "tilelang"):
        for text in ("a", "b", "a"):
            assert compile_one(text) == MADE
    assert len(caplog.records) == 1
    assert compiled == ["a", "b"]


# ---- the whole way


def test_a_second_process_imports_no_bindings_and_is_quick(tmp_path):
    """From the start of an interpreter to the cubin of a GEMM, in processor time, since the machine has other work too."""
    _, _, (size, imported, _) = cache_stress.start(tmp_path)
    assert imported
    warm = [cache_stress.start(tmp_path) for _ in range(4)]
    assert {facts for _, _, facts in warm} == {(size, False, False)}
    assert min(processor for _, processor, _ in warm) < 0.5 * slowness(), warm


def test_an_entry_says_what_it_is(folder, compiled):
    compile_one()
    (file,) = folder.iterdir()
    raw = file.read_bytes()
    header, _ = json.JSONDecoder().raw_decode(raw[PREFIX_BYTES:].decode("latin-1"))
    assert header["digest"] == file.stem
    assert header["facts"] == {
        "schema": 1, "name": "add", "arguments": list(nvrtc.arguments("sm_90a")), "environment": [],
        "toolchain": json.loads(json.dumps(dataclasses.asdict(HERE))),
    }  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="the wheel's library is looked up on Linux only")
def test_the_library_that_is_found_is_the_one_that_compiles():
    found = toolchain.toolchain()
    nvrtc.version()
    assert toolchain._is_loaded("libnvrtc.so.13")
    assert toolchain.toolchain() == found
    assert found is not None
    assert found.version == "{}.{}".format(*nvrtc.version())
