"""Runs a generated program on a GPU, on PyTorch's tensors."""
from __future__ import annotations

from typing import Any

import numpy as np

import tilelang
from tests.fuzz.running import Arrays, first_difference
from tilelang.ir.tile import Kernel
from tilelang.sim import reference


def difference_on_gpu(torch: Any, kernel: Kernel, given: Arrays) -> str:
    """Where the GPU's result differs from the program's meaning; empty where every bit is the same.  Parameters are tensors."""
    expected = {tensor: array.copy() for tensor, array in given.items()}
    reference.run(kernel, [expected[tensor] for tensor in kernel.tensors])
    tensors = {tensor: to_gpu(torch, array) for tensor, array in given.items()}
    tilelang.compile(kernel)(*(tensors[tensor] for tensor in kernel.tensors))
    found = {tensor: to_cpu(torch, tensors[tensor], array.dtype) for tensor, array in given.items()}
    return first_difference(expected, found)


def to_gpu(torch: Any, array: np.ndarray) -> Any:
    """A NumPy array as a CUDA tensor; bfloat16 goes by its bits, since PyTorch does not know NumPy's."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).cuda().view(torch.bfloat16)
    return torch.from_numpy(array).cuda()


def to_cpu(torch: Any, tensor: Any, dtype: np.dtype) -> np.ndarray:
    """A CUDA tensor as a NumPy array of `dtype`."""
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).cpu().numpy().view(dtype)
    return tensor.cpu().numpy()
