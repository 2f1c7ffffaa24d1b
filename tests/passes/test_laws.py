"""What holds for every program: transforms keep the meaning and leave well-formed kernels, plans are deterministic, inputs are
not changed, planning knows nothing of lowering."""
from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pytest

import tilelang.passes
from tests.passes.loops import LOOPS
from tests.passes.programs import PROGRAMS
from tests.passes.running import Arrays, assert_same_bits, check, compiled, integers, meaning
from tilelang.codegen.cuda import emit
from tilelang.ir.text import render
from tilelang.ir.tile import Kernel, Parallel
from tilelang.ir.types import Scope
from tilelang.ir.verify import verify
from tilelang.passes.access import statements
from tilelang.passes.fragment_access import element_accesses
from tilelang.passes.options import Options
from tilelang.passes.plan_copy import plan_copies
from tilelang.passes.plan_gemm import plan_gemms
from tilelang.passes.plan_roles import spare_registers
from tilelang.passes.plan_schedule import plan_clears
from tilelang.passes.settle import whole_statements, with_body
from tilelang.passes.transform_elementwise import transform_elementwise
from tilelang.passes.transform_hoist import transform_hoist
from tilelang.passes.transform_relayout import transform_relayout
from tilelang.target import SM_90A

EVERY: dict[str, Callable[[], Kernel]] = {
    f"{name} {','.join(f'{key}={value}' for key, value in options.items())}".strip(): partial(program, **options)
    for name, (program, variations) in PROGRAMS.items()
    for options in variations
} | LOOPS


@cache
def example(name: str) -> tuple[Kernel, Arrays, Arrays]:
    """A program with inputs and what it means for them."""
    kernel = EVERY[name]()
    arrays = integers(kernel, 0, 1)
    return kernel, arrays, meaning(kernel, arrays)


def means_the_same(name: str, changed: Kernel, what: str) -> None:
    kernel, arrays, expected = example(name)
    assert changed.params == kernel.params
    verify(changed)
    assert_same_bits(expected, meaning(changed, arrays), f"{name}, {what}")


@pytest.mark.parametrize("name", EVERY)
def test_element_wise_loops_keep_the_meaning(name: str) -> None:
    """Of all copies and fills, and of those that no instruction does."""
    kernel, _, _ = example(name)
    gemms = plan_gemms(kernel, SM_90A)
    copies = plan_copies(kernel, gemms.shared, gemms.accumulators, {}, Options()).copies
    clears, _ = plan_clears(kernel)
    for whole, what in ((frozenset(), "all as loops"), (whole_statements(copies, clears), "some as loops")):
        means_the_same(name, with_body(kernel, transform_elementwise(kernel.body, whole)), what)


@pytest.mark.parametrize("name", EVERY)
def test_loads_ahead_keep_the_meaning(name: str) -> None:
    kernel, _, _ = example(name)
    for budget in (spare_registers(kernel, SM_90A), 1000):
        body, decisions = transform_hoist(kernel, budget)
        assert bool(decisions) == (body != kernel.body)
        assert decisions or name != "epilogue"
        means_the_same(name, with_body(kernel, body), f"{budget} registers of loads ahead")


@pytest.mark.parametrize("name", LOOPS)
def test_passages_through_shared_memory_keep_the_meaning(name: str) -> None:
    """Of every fragment in every loop, whether it needs one or not."""
    kernel, _, _ = example(name)
    body, passages = transform_elementwise(kernel.body, frozenset()), 0
    for loop in [stmt for stmt in statements(body) if isinstance(stmt, Parallel)]:
        for fragment in dict.fromkeys(b for b, _, _ in element_accesses(loop) if b.scope is Scope.FRAGMENT):
            passages += 1
            means_the_same(name, with_body(kernel, transform_relayout(body, loop, fragment)), f"{fragment.name} at {loop.span}")
    assert passages > 1


@pytest.mark.parametrize("name", EVERY)
def test_the_planned_body_keeps_the_meaning(name: str) -> None:
    """What lowering starts from."""
    kernel, _, _ = example(name)
    means_the_same(name, with_body(kernel, compiled(kernel).plans.body), "planned")


def fields(kernel: Kernel) -> list[object]:
    return [getattr(kernel, field.name) for field in dataclasses.fields(kernel)]


@pytest.mark.parametrize("name", EVERY)
def test_compiling_twice_gives_the_same_and_changes_nothing(name: str) -> None:
    """The same object again, and the same program built again."""
    kernel, again = EVERY[name](), EVERY[name]()
    before, parts = render(kernel), fields(kernel)
    first, *others = (compiled(each) for each in (kernel, kernel, again))
    assert render(kernel) == before
    assert all(a is b for a, b in zip(parts, fields(kernel), strict=True))
    for other in others:
        assert emit(other.device) == emit(first.device)
        assert other.decisions == first.decisions
        assert other.plans.roles == first.plans.roles


@pytest.mark.parametrize("name", LOOPS)
def test_loops_on_the_machine(name: str) -> None:
    check(LOOPS[name](), ("fifo", "reverse", "lazy-async"), magnitude=1)


# ---- who knows whom -----------------------------------------------------------------------------------------------------------

FOLDER = Path(tilelang.passes.__file__).parent
LOWERING = {path.stem for path in FOLDER.glob("lower_*.py")}
ORDER = {"pipeline"}
DECIDING = {path.stem for pattern in ("plan_*", "transform_*", "infer_*", "choose_*") for path in FOLDER.glob(f"{pattern}.py")}


def uses(name: str) -> set[str]:
    """The files of `passes/` that one of them imports."""
    nodes = ast.walk(ast.parse((FOLDER / f"{name}.py").read_text()))
    modules = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {module.rsplit(".", 1)[1] for module in modules if module.startswith("tilelang.passes.")}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("[!_]*.py")), ids=lambda path: path.stem)
def test_planning_knows_nothing_of_lowering(path: Path) -> None:
    """And lowering nothing of how plans are made, but for their classes; only the pipeline knows both."""
    if path.stem in ORDER:
        return
    if path.stem in LOWERING:
        assert uses(path.stem) & DECIDING <= {"plan_explicit"}, "where the plans of kernels divided by hand are declared"
    else:
        assert not uses(path.stem) & LOWERING
