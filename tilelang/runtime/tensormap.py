"""CUtensorMap parameters: the driver encodes the record of a `device.TensorMap` and an address into 128 opaque bytes."""
from __future__ import annotations

import ctypes
from collections import OrderedDict
from typing import Any

from tilelang.errors import InternalError
from tilelang.ir.device import TensorMap
from tilelang.runtime.driver import bindings

BYTES = 128
ALIGNMENT_BYTES = 64
_CACHE_LIMIT = 4096

_DTYPES = {
    "float16": "FLOAT16", "bfloat16": "BFLOAT16", "float32": "FLOAT32", "float64": "FLOAT64", "int32": "INT32", "int64": "INT64",
    "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64",
}  # fmt: skip
# a map only moves bytes and zero-fills, so a type without a name of its own goes as the unsigned integer of its width
_BY_BYTES = {1: "UINT8", 2: "UINT16"}
_SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}
_PROMOTIONS = {0: "NONE", 64: "L2_64B", 128: "L2_128B", 256: "L2_256B"}

_cache: OrderedDict[tuple[TensorMap, int], bytes] = OrderedDict()


def encode(record: TensorMap, pointer: int) -> bytes:
    """The 128 bytes of the map of `record` at the device address `pointer`, cached.

    A tensor with a dimension of extent 0 has no map: its bytes are zero, and a kernel that has nothing to copy never reads them.
    Raises InternalError (TL953) where the driver refuses the record.  (CUDA driver API, cuTensorMapEncodeTiled.)
    """
    if 0 in record.dims:
        return bytes(BYTES)
    key = (record, pointer)  # records are compared by identity
    found = _cache.get(key)
    if found is None:
        found = _cache[key] = _encode(record, pointer)
        if len(_cache) > _CACHE_LIMIT:
            _cache.popitem(last=False)
    return found


UNUSED_STRIDES = (16,)  # a map of one dimension has no strides, but the driver refuses a null pointer to them


def arguments(record: TensorMap, pointer: int, driver: Any) -> tuple[Any, ...]:
    """The arguments of cuTensorMapEncodeTiled for a record, in its order."""
    wide, narrow = driver.cuuint64_t, driver.cuuint32_t
    dtype = _DTYPES.get(record.dtype) or _BY_BYTES[record.dtype.bytes]
    return (
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{dtype}"),
        narrow(len(record.dims)),
        pointer,
        [wide(extent) for extent in record.dims],
        [wide(stride) for stride in record.strides_bytes or UNUSED_STRIDES],
        [narrow(extent) for extent in record.box],
        [narrow(1)] * len(record.dims),
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{_SWIZZLES[record.swizzle_bytes]}"),
        getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{_PROMOTIONS[record.l2_promotion_bytes]}"),
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )


def _encode(record: TensorMap, pointer: int) -> bytes:
    driver = bindings()
    status, encoded = driver.cuTensorMapEncodeTiled(*arguments(record, pointer, driver))
    if int(status) != 0:
        raise InternalError(
            f"the driver refuses the tensor map {record.name}: {status.name}",
            code="TL953",
            span=record.tensor.span,
            notes=(
                f"{record.dtype} dims {record.dims} strides {record.strides_bytes} bytes, box {record.box}",
                f"swizzle {record.swizzle_bytes} bytes, address {pointer:#x}",
            ),
        )
    return ctypes.string_at(encoded.getPtr(), BYTES)
