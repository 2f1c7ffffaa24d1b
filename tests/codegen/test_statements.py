"""Every statement of device IR prints, and every wrapper compiles."""
from __future__ import annotations

import re

import pytest

from tests.codegen.statements import every_statement
from tilelang.codegen.ops import EMIT
from tilelang.codegen.out import Out
from tilelang.ir import device
from tilelang.ir.expr import UINT32, Var
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


def advanced(text: str, stage: int) -> tuple[int, int]:
    """Stage and phase after the lines of an advance, from `stage` and phase 0 on."""
    phase = 0
    for line in text.splitlines():
        if re.fullmatch(r"phase \^= 1;", line):
            phase ^= 1
        elif one := re.fullmatch(r"if \(\+\+stage == (\d+)\) { stage = 0; phase \^= 1; }", line):
            stage += 1
            stage, phase = (0, phase ^ 1) if stage == int(one[1]) else (stage, phase)
        elif many := re.fullmatch(r"if \(\(stage \+= (\d+)\) >= (\d+)\) { stage -= (\d+); phase \^= 1; }", line):
            stage += int(many[1])
            stage, phase = (stage - int(many[3]), phase ^ 1) if stage >= int(many[2]) else (stage, phase)
        else:
            raise AssertionError(line)
    return stage, phase


@pytest.mark.parametrize("stages", range(2, 6))
def test_the_text_of_an_advance_past_slots(stages: int) -> None:
    for slots in range(1, 12):
        out = Out(EMIT)
        out.body((device.RingAdvance(stage=Var("stage", UINT32), phase=Var("phase", UINT32), stages=stages, slots=slots),))
        for start in range(stages):
            laps, slot = divmod(start + slots, stages)
            assert advanced(str(out.text).strip(), start) == (slot, laps % 2), (slots, start)


def test_the_text_of_an_advance_with_one_slot() -> None:
    for slots in (1, 2, 3):
        out = Out(EMIT)
        out.body((device.RingAdvance(stage=None, phase=Var("phase", UINT32), stages=1, slots=slots),))
        assert advanced(str(out.text).strip(), 0) == (0, slots % 2)
