"""Loops and branches of rewritten source.

Python's own `for`, `while` and `if` stay in the rewritten text and are driven by these objects: a kernel loop's body runs once,
while its frame is open; a loop over Python values runs as often as it has items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tilelang.errors import KernelError, SyntaxProblem, TypeProblem
from tilelang.frontend import plain
from tilelang.frontend.builder import Builder, Frame, truth
from tilelang.frontend.explicit import WarpgroupSpec
from tilelang.frontend.specs import GridSpec, LoopSpec, ParallelSpec, loop_spec
from tilelang.frontend.threads import divided
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Expr
from tilelang.ir.types import LoopKind

if TYPE_CHECKING:
    from tilelang.frontend.activation import Activation

MAX_STATIC_TRIPS = 65536


class Branch:
    """`if condition: ... else: ...`.  `then()` and `otherwise()` say whether to build each side; `end()` comes last."""

    def __init__(self, builder: Builder, condition: object) -> None:
        self.builder, self.span = builder, builder.span
        self.condition = truth(condition)
        self.frame: Frame | None = None
        self.sides: list[tile.Body] = []

    def then(self) -> bool:
        return self._start("then", self.condition)

    def otherwise(self) -> bool:
        return self._start("else", self.condition is False)

    def end(self) -> None:
        if self.frame is None:
            return
        frame = self.frame
        self._finish()
        self.builder.add(
            frame, tile.If, condition=self.condition, then=self.sides[0], otherwise=self.sides[1] if self.sides[1:] else ()
        )

    def _start(self, kind: str, decided: object) -> bool:
        if isinstance(self.condition, bool):
            return bool(decided)
        self._finish()
        self.builder.span = self.span
        self.frame = self.builder.open(kind)
        return True

    def _finish(self) -> None:
        if self.frame is not None:
            self.sides.append(self.builder.close(self.frame))


class ThreadBranch:
    """The same where the number of the thread decides: each side is done by some of the warpgroups."""

    def __init__(self, builder: Builder, condition: Expr) -> None:
        builder.require_kernel("this if")
        assert builder.launch is not None
        self.builder, self.span = builder, builder.span
        self.sides = divided(condition, builder.launch.threads)
        self.frame: Frame | None = None

    def then(self) -> bool:
        return self._start(self.sides[0])

    def otherwise(self) -> bool:
        return self._start(self.sides[1])

    def end(self) -> None:
        if self.frame is not None:
            self.builder.close_warpgroups(self.frame)
            self.frame = None

    def _start(self, groups: tuple[int, ...]) -> bool:
        self.end()
        around = self.builder.warpgroups[-1] if self.builder.warpgroups else groups
        if not set(groups) & set(around):
            return False
        self.builder.span = self.span
        self.frame = self.builder.open_warpgroups(WarpgroupSpec(groups), "a condition on T.get_thread_binding()")
        return True


class While:
    """`while condition:`.  `test` sees the condition before each round; a kernel loop has one round."""

    def __init__(self, builder: Builder) -> None:
        self.builder, self.trips = builder, 0
        self.frame: Frame | None = None
        self.condition: Expr | None = None

    def test(self, condition: object) -> bool:
        if self.condition is not None:
            frame = self.frame
            assert frame is not None
            self.builder.add(frame, tile.While, body=self.builder.close(frame), condition=self.condition)
            return False
        found = truth(condition)
        if isinstance(found, bool):
            return self._static(found)
        if self.trips:
            raise SyntaxProblem(
                "the condition of this while was a Python value and became one of the running kernel", code="TL109"
            )
        self.condition, self.frame = found, self.builder.open("while")
        return True

    def _static(self, found: bool) -> bool:
        if self.frame is None and found:
            self.frame = self.builder.open("static")
        self.trips += 1
        if self.trips > MAX_STATIC_TRIPS:
            raise _endless("while", "compare something that the kernel changes, such as a T.alloc_var")
        if not found and self.frame is not None:
            self.builder.close(self.frame)
        return found


def _endless(what: str, hint: str) -> KernelError:
    return SyntaxProblem(f"this {what} has run {MAX_STATIC_TRIPS} times while the kernel is built", code="TL109", hint=hint)


class Loops:
    """The loop half of what rewritten source calls."""

    builder: Builder

    def loop(self: Activation, pattern: object, iterable: object) -> Iterator[object]:  # type: ignore[misc]
        """The items of `for pattern in iterable`."""
        if isinstance(iterable, (LoopSpec, ParallelSpec, GridSpec)):
            yield from _kernel_loop(self, pattern, iterable)
            return
        if isinstance(iterable, (Expr, Buffer, Region)):
            raise TypeProblem("a for loop needs T.serial, range or a Python iterable, not a value of the kernel", code="TL213")
        frame = self.builder.open("static")
        for trip, item in enumerate(plain.items(iterable)):
            if trip >= MAX_STATIC_TRIPS:
                raise _endless("loop over Python values", "use T.serial, or a shorter iterable")
            self.declare(pattern, frame)
            yield item
        self.builder.close(frame)  # a break has closed it already and never comes back here

    def range(self, function: Callable[..., object], *args: object, **options: object) -> object:
        """`range(...)` in the head of a for loop: a serial loop of the kernel, unless the name means something else."""
        if function is not range or options:
            return plain.call(function, *args, **options)
        if not 1 <= len(args) <= 3:
            raise TypeProblem(f"range takes 1 to 3 arguments, not {len(args)}", code="TL216")
        return loop_spec(LoopKind.SERIAL, *args)

    def break_(self) -> bool:
        """`break`: True where Python's own break is to follow."""
        return _jump(self.builder, tile.Break, "break")

    def continue_(self) -> bool:
        """`continue`: True where Python's own continue is to follow."""
        return _jump(self.builder, tile.Continue, "continue")


def _kernel_loop(activation: Activation, pattern: object, spec: LoopSpec | ParallelSpec | GridSpec) -> Iterator[object]:
    names = pattern if isinstance(pattern, tuple) else (pattern,)
    if not all(isinstance(name, str) for name in names):
        raise SyntaxProblem("the variables of a kernel loop are plain names", code="TL118")
    rank = 1 if isinstance(spec, LoopSpec) else len(spec.extents if isinstance(spec, ParallelSpec) else spec.loops)
    if isinstance(pattern, tuple) and len(names) != rank:
        raise SyntaxProblem(
            f"this loop has {rank} variable{'s' if rank > 1 else ''} and {len(names)} names for them", code="TL118",
            hint=f"for {', '.join('ijklmn'[:rank])} in ...",
        )  # fmt: skip
    with activation.builder.loop(spec, *names) as found:  # type: ignore[arg-type]
        points: list[object] = list(found) if isinstance(found, tuple) else [found]
        if isinstance(pattern, tuple):
            activation.bind_loop(names, tuple(points))  # type: ignore[arg-type]
            yield tuple(points)
            return
        value = points[0] if len(points) == 1 else tuple(points)
        activation.bind_loop(names, (value,))  # type: ignore[arg-type]
        yield value


def _jump(builder: Builder, kind: type[tile.Stmt], word: str) -> bool:
    """Emits a jump out of a kernel loop; a loop over Python values is left by Python itself."""
    under_condition = False
    for frame in reversed(builder.frames):
        if frame.kind == "static":
            if under_condition:
                raise SyntaxProblem(
                    f"whether {word} leaves this loop over Python values is known only when the kernel runs", code="TL107",
                    hint="make it a loop of the kernel: for i in T.serial(n):",
                )  # fmt: skip
            if kind is tile.Break:
                builder.close(frame)
            return True
        if frame.kind in ("for", "while"):
            if frame.is_nested and kind is tile.Break:
                hint = "write the loops one inside the other"
                raise SyntaxProblem("break would leave only the innermost loop of T.grid", code="TL107", hint=hint)
            builder.emit(kind)
            frame.has_jump = True
            return False
        if frame.kind == "parallel":
            raise SyntaxProblem(
                f"{word} has no meaning in T.Parallel, whose points have no order", code="TL107", hint="use an if"
            )
        under_condition = under_condition or frame.is_dynamic
    raise SyntaxProblem(f"{word} is outside a loop", code="TL107")
