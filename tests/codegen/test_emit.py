"""Identifiers and indented lines."""
from __future__ import annotations

import keyword
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilelang.codegen import calls, expressions
from tilelang.codegen.emit import RESERVED, Names, Text, identifier

C_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def legal(name: str) -> bool:
    """Whether C++ lets a program declare a local of this name, beside what our headers and CUDA define."""
    reserved = name.startswith(("__", "TL_")) or re.match(r"_[A-Z]", name)
    return bool(C_NAME.fullmatch(name)) and not reserved and name not in RESERVED


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("A_shared", "A_shared"), ("x1", "x1"), ("_a", "_a"), ("a__b", "a__b"), ("", "unnamed"), ("1x", "v1x"), ("__x", "v__x"),
        ("_X", "v_X"), ("é", "_u00e9"), ("naïve", "na_u00efve"), ("a-b", "a_u002db"), ("a b", "a_u0020b"), ("A.x", "A_u002ex"),
        ("名前", "_u540d_u524d"), ("TL_D4", "vTL_D4"), ("x" * 200, "x" * 80), ("é" * 40, ("_u00e9" * 40)[:80]),
    ],
)  # fmt: skip
def test_identifier(wanted: str, name: str) -> None:
    assert identifier(wanted) == name


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(max_size=12))
def test_any_text_gives_a_legal_name(text: str) -> None:
    assert legal(Names().of(object(), text))


def test_reserved_names_get_a_suffix() -> None:
    assert Names().of(object(), "int") == "int_1"
    names = Names()
    assert [names.of(object(), "for") for _ in range(3)] == ["for_1", "for_2", "for_3"]
    assert all(legal(Names().of(object(), word)) for word in [*RESERVED, *keyword.kwlist])


def test_every_function_we_call_is_reserved() -> None:
    names = {*calls.MATH.values(), *expressions._FLOAT_CALLS.values(), "min", "max", "abs"}
    plain = {name for name in names if "::" not in name}
    assert plain | {name.removesuffix("f") for name in plain} <= RESERVED, "for float and for double"


def test_one_name_for_one_thing() -> None:
    names, a, b = Names(), object(), object()
    assert names.of(a, "x") == "x"
    assert names.of(b, "x") == "x_1"
    assert names.of(a, "y") == "x", "the first wish counts"
    assert names.of(object(), "x_1") == "x_1_1"


def test_long_names_stay_apart() -> None:
    names = Names()
    found = [names.of(object(), "x" * 100 + str(i)) for i in range(3)]
    assert len(set(found)) == 3
    assert all(len(name) <= 90 for name in found)


def test_scopes() -> None:
    names, outer, inner, sibling, later = Names(), object(), object(), object(), object()
    assert names.of(outer, "i") == "i"
    with names.scope():
        assert names.of(inner, "i") == "i_1", "a name of an enclosing scope is taken"
        assert names.of(outer, "i") == "i"
        with names.scope():
            assert names.of(inner, "i") == "i_1"
    with names.scope():
        assert names.of(sibling, "i") == "i_1", "free again after the scope"
        assert names.of(inner, "i") == "i_2", "and forgotten"
    assert names.of(later, "i") == "i_1"


def test_bound_text_is_printed_as_it_is() -> None:
    names, axis = Names(), object()
    names.bind(axis, "blockIdx.x")
    assert names.of(axis, "bx") == "blockIdx.x"



WISHES = st.sampled_from(("a", "b", "a_1", "int", "é"))
declarations = st.recursive(WISHES, lambda part: st.lists(part, max_size=4), max_leaves=25)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(declarations, max_size=8))
def test_no_two_things_in_scope_share_a_name(program: list[object]) -> None:
    names = Names()

    def run(part: list[object], visible: set[str]) -> None:
        visible = set(visible)
        for item in part:
            if isinstance(item, list):
                with names.scope():
                    run(item, visible)
            else:
                name = names.of(object(), str(item))
                assert name not in visible
                assert legal(name)
                visible.add(name)

    run(program, set())


def test_lines() -> None:
    text = Text()
    with text.indented():
        text.line("a;")
        text.line()
        with text.indented():
            text.line("b;")
    text.line("c;")
    assert str(text) == "  a;\n\n    b;\nc;\n"
