"""Golden CUDA text, what holds for every text, and standalone files."""
from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.codegen.conftest import GOLDEN as FOLDER
from tests.codegen.statements import every_statement
from tests.codegen.variations import COMPILED, GOLDEN, text_of
from tests.passes.running import compiled
from tilelang.codegen.cuda import emit
from tilelang.codegen.headers import header_texts, needed, standalone

NAMES = [*GOLDEN, *COMPILED]


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.cu", text_of(name))


def test_golden_of_every_statement(golden: Callable[[str, str], None]) -> None:
    golden("every_statement.cu", emit(every_statement()))


def test_every_golden_file_belongs_to_a_test() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {*GOLDEN, "every_statement"}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_same_program_gives_the_same_text(name: str) -> None:
    assert emit(compiled(GOLDEN[name]()).device) == text_of(name)


@pytest.mark.parametrize("name", NAMES)
def test_form(name: str) -> None:
    """What a reader relies on: no tabs, no spaces at the end, two spaces of indentation for each open brace."""
    text = text_of(name)
    assert text.endswith("}\n")
    assert "\t" not in text
    depth = 0
    for line in text.splitlines():
        assert line == line.rstrip(), line
        code = line.split("//")[0].strip()
        depth -= code.startswith("}")
        assert line.startswith("  " * depth) or not code, line
        depth += code.count("{") - code.count("}") + code.startswith("}")
    assert depth == 0


@pytest.mark.parametrize("name", NAMES)
def test_every_run_time_loop_stays_a_loop(name: str) -> None:
    lines = [line.strip() for line in text_of(name).splitlines()]
    for before, line in itertools.pairwise(lines):
        if line.startswith("for ("):
            assert before in ("#pragma unroll", "#pragma unroll 1"), line


def test_the_plain_gemm_is_about_a_hundred_lines() -> None:
    text = text_of("gemm")
    assert len(text.splitlines()) < 130
    assert "98304 bytes of dynamic shared memory, 6 mbarriers" in text
    for word in ("CUtensorMap", "tl::tma_load", "tl::wgmma_ss", "tl::warpgroup_reg_dealloc"):
        assert word in text


# ---- headers ------------------------------------------------------------------------------------------------------------------

WRAPPER = re.compile(r"^TL_DEVICE .*?\b(\w+)\((?!.*\bTL_DEVICE)", re.MULTILINE)


def test_every_wrapper_brings_its_header() -> None:
    """A text that calls one wrapper and nothing else includes the header that defines it."""
    found = 0
    for header, text in header_texts().items():
        for name in set(WRAPPER.findall(text)):
            found += 1
            assert header in needed(f"tl::{name}();"), name
    assert found > 60


def test_a_wrapper_has_one_home() -> None:
    homes: dict[str, set[str]] = {}
    for header, text in header_texts().items():
        for name in WRAPPER.findall(text):
            homes.setdefault(name, set()).add(header)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_headers_need_no_others_headers() -> None:
    for name, text in header_texts().items():
        assert set(re.findall(r"#include (\S+)", text)) <= {f'"{header}"' for header in header_texts()} | {"<stdint.h>"}
        assert text.startswith("// "), f"{name} begins with what it is"
        assert text.count("#pragma once\n") == 1


@pytest.mark.parametrize("name", NAMES)
def test_standalone_text_includes_each_header_once(name: str) -> None:
    text = standalone(text_of(name))
    assert '#include "' not in text
    assert "#pragma once" not in text
    wanted = set(re.findall(r'#include "(\S+)"', text_of(name)))
    wanted |= {inner for header in wanted for inner in re.findall(r'#include "(\S+)"', header_texts()[header])}
    parts = re.findall(r"^// ---- (tl_\w+\.cuh)$", text, re.MULTILINE)
    assert sorted(parts) == sorted(wanted)
    assert text.endswith(text_of(name).split("\n\n", 1)[1])


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on the path")
def test_plain_nvcc_takes_a_standalone_file(tmp_path: Path) -> None:
    (tmp_path / "gemm.cu").write_text(standalone(text_of("gemm")))
    command = ["nvcc", "-arch=sm_90a", "-cubin", "-Werror", "all-warnings", "-Xptxas", "-v", "-o", "gemm.cubin", "gemm.cu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr
    assert "C75" not in done.stderr
    assert (tmp_path / "gemm.cubin").stat().st_size > 1000
