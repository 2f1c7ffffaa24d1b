"""Programs that live in files: how one is loaded, which arrays it gets, how it is run.

A file holds a kernel `program`, or a function `program(...)` that returns one, and in `CASES` the arguments to call it with.
`SCALARS` gives scalar parameters their numbers; `REFUSED` is the code with which the compiler may refuse the program.
Tensors are filled by their names: `O...` and `C` are outputs and begin as `UNTOUCHED`, `index...` holds numbers below
`INDEX_LIMIT`, everything else integers of at most `SMALL`.
"""
from __future__ import annotations

import importlib.util
import itertools
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tests.fuzz.program import INDEX_LIMIT, SMALL, UNTOUCHED
from tests.fuzz.running import LIMIT_SECONDS, Arrays, Outcome, Scalars, run_program
from tilelang.ir.expr import Var
from tilelang.ir.tile import Kernel
from tilelang.target import SM_90A, Target

_loaded = itertools.count()


def load(path: Path) -> ModuleType:
    """The file as a module, run afresh."""
    spec = importlib.util.spec_from_file_location(f"fuzzed_{path.stem}_{next(_loaded)}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cases(path: Path) -> tuple[dict[str, Any], ...]:
    """The arguments of each program of a file; one empty set for a file that holds a single kernel."""
    text = path.read_text()
    return tuple(load(path).CASES) if "\nCASES" in text else ({},)


def expected_refusal(path: Path) -> str:
    """The code that `REFUSED` of a file names, empty without; read from the text, since the file itself may raise that error."""
    found = re.search(r'^REFUSED = "(TL\d{3})"$', path.read_text(), re.MULTILINE)
    return found.group(1) if found else ""


def arrays(kernel: Kernel, seed: int = 0) -> Arrays:
    """What each tensor holds before the kernel runs."""
    found: Arrays = {}
    for tensor in kernel.tensors:
        shape, dtype = tuple(int(extent) for extent in tensor.shape), tensor.dtype.numpy  # type: ignore[arg-type]
        rng = np.random.default_rng([seed, zlib.crc32(tensor.name.encode())])
        if tensor.name.startswith("O") or tensor.name == "C":
            found[tensor] = np.full(shape, UNTOUCHED, dtype)
        elif tensor.name.startswith("index"):
            found[tensor] = rng.integers(0, INDEX_LIMIT, shape).astype(dtype)
        else:
            least = 0 if tensor.dtype.kind in ("uint", "bool") else -SMALL
            found[tensor] = rng.integers(least, SMALL + 1, shape).astype(dtype)
    return found


def run_file(
    path: Path, schedules: Sequence[str], case: dict[str, Any] | None = None, limit_seconds: float = LIMIT_SECONDS,
    target: Target = SM_90A,
) -> Outcome:  # fmt: skip
    """Runs one program of a file."""
    module: dict[str, Any] = {}

    def build() -> Kernel:
        module.update(vars(load(path)))
        found = module["program"]
        return found if isinstance(found, Kernel) else found(**(case or {}))

    def scalars(kernel: Kernel) -> Scalars:
        given = {**module.get("SCALARS", {}), **(case or {})}
        return {param: given[param.name] for param in kernel.params if isinstance(param, Var)}

    return run_program(build, arrays, schedules, scalars, limit_seconds, target)
