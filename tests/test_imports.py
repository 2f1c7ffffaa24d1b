"""What `import tilelang` may load and how long it may take, and which room may import which."""
from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, RunPython

PACKAGE = ROOT / "tilelang"

# Lower may not import higher; rooms of one level may not import each other, except where OPEN says so.
LEVELS: tuple[tuple[str, ...], ...] = (
    ("errors", "target", "trace"),
    ("ir",),
    ("layout",),
    ("frontend", "language"),
    ("passes",),
    ("codegen", "sim"),
    ("runtime",),
    ("autotuner", "profiler", "report"),
    ("cli",),
    ("__main__",),
)  # fmt: skip
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
SEPARATE = {"codegen", "sim"}  # of one level, and strangers to each other


def room_of(module: str) -> str:
    """The room of a dotted module name: tilelang.passes.plan_gemm -> passes; the package itself -> ""."""
    return [*module.split("."), ""][1]


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of every import of our own package in a file, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if room_of(alias.name) or alias.name == "tilelang")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            if node.module == "tilelang":
                yield from ((node.lineno, f"tilelang.{alias.name}") for alias in node.names)
            elif node.module and node.module.startswith("tilelang."):
                yield node.lineno, node.module


def violation(importer: str, imported: str) -> str:
    """What is wrong with room `importer` importing room `imported`; empty if nothing is."""
    if importer == imported:
        return ""
    for room in (importer, imported):
        if room not in LEVEL:
            return f"room {room!r} has no level; give it one in LEVELS"
    if LEVEL[imported] > LEVEL[importer]:
        return f"{importer} may not import {imported}, which comes after it"
    if LEVEL[imported] == LEVEL[importer] and importer in SEPARATE:
        return f"{importer} may not import {imported}"
    return ""


MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    importer = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {message}"
        for line, module in imports_of(path)
        if module != "tilelang" and (message := violation(importer, room_of(module)))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("importer", "imported"),
    [("ir", "layout"), ("passes", "codegen"), ("codegen", "sim"), ("sim", "codegen"), ("language", "runtime"), ("ir", "nowhere")],
)
def test_the_rule_refuses(importer: str, imported: str) -> None:
    assert violation(importer, imported)


@pytest.mark.parametrize(
    ("importer", "imported"), [("passes", "ir"), ("runtime", "sim"), ("language", "frontend"), ("ir", "errors")]
)
def test_the_rule_allows(importer: str, imported: str) -> None:
    assert not violation(importer, imported)


FORBIDDEN = ("torch", "cuda", "rich", "numpy", "ml_dtypes", "tilelang.passes", "tilelang.codegen", "tilelang.sim")
LOADED = f"""
import sys, tilelang, tilelang.language
print([name for name in sys.modules if any(name == root or name.startswith(root + ".") for root in {FORBIDDEN})])
"""


def test_import_loads_little(run_python: RunPython) -> None:
    assert ast.literal_eval(run_python("-c", LOADED).stdout) == []


TIMED = "import time; start = time.perf_counter(); import tilelang; print(time.perf_counter() - start)"


def test_import_is_quick(run_python: RunPython) -> None:
    """Median of 7 fresh interpreters; one more before them compiles byte code."""
    seconds = [float(run_python("-c", TIMED).stdout) for _ in range(8)][1:]
    assert statistics.median(seconds) < 0.3, seconds
