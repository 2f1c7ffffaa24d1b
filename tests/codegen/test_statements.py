"""Every statement of device IR prints, and every wrapper compiles."""
from __future__ import annotations

from tests.codegen.statements import every_statement
from tilelang.codegen.ops import EMIT
from tilelang.ir import device
from tilelang.ir.walk import walk


def statements() -> set[type]:
    """Every kind of statement of device IR."""
    kinds = {thing for thing in vars(device).values() if isinstance(thing, type) and issubclass(thing, device.Stmt)}
    return kinds - {device.Stmt}


def test_every_statement_has_its_text() -> None:
    assert set(EMIT) == statements()


def test_the_kernel_of_every_statement_has_them_all() -> None:
    kernel = every_statement()
    found = {type(node) for body in (kernel.setup, *(role.body for role in kernel.roles)) for node in walk(body)}
    assert statements() <= found
