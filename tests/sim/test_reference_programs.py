"""Whole programs, from their source text to numbers."""
from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import OTHERS_PROGRAMS
from tilelang.ir import tile
from tilelang.ir.verify import verify
from tilelang.sim.reference import run


def functions_of(name: str) -> dict[str, Callable[..., tile.Kernel]]:
    """The functions that a program defines, without running the rest of it."""
    path: Path = OTHERS_PROGRAMS / name
    if not path.exists():
        pytest.skip(f"no {path}")
    tree = ast.parse(path.read_text())
    tree.body = [stmt for stmt in tree.body if isinstance(stmt, (ast.Import, ast.ImportFrom, ast.FunctionDef))]
    names: dict = {}
    exec(compile(tree, str(path), "exec"), names)  # the file itself, unchanged: errors and source lines are its own
    return names


@pytest.mark.parametrize(
    ("m", "n", "k", "blocks"),
    [
        (512, 512, 512, (128, 128, 64)), (200, 136, 72, (64, 128, 32)), (100, 100, 1056, (128, 128, 64)),
        (256, 384, 64, (128, 128, 64)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("num_stages", [0, 3])
def test_matmul(m, n, k, blocks, num_stages):
    rng = np.random.default_rng(m + n + k)
    built = functions_of("tl_matmul.py")["matmul"](m, n, k, *blocks, num_stages=num_stages)
    verify(built)
    # two of three elements are 0, so that no product leaves the integers that float16 holds
    a, b = (rng.integers(-1, 2, shape) * rng.integers(0, 2, shape) for shape in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float16)
    run(built, [a.astype(np.float16), b.astype(np.float16), c])
    exact = a @ b
    assert np.abs(exact).max() <= 2048
    np.testing.assert_array_equal(c.astype(np.int64), exact)


def attention_in_float64(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Causal attention on (batch, seq, heads, dim) arrays."""
    left, right, value = (x.astype(np.float64).transpose(0, 2, 1, 3) for x in (q, k, v))
    seq, dim = left.shape[2:]
    scores = np.where(np.tril(np.ones((seq, seq), bool)), left @ right.swapaxes(2, 3) / dim**0.5, -np.inf)
    probs = np.exp(scores - scores.max(-1, keepdims=True))
    return ((probs / probs.sum(-1, keepdims=True)) @ value).transpose(0, 2, 1, 3)


@pytest.mark.parametrize(
    ("batch", "heads", "seq", "dim", "blocks"),
    [(1, 2, 256, 64, (64, 64)), (1, 2, 64, 64, (64, 64)), (1, 1, 1, 64, (64, 64)), (2, 3, 100, 64, (64, 64)),
     (1, 2, 256, 128, (128, 64)), (1, 8, 130, 64, (64, 128)), (1, 64, 64, 64, (64, 64))],
)  # fmt: skip
def test_flash_attention(batch, heads, seq, dim, blocks):
    """The rows of seq are what a tile covers, also where heads or seq would fit a tile the other way round."""
    rng = np.random.default_rng(seq)
    built = functions_of("tl_flash.py")["flash_attn"](batch, heads, seq, dim, *blocks)
    verify(built)
    q, k, v = (rng.standard_normal((batch, seq, heads, dim)).astype(np.float16) for _ in range(3))
    out = np.full_like(q, np.nan)
    run(built, [q, k, v, out])
    exact = attention_in_float64(q, k, v)
    assert np.linalg.norm(out - exact) / np.linalg.norm(exact) < 1e-3
