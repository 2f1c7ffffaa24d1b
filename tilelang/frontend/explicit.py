"""Synchronisation by hand: mbarriers, warpgroups that part, TMA copies; what their operands must be."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tilelang.errors import Span, SyntaxProblem, TypeProblem, Unsupported
from tilelang.frontend import ops
from tilelang.frontend.builder import Builder
from tilelang.frontend.describe import expr_text, place_text, tile_text
from tilelang.frontend.operands import check_index
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer, Mbarriers, Region
from tilelang.ir.expr import BOOL, INT32, Const, Expr, Load, as_expr, convert
from tilelang.ir.types import Scope

WARPGROUP_THREADS = 128
MAX_ARRIVALS = 2**20 - 1  # PTX ISA, "mbarrier": contents of the mbarrier object
MAX_NAMED_BARRIER = 15
REGISTER_COUNTS = range(24, 257, 8)  # PTX ISA, "setmaxnreg"


# ---- mbarriers ----------------------------------------------------------------------------------------------------------------


def alloc_barrier(builder: Builder, arrive_count: object) -> Mbarriers:
    """mbarriers that complete a phase after as many arrivals as `arrive_count` says: one barrier for an int, several for a list.

    Raises TypeProblem TL223 for a count that is no int from 1 to 2**20 - 1."""
    given = tuple(arrive_count) if isinstance(arrive_count, (list, tuple)) else (arrive_count,)
    counts: list[int] = []
    for each in given or (None,):
        count = _int(each)
        if count is None or not 1 <= count <= MAX_ARRIVALS:
            raise TypeProblem(
                f"arrive_count={_shown(arrive_count)} of T.alloc_barrier; it must be an int of at least 1, or a list of such",
                code="TL223",
                hint="count the arrivals of one phase: T.mbarrier_arrive is one for every thread that executes it, so 128 for a "
                "warpgroup",
            )
        counts.append(count)
    return builder.alloc_barriers(builder.wanted_name("barrier"), tuple(counts))


def as_barrier(builder: Builder, value: object, what: str) -> tuple[Mbarriers, Expr]:
    """One mbarrier: `full[i]`, or the bare name where there is only one.  Raises TypeProblem TL224, ShapeProblem TL203."""
    if isinstance(value, Mbarriers):
        if value.shape != (1,):
            raise TypeProblem(
                f"{what} needs one mbarrier, and {value.name} has {value.shape[0]}", code="TL224",
                hint=f"say which: {value.name}[i]", notes=(place_text(value),),
            )  # fmt: skip
        return value, as_expr(0)
    if isinstance(value, Load) and isinstance(value.buffer, Mbarriers):
        (index,) = value.indices
        check_index(builder, value.buffer, index)
        return value.buffer, index
    shown = value.name if isinstance(value, Buffer) else tile_text(value) if isinstance(value, (Region, Load)) else _shown(value)
    hint = "allocate it: full = T.alloc_barrier([128, 128])"
    raise TypeProblem(f"{what} needs an mbarrier, not {shown}", code="TL224", hint=hint)


def arrive(builder: Builder, barrier: object) -> None:
    """One arrival by every thread."""
    require_threads(builder, "T.mbarrier_arrive")
    barriers, index = as_barrier(builder, barrier, "T.mbarrier_arrive")
    builder.emit(tile.MbarrierArrive, barriers=barriers, index=index)


def wait(builder: Builder, barrier: object, parity: object) -> None:
    """Every thread waits for the phase of a parity.  Raises TypeProblem TL225 for a parity that is no int, or neither 0 nor 1."""
    require_threads(builder, "T.mbarrier_wait_parity")
    barriers, index = as_barrier(builder, barrier, "T.mbarrier_wait_parity")
    value = as_expr(parity) if isinstance(parity, (Expr, int)) else None
    bad = value is None or not (value.dtype.is_int or value.dtype == BOOL)
    if bad or (isinstance(value, Const) and value.value not in (0, 1)):
        raise TypeProblem(
            f"the parity of T.mbarrier_wait_parity must be an int, 0 or 1, not {_shown(parity)}",
            code="TL225",
            hint="the i-th phase, from 0 on, has parity i & 1; with s barriers in turn, round k waits for barrier k % s, parity "
            "(k // s) & 1",
        )
    assert value is not None
    number = convert(value, INT32) if value.dtype == BOOL else value
    builder.emit(tile.MbarrierWait, barriers=barriers, index=index, parity=number)


# ---- copies -------------------------------------------------------------------------------------------------------------------


def tma_copy(builder: Builder, src: object, dst: object, barrier: object) -> None:
    """A copy by TMA: global to shared with a barrier, shared to global without.  Raises TypeProblem TL212 and TL224."""
    require_threads(builder, "T.tma_copy")
    source, target = ops.copy_regions(builder, src, dst, "T.tma_copy")
    scopes = (source.buffer.scope, target.buffer.scope)
    if scopes == (Scope.GLOBAL, Scope.SHARED):
        if barrier is None:
            raise TypeProblem(
                f"T.tma_copy into {target.buffer.name} needs an mbarrier that says when its bytes have landed", code="TL224",
                hint="pass barrier=full[i], arrive on it with T.mbarrier_arrive, and let the readers wait for it",
            )  # fmt: skip
        barriers, index = as_barrier(builder, barrier, "T.tma_copy")
        builder.emit(tile.TmaCopy, src=source, dst=target, barriers=barriers, index=index)
    elif scopes == (Scope.SHARED, Scope.GLOBAL):
        if barrier is not None:
            raise TypeProblem(
                "T.tma_copy into global memory takes no barrier; it waits until the source may be written again", code="TL224",
                hint="leave barrier out",
            )  # fmt: skip
        builder.emit(tile.TmaCopy, src=source, dst=target)
    else:
        raise TypeProblem(
            f"T.tma_copy moves tiles between global and shared memory, not from {scopes[0]} to {scopes[1]}", code="TL212",
            hint="use T.copy", notes=(place_text(source.buffer), place_text(target.buffer)),
        )  # fmt: skip


# ---- threads ------------------------------------------------------------------------------------------------------------------


def require_threads(builder: Builder, what: str) -> None:
    """SyntaxProblem TL112 outside T.Kernel, TypeProblem TL219 in T.Parallel, whose points are no threads."""
    builder.require_kernel(what)
    if builder.inside("parallel"):
        raise TypeProblem(f"{what} is for threads, and T.Parallel is about points", code="TL219", hint="move it out of the loop")


def _block_threads(builder: Builder) -> int:
    assert builder.launch is not None
    return builder.launch.threads


def sync_threads(builder: Builder, barrier_id: object, arrive_count: object) -> None:
    """The block's threads meet, or `arrive_count` of them at a named barrier.  Raises TypeProblem TL216."""
    require_threads(builder, "T.sync_threads")
    if barrier_id is None and arrive_count is None:
        builder.emit(tile.SyncThreads)
        return
    number, threads = _int(barrier_id), _int(arrive_count)
    if number is None or not 1 <= number <= MAX_NAMED_BARRIER:
        raise TypeProblem(
            f"barrier_id={_shown(barrier_id)} of T.sync_threads; it must be an int from 1 to {MAX_NAMED_BARRIER}", code="TL216",
            hint="leave both arguments out for the whole block",
        )  # fmt: skip
    most = _block_threads(builder)
    if threads is None or not 32 <= threads <= most or threads % 32:
        raise TypeProblem(
            f"arrive_count={_shown(arrive_count)} of T.sync_threads; it must be a multiple of 32, at most the {most} threads of "
            "the block", code="TL216", hint="it is the number of threads that meet: 128 for a warpgroup",
        )  # fmt: skip
    builder.emit(tile.SyncThreads, barrier_id=number, threads=threads)


def fence_proxy_async(builder: Builder) -> None:
    """Ordinary accesses to shared memory before later asynchronous ones."""
    require_threads(builder, "T.fence_proxy_async")
    builder.emit(tile.FenceProxyAsync)


def set_max_nreg(builder: Builder, reg_count: object, increase: bool, what: str) -> None:
    """The warpgroups change to `reg_count` registers a thread."""
    require_threads(builder, what)
    threads = _block_threads(builder)
    if threads % WARPGROUP_THREADS:
        raise TypeProblem(
            f"{what} moves registers between whole warpgroups of {WARPGROUP_THREADS} threads, and the block has {threads}",
            code="TL226",
            hint="leave it out, or round the number of threads up",
        )
    builder.emit(tile.SetMaxRegisters, count=register_count(reg_count, "reg_count", what), increase=increase)


def register_count(value: object, name: str, what: str) -> int:
    """A number of registers that setmaxnreg takes; TypeProblem TL216 otherwise."""
    count = _int(value)
    if count is None or count not in REGISTER_COUNTS:
        raise TypeProblem(
            f"{name}={_shown(value)} of {what}; it must be a multiple of 8 from {REGISTER_COUNTS[0]} to {REGISTER_COUNTS[-1]}",
            code="TL216", hint="24 is enough for a warpgroup that only loads; up to 240 for one that computes",
        )  # fmt: skip
    return count


# ---- warpgroups ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WarpgroupSpec:
    """`with T.ws(0, 1):`, to be entered in the body of a kernel."""

    groups: tuple[object, ...]

    def __enter__(self) -> object:
        from tilelang.frontend.problems import caller_span

        found = caller_span()
        raise SyntaxProblem(
            "T.ws means something only in the body of a T.prim_func or T.macro", code="TL112",
            span=found and Span(found.file, found.line), hint="decorate the function with @T.macro",
        )  # fmt: skip

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        return None


def warpgroups(builder: Builder, spec: WarpgroupSpec, what: str = "T.ws") -> tuple[int, ...]:
    """The warpgroups that execute the body of T.ws, those around it considered.  Raises TypeProblem TL226 and TL219."""
    require_threads(builder, what)
    threads = _block_threads(builder)
    if threads % WARPGROUP_THREADS:
        raise TypeProblem(
            f"T.ws divides a block into warpgroups of {WARPGROUP_THREADS} threads, and this one has {threads}", code="TL226",
            hint=f"write threads={-(-threads // WARPGROUP_THREADS) * WARPGROUP_THREADS}",
        )  # fmt: skip
    count = threads // WARPGROUP_THREADS
    named = f"T.ws({', '.join(map(_shown, spec.groups))})"
    for group in spec.groups or (None,):
        number = _int(group)
        if number is None:
            raise TypeProblem(f"{named}: a warpgroup is named by an int", code="TL226", hint="write T.ws(0), or T.ws(0, 1)")
        if not 0 <= number < count:
            there = "one warpgroup, number 0" if count == 1 else f"warpgroups 0 to {count - 1}"
            wanted = WARPGROUP_THREADS * (max(number, count) + 1)
            hint = f"the number of threads per block decides: T.Kernel(..., threads={wanted})"
            raise TypeProblem(f"{named}: the {threads} threads of the block are {there}", code="TL226", hint=hint)
    around = builder.warpgroups[-1] if builder.warpgroups else tuple(range(count))
    found = tuple(sorted({number for number in map(_int, spec.groups) if number in around}))  # type: ignore[type-var]
    if not found:
        raise TypeProblem(
            f"no warpgroup is in {named} and in T.ws({', '.join(map(str, around))}) around it", code="TL226",
            hint="put the two blocks one after the other",
        )  # fmt: skip
    return found


# ---- values -------------------------------------------------------------------------------------------------------------------


def refuse_options(what: str, options: dict[str, Any]) -> None:
    """Unsupported TL302 for an option that says what this compiler cannot do yet."""
    for name, value in options.items():
        if value is not None:
            raise Unsupported(f"{what}(..., {name}=...) is not there yet", code="TL302", hint=f"leave {name} out")


def _int(value: object) -> int | None:
    """A Python int, or a constant of the language; None for anything else."""
    if isinstance(value, Const) and value.dtype.is_int:
        return int(value.value)
    if isinstance(value, (bool, Expr)) or not hasattr(value, "__index__"):
        return None
    return operator.index(value)  # type: ignore[arg-type]


def _shown(value: object) -> str:
    return expr_text(value) if isinstance(value, Expr) else repr(value)
