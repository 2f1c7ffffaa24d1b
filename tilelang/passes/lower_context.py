"""What a role knows while it is lowered: where its buffers are, and what values its variables can take."""
from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from tilelang.ir import device as d
from tilelang.ir import tile
from tilelang.ir.arith import bounds
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import THREAD
from tilelang.ir.expr import Expr, Var, binary
from tilelang.ir.walk import substitute
from tilelang.layout.digits import Layout
from tilelang.layout.swizzle import PanelLayout

Range = tuple[int, int]
PLANNED_ALIGNMENT_BYTES = 16


@dataclass(slots=True)
class Context:
    """What a role of `threads` threads from `first_thread` on knows: layouts and starts (byte addresses) of shared buffers,
    registers and layouts of fragments, layouts of loops, the device variables of mutable scalars, tensors whose address is
    aligned to fewer than 16 bytes, tensors that the kernel writes, inclusive ranges of variables, and what declared ones stand
    for."""

    first_thread: int
    threads: int
    shared_layouts: Mapping[Buffer, PanelLayout]
    shared_start: Callable[[Buffer], Expr]
    registers: Mapping[Buffer, d.Registers]
    fragment_layouts: Mapping[Buffer, Layout]
    loop_layouts: Mapping[tile.Parallel, Layout]
    variables: Mapping[Buffer, Var]
    alignments: Mapping[Buffer, int] = field(default_factory=dict)
    written: Collection[Buffer] = ()
    ranges: dict[Var, Range] = field(default_factory=dict)
    definitions: dict[Var, Expr] = field(default_factory=dict)

    @property
    def thread(self) -> Expr:
        """The thread's number within the role."""
        return binary("-", THREAD, self.first_thread) if self.first_thread else THREAD

    def alignment_bytes(self, buffer: Buffer) -> int:
        """What the first element's address is surely a multiple of."""
        return self.alignments.get(buffer, PLANNED_ALIGNMENT_BYTES)

    def enter_loop(self, loop: tile.For) -> None:
        """Notes the loop variable's range, where its bounds are known."""
        start, stop = bounds(loop.start, self.ranges), bounds(loop.stop, self.ranges)
        if start is not None and stop is not None:
            low, high = (start[0], stop[1] - 1) if loop.step > 0 else (stop[0] + 1, start[1])
            self.ranges[loop.var] = (low, max(low, high))

    def note(self, var: Var, value: Expr) -> None:
        """Notes what a variable that is declared with `value` stands for, and its range."""
        if not var.dtype.is_int:
            return
        self.definitions[var] = self.expand(value)
        found = bounds(value, self.ranges)
        if found is not None:
            self.ranges[var] = found

    def expand(self, value: Expr) -> Expr:
        """`value` with declared variables replaced by what they stand for, so that its terms can be seen."""
        return substitute(value, self.definitions)  # type: ignore[return-value]


def role_ranges(kernel: tile.Kernel, first_thread: int, threads: int) -> dict[Var, Range]:
    """Ranges of the grid's variables and of the thread's number."""
    ranges = {axis.var: (0, max(axis.extent - 1, 0)) for axis in kernel.grid if isinstance(axis.extent, int)}
    ranges[THREAD] = (first_thread, first_thread + threads - 1)
    return ranges
