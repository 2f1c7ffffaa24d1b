"""Checking a kernel: the machine runs some of its blocks, or all, under several schedules, and says what that proves.

Where control flow, addresses and synchronisation do not depend on loaded values, a block that is free of races under one
schedule is so under every schedule and for all data, since the vector clocks order its accesses whatever happened first.  (The
confluence of structured thread blocks.) Otherwise the data given, and the schedules tried, are all that was seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from tilelang.errors import ArgumentError
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import DeviceKernel
from tilelang.ir.expr import Number, Var
from tilelang.sim.banks import BankCounter
from tilelang.sim.flow import Dependence, control_axes, data_dependences
from tilelang.sim.machine import grid_of, run
from tilelang.sim.schedule import SCHEDULES, random_schedules

RANDOM_SCHEDULES = 64
"""How many schedules by seed a kernel whose behaviour depends on data is run under, beside the fixed ones."""
_SAMPLED_ELEMENTS = 1 << 24
"""Arrays above this stay zero where none were given: their values decide nothing that is checked, and numbers take time to
draw."""

Index = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """A kernel that was found clean: which blocks ran under which schedules, and what of its behaviour depends on data."""

    kernel: str
    grid: Index
    blocks: tuple[Index, ...]
    schedules: tuple[str, ...]
    dependences: tuple[Dependence, ...] = ()
    banks: BankCounter = field(default_factory=BankCounter)

    @property
    def proved(self) -> bool:
        """Whether the blocks that ran are free of races and deadlocks for all data and under all schedules."""
        return not self.dependences

    @property
    def claim(self) -> str:
        """What was shown, in words."""
        return "proved for this shape" if self.proved else f"tested under {len(self.schedules)} schedules"

    @property
    def extent(self) -> str:
        """How much of the grid was run, in words."""
        total = int(np.prod(self.grid))
        return f"{len(self.blocks)} of {total} blocks" if self.partial else f"all {total} blocks"

    @property
    def partial(self) -> bool:
        """Whether some blocks were not run, so that what they write was compared with nothing."""
        return len(self.blocks) < int(np.prod(self.grid))

    @property
    def details(self) -> tuple[str, ...]:
        """What depends on data, and what bank conflicts cost, in words."""
        places = ((each.what, f" at {each.span}" if each.span is not None else "") for each in self.dependences)
        lines = tuple(f"depends on data: {what}{where}" for what, where in places)
        cost = f"bank conflicts cost {self.banks.extra} wavefronts of shared memory"
        return (*lines, cost) if self.banks.extra else lines

    def __str__(self) -> str:
        apart = ("what the other blocks write was not compared with these; grid='full' runs all",) if self.partial else ()
        return "\n  ".join((f"{self.kernel}: {self.claim} ({self.extent})", *apart, *self.details))


def check(
    kernel: DeviceKernel,
    given: Mapping[Buffer | Var, np.ndarray | Number] | None = None,
    *,
    grid: str | Sequence[int] | None = None,
    schedules: int | None = None,
    seed: int = 0,
) -> CheckReport:
    """Runs a kernel on copies of `given` (arrays by tensor and numbers by scalar parameter; what is missing is made up: small
    integers, and 1 for a scalar) and reports what that shows.

    `grid`: None for a few blocks, from two corners and wherever control flow may differ; "full"; or an extent for each axis, of
    which all blocks run.  `schedules`: how many by seed, from `seed` on; None for 64 where behaviour depends on data, else none.

    Raises HazardError for whatever the machine objects to, ArgumentError TL513 for a grid that does not fit."""
    values = dict(given or {})
    arrays = {tensor: _array(tensor, values, seed) for tensor in _tensors(kernel)}
    scalars = {var: values.get(var, 1) for var in kernel.scalars}
    extents = grid_of(kernel, scalars)  # type: ignore[arg-type]
    blocks = _blocks(kernel, extents, grid)
    dependences = _distinct(data_dependences(kernel))
    count = schedules if schedules is not None else RANDOM_SCHEDULES if dependences else 0
    banks = BankCounter()
    names = (*SCHEDULES, *random_schedules(count, seed))
    for name in names:
        chosen = blocks if dependences or name == names[0] else blocks[-1:]
        copies = {tensor: array.copy() for tensor, array in arrays.items()}
        counter = banks if name == names[0] else None
        run(kernel, copies, scalars=scalars, blocks=chosen, schedule=name, banks=counter)  # type: ignore[arg-type]
    return CheckReport(kernel.name, extents, blocks, names, dependences, banks)


def _distinct(found: Iterable[Dependence]) -> tuple[Dependence, ...]:
    """Each kind of dependence once for each place."""
    return tuple({(dependence.what, str(dependence.span)): dependence for dependence in found}.values())


def _tensors(kernel: DeviceKernel) -> list[Buffer]:
    return list(dict.fromkeys([*(record.tensor for record in kernel.tensor_maps), *kernel.pointers]))


def _array(tensor: Buffer, values: Mapping[Buffer | Var, np.ndarray | Number], seed: int) -> np.ndarray:
    """The array that was given, or small integers."""
    if tensor in values:
        return np.ascontiguousarray(values[tensor])
    shape = tuple(int(extent) for extent in tensor.shape)  # type: ignore[arg-type]
    if np.prod(shape, dtype=np.int64) > _SAMPLED_ELEMENTS:
        return np.zeros(shape, tensor.dtype.numpy)
    low = -2 if tensor.dtype.is_float else 0  # integers may well be indices
    return np.random.default_rng(seed).integers(low, 3 if tensor.dtype.is_float else 2, shape).astype(tensor.dtype.numpy)


# ---- which blocks -------------------------------------------------------------------------------------------------------------


def _blocks(kernel: DeviceKernel, extents: Index, grid: str | Sequence[int] | None) -> tuple[Index, ...]:
    if grid == "full":
        return _box(extents)
    if grid is None:
        walk = kernel.walk
        own = tuple((tile % extents[0], 0, 0) for tile in walk.neighbours) if walk is not None else ()
        return tuple(dict.fromkeys((*own, *_few(extents, control_axes(kernel) if walk is None else frozenset()))))
    chosen = () if isinstance(grid, str) else tuple(grid)
    if not chosen or len(chosen) > 3 or not all(isinstance(extent, int) and extent > 0 for extent in chosen):
        raise ArgumentError(
            f"a grid to check is None, 'full' or one to three positive extents, not {grid!r}", code="TL513",
            hint="the extents are those of T.Kernel, each as small as wanted",
        )  # fmt: skip
    x, y, z = (*chosen, *extents[len(chosen) :])
    return _box((min(x, extents[0]), min(y, extents[1]), min(z, extents[2])))


def _box(extents: Index) -> tuple[Index, ...]:
    """All blocks of a grid, the first axis fastest."""
    return tuple((x, y, z) for z, y, x in product(*(range(extent) for extent in extents[::-1])))


def _few(extents: Index, axes: frozenset[int]) -> tuple[Index, ...]:
    """The first block, the last, and the neighbours of both; on each axis that control flow depends on also the one in the
    middle."""
    if 0 in extents:
        return ()
    x, y, z = (extent - 1 for extent in extents)
    first = [_on_axis(axis, min(1, extents[axis] - 1)) for axis in range(3)]
    middle = [_on_axis(axis, extents[axis] // 2) for axis in sorted(axes)]
    last = [(max(x - 1, 0), y, z), (x, max(y - 1, 0), z), (x, y, max(z - 1, 0)), (x, y, z)]
    return tuple(dict.fromkeys([(0, 0, 0), *first, *middle, *last]))


def _on_axis(axis: int, at: int) -> Index:
    x, y, z = (at if axis == i else 0 for i in range(3))
    return x, y, z
