"""What `with` enters: the kernel itself, the part of some warpgroups, or an ordinary context manager of Python."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING

from tilelang.errors import SyntaxProblem, TypeProblem
from tilelang.frontend.builder import Builder, Frame
from tilelang.frontend.explicit import WarpgroupSpec
from tilelang.frontend.specs import KernelSpec
from tilelang.ir.expr import Var

if TYPE_CHECKING:
    from tilelang.frontend.activation import Activation


class KernelManager(AbstractContextManager[object]):
    """`with T.Kernel(...) as (bx, by):`; one plain name gets a single axis as a bare variable, several as a tuple."""

    def __init__(self, builder: Builder, spec: KernelSpec, pattern: object, bind: Callable[[str, object], object]) -> None:
        self.builder, self.spec, self.pattern, self.bind = builder, spec, pattern, bind
        self.frame: Frame | None = None

    def __enter__(self) -> object:
        names = self._names()
        axes, self.frame = self.builder.open_kernel(self.spec, names)
        if isinstance(self.pattern, tuple):
            self._bind_all(names, axes)
            return axes
        value: object = axes[0] if len(axes) == 1 else axes
        if isinstance(self.pattern, str):
            self.bind(self.pattern, value)
        return value

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if error is None and self.frame is not None:
            self.builder.body = self.builder.close(self.frame)

    def _names(self) -> tuple[str, ...]:
        if isinstance(self.pattern, tuple):
            if not all(isinstance(name, str) for name in self.pattern):
                raise SyntaxProblem(
                    "the axes of T.Kernel are plain names", code="TL118", hint="with T.Kernel(gx, gy) as (bx, by):"
                )
            return self.pattern
        return (self.pattern,) if isinstance(self.pattern, str) and len(self.spec.grid) == 1 else ()

    def _bind_all(self, names: tuple[str, ...], axes: tuple[Var, ...]) -> None:
        for name, var in zip(names, axes, strict=True):
            self.bind(name, var)


class WarpgroupManager(AbstractContextManager[object]):
    """`with T.ws(0):`"""

    def __init__(self, builder: Builder, spec: WarpgroupSpec, pattern: object) -> None:
        if pattern is not None:
            raise SyntaxProblem("T.ws gives nothing to a name", code="TL118", hint="leave the `as ...` out")
        self.builder, self.spec = builder, spec
        self.frame: Frame | None = None

    def __enter__(self) -> object:
        self.frame = self.builder.open_warpgroups(self.spec)
        return None

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if error is None and self.frame is not None:
            self.builder.close_warpgroups(self.frame)


class PlainManager(AbstractContextManager[object]):
    """An ordinary context manager.  It may not swallow an error, which would leave blocks half built."""

    def __init__(self, activation: Activation, manager: object, pattern: object) -> None:
        if not hasattr(type(manager), "__enter__") or not hasattr(type(manager), "__exit__"):
            raise TypeProblem(f"with needs T.Kernel(...) or a context manager, not {type(manager).__name__}", code="TL213")
        self.activation, self.manager, self.pattern = activation, manager, pattern

    def __enter__(self) -> object:
        value = self.manager.__enter__()  # type: ignore[attr-defined]
        self.activation.declare(self.pattern)
        return value

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.manager.__exit__(kind, error, traceback)  # type: ignore[attr-defined]
