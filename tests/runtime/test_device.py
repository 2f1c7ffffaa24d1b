"""Finding GPUs: never an exception, always a reason."""
from __future__ import annotations

import ctypes

import pytest

from tilelang.errors import Unavailable
from tilelang.runtime import device
from tilelang.runtime.device import Gpu, Probe


class FakeDriver:
    """The five driver functions that a probe asks, with two GPUs."""

    def __init__(self, failing: str = "") -> None:
        self.failing = failing

    def __getattr__(self, name: str):
        return lambda *arguments: 100 if name == self.failing else getattr(self, f"do_{name}")(*arguments)

    def do_cuInit(self, flags):
        return 0

    def do_cuDeviceGetCount(self, out):
        out._obj.value = 2
        return 0

    def do_cuDeviceGet(self, out, index):
        out._obj.value = index
        return 0

    def do_cuDeviceGetName(self, buffer, size, handle):
        buffer.value = f"GPU {handle.value}".encode()
        return 0

    def do_cuDeviceGetAttribute(self, out, attribute, handle):
        out._obj.value = {75: 9, 76: handle.value, 16: 132}[attribute]
        return 0

    def do_cuGetErrorName(self, status, out):
        out._obj.value = b"CUDA_ERROR_NO_DEVICE"
        return 0


@pytest.fixture
def fresh():
    device.probe.cache_clear()
    yield
    device.probe.cache_clear()


def test_two_gpus(fresh, monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: FakeDriver())
    assert device.probe() == Probe((Gpu(0, "GPU 0", (9, 0), 132), Gpu(1, "GPU 1", (9, 1), 132)))
    assert device.probe().count == 2
    assert device.require_gpu().count == 2


@pytest.mark.parametrize("function", ["cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute"])
def test_a_refusal_of_the_driver_is_the_reason(fresh, monkeypatch, function):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: FakeDriver(function))
    assert device.probe() == Probe((), f"{function}: CUDA_ERROR_NO_DEVICE")


def test_no_driver(fresh, monkeypatch):
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert device.probe().count == 0
    assert device.probe().reason.startswith("no CUDA driver: ")
    with pytest.raises(Unavailable) as caught:
        device.require_gpu()
    assert caught.value.code == "TL611"
    assert "cannot open shared object file" in caught.value.message


def test_this_machine_answers_without_raising():
    found = device.probe()
    assert bool(found.gpus) != bool(found.reason)
