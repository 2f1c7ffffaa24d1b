"""Running one tile kernel twice: by its meaning, and as the device kernel that it is compiled to."""
from __future__ import annotations

import numpy as np

from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Var
from tilelang.ir.tile import Copy, Kernel
from tilelang.ir.types import Scope
from tilelang.ir.verify import verify
from tilelang.passes.access import statements
from tilelang.passes.pipeline import Lowered, compile_kernel
from tilelang.sim import machine, reference
from tilelang.target import SM_90A

Arrays = dict[Buffer, np.ndarray]
Scalars = dict[Var, int]


def compiled(kernel: Kernel) -> Lowered:
    verify(kernel)
    return compile_kernel(kernel, SM_90A)


def outputs(kernel: Kernel) -> set[Buffer]:
    """The tensors that the kernel writes."""
    copies = (stmt for stmt in statements(kernel.body) if isinstance(stmt, Copy))
    return {stmt.dst.buffer for stmt in copies if stmt.dst.buffer.scope is Scope.GLOBAL}


def integers(kernel: Kernel, seed: int, magnitude: int = 2) -> Arrays:
    """Small integers for what is read, and what no kernel computes for what is written: NaN, or 99."""
    rng = np.random.default_rng(seed)
    written = outputs(kernel)
    arrays: Arrays = {}
    for tensor in kernel.tensors:
        dtype = tensor.dtype.numpy
        if tensor in written:
            arrays[tensor] = np.full(tensor.shape, np.nan if tensor.dtype.is_float else 99, dtype)  # type: ignore[arg-type]
        else:
            arrays[tensor] = rng.integers(-magnitude, magnitude + 1, tensor.shape).astype(dtype)  # type: ignore[arg-type]
    return arrays


def meaning(kernel: Kernel, arrays: Arrays, scalars: Scalars | None = None) -> Arrays:
    """What the reference makes of copies of `arrays`."""
    result = {tensor: array.copy() for tensor, array in arrays.items()}
    values = {**result, **(scalars or {})}
    reference.run(kernel, [values[param] for param in kernel.params])
    return result


def on_the_machine(lowered: Lowered, arrays: Arrays, schedule: str, scalars: Scalars | None = None) -> Arrays:
    """What the device kernel makes of copies of `arrays`."""
    result = {tensor: array.copy() for tensor, array in arrays.items()}
    machine.run(lowered.device, result, scalars=scalars, schedule=schedule)
    return result


def assert_same_bits(expected: Arrays, found: Arrays, what: str) -> None:
    for tensor, array in expected.items():
        a, b = array.view(np.uint8), found[tensor].view(np.uint8)
        if not np.array_equal(a, b):
            wrong = np.argwhere(~((array == found[tensor]) | ((array != array) & (found[tensor] != found[tensor]))))
            at = tuple(int(i) for i in wrong[0]) if len(wrong) else "only in its bits"
            raise AssertionError(f"{what}: {tensor.name} differs in {len(wrong)} of {array.size} elements, first at {at}")


def check(
    kernel: Kernel, schedules: tuple[str, ...], seed: int = 0, magnitude: int = 2, scalars: Scalars | None = None
) -> Arrays:
    """Asserts that machine and reference agree bit for bit under every schedule, and returns what the reference computed."""
    lowered = compiled(kernel)
    arrays = integers(kernel, seed, magnitude)
    expected = meaning(kernel, arrays, scalars)
    for schedule in schedules:
        assert_same_bits(expected, on_the_machine(lowered, arrays, schedule, scalars), schedule)
    return expected
