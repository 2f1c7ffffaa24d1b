"""Tensors of more than 2**31 elements, in files of which the file system keeps only the pages that are touched."""
from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz import large_programs
from tilelang.ir.tile import Kernel
from tilelang.passes.pipeline import compile_kernel
from tilelang.sim import machine, reference
from tilelang.target import SM_90A

END = 20_000
"""Elements at the end of each tensor that hold something and are compared."""

PROGRAMS: dict[str, Callable[[], Kernel]] = {
    "vector": large_programs.vector, "64 columns": lambda: large_programs.rows(64), "65 columns": lambda: large_programs.rows(65),
    "constant row": large_programs.constant_row,
}  # fmt: skip


def sparse(path: Path, dtype: np.dtype, shape: tuple[object, ...]) -> np.ndarray:
    """Zeros in a file that is gone once nothing uses the array any more."""
    array = np.memmap(path, dtype, "w+", shape=tuple(int(extent) for extent in shape))  # type: ignore[call-overload]
    path.unlink()
    return array


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file system that keeps sparse files")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_last_block(name: str, tmp_path: Path) -> None:
    kernel = PROGRAMS[name]()
    device = compile_kernel(kernel, SM_90A).device
    a, c = kernel.tensors
    source, *results = (sparse(tmp_path / "tensor", tensor.dtype.numpy, tensor.shape) for tensor in (a, c, c))
    source.reshape(-1)[-END:] = np.arange(END) % 100
    last = tuple(int(axis.extent) - 1 for axis in kernel.grid)  # type: ignore[arg-type]
    reference.run(kernel, [source, results[0]], blocks=[last])
    machine.run(device, {a: source, c: results[1]}, blocks=[(*last, 0, 0)[:3]])
    expected, found = (result.reshape(-1)[-END:] for result in results)
    assert expected.any()
    assert np.array_equal(found, expected)
