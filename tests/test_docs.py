"""What the documentation claims about the source is read from both and compared."""
from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT, RunPython

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
CODE = re.compile(r"TL\d{3}")


def codes_in_source() -> set[str]:
    """Every string of the package that is an error code, without those of InternalError."""
    found = set()
    for path in (ROOT / "tilelang").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
                found.add(node.value)
    return {code for code in found if not code.startswith("TL9")}


def codes_in_table() -> list[str]:
    """The first column of the table of docs/errors.md."""
    return re.findall(r"^\| (TL\d{3}) \|", (ROOT / "docs" / "errors.md").read_text(), re.MULTILINE)


def test_every_error_code_is_documented_once() -> None:
    table = codes_in_table()
    assert table == sorted(set(table)), "in order, each once"
    assert set(table) == codes_in_source()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", page.read_text()) if "://" not in link]
    assert [link for link in links if link and not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_files_that_are_named_exist(page: Path) -> None:
    """`passes/pipeline.py`, `tilelang/ir/tile.py` and the like: looked up from the root and from the package."""
    names = re.findall(r"`((?:[\w.]+/)+[\w.]+\.(?:py|cuh|md|toml|json))`", page.read_text())
    assert [name for name in names if not any((folder / name).exists() for folder in (ROOT, ROOT / "tilelang"))] == []


def fenced(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def test_the_readme_shows_the_cuda_that_comes_out(run_python: RunPython) -> None:
    """README's program is run as it stands; each line of README's CUDA excerpt, but for `...`, must be printed, in that order."""
    (program,) = [block for block in fenced(ROOT / "README.md", "python") if "prim_func" in block]
    (excerpt,) = fenced(ROOT / "README.md", "cuda")
    assert len(excerpt.splitlines()) > 20
    printed = run_python("-c", RUN_AS_FILE, program, CUDA_VISIBLE_DEVICES="").stdout.splitlines()
    at = 0
    for line in excerpt.splitlines():
        if line.strip() in ("", "..."):
            continue
        rest = [text.rstrip() for text in printed[at:]]
        assert line.rstrip() in rest, line
        at += rest.index(line.rstrip()) + 1


RUN_AS_FILE = """
import pathlib, runpy, sys
pathlib.Path("program.py").write_text(sys.argv[1])
runpy.run_path("program.py")
"""


def test_the_page_on_layouts_prints_what_it_shows(run_python: RunPython) -> None:
    """Its Python blocks, run as one program, print its text blocks."""
    page = ROOT / "docs" / "layouts.md"
    blocks, shown = fenced(page, "python"), fenced(page, "text")
    assert len(blocks) == len(shown) > 4
    program = "\nprint('----')\n".join(blocks)
    printed = run_python("-c", RUN_AS_FILE, program, CUDA_VISIBLE_DEVICES="").stdout
    assert printed == "----\n".join(shown)


def test_the_architecture_names_every_pass() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    passes = [path.stem for path in (ROOT / "tilelang" / "passes").glob("[!_]*.py")]
    assert [name for name in passes if f"`{name}`" not in text and f"`passes/{name}.py`" not in text] == []


def test_the_readme_quotes_the_example() -> None:
    """Its excerpt of the attention program is in the program, line for line and in that order."""
    (excerpt,) = [block for block in fenced(ROOT / "README.md", "python") if "V_tile" in block]
    rest = [line.strip() for line in (ROOT / "examples" / "attention.py").read_text().splitlines()]
    for line in excerpt.splitlines():
        if line.strip() != "...":
            assert line.strip() in rest, line
            rest = rest[rest.index(line.strip()) + 1 :]


def test_the_language_names_everything_that_it_has(run_python: RunPython) -> None:
    """Every name of `tilelang.language` that is no dtype is on its page."""
    program = "import tilelang.language as T; print(*(name for name in T.__all__ if name not in T._types.__all__))"
    text = (ROOT / "docs" / "language.md").read_text()
    names = run_python("-c", program).stdout.split()
    assert len(names) > 50
    assert [name for name in names if not re.search(rf"`T\.{name}\b", text)] == []
