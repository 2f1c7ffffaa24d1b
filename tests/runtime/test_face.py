"""The public names: what `import tilelang` loads, and what a name that is not there says."""
from __future__ import annotations

import pytest

import tilelang
from tilelang.errors import Unsupported


def test_every_public_name_is_there():
    assert all(hasattr(tilelang, name) for name in tilelang.__all__)
    assert set(tilelang.__all__) <= set(dir(tilelang))
    assert tilelang.__version__


def test_the_import_loads_nothing_of_weight(run_python):
    code = (
        "import sys; before = set(sys.modules); import tilelang; new = set(sys.modules) - before;"
        "heavy = {'numpy', 'torch', 'cuda', 'rich', 'ml_dtypes', 'ast', 'inspect', 'logging', 'dataclasses'};"
        "rooms = {'passes', 'codegen', 'sim', 'frontend', 'ir', 'runtime', 'language'};"
        "print(sorted(heavy & new), sorted(m for m in new if m.startswith('tilelang.') and m.split('.')[1] in rooms))"
    )
    assert run_python("-c", code).stdout == "[] []\n"


def test_compile_itself_loads_no_cuda_and_no_compiler(run_python):
    code = "import sys, tilelang; tilelang.compile; print(sorted({'numpy', 'torch', 'cuda', 'rich'} & set(sys.modules)))"
    assert run_python("-c", code).stdout == "[]\n"


@pytest.mark.parametrize("name", ["autotune", "testing", "profiler", "tvm", "par_compile", "TensorSupplyType", "lower", "carver"])
def test_names_of_the_language_that_are_not_there(name):
    with pytest.raises(Unsupported) as caught:
        getattr(tilelang, name)
    assert (caught.value.code, caught.value.message) == ("TL360", f"tilelang.{name} does not exist here")
    assert caught.value.hint


def test_from_import_says_the_same(run_python):
    done = run_python("-c", "from tilelang import autotune", status=1)
    assert "TL360 Unsupported: tilelang.autotune does not exist here" in done.stderr


def test_a_misspelled_name_shows_near_ones():
    with pytest.raises(AttributeError, match="module 'tilelang' has no attribute 'complie'; did you mean 'compile'"):
        _ = tilelang.complie
    with pytest.raises(AttributeError, match=r"has no attribute 'xyzzy'$"):
        _ = tilelang.xyzzy
    assert not hasattr(tilelang, "__wrapped__")


def test_absent_names_hide_nothing_that_exists():
    from tilelang import _ABSENT, _HOMES, _ROOMS

    assert not set(_ABSENT) & ({*_HOMES, *_ROOMS, *tilelang.__all__})
