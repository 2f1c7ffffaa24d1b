"""The only maker of tile IR: collects statements in nested frames, stamps spans, and knows what is true of every variable.

The rewritten source of a kernel drives it, and so can plain Python, which is how tests build IR without any source:

    b = Builder("scale")
    A = b.tensor("A", (1024, 64), "float16")
    with b.kernel(8, threads=128, names=("bx",)) as (bx,):
        tile = b.alloc("tile", (128, 64), "float16", Scope.SHARED)
        T.copy(A[bx * 128, 0], tile)
    kernel = b.finish()

Inside `with b.kernel(...)` the builder is the current one, to which the functions of `tilelang.language` add.  Nothing else is
global: a context variable holds the current builder, so threads and nested builds do not see each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from tilelang.errors import NameProblem, Span, SyntaxProblem, TypeProblem
from tilelang.frontend import plain
from tilelang.frontend.dtypes import as_dtype, literal
from tilelang.frontend.facts import Facts
from tilelang.frontend.schedules import decide
from tilelang.frontend.specs import GridSpec, KernelSpec, LoopSpec, ParallelSpec, as_shape, kernel_spec
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer, Extent, Mbarriers, Region
from tilelang.ir.expr import Const, Expr, Load, Var, compare, const
from tilelang.ir.types import Scope
from tilelang.trace import Decision

if TYPE_CHECKING:
    from tilelang.frontend.explicit import WarpgroupSpec

_CURRENT: ContextVar[Builder | None] = ContextVar("tilelang_builder", default=None)


def current(what: str) -> Builder:
    """The builder at work; SyntaxProblem TL112 says that `what` is used outside a kernel."""
    builder = _CURRENT.get()
    if builder is None:
        from tilelang.frontend.problems import caller_span

        raise SyntaxProblem(
            f"{what} is used outside a kernel",
            code="TL112",
            span=caller_span(),
            hint="it belongs into the body of a function under @T.prim_func",
        )
    return builder


def twins() -> dict[Any, Any]:
    """Rewritten twins of the plain functions that the kernel at work has called."""
    builder = _CURRENT.get()
    return {} if builder is None else builder.twins


def is_building() -> bool:
    """Whether a kernel is being built in this context."""
    return _CURRENT.get() is not None


class Frame:
    """A block under construction.  `kind` is one of kernel, for, parallel, while, then, else, warpgroups (of T.ws), static
    (a loop over Python values, whose statements go to the block around it) or root (outside T.Kernel)."""

    __slots__ = ("body", "has_jump", "is_nested", "is_open", "kind", "span")

    def __init__(self, kind: str, body: list[tile.Stmt], span: Span | None) -> None:
        self.kind, self.body, self.span = kind, body, span
        self.is_open, self.has_jump = True, False
        self.is_nested = False  # one of the loops of a T.grid of several

    @property
    def is_dynamic(self) -> bool:
        """Whether the block runs a number of times that only the running kernel knows."""
        return self.kind in ("for", "parallel", "while", "then", "else", "warpgroups")


class Builder:
    """Builds one `tile.Kernel`.  `span` is the place of the statement being built; `names` are the targets it assigns."""

    def __init__(self, name: str, span: Span | None = None) -> None:
        self.name, self.place, self.span = name, span, span
        self.names: tuple[str, ...] = ()
        self.facts = Facts()
        self.params: list[Buffer | Var] = []
        self.buffers: list[Buffer] = []
        self.decisions: list[Decision] = []
        self.taken: set[str] = set()
        self.unbound: set[Buffer] = set()  # mutable scalars without a name yet
        self.held: set[Buffer] = set()  # mutable scalars that live in Python containers
        self.over: set[Var] = set()  # variables of blocks that are closed
        self.twins: dict[Any, Any] = {}  # see helpers.Twins
        self.frames = [Frame("root", [], span)]
        self.launch: KernelSpec | None = None
        self.grid: tuple[tile.GridAxis, ...] = ()
        self.body: tile.Body = ()
        self.swizzle_panel = 0
        self.registers = tile.RegisterHints()
        self.warpgroups: list[tuple[int, ...]] = []  # of the T.ws around

    # ---- declarations ---------------------------------------------------------------------------------------------------------

    def tensor(self, name: str, shape: object, dtype: object, span: Span | None = None) -> Buffer:
        """A tensor parameter.  Raises NameProblem TL114 for a name that is taken."""
        self._claim(name, span)
        buffer = Buffer(name, as_shape(shape, name, 0), as_dtype(dtype), Scope.GLOBAL, span or self.span)
        self.params.append(buffer)
        return buffer

    def scalar(self, name: str, dtype: object, span: Span | None = None) -> Var:
        """A scalar parameter."""
        self._claim(name, span)
        var = Var(name, as_dtype(dtype))
        self.params.append(var)
        return var

    def alloc(self, name: str, shape: object, dtype: object, scope: Scope) -> Buffer:
        """A buffer of the block; its name is made unique."""
        self.require_kernel(f"allocating {name}")
        if self.inside("parallel") and scope in (Scope.SHARED, Scope.FRAGMENT):
            raise TypeProblem(
                f"{name} is a tile of the whole block and cannot be allocated in T.Parallel", code="TL219",
                hint="allocate it before the loop, or use T.alloc_var or T.alloc_local for what each point has for itself",
            )  # fmt: skip
        buffer = Buffer(self._unique(name), as_shape(shape, name), as_dtype(dtype), scope, self.span)
        self.buffers.append(buffer)
        return buffer

    def alias(self, name: str, storage: Buffer, extents: tuple[Extent, ...]) -> Buffer:
        """Another name for the elements of `storage`, which is no view itself, under other extents."""
        buffer = Buffer(self._unique(name), extents, storage.dtype, storage.scope, self.span, storage)
        self.buffers.append(buffer)
        return buffer

    def alloc_barriers(self, name: str, arrivals: tuple[int, ...]) -> Mbarriers:
        """mbarriers of the block, with the arrivals that complete a phase of each."""
        self.require_kernel(f"allocating {name}")
        shape, dtype = (len(arrivals),), as_dtype("uint64")
        buffer = Mbarriers(self._unique(name), shape, dtype, Scope.BARRIER, self.span, arrivals=arrivals)
        self.buffers.append(buffer)
        return buffer

    def variable(self, name: str, dtype: object, init: object = None) -> Load:
        """A mutable scalar, 0 unless `init` is given, as the expression that reads it."""
        self.require_kernel(f"allocating {name}")
        buffer = Buffer(self._unique(name), (), as_dtype(dtype), Scope.VAR, self.span)
        value = literal(0 if init is None else init, buffer.dtype)
        self.buffers.append(buffer)
        self.unbound.add(buffer)
        self.store(Load(buffer, ()), value)
        return Load(buffer, ())

    def wanted_name(self, default: str) -> str:
        """The name that the statement being built gives to what it allocates: its targets in order, else `default`."""
        if not self.names:
            return default
        name, self.names = self.names[0], self.names[1:] or self.names
        return name

    def _claim(self, name: str, span: Span | None) -> None:
        if name in self.taken:
            raise NameProblem(f"two parameters are called {name!r}", code="TL114", span=span, hint="rename one of them")
        self.taken.add(name)

    def _unique(self, name: str) -> str:
        result, number = name, 1
        while result in self.taken:
            result, number = f"{name}_{number}", number + 1
        self.taken.add(result)
        return result

    # ---- statements -----------------------------------------------------------------------------------------------------------

    def emit(self, node: type[tile.Stmt], /, **fields: Any) -> None:
        """Adds a statement at the current place, after checking the elements that its expressions read."""
        from tilelang.frontend.operands import check_reads

        self.require_kernel(f"this {node.__name__.lower()}")
        for value in fields.values():
            check_reads(self, value)
        self.frames[-1].body.append(node(span=self.span, **fields))

    def let(self, name: str, value: Expr) -> Var:
        """An immutable name for the present value of an expression."""
        var = Var(name, value.dtype)
        self.emit(tile.Let, var=var, value=value)
        self.facts.add_let(var, value)
        return var

    def store(self, element: Load, value: object) -> None:
        """`element = value`.  Raises TypeProblem TL213 where `value` is no scalar."""
        if isinstance(value, (Buffer, Region)):
            name = value.name if isinstance(value, Buffer) else value.buffer.name
            raise TypeProblem(
                f"an element of {element.buffer.name} cannot hold the tile {name}", code="TL213",
                hint="use T.copy(source, destination) for tiles",
            )  # fmt: skip
        from tilelang.frontend.operands import check_element

        check_element(self, element, self.is_conditional())
        self.emit(tile.Store, buffer=element.buffer, indices=element.indices, value=literal(value, element.dtype))

    def require_kernel(self, what: str) -> None:
        """SyntaxProblem TL112 unless a T.Kernel is open."""
        if not self.inside("kernel"):
            raise SyntaxProblem(f"{what} is outside T.Kernel", code="TL112", hint="put it under `with T.Kernel(...) as ...:`")

    def inside(self, kind: str) -> bool:
        """Whether a frame of that kind is open."""
        return any(frame.kind == kind for frame in self.frames)

    def is_conditional(self) -> bool:
        """Whether the statement being built may be skipped for some values of the variables around it."""
        return any(frame.kind in ("then", "else", "while") or frame.has_jump for frame in self.frames)

    @property
    def region(self) -> Frame:
        """The innermost dynamic block, or else the outermost frame: how long a name bound now lives."""
        return next((frame for frame in reversed(self.frames) if frame.is_dynamic), self.frames[0])

    # ---- frames ---------------------------------------------------------------------------------------------------------------

    def open(self, kind: str) -> Frame:
        """Starts a block; statements go there until it is closed."""
        if kind != "kernel" and kind != "static":
            self.require_kernel(f"this {kind}")
        frame = Frame(kind, self.frames[-1].body if kind == "static" else [], self.span)
        self.frames.append(frame)
        return frame

    def close(self, frame: Frame) -> tile.Body:
        """Ends the innermost block and gives its statements."""
        if self.frames[-1] is not frame:
            raise SyntaxProblem(f"the block opened at {frame.span} is left by a jump the kernel cannot follow", code="TL107")
        self.frames.pop()
        frame.is_open = False
        if frame.is_dynamic:
            self.over.update(stmt.var for stmt in frame.body if isinstance(stmt, tile.Let))
        return tuple(frame.body)

    def add(self, frame: Frame, node: type[tile.Stmt], /, **fields: Any) -> None:
        """Adds the statement that a closed frame is the body of, at the frame's place."""
        span, self.span = self.span, frame.span
        self.emit(node, **fields)
        self.span = span

    @contextmanager
    def building(self) -> Iterator[Builder]:
        """Makes this the builder that `T.copy` and the like add to."""
        token = _CURRENT.set(self)
        try:
            yield self
        finally:
            _CURRENT.reset(token)

    @contextmanager
    def kernel(self, *grid: object, threads: object = 128, names: tuple[str, ...] = ()) -> Iterator[tuple[Var, ...]]:
        """The kernel itself, for IR built by hand."""
        with self.building():
            axes, frame = self.open_kernel(kernel_spec(grid, threads), names)
            yield axes
            self.body = self.close(frame)

    def open_kernel(self, spec: KernelSpec, names: tuple[str, ...] = ()) -> tuple[tuple[Var, ...], Frame]:
        """Starts the kernel.  Raises SyntaxProblem TL111 for a second one and TL118 for a wrong number of names."""
        if self.launch is not None:
            raise SyntaxProblem(
                "a T.prim_func holds one T.Kernel, and this is the second", code="TL111", hint="write two functions"
            )
        if names and len(names) != len(spec.grid):
            shown = ", ".join(("bx", "by", "bz")[: len(spec.grid)])
            hint = f"with T.Kernel(...) as ({shown}):" if len(spec.grid) > 1 else f"with T.Kernel(...) as {shown}:"
            raise SyntaxProblem(f"T.Kernel has {len(spec.grid)} axes and {len(names)} names for them", code="TL118", hint=hint)
        axes = tuple(Var(name) for name in names or ("bx", "by", "bz")[: len(spec.grid)])
        for var, extent in zip(axes, spec.grid, strict=True):
            self.facts.add_axis(var, extent)
        self.launch = spec
        self.grid = tuple(tile.GridAxis(var, extent) for var, extent in zip(axes, spec.grid, strict=True))
        return axes, self.open("kernel")

    @contextmanager
    def loop(self, spec: LoopSpec | ParallelSpec | GridSpec, *names: str) -> Iterator[Any]:
        """`for names in spec`, its variable (or tuple of them, for several names) being the value of the `with`."""
        if isinstance(spec, ParallelSpec):
            yield from self._parallel(spec, names)
            return
        if isinstance(spec, GridSpec):
            yield from self._grid(spec, names)
            return
        if spec.num_stages and self.inside("parallel"):
            raise TypeProblem("T.Pipelined cannot stand inside T.Parallel", code="TL219", hint="use T.serial there")
        var = Var(
            names[0] if names else "i", spec.start.dtype if spec.start.dtype.bits > spec.stop.dtype.bits else spec.stop.dtype
        )
        self.facts.add_loop(var, spec.start, spec.stop, spec.step)
        frame = self.open("for")
        yield var
        body = self.close(frame)
        if spec.schedule is not None:
            self.decisions.append(decide(spec.schedule, body, spec.num_stages, frame.span))
        self.add(
            frame,
            tile.For,
            var=var,
            start=spec.start,
            stop=spec.stop,
            step=spec.step,
            kind=spec.kind,
            num_stages=spec.num_stages,
            body=body,
        )
        self.over.add(var)

    def _grid(self, spec: GridSpec, names: tuple[str, ...]) -> Iterator[Any]:
        with ExitStack() as loops:
            points = []
            for name, loop in zip(_axis_names("T.grid", names, len(spec.loops)), spec.loops, strict=True):
                points.append(loops.enter_context(self.loop(loop, name)))
                self.frames[-1].is_nested = len(spec.loops) > 1
            yield tuple(points)

    def _parallel(self, spec: ParallelSpec, names: tuple[str, ...]) -> Iterator[Any]:
        chosen = _axis_names("T.Parallel", names, len(spec.extents))
        points = tuple(Var(name, extent.dtype) for name, extent in zip(chosen, spec.extents, strict=True))
        for var, extent in zip(points, spec.extents, strict=True):
            self.facts.add_loop(var, const(0), extent, 1)
        frame = self.open("parallel")
        yield points
        body = self.close(frame)
        if any(isinstance(extent, Const) and extent.value <= 0 for extent in spec.extents):
            return  # it has no points
        self.add(frame, tile.Parallel, vars=points, extents=spec.extents, body=body)
        self.over.update(points)
        from tilelang.frontend.races import check_races

        check_races(self.frames[-1].body[-1], self.facts)  # type: ignore[arg-type]

    @contextmanager
    def only(self, *groups: object) -> Iterator[None]:
        """`with T.ws(*groups):`"""
        from tilelang.frontend.explicit import WarpgroupSpec

        frame = self.open_warpgroups(WarpgroupSpec(groups))
        yield
        self.close_warpgroups(frame)

    def open_warpgroups(self, spec: WarpgroupSpec, what: str = "T.ws") -> Frame:
        """Starts a block for some of the warpgroups, on behalf of `what`."""
        from tilelang.frontend.explicit import warpgroups

        self.warpgroups.append(warpgroups(self, spec, what))
        return self.open("warpgroups")

    def close_warpgroups(self, frame: Frame) -> None:
        """Ends it."""
        self.add(frame, tile.Warpgroups, groups=self.warpgroups[-1], body=self.close(frame))
        self.warpgroups.pop()

    @contextmanager
    def when(self, condition: Expr) -> Iterator[None]:
        """`if condition:` without an else; `T.if_then_else` and the source rewriter have the other forms."""
        frame = self.open("then")
        yield
        self.add(frame, tile.If, condition=truth(condition), then=self.close(frame))

    # ---- the result -----------------------------------------------------------------------------------------------------------

    def finish(self) -> tile.Kernel:
        """The kernel.  Raises SyntaxProblem TL110 where no T.Kernel was opened."""
        if self.launch is None:
            raise SyntaxProblem(
                f"{self.name} has no T.Kernel, so nothing would run", code="TL110", span=self.place,
                hint="put the body under `with T.Kernel(blocks_x, blocks_y, threads=128) as (bx, by):`",
            )  # fmt: skip
        kernel = tile.Kernel(
            name=self.name, params=tuple(self.params), grid=self.grid, threads=self.launch.threads, buffers=tuple(self.buffers),
            body=self.body, span=self.place, swizzle_panel=self.swizzle_panel, decisions=tuple(self.decisions),
            registers=self.registers,
        )  # fmt: skip
        from tilelang.frontend.uninitialised import warn_unwritten

        warn_unwritten(kernel)
        return kernel


def _axis_names(what: str, names: tuple[str, ...], rank: int) -> tuple[str, ...]:
    """A name for each variable of a loop over a box, from one name for all of them or as many as there are."""
    if len(names) > 1 and len(names) != rank:
        raise SyntaxProblem(f"{what} has {rank} extents and {len(names)} names for them", code="TL118")
    return names if len(names) == rank else tuple(f"{names[0] if names else 'i'}{axis}" for axis in range(rank))


def truth(value: object) -> Expr | bool:
    """A condition: a bool expression, or a Python bool where it is decided already."""
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, Expr):
        return value if value.dtype == "bool" else compare("!=", value, 0)
    if isinstance(value, (Buffer, Region)):
        name = value.name if isinstance(value, Buffer) else value.buffer.name
        raise TypeProblem(f"the tile {name} is no condition", code="TL213", hint=f"compare an element, such as {name}[0, 0] > 0")
    return plain.is_true(value)
