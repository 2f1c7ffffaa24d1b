"""Tiles and scalars that live inside a kernel."""

from __future__ import annotations

from tilelang.errors import TypeProblem
from tilelang.frontend.builder import current
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Load
from tilelang.ir.types import Scope


def alloc_shared(shape: object, dtype: object, scope: str = "shared.dyn") -> Buffer:
    """A tile in shared memory, `shape` in elements.  Raises ShapeProblem TL207, TypeProblem TL210 or TL212."""
    return _alloc(shape, dtype, scope, Scope.SHARED, ("shared", "shared.dyn"), "T.alloc_shared")


def alloc_fragment(shape: object, dtype: object, scope: str = "local.fragment") -> Buffer:
    """A tile kept in the registers of the block; `shape` is the whole tile's, in elements.  Raises as `alloc_shared`."""
    return _alloc(shape, dtype, scope, Scope.FRAGMENT, ("local.fragment", "fragment"), "T.alloc_fragment")


def alloc_local(shape: object, dtype: object, scope: str = "local") -> Buffer:
    """An array of each thread, `shape` in elements.  Raises as `alloc_shared`."""
    return _alloc(shape, dtype, scope, Scope.LOCAL, ("local",), "T.alloc_local")


def alloc_var(dtype: object, *args: object, scope: str = "local.var", init: object = None) -> Load:
    """A mutable scalar: `x = T.alloc_var(dtype, init)`, after which `x = value` stores to it.  0 without an `init`.

    Raises TypeProblem TL210, TL212 or TL217."""
    initial, given_scope = init, scope
    for value in args:
        if isinstance(value, str):
            given_scope = value
        else:
            initial = value
    if given_scope != "local.var" or len(args) > 2:
        raise TypeProblem(
            f"T.alloc_var lives in 'local.var', not {given_scope!r}", code="TL212", hint="T.alloc_var('float32', 0)"
        )
    builder = current("T.alloc_var")
    return builder.variable(builder.wanted_name("var"), dtype, initial)


def _alloc(shape: object, dtype: object, scope: str, kind: Scope, allowed: tuple[str, ...], what: str) -> Buffer:
    if scope not in allowed:
        raise TypeProblem(f"scope={scope!r} of {what}; it may be {' or '.join(map(repr, allowed))}", code="TL212")
    builder = current(what)
    return builder.alloc(builder.wanted_name(str(kind)), shape, dtype, kind)


__all__ = ["alloc_fragment", "alloc_local", "alloc_shared", "alloc_var"]
