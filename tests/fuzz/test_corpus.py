"""The programs of tests/corpus/: faults that were, and kinds of fault that compilers like this one are known for.

Each is right, or refused with the code that its `REFUSED` names.
"""
from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import ROOT
from tests.fuzz import texts
from tests.fuzz.running import End
from tilelang.sim.schedule import SCHEDULES

FILES = sorted((ROOT / "tests" / "corpus").glob("*.py"))
CASES = [
    pytest.param(path, case, id=f"{path.stem}{'-' if case else ''}{','.join(f'{key}={value}' for key, value in case.items())}")
    for path in FILES
    for case in texts.cases(path)
]


@pytest.mark.parametrize(("path", "case"), CASES)
def test_right_or_refused(path: Any, case: dict[str, Any]) -> None:
    outcome = texts.run_file(path, tuple(SCHEDULES), case)
    refused = getattr(texts.load(path), "REFUSED", "") if outcome.end is End.REFUSED else ""
    assert outcome.end is End.RAN or outcome.code == refused, str(outcome)
