"""What `T.serial(...)`, `T.Pipelined(...)`, `T.Parallel(...)` and `T.Kernel(...)` hand to the builder: checked, not yet built."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

from tilelang.errors import ShapeProblem, Span, SyntaxProblem, TypeProblem, Unsupported
from tilelang.frontend.schedules import Schedule
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Const, Expr, Load, Var, as_expr
from tilelang.ir.types import LoopKind

WARP_THREADS = 32
MAX_BLOCK_THREADS = 1024


def as_index(value: object, what: str) -> Expr:
    """An integer expression; TypeProblem TL213 names `what` otherwise."""
    if isinstance(value, (Buffer, Region)):
        raise TypeProblem(
            f"{what} must be an integer, not the buffer {value_name(value)}", code="TL213", hint="index an element of it"
        )
    try:
        result = as_expr(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise TypeProblem(f"{what} must be an integer, not {type(value).__name__} {value!r}", code="TL213") from error
    if not result.dtype.is_int:
        hint = "use // for integer division" if result.dtype.is_float else ""
        shown = value if not isinstance(value, Expr) else f"an expression of {result.dtype}"
        raise TypeProblem(f"{what} must be an integer, not {shown}", code="TL213", hint=hint)
    return result


def as_int(value: object, what: str) -> int:
    """A whole number known while the kernel is built; ShapeProblem TL207 or Unsupported TL303 names `what` otherwise."""
    if isinstance(value, Const) and value.dtype.is_int:
        return int(value.value)
    if isinstance(value, Expr):
        raise Unsupported(
            f"{what} must be a number known when the kernel is built; run-time values are not there yet", code="TL303",
            hint="pass it as a Python int of the function around the kernel",
        )  # fmt: skip
    if isinstance(value, float) and value.is_integer():
        raise ShapeProblem(
            f"{what} must be a whole number, not the float {value}", code="TL207", hint="use // for integer division"
        )
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise ShapeProblem(f"{what} must be a whole number, not {type(value).__name__} {value!r}", code="TL207") from error


def as_shape(shape: object, what: str, smallest: int = 1) -> tuple[int, ...]:
    """The extents of a tensor or tile; ShapeProblem TL207 unless they are whole numbers of at least `smallest`."""
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    result = tuple(as_int(extent, f"extent {axis} of {what}") for axis, extent in enumerate(extents))
    for axis, extent in enumerate(result):
        if extent < smallest:
            raise ShapeProblem(f"extent {axis} of {what} is {extent}; it must be at least {smallest}", code="TL207")
    if not result:
        raise ShapeProblem(f"{what} needs at least one dimension", code="TL207", hint="for a scalar use T.alloc_var(dtype)")
    return result


def value_name(value: object) -> str:
    """A short name of a value for messages."""
    buffer = value.buffer if isinstance(value, (Region, Load)) else value
    return buffer.name if isinstance(buffer, (Buffer, Var)) else type(value).__name__


@dataclass(frozen=True, slots=True)
class LoopSpec:
    """A loop of the kernel, to be used as `for name in ...:`."""

    kind: LoopKind
    start: Expr
    stop: Expr
    step: int = 1
    num_stages: int = 0
    schedule: Schedule | None = None

    def __iter__(self) -> Iterator[object]:
        raise _outside("this loop")


@dataclass(frozen=True, slots=True)
class ParallelSpec:
    """A loop over a box of points in no order."""

    extents: tuple[Expr, ...]

    def __iter__(self) -> Iterator[object]:
        raise _outside("T.Parallel")


@dataclass(frozen=True, slots=True)
class GridSpec:
    """Loops inside each other, the last one innermost."""

    loops: tuple[LoopSpec, ...]

    def __iter__(self) -> Iterator[object]:
        raise _outside("T.grid")


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """The launch of a kernel: extents of 1 to 3 grid axes and the threads of a block."""

    grid: tuple[int, ...]
    threads: int

    def __enter__(self) -> object:
        raise _outside("T.Kernel")

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        return None


def _outside(what: str) -> SyntaxProblem:
    from tilelang.frontend.problems import caller_span

    found = caller_span()
    return SyntaxProblem(
        f"{what} means something only in the body of a T.prim_func or T.macro",
        code="TL112",
        span=found and Span(found.file, found.line),
        hint="decorate the function with @T.macro",
    )


def loop_spec(kind: LoopKind, start: object, stop: object = None, step: object = None, num_stages: object = 0) -> LoopSpec:
    """A checked `range`-like loop.  Raises TypeProblem TL213, TL214 or TL216."""
    first, last = (0, start) if stop is None else (start, stop)
    stride = 1 if step is None else step
    if isinstance(stride, Const):
        stride = stride.value
    if not isinstance(stride, int) or isinstance(stride, bool) or stride == 0:
        shown = "an expression" if isinstance(stride, Expr) else repr(stride)
        raise TypeProblem(f"the step of a loop must be a non-zero Python int, not {shown}", code="TL216")
    if isinstance(num_stages, bool) or not isinstance(num_stages, int) or num_stages < 0:
        shown = "an expression" if isinstance(num_stages, Expr) else repr(num_stages)
        raise TypeProblem(
            f"num_stages={shown}; it must be an int of at least 0", code="TL214",
            hint="0 means no pipelining, 2 to 4 keep that many tiles in flight",
        )  # fmt: skip
    return LoopSpec(kind, as_index(first, "the start of a loop"), as_index(last, "the end of a loop"), stride, num_stages)


def kernel_spec(blocks: tuple[object, ...], threads: object) -> KernelSpec:
    """A checked launch.  Raises ShapeProblem TL207 and TypeProblem TL215."""
    if not 1 <= len(blocks) <= 3:
        raise ShapeProblem(
            f"T.Kernel takes 1 to 3 grid axes, not {len(blocks)}", code="TL207", hint="T.Kernel(blocks_x, blocks_y)"
        )
    grid = tuple(as_int(extent, f"axis {'xyz'[axis]} of the grid") for axis, extent in enumerate(blocks))
    for axis, extent in enumerate(grid):
        if extent < 0:
            raise ShapeProblem(f"axis {'xyz'[axis]} of the grid has {extent} blocks", code="TL207")
    return KernelSpec(grid, thread_count(threads))


def thread_count(threads: object) -> int:
    """Threads of a block from an int or up to three ints.  Raises TypeProblem TL215 unless it is a multiple of 32 up to 1024."""
    parts = (128,) if threads is None else tuple(threads) if isinstance(threads, (tuple, list)) else (threads,)
    if not 1 <= len(parts) <= 3 or any(isinstance(part, bool) or not hasattr(part, "__index__") for part in parts):
        raise TypeProblem(f"threads={threads!r}; it must be an int or a tuple of 1 to 3 ints", code="TL215", hint="threads=128")
    total = 1
    for part in parts:
        total *= operator.index(part)  # type: ignore[arg-type]
    if total < WARP_THREADS or total > MAX_BLOCK_THREADS or total % WARP_THREADS or min(parts) < 1:  # type: ignore[type-var]
        raise TypeProblem(
            f"threads={threads!r}; a block has a positive multiple of {WARP_THREADS} threads, at most {MAX_BLOCK_THREADS}",
            code="TL215", hint="128 is one warpgroup, 256 are two",
        )  # fmt: skip
    return total


def parallel_spec(extents: tuple[object, ...]) -> ParallelSpec:
    """A checked T.Parallel."""
    if not extents:
        raise TypeProblem("T.Parallel needs at least one extent", code="TL216", hint="for i, j in T.Parallel(rows, columns):")
    return ParallelSpec(tuple(as_index(extent, f"extent {axis} of T.Parallel") for axis, extent in enumerate(extents)))


def grid_spec(extents: tuple[object, ...]) -> GridSpec:
    """A checked T.grid."""
    if not extents:
        raise TypeProblem("T.grid needs at least one extent", code="TL216", hint="for i, j in T.grid(rows, columns):")
    return GridSpec(tuple(loop_spec(LoopKind.SERIAL, extent) for extent in extents))
