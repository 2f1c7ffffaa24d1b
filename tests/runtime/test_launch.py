"""Launching, against a driver that writes down what it is asked: parameter blocks, contexts, failures."""
from __future__ import annotations

import ctypes
import enum
import struct
import types
from typing import Any

import numpy as np
import pytest

from tests.runtime.kernels import tensor
from tilelang.errors import ArchMismatch, InternalError, ToolchainFailed
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import DeviceKernel, TensorMap
from tilelang.ir.expr import Var, as_expr
from tilelang.ir.types import DType
from tilelang.runtime import driver, launch, tensormap
from tilelang.runtime.device import Gpu, Probe
from tilelang.runtime.launch import Launcher, ParameterBlock, pack
from tilelang.target import SM_90A


class Status(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_INVALID_CONTEXT = 201


class FakeDriver:
    """Every function succeeds and is written down; `current` is the device of the current context, None for no context."""

    def __init__(self, current: int | None = 0) -> None:
        self.current, self.calls, self.failing = current, [], ""
        self.CUfunction = int
        self.CUfunction_attribute = types.SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)

    def __getattr__(self, name: str) -> Any:
        def function(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, *arguments))
            if name == self.failing:
                return (Status.CUDA_ERROR_INVALID_VALUE,)
            answer = vars(type(self)).get(f"do_{name}")
            return (Status.CUDA_SUCCESS, *(answer(self, *arguments) if answer else ()))

        function.__name__ = name
        if name == "cuCtxGetDevice" and self.current is None:
            return lambda: (Status.CUDA_ERROR_INVALID_CONTEXT, 0)
        return function

    def do_cuCtxGetDevice(self):
        return (self.current,)

    def do_cuLibraryLoadData(self, *_):
        return (11,)

    def do_cuLibraryGetKernel(self, *_):
        return (22,)

    def do_cuDeviceGet(self, index):
        return (index,)

    def do_cuDevicePrimaryCtxRetain(self, device):
        return (300 + device,)

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == name]


@pytest.fixture
def fake(monkeypatch) -> FakeDriver:
    found = FakeDriver()
    for module in (launch, driver, tensormap):
        monkeypatch.setattr(module, "bindings", lambda: found)
    monkeypatch.setattr(launch, "_contexts", {})
    monkeypatch.setattr(tensormap, "_encode", lambda record, pointer: struct.pack("<Q", pointer) * 16)
    monkeypatch.setattr(tensormap, "_cache", type(tensormap._cache)())
    return found


def record(name: str, *shape: int) -> TensorMap:
    dims = tuple(reversed(shape))
    return TensorMap(
        name=f"{name}_map", tensor=tensor(name, *shape), dtype=DType("float16"), dims=dims, strides_bytes=(2 * dims[0],),
        box=(8, 4), swizzle_bytes=0,
    )  # fmt: skip


def device_kernel(
    *maps: TensorMap, grid: tuple[Any, ...] = (3, 2), scalars: tuple[Var, ...] = (), pointers: tuple[Buffer, ...] = ()
) -> DeviceKernel:
    return DeviceKernel(
        name="add", arch="sm_90a", title="", grid=grid, threads=160, min_blocks_per_sm=1, tensor_maps=maps, pointers=pointers,
        scalars=scalars, shared=(), shared_bytes=98304, barriers=(), setup=(), roles=(),
    )  # fmt: skip


def launcher(kernel: DeviceKernel, device: int = 0) -> Launcher:
    maps, end = len(kernel.tensor_maps), len(kernel.tensor_maps) + len(kernel.scalars)
    return Launcher(b"cubin", "add", kernel, device, range(maps), range(maps, end), range(end, end + len(kernel.pointers)))


def ready(fake: FakeDriver) -> tuple[Launcher, ParameterBlock]:
    """A loaded kernel and the parameters of a launch; the driver has forgotten what that took."""
    made = launcher(device_kernel(record("A", 4, 8)))
    block = made.build((0x1000,))
    fake.calls.clear()
    return made, block


def parameters(block: ParameterBlock, *sizes: int) -> list[bytes]:
    """What cuLaunchKernel would copy: `sizes[i]` bytes from the i-th pointer."""
    pointers = (ctypes.c_void_p * len(sizes)).from_address(block.address)
    return [ctypes.string_at(pointer or 0, size) for pointer, size in zip(pointers, sizes, strict=True)]


def test_loading_allows_the_kernel_its_shared_memory(fake):
    launcher(device_kernel(record("A", 4, 8)))
    assert fake.named("cuLibraryLoadData")[0][0] == b"cubin"
    assert fake.named("cuLibraryGetKernel") == [(11, b"add")]
    assert fake.named("cuKernelSetAttribute") == [(8, 98304, 22, 0)]


def test_a_launch(fake):
    made, block = ready(fake)
    made.launch(77, block)
    assert fake.named("cuLaunchKernel") == [(22, 3, 2, 1, 160, 1, 1, 98304, 77, block.address, 0)]
    assert fake.named("cuCtxPushCurrent") == []


@pytest.mark.parametrize("current", [None, 1])
def test_another_context_is_replaced_for_the_launch(fake, current):
    fake.current = current
    made, block = ready(fake)
    made.launch(0, block)
    names = [call[0] for call in fake.calls]
    assert fake.named("cuCtxPushCurrent") == [(300,)]
    assert names.index("cuCtxPushCurrent") < names.index("cuLaunchKernel") < names.index("cuCtxPopCurrent")


def test_the_context_is_put_back_after_a_failure(fake):
    fake.current, fake.failing = 1, "cuLaunchKernel"
    made, block = ready(fake)
    with pytest.raises(ToolchainFailed, match="cuLaunchKernel of add: CUDA_ERROR_INVALID_VALUE"):
        made.launch(0, block)
    assert len(fake.named("cuCtxPopCurrent")) == 1


def test_a_cubin_that_does_not_load_is_reported(fake):
    fake.failing = "cuLibraryLoadData"
    with pytest.raises(ToolchainFailed) as caught:
        launcher(device_kernel())
    assert (caught.value.code, caught.value.message) == ("TL622", "cuLibraryLoadData: CUDA_ERROR_INVALID_VALUE")


def test_parameters_are_maps_then_scalars(fake):
    scalars = (Var("n", DType("int32")), Var("s", DType("float64")))
    kernel = device_kernel(record("A", 4, 8), record("B", 4, 8), scalars=scalars)
    made = launcher(kernel)
    block = made.build((0x1000, 0x2000, pack(scalars[0].dtype, -3), pack(scalars[1].dtype, 0.5)))
    a, b, n, s = parameters(block, 128, 128, 4, 8)
    assert struct.unpack("<QQ", a[:8] + b[:8]) == (0x1000, 0x2000)
    assert struct.unpack("<id", n + s) == (-3, 0.5)


def test_pointers_come_between_maps_and_scalars(fake):
    n = Var("n", DType("int32"))
    kernel = device_kernel(record("A", 4, 8), scalars=(n,), pointers=(tensor("A", 4, 8), tensor("B", 3)))
    block = launcher(kernel).build((0x1000, pack(n.dtype, 7), 0x1000, 0x7FFF12345678))
    a_map, a, b, scalar = parameters(block, 128, 8, 8, 4)
    assert struct.unpack("<Q", a_map[:8]) == (0x1000,)
    assert struct.unpack("<QQi", a + b + scalar) == (0x1000, 0x7FFF12345678, 7)


def test_the_pointer_to_a_tensor_of_no_elements_is_null(fake):
    kernel = device_kernel(pointers=(tensor("A", 4, 0), tensor("B", 1)))
    assert parameters(launcher(kernel).build((0xDEAD0, 0xBEEF0)), 8, 8) == [bytes(8), struct.pack("<Q", 0xBEEF0)]


def test_maps_are_aligned_in_memory(fake):
    block = launcher(device_kernel(record("A", 4, 8), record("B", 4, 8))).build((0x1000, 0x2000))
    pointers = (ctypes.c_void_p * 2).from_address(block.address)
    assert [(pointer or 0) % 64 for pointer in pointers] == [0, 0]


def test_parameters_are_built_under_the_context_of_the_gpu(fake, monkeypatch):
    monkeypatch.setattr(tensormap, "_encode", lambda record, pointer: fake.calls.append(("encode",)) or bytes(128))
    launcher(device_kernel(record("A", 4, 8)), device=1).build((0x1000,))
    names = [call[0] for call in fake.calls]
    assert fake.named("cuCtxPushCurrent") == [(301,)]
    assert names.index("cuCtxPushCurrent") < names.index("encode") < names.index("cuCtxPopCurrent")


def test_a_block_is_built_once_per_set_of_values(fake):
    made = launcher(device_kernel(record("A", 4, 8)))
    assert made.block((0x1000,)) is None
    block = made.build((0x1000,))
    assert made.block((0x1000,)) is block
    assert made.block((0x2000,)) is None


def test_kept_blocks_are_bounded(fake, monkeypatch):
    monkeypatch.setattr(launch, "_BLOCKS_LIMIT", 4)
    made = launcher(device_kernel(record("A", 4, 8)))
    for pointer in range(0x1000, 0x1000 + 64 * 16, 16):
        made.launch(0, made.build((pointer,)))
    assert len(made._blocks) <= 4
    assert len(fake.named("cuLaunchKernel")) == 64


def test_maps_are_encoded_once_per_record_and_pointer(fake, monkeypatch):
    encoded = []
    monkeypatch.setattr(tensormap, "_encode", lambda record, pointer: encoded.append((record.name, pointer)) or bytes(128))
    a, b = record("A", 4, 8), record("B", 4, 8)
    made = launcher(device_kernel(a, b))
    for values in ((16, 32), (16, 48), (16, 32)):
        made.build(values)
    assert encoded == [("A_map", 16), ("B_map", 32), ("B_map", 48)]


def test_an_empty_grid_launches_nothing_and_an_empty_tensor_has_no_map(fake):
    made = launcher(device_kernel(record("A", 4, 8), grid=(0, 2)))
    made.launch(0, made.build((0,)))
    assert fake.named("cuLaunchKernel") == []
    assert parameters(launcher(device_kernel(record("A", 4, 0))).build((0,)), 128) == [bytes(128)]


def test_grids_may_depend_on_scalars(fake):
    n = Var("n", DType("int32"))
    kernel = device_kernel(record("A", 4, 8), grid=((n + 127) // 128, as_expr(2)), scalars=(n,))
    assert launcher(kernel).build((16, pack(n.dtype, 300))).grid == (3, 2, 1)
    with pytest.raises(InternalError, match="TL954"):
        launcher(device_kernel(record("A", 4, 8), grid=(Var("m"),))).build((16,))


@pytest.mark.parametrize(
    ("dtype", "value", "raw"),
    [("bool", True, "01"), ("int8", -1, "ff"), ("uint16", 258, "0201"), ("int64", -2, "feffffffffffffff"),
     ("float16", 1.0, "003c"), ("bfloat16", 1.0, "803f"), ("float8_e4m3fn", 1.0, "38"), ("float32", float("-inf"), "000080ff")],
)  # fmt: skip
def test_scalars_as_bytes(dtype, value, raw):
    assert pack(DType(dtype), value).hex() == raw


@pytest.mark.parametrize(
    ("dtype", "value", "wanted"),
    [
        ("float16", 1e6, np.inf), ("float32", -1e300, -np.inf), ("float8_e5m2", 1e6, 57344.0),
        ("bfloat16", 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-7), ("float16", 1, 1.0),
    ],
)  # fmt: skip
def test_floats_are_rounded_as_constants_are(dtype, value, wanted):
    assert np.frombuffer(pack(DType(dtype), value), DType(dtype).numpy)[0] == wanted


def test_negative_zero_and_nan_keep_their_bits():
    assert pack(DType("float32"), -0.0) != pack(DType("float32"), 0.0)
    assert pack(DType("float32"), float("nan")) == pack(DType("float32"), float("nan"))


@pytest.mark.parametrize(
    ("gpus", "reason", "found"),
    [((Gpu(0, "A100", (8, 0), 132),), "", "A100 of compute capability 8.0"), ((), "no CUDA driver: x", "no CUDA driver: x")],
)
def test_another_architecture_is_refused(monkeypatch, gpus, reason, found):
    monkeypatch.setattr(launch, "probe", lambda: Probe(gpus, reason))
    with pytest.raises(ArchMismatch) as caught:
        launch.check_architecture("add", SM_90A, 0)
    assert (caught.value.code, caught.value.message) == ("TL641", f"add was compiled for sm_90a, and cuda:0 is not one: {found}")
    monkeypatch.setattr(launch, "probe", lambda: Probe((Gpu(0, "H200", (9, 0), 132),)))
    launch.check_architecture("add", SM_90A, 0)
