"""The arguments of cuTensorMapEncodeTiled for a record; encoding itself needs a driver and is tested on a GPU."""
from __future__ import annotations

import enum
from typing import Any

import pytest

from tests.runtime.kernels import tensor
from tilelang.errors import InternalError
from tilelang.ir.device import TensorMap
from tilelang.ir.types import DTYPE_NAMES, DType
from tilelang.runtime import tensormap

driver = pytest.importorskip("cuda.bindings.driver")


def record(dtype: str = "float16", **changes: Any) -> TensorMap:
    fields: dict[str, Any] = {
        "name": "A_map", "tensor": tensor("A", 100, 64, dtype=dtype), "dtype": DType(dtype), "dims": (64, 100),
        "strides_bytes": (128,), "box": (64, 32), "swizzle_bytes": 128,
    }  # fmt: skip
    return TensorMap(**{**fields, **changes})


def test_arguments_of_a_record():
    dtype, rank, pointer, dims, strides, box, steps, interleave, swizzle, promotion, fill = tensormap.arguments(
        record(), 0x1000, driver
    )
    assert dtype.name == "CU_TENSOR_MAP_DATA_TYPE_FLOAT16"
    assert (int(rank), pointer) == (2, 0x1000)
    assert [[int(v) for v in values] for values in (dims, strides, box, steps)] == [[64, 100], [128], [64, 32], [1, 1]]
    assert [value.name for value in (interleave, swizzle, promotion, fill)] == [
        "CU_TENSOR_MAP_INTERLEAVE_NONE", "CU_TENSOR_MAP_SWIZZLE_128B", "CU_TENSOR_MAP_L2_PROMOTION_L2_256B",
        "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE",
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_every_dtype_has_a_type_of_its_width(dtype):
    if dtype in ("int8", "int16", "bool", "float8_e4m3fn", "float8_e5m2"):
        expected = "UINT8" if DType(dtype).bytes == 1 else "UINT16"
    else:
        expected = dtype.upper()
    assert tensormap.arguments(record(dtype), 0, driver)[0].name == f"CU_TENSOR_MAP_DATA_TYPE_{expected}"


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("promotion", [0, 64, 128, 256])
def test_every_swizzle_and_promotion_exists(swizzle, promotion):
    found = tensormap.arguments(record(swizzle_bytes=swizzle, l2_promotion_bytes=promotion), 0, driver)
    assert found[8].name.endswith(f"{swizzle}B" if swizzle else "NONE")
    assert found[9].name.endswith(f"{promotion}B" if promotion else "NONE")


def test_wide_extents_and_strides_are_not_cut():
    found = tensormap.arguments(record(dims=(64, 2**31), strides_bytes=(2**39,)), 2**46, driver)
    assert (int(found[3][1]), int(found[4][0]), found[2]) == (2**31, 2**39, 2**46)


def test_an_empty_tensor_needs_no_driver():
    assert tensormap.encode(record(dims=(0, 100)), 0) == bytes(128)


def test_what_the_driver_refuses_is_our_fault(monkeypatch):
    class Status(enum.IntEnum):
        CUDA_ERROR_INVALID_VALUE = 1

    class Refusing:
        cuTensorMapEncodeTiled = staticmethod(lambda *arguments: (Status.CUDA_ERROR_INVALID_VALUE, None))

        def __getattr__(self, name: str) -> Any:
            return getattr(driver, name)

    monkeypatch.setattr(tensormap, "bindings", Refusing)
    with pytest.raises(InternalError) as caught:
        tensormap.encode(record(), 0x1008)
    assert (caught.value.code, caught.value.message) == (
        "TL953",
        "the driver refuses the tensor map A_map: CUDA_ERROR_INVALID_VALUE",
    )
    assert caught.value.notes == (
        "float16 dims (64, 100) strides (128,) bytes, box (64, 32)", "swizzle 128 bytes, address 0x1008",
    )  # fmt: skip
