"""The GEMM on a GPU: exact on integers, within rounding on normal inputs, the same bits at every launch.

Needs PyTorch for the tensors.  `benchmarks/gemm_h200.py` does the same for the large shapes, and measures speed.
"""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilelang
from benchmarks import numerics
from examples.gemm import gemm
from tests.conftest import OTHERS_PROGRAMS

pytestmark = pytest.mark.gpu

SHAPES = [
    (1024, 1024, 1024), (1000, 1000, 1000), (512, 512, 1056), (128, 128, 8), (1, 8, 64), (136, 200, 72),
    *((256, 384, 64 * k) for k in range(1, 8)),
]  # fmt: skip


@pytest.fixture
def torch() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what PyTorch says while it is imported is not ours to fix
        return pytest.importorskip("torch")


def integers(torch: Any, rows: int, columns: int, magnitude: int) -> Any:
    return torch.randint(-magnitude, magnitude + 1, (rows, columns), device="cuda").half()


def run(torch: Any, kernel: Any, a: Any, b: Any) -> Any:
    """The result in an output that held NaN everywhere."""
    out = torch.full((a.shape[0], b.shape[1]), float("nan"), device="cuda", dtype=torch.float16)
    kernel(a, b, out)
    return out


@pytest.mark.parametrize("num_stages", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_exact_on_integers(torch: Any, shape: tuple[int, int, int], num_stages: int) -> None:
    m, n, k = shape
    kernel = tilelang.compile(gemm(m, n, k, num_stages=num_stages))
    magnitude = numerics.integer_magnitude(k)
    for scale in (1, 2):  # once below 2048, where an error of 1 shows, once above it, where the result is rounded
        a, b = integers(torch, m, k, scale * magnitude), integers(torch, k, n, scale * magnitude)
        assert torch.equal(run(torch, kernel, a, b), (a.double() @ b.double()).half())


@pytest.mark.parametrize("tile", [(128, 64, 64), (64, 128, 32), (64, 64, 64), (128, 128, 32)], ids=str)
def test_exact_with_other_tiles(torch: Any, tile: tuple[int, int, int]) -> None:
    kernel = tilelang.compile(gemm(520, 392, 456, *tile))
    a, b = integers(torch, 520, 456, 4), integers(torch, 456, 392, 4)
    assert torch.equal(run(torch, kernel, a, b), (a.double() @ b.double()).half())


@pytest.mark.parametrize("shape", [(1024, 1024, 1024), (1000, 1000, 1000)], ids=str)
def test_normal_inputs_within_rounding(torch: Any, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = (torch.randn(*size, device="cuda", dtype=torch.float16) for size in ((m, k), (k, n)))
    result = tilelang.compile(gemm(m, n, k), out_idx=[2])(a, b)
    assert numerics.largest_error(result.double(), a.double(), b.double()) <= 1


def test_every_launch_gives_the_same_bits(torch: Any) -> None:
    kernel = tilelang.compile(gemm(1000, 1000, 1000))
    a, b = (torch.randn(1000, 1000, device="cuda", dtype=torch.float16) for _ in range(2))
    first = run(torch, kernel, a, b).view(torch.int16)
    assert all(torch.equal(run(torch, kernel, a, b).view(torch.int16), first) for _ in range(100))


def test_gpu_and_cpu_give_the_same_bits_on_integers(torch: Any) -> None:
    kernel = tilelang.compile(gemm(200, 264, 136), out_idx=[2])
    a, b = integers(torch, 200, 136, 6), integers(torch, 136, 264, 6)
    on_cpu = kernel(a.cpu().numpy(), b.cpu().numpy())
    assert np.array_equal(kernel(a, b).cpu().numpy(), on_cpu)


def test_unmodified_program(torch: Any, load_program: Callable[[Any], dict[str, Any]]) -> None:
    names = load_program(OTHERS_PROGRAMS / "tl_matmul.py")
    a, b = integers(torch, 1024, 1024, 3), integers(torch, 1024, 1024, 3)
    assert torch.equal(names["jit_kernel"](a, b), (a.double() @ b.double()).half())
