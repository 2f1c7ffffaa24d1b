"""Every spelling of a target, and every refusal."""

import dataclasses

import pytest

from tilelang.errors import Unsupported
from tilelang.target import SM_90A, TARGETS, Target


@pytest.fixture(autouse=True)
def no_default(monkeypatch):
    monkeypatch.delenv("TILELANG_DEFAULT_TARGET", raising=False)


@pytest.mark.parametrize(
    "spelling",
    [None, "auto", "cuda", "sm_90a", " cuda -arch=sm_90a ", "cuda --arch=sm_90a", {"kind": "cuda", "arch": "sm_90a"},
     {"kind": "cuda"}, {"arch": "sm_90a"}, {"kind": "auto"}, '{"kind": "cuda", "arch": "sm_90a"}', SM_90A],
)  # fmt: skip
def test_spellings(spelling):
    assert Target.parse(spelling) is SM_90A


@pytest.mark.parametrize("capability", [None, (9, 0), (8, 0), (12, 0)])
def test_auto_takes_the_gpu_at_hand_or_the_default(capability):
    assert Target.parse("auto", capability).arch == "sm_90a"


@pytest.mark.parametrize("text", ["sm_90a", '{"kind": "cuda", "arch": "sm_90a"}'])
def test_environment(monkeypatch, text):
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", text)
    assert Target.parse(None).arch == "sm_90a"


def test_environment_is_checked_and_only_read_for_none(monkeypatch):
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "hip")
    with pytest.raises(Unsupported, match="target 'hip'"):
        Target.parse(None)
    assert Target.parse("auto") is SM_90A


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("sm_80", "architecture 'sm_80' does not exist here"),
        ("sm_100a", "architecture 'sm_100a' does not exist here"),
        ("cuda -arch=sm_80", "architecture 'sm_80' does not exist here"),
        ("hip", "target 'hip' does not exist here"),
        ("c", "target 'c' does not exist here"),
        ({"kind": "llvm"}, "target 'llvm' does not exist here"),
        ("", "target '' does not exist here"),
        ("cuda -keys=gpu", "target option '-keys=gpu' does not exist here"),
        ("cuda -arch", "target option '-arch' does not exist here"),
        ({"kind": "cuda", "threads": 3}, "target key 'threads' does not exist here"),
        ("{kind}", "target '{kind}' is not JSON"),
        (90, "a target is a string, a mapping or a Target, not int 90"),
    ],
)
def test_refusals_name_what_came_and_what_there_is(spelling, message):
    with pytest.raises(Unsupported) as caught:
        Target.parse(spelling)
    assert caught.value.message == message
    assert caught.value.code == "TL350"
    assert '"sm_90a"' in caught.value.notes[0]


def test_sm_90_without_the_a_says_what_to_write():
    with pytest.raises(Unsupported) as caught:
        Target.parse("sm_90")
    assert 'write "sm_90a"' in caught.value.hint


def test_the_string_form_parses_back():
    assert all(Target.parse(str(target)) is target for target in TARGETS.values())


def test_a_cubin_for_sm_90a_runs_on_no_other_capability():
    assert SM_90A.runs_on((9, 0))
    assert not SM_90A.runs_on((10, 0))
    assert not SM_90A.runs_on((8, 9))


def test_facts_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        SM_90A.arch = "sm_80"  # type: ignore[misc]


@pytest.mark.parametrize("spelling", ["cpu", "llvm", "c"])
def test_who_asks_for_the_cpu_hears_how_to_run_there(spelling):
    with pytest.raises(Unsupported) as caught:
        Target.parse(spelling)
    assert caught.value.hint == "any target runs on the CPU too: call the kernel with NumPy arrays"
