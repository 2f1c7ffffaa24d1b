"""One run of a kernel's (or macro's) rewritten source: its names, and the calls that the rewriter inserts.

A name belongs to the dynamic block (a kernel loop, a side of a kernel `if`) in which it was bound, because what it stands for
exists only there.  Binding it again in a deeper block, or using it after its block, has no meaning the kernel could have, so both
are errors; a `T.alloc_var` is the way to carry a value across.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tilelang.errors import KernelError, NameProblem, Span, SyntaxProblem, TypeProblem, Unsupported
from tilelang.frontend import plain
from tilelang.frontend.builder import Builder, Frame
from tilelang.frontend.control import Branch, Loops, ThreadBranch, While
from tilelang.frontend.describe import indexed
from tilelang.frontend.explicit import WarpgroupSpec
from tilelang.frontend.expressions import Expressions, is_dynamic
from tilelang.frontend.facts import reads_memory
from tilelang.frontend.managers import KernelManager, PlainManager, WarpgroupManager
from tilelang.frontend.specs import KernelSpec
from tilelang.frontend.threads import asks_for_thread
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Const, Expr, Load, Var, convert
from tilelang.ir.types import DType, Scope

USE_VARIABLE = "declare it before the block as a mutable scalar: {name} = T.alloc_var(dtype, init)"


@dataclass(frozen=True, slots=True)
class Binding:
    """What a name stands for, and the block it was bound in."""

    value: object
    region: Frame
    span: Span | None
    loop: Frame | None = None  # the loop over Python values whose variable this is

    @property
    def is_spent(self) -> bool:
        """Whether it is the variable of a loop over Python values that is over, whose name any loop may take."""
        return self.loop is not None and not self.loop.is_open


class Activation(Expressions, Loops):
    """The explicit first argument of rewritten source."""

    def __init__(self, builder: Builder, file: str, is_macro: bool = False) -> None:
        self.builder, self.file, self.is_macro = builder, file, is_macro
        self.base = builder.region
        self.depth = len(builder.frames)
        self.names: dict[str, Binding] = {}

    def at(self, line: int, column: int, end_line: int, end_column: int, *names: str) -> None:
        """The statement built from here on: its place, and the names it assigns."""
        self.builder.span = Span(self.file, line, column, end_line, end_column)
        self.builder.names = names

    # ---- names ----------------------------------------------------------------------------------------------------------------

    def assign(self, name: str, value: object) -> object:
        """`name = value`: a store where the name is a mutable scalar, otherwise a new immutable name."""
        old = self.names.get(name)
        if old is not None and old.region.is_open and isinstance(old.value, Load) and not self._is_fresh(value):
            self.builder.store(old.value, value)
            return old.value
        self._require_rebindable(name, old)
        bound = self._bound(name, value)
        self.names[name] = Binding(bound, self.builder.region, self.builder.span)
        return bound

    def parameter(self, name: str, value: object) -> object:
        """A parameter; a mutable scalar among them can be stored to."""
        self.names[name] = Binding(value, self.base, self.builder.span)
        return value

    def argument(self, name: str, value: object, by_reference: bool) -> object:
        """A macro's parameter: the value as it is at the call, or what `T.Ref` lets the macro assign to."""
        if not by_reference:
            return self.parameter(name, self._bound(name, value))
        if not isinstance(value, Load):
            raise TypeProblem(f"{name} is a T.Ref and needs a T.alloc_var or an element of a buffer", code="TL213")
        indices = tuple(index if isinstance(index, (Var, Const)) else self._snapshot(name, index) for index in value.indices)
        return self.parameter(name, Load(value.buffer, indices))  # type: ignore[arg-type]

    def use(self, name: str, value: object) -> object:
        """`value`, read through a name that may have been bound in a block that is over.  NameProblem TL105 if so."""
        binding = self.names.get(name)
        if binding is not None and not binding.region.is_open:
            before = isinstance(binding.value, (Buffer, Region)) or binding.region.kind == "warpgroups"
            raise NameProblem(
                f"{name!r} belongs to a block that {_runs(binding.region)}, and is used after it", code="TL105",
                hint=f"bind {name} before the block" if before else USE_VARIABLE.format(name=name),
                notes=(f"{name} is bound here: {binding.span}",) if binding.span else (),
            )  # fmt: skip
        return value

    def augment(self, name: str, old: object, op: str, value: object) -> object:
        """`name op= value`."""
        if isinstance(old, (Buffer, Region)):
            raise TypeProblem(
                f"`{op}=` acts on elements, and {name} is a whole tile",
                code="TL116",
                hint=f"loop over its elements: {name}[i, j] {op}= ...",
            )
        return self.assign(name, plain.inplace(op, old, value))

    def declare(self, pattern: object, loop: Frame | None = None) -> None:
        """Registers the names that a loop over Python values or an ordinary `with` binds."""
        for name in _pattern_names(pattern):
            old = self.names.get(name)
            self._require_rebindable(name, old)
            self.names[name] = Binding(None, self.builder.region, self.builder.span, loop)

    def bind_loop(self, names: tuple[str, ...], values: tuple[object, ...]) -> None:
        """The variables of a kernel loop, which live as long as its block."""
        for name, value in zip(names, values, strict=True):
            old = self.names.get(name)
            here = self.builder.region
            taken = old is not None and not old.is_spent and old.region.is_open and old.region is not here
            if old is not None and taken:
                raise SyntaxProblem(
                    f"the loop variable {name!r} takes a name that has a value already",
                    code="TL104", hint="give it another name",
                    notes=(f"{name} is first bound here: {old.span}",) if old.span else (),
                )  # fmt: skip
            self.names[name] = Binding(value, self.builder.region, self.builder.span)

    def annotated(self, annotation: object, value: object) -> object:
        """The value of `name: annotation = value`; a dtype converts an expression, anything else says nothing."""
        if isinstance(annotation, DType) and isinstance(value, Expr):
            return convert(value, annotation)
        return value

    def unpack(self, value: object, before: int, after: int | None = None) -> list[object]:
        """The values of a tuple target: `before` of them, then a list for a starred one and `after` more."""
        if isinstance(value, Var):
            items: list[object] = [value]
        elif isinstance(value, (Expr, Buffer, Region)):
            name = value.name if isinstance(value, Buffer) else "an expression"
            raise TypeProblem(f"{name} cannot be unpacked into {before + (after or 0)} names", code="TL213")
        else:
            items = list(plain.items(value))
        exact = after is None
        if len(items) < before + (after or 0) or (exact and len(items) != before):
            expected = f"{before}" if exact else f"at least {before + (after or 0)}"
            raise TypeProblem(f"{len(items)} values cannot be unpacked into {expected} names", code="TL213")
        names = self.builder.names
        items = [self._settled(names[at] if at < len(names) else "value", item) for at, item in enumerate(items)]
        if exact:
            return items
        end = len(items) - (after or 0)
        return [*items[:before], items[before:end], *items[end:]]

    def _settled(self, name: str, item: object) -> object:
        """An item of a tuple that is about to be assigned: what an assignment before its own could change is read now."""
        return item if self._is_fresh(item) or not reads_memory(item) else self._snapshot(name, item)

    def value(self, value: object) -> object:
        """A value that several targets share: evaluated once."""
        return value if self._is_fresh(value) else self._snapshot("value", value)

    # ---- elements -------------------------------------------------------------------------------------------------------------

    def set_item(self, name: str | None, target: object, key: object, value: object) -> None:
        """`target[key] = value`."""
        if isinstance(target, Buffer):
            self.builder.store(self._element(target, key), value)
        elif isinstance(target, (Region, Expr)):
            raise TypeProblem(
                "only an element of a buffer can be assigned", code="TL116", hint="index all dimensions at once: A[i, j] = value"
            )
        elif isinstance(target, (list, dict)) and not isinstance(key, (slice, Expr)) and is_variable(_item(target, key)):
            self.builder.store(_item(target, key), value)  # type: ignore[arg-type]
        else:
            self._require_local_object(name)
            plain.set_item(target, key, self._bound(name or "item", value))

    def augment_item(self, name: str | None, target: object, key: object, op: str, value: object) -> None:
        """`target[key] op= value`."""
        if isinstance(target, Buffer):
            element = self._element(target, key)
            self.builder.store(element, plain.inplace(op, element, value))
            return
        if isinstance(target, (Region, Expr)):
            raise TypeProblem(
                "only an element of a buffer can be assigned", code="TL116", hint="index all dimensions at once: A[i, j] += value"
            )
        self.set_item(name, target, key, plain.inplace(op, plain.get_item(target, key), value))

    def _element(self, buffer: Buffer, key: object) -> Load:
        element = buffer[key]
        if isinstance(element, Region):
            count = len(key) if isinstance(key, tuple) else 1
            has_slice = any(isinstance(index, slice) for index in (key if isinstance(key, tuple) else (key,)))
            message = (
                "a slice cannot be assigned"
                if has_slice
                else f"{buffer.name} has {buffer.rank} dimensions and {count} indices came"
            )
            raise TypeProblem(
                message, code="TL116" if has_slice else "TL201",
                hint="use T.fill or T.copy for whole tiles" if has_slice else f"index every dimension: {indexed(buffer)} = ...",
            )  # fmt: skip
        return element

    def _require_local_object(self, name: str | None) -> None:
        """A Python object changes once, while the kernel is built, so a kernel loop or `if` must not change one from outside."""
        binding = self.names.get(name) if name else None
        region = self.builder.region
        if region is self.base or (binding is not None and binding.region is region):
            return
        shown = name or "this object"
        raise SyntaxProblem(
            f"{shown} is a Python object from outside the block, which would change it once, while the kernel is built",
            code="TL104", hint="keep run-time values in T.alloc_var, T.alloc_local or a tile",
        )  # fmt: skip

    # ---- blocks ---------------------------------------------------------------------------------------------------------------

    def if_(self, condition: object) -> Branch | ThreadBranch:
        return ThreadBranch(self.builder, condition) if asks_for_thread(condition) else Branch(self.builder, condition)  # type: ignore[arg-type]

    def while_(self) -> While:
        return While(self.builder)

    def enter(self, pattern: object, manager: object) -> AbstractContextManager[object]:
        """`with manager as pattern`."""
        if isinstance(manager, KernelSpec):
            return KernelManager(self.builder, manager, pattern, self.parameter)
        if isinstance(manager, WarpgroupSpec):
            return WarpgroupManager(self.builder, manager, pattern)
        return PlainManager(self, manager, pattern)

    def return_(self, value: object = None) -> object:
        """`return value`: nothing from a kernel, anything from a macro, and neither from inside a dynamic block."""
        if self.builder.region is not self.base:
            raise SyntaxProblem(
                "return inside a kernel loop or `if` cannot end the kernel early",
                code="TL108",
                hint="put the rest of the body under an `if`",
            )
        while len(self.builder.frames) > self.depth and self.builder.frames[-1].kind == "static":
            self.builder.close(self.builder.frames[-1])  # Python's return leaves loops over Python values
        if value is not None and not self.is_macro:
            raise Unsupported(
                "a T.prim_func that returns a value is not there yet; write to a tensor parameter",
                code="TL302",
                hint="name outputs by out_idx",
            )
        return value

    def check(self, condition: object, message: Callable[[], object]) -> None:
        """`assert condition, message`.  KernelError TL115 where it fails."""
        if is_dynamic(condition):
            raise Unsupported(
                "assert on a value of the running kernel is not there yet", code="TL302", hint="assert on Python values only"
            )
        if not (condition.value if isinstance(condition, Const) else condition):
            text = message()
            raise KernelError(f"assertion failed{'' if text is None else f': {text}'}", code="TL115")

    # ---- values ---------------------------------------------------------------------------------------------------------------

    def _is_fresh(self, value: object) -> bool:
        """Whether `value` is a T.alloc_var that has no name yet."""
        return is_variable(value) and value.buffer in self.builder.unbound  # type: ignore[attr-defined]

    def _require_rebindable(self, name: str, old: Binding | None) -> None:
        if old is None or not old.region.is_open:
            return
        if old.region is not self.builder.region:
            raise SyntaxProblem(
                f"{name!r} is bound again in a block that {_runs(self.builder.region)}; after it the old value stays",
                code="TL104", hint=USE_VARIABLE.format(name=name),
                notes=(f"{name} is first bound here: {old.span}",) if old.span else (),
            )  # fmt: skip
        if is_variable(old.value) and old.value.buffer in self.builder.unbound:  # type: ignore[attr-defined]
            self.builder.unbound.discard(old.value.buffer)  # type: ignore[attr-defined]

    def _bound(self, name: str, value: object) -> object:
        """What a name comes to stand for: a fresh variable itself, otherwise the value as it is now."""
        if self._is_fresh(value):
            self.builder.unbound.discard(value.buffer)  # type: ignore[attr-defined]
            return value
        return self._snapshot(name, value)

    def _held(self, name: str, item: object) -> object:
        """An item of a Python container.  A mutable scalar made for the container stays one, anything else is fixed."""
        if self._is_fresh(item):
            self.builder.unbound.discard(item.buffer)  # type: ignore[attr-defined]
            self.builder.held.add(item.buffer)  # type: ignore[attr-defined]
        return item if is_variable(item) and item.buffer in self.builder.held else self._snapshot(name, item)  # type: ignore[attr-defined]

    def _snapshot(self, name: str, value: object) -> object:
        """`value` such that later stores cannot change it; compound expressions become a `Let`."""
        if isinstance(value, (Var, Const)):
            return value
        if asks_for_thread(value):
            return value
        if isinstance(value, Load) and value.buffer.scope is Scope.BARRIER:
            return Load(value.buffer, tuple(self._snapshot(name, index) for index in value.indices))  # type: ignore[arg-type]
        if isinstance(value, Expr):
            return self.builder.let(name, value) if reads_memory(value) or self.builder.inside("kernel") else value
        if isinstance(value, Region):
            from tilelang.ir.walk import rewrite

            return rewrite(value, lambda node: self._snapshot(name, node) if isinstance(node, Load) else node)
        if type(value) is tuple:
            return tuple(self._held(f"{name}_{at}", item) for at, item in enumerate(value))
        if type(value) is list:
            value[:] = [self._held(f"{name}_{at}", item) for at, item in enumerate(value)]
        if type(value) is dict:
            value.update({key: self._held(name, item) for key, item in value.items()})
        return value


def _runs(region: Frame) -> str:
    """What sets a block apart from what is around it."""
    return "only some warpgroups execute" if region.kind == "warpgroups" else "the kernel runs any number of times"


def is_variable(value: object) -> bool:
    """Whether `value` is a mutable scalar, so that assigning to what holds it stores to it."""
    return isinstance(value, Load) and value.buffer.scope is Scope.VAR


def _item(target: object, key: object) -> object:
    try:
        return target[key]  # type: ignore[index]
    except (KeyError, IndexError, TypeError):
        return None


def _pattern_names(pattern: object) -> Iterator[str]:
    """The names of a target: a name, None, or a tuple of such."""
    if isinstance(pattern, str):
        yield pattern
    elif isinstance(pattern, tuple):
        for part in pattern:
            yield from _pattern_names(part)
