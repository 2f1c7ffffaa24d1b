"""Frameworks of the GPU tests.  (`tests/conftest.py` skips what is marked `gpu` where `runtime.device.probe` finds no GPU.)"""
from __future__ import annotations

import os
import warnings
from typing import Any

import pytest


def framework(name: str) -> Any:
    """A framework, or the test is skipped; what it says while it is imported is not ours to fix."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)


@pytest.fixture
def torch() -> Any:
    return framework("torch")


@pytest.fixture
def cupy() -> Any:
    return framework("cupy")


@pytest.fixture
def jax() -> Any:
    return framework("jax")
