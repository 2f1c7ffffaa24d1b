"""What the examples share: a result beside float64, and the time of a launch on a GPU."""
from __future__ import annotations

from typing import Any

import numpy as np

Bound = tuple[np.ndarray, np.ndarray]  # the exact result, and how far rounding may take each element from it


def random(*shape: int, seed: int = 0) -> np.ndarray:
    """A float16 array of standard-normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32).astype(np.float16)


def largest_error(result: Any, bound: Bound) -> float:
    """The largest error as a fraction of what rounding explains: at most 1 for a right result, NaN for one that holds a NaN."""
    exact, allowed = bound
    return float((np.abs(result.astype(np.float64) - exact) / allowed).max())


def check(what: str, result: Any, bound: Bound) -> None:
    """Prints the largest error and fails unless it is at most 1."""
    error = largest_error(result, bound)
    print(f"{what}: largest error {error:.2f} of what rounding explains")
    assert error <= 1, what


def gpu() -> bool:
    """Whether PyTorch is installed and sees a GPU."""
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def on_gpu(kernel: Any, *arrays: np.ndarray, repeat: int = 20) -> tuple[Any, float]:
    """The kernel's result for these arrays, as NumPy arrays again, and the median seconds of a launch."""
    import torch

    inputs = [torch.from_numpy(array).cuda() for array in arrays]
    result = kernel(*inputs)  # also warms up
    seconds = []
    for _ in range(repeat):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        kernel(*inputs)
        end.record()
        end.synchronize()
        seconds.append(start.elapsed_time(end) / 1e3)
    found = [part.cpu().numpy() for part in result] if isinstance(result, list) else result.cpu().numpy()
    return found, float(np.median(seconds))
