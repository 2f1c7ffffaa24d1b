"""The programs of tests/corpus/: faults that were, and kinds of fault that compilers like this one are known for.

Each is right, or refused with the code that its `REFUSED` names.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.fuzz import texts
from tests.fuzz.running import End

SCHEDULES = ("eager-async", "lazy-async")
"""Overwriting too early and waiting too little show under these."""
FILES = sorted((ROOT / "tests" / "corpus").glob("*.py"))
CASES = [
    pytest.param(path, case, id=f"{path.stem}{'-' if case else ''}{','.join(f'{key}={value}' for key, value in case.items())}")
    for path in FILES
    for case in texts.cases(path)
]


@pytest.mark.parametrize(("path", "case"), CASES)
def test_right_or_refused(path: Any, case: dict[str, Any], record_property: Callable[[str, object], None]) -> None:
    outcome = texts.run_file(path, SCHEDULES, case)
    refused = texts.expected_refusal(path)
    assert outcome.end is End.RAN or (outcome.end is End.REFUSED and outcome.code == refused), str(outcome)
    record_property("corpus", outcome.code or "ran")
