"""Tiles of every dtype by TMA on the machine."""
from __future__ import annotations

import numpy as np
import pytest

import tilelang.language as T
from tests.passes.running import compiled
from tilelang.ir.tile import Kernel
from tilelang.ir.types import DType
from tilelang.passes.plans import CopyKind
from tilelang.sim import machine

ROWS, COLUMNS = 100, 64


def through_shared_memory(dtype: str) -> Kernel:
    @T.prim_func
    def kernel(A: T.Tensor((ROWS, COLUMNS), dtype), B: T.Tensor((ROWS, COLUMNS), dtype)):
        with T.Kernel(T.ceildiv(ROWS, 64), threads=128) as bx:
            tile = T.alloc_shared((64, COLUMNS), dtype)
            T.copy(A[bx * 64, 0], tile)
            T.copy(tile, B[bx * 64, 0])

    return kernel


@pytest.mark.parametrize(
    "dtype",
    ["float8_e4m3", "float8_e5m2", "int8", "uint8", "float16", "bfloat16", "int16", "float32", "int32", "int64", "float64"],
)
def test_every_dtype_passes_unchanged(dtype: str) -> None:
    lowered = compiled(through_shared_memory(dtype))
    given_tensor, found_tensor = lowered.kernel.tensors
    assert {plan.kind for plan in lowered.plans.copies.values()} == {CopyKind.TMA_LOAD, CopyKind.TMA_STORE}
    array = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS) % 7
    given, found = array.astype(DType(dtype).numpy), np.zeros(array.shape, DType(dtype).numpy)
    machine.run(lowered.device, {given_tensor: given, found_tensor: found})
    assert np.array_equal(given.view(np.uint8), found.view(np.uint8))
