"""Where a kernel's statements are written."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from tilelang.codegen.emit import Names, Text
from tilelang.codegen.expressions import Printer
from tilelang.ir import device as d
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Var

Emit = Callable[..., None]
"""Writes one statement: `(statement, out)`."""


class Out:
    """The text, the names, the expression printer; `emit` prints a statement by its type, `first_warp` is that of the role being
    printed."""

    def __init__(self, emit: Mapping[type, Emit]) -> None:
        self.text = Text()
        self.names = Names()
        self.printer = Printer(self.names)
        self.first_warp = 0
        self._emit = emit

    def expr(self, value: Expr) -> str:
        return self.printer.text(value)

    def name(self, thing: Var | Buffer | d.SharedArray | d.BarrierArray | d.Registers | d.TensorMap) -> str:
        return self.names.of(thing, thing.name)

    def barrier(self, ref: d.BarrierRef) -> str:
        return f"{self.name(ref.array)}[{self.expr(ref.index)}]"

    def body(self, statements: d.Body) -> None:
        for statement in statements:
            self._emit[type(statement)](statement, self)

    @contextmanager
    def inner(self) -> Iterator[None]:
        """The inside of a C++ block: a level of indentation and a scope of names."""
        with self.text.indented(), self.names.scope():
            yield

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """A whole C++ block behind `opening`."""
        self.text.line(f"{opening} {{")
        with self.inner():
            yield
        self.text.line("}")

    def guard(self, predicate: Expr | None) -> str:
        """What a line begins with that is done only where a predicate holds."""
        return f"if ({self.expr(predicate)}) " if predicate is not None else ""


def plain(call: str) -> Emit:
    """A statement that is always the same line."""
    return lambda _, out: out.text.line(call)
