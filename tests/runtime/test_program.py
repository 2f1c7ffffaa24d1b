"""The compiler's own failures: one error that names the pass and a file with all it takes to see the failure again."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tilelang
import tilelang.language as T
import tilelang.passes.pipeline as pipeline
from tests.runtime.kernels import add
from tilelang.errors import InternalError, ShapeProblem, Unsupported
from tilelang.ir import text
from tilelang.runtime.kernel import Image
from tilelang.runtime.program import _pass_of, make_program
from tilelang.target import SM_90A

PACKAGE = Path(tilelang.__file__).parent


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("TILELANG_TMP_DIR", str(tmp_path / "reports"))
    return tmp_path / "reports"


@T.prim_func
def through_shared(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float16")):
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((64, 64), "float16")
        for _ in T.Pipelined(1, num_stages=1):
            T.copy(A, tile)
            T.copy(tile, C)


@pytest.mark.parametrize("aligned", [2, 4, 8])
def test_a_tensor_that_is_less_aligned_is_passed_as_a_pointer(aligned):
    """The variant of a kernel, through the passes and NVRTC."""
    source, _ = through_shared.params
    program = make_program(through_shared, SM_90A, {}, (), {source: aligned})
    assert source in program.device.pointers
    assert source not in [record.tensor for record in program.device.tensor_maps]
    assert Image(program).cubin().image[:4] == b"\x7fELF"


def raising(error: BaseException) -> Any:
    def function(*_: Any, **__: Any) -> None:
        raise error

    return function


def failure(**changes: Any) -> InternalError:
    words: dict[str, Any] = {"target": "sm_90a", "pass_configs": {"tl.enable_fast_math": True}, "compile_flags": "-DX", **changes}
    with pytest.raises(InternalError) as caught:
        tilelang.compile(add(), **words)
    return caught.value


def in_file(file: str, *, calls: Any) -> Any:
    """A function of a file of the package, as far as its traceback says, that calls another."""
    names = {"calls": calls}
    exec(compile("def function(*_, **__): return calls()", str(PACKAGE / file), "exec"), names)
    return names["function"]


def test_any_exception_in_a_pass_is_ours_and_is_saved(folder, monkeypatch):
    monkeypatch.setattr(pipeline, "plan_gemms", in_file("passes/plan_gemm.py", calls=raising(KeyError("acc"))))
    error = failure()
    assert error.code == "TL957"
    assert error.message == "passes/plan_gemm failed on add: KeyError: 'acc'"
    assert isinstance(error.__cause__, KeyError)
    (saved,) = folder.iterdir()
    assert error.notes == (f"to reproduce it: the text is saved in {saved}",)
    report = saved.read_text()
    assert saved.name.startswith("tilelang-add-")
    assert f"tilelang {tilelang.__version__}, Python " in report
    assert "target: cuda -arch=sm_90a\npass_configs: {'tl.enable_fast_math': True}\n" in report
    assert "compiler options: --use_fast_math -DX\n" in report
    assert report.count("Traceback (most recent call last):\n") == 1
    assert "KeyError: 'acc'" in report
    assert report.endswith(text.render(add()))


PLACES = {
    "passes/plan_gemm": ("passes/pipeline.py", "passes/pipeline.py", "passes/plan_gemm.py", "passes/access.py", "ir/walk.py"),
    "passes/pipeline": ("runtime/jit.py", "passes/pipeline.py"),
    "codegen/cuda": ("codegen/cuda.py", "codegen/ops.py", "ir/expr.py"),
    "": ("runtime/jit.py", "ir/walk.py", "../elsewhere.py"),
}


@pytest.mark.parametrize(("name", "files"), PLACES.items())
def test_the_pass_that_is_named(name, files):
    """What pipeline.py called is the pass, whatever that used itself."""
    function = raising(ZeroDivisionError("x"))
    for file in reversed(files):
        function = in_file(file, calls=function)
    with pytest.raises(ZeroDivisionError) as caught:
        function()
    assert _pass_of(caught.value.__traceback__) == name


def test_a_failure_outside_of_all_passes_names_the_compiler(folder, monkeypatch):
    monkeypatch.setattr(pipeline, "compile_kernel", raising(ValueError("x")))
    assert failure().message == "the compiler failed on add: ValueError: x"


def test_an_internal_error_of_a_pass_keeps_its_words_and_is_saved(folder, monkeypatch):
    monkeypatch.setattr(pipeline, "lower", raising(InternalError("no plan", code="TL940", notes=("first",), hint="h")))
    error = failure()
    (saved,) = folder.iterdir()
    assert (error.code, error.message, error.hint) == ("TL940", "no plan", "h")
    assert error.notes == ("first", f"to reproduce it: the text is saved in {saved}")
    assert "TL940 InternalError: no plan" in saved.read_text()


NOT_OURS = [ShapeProblem("s", code="TL201"), Unsupported("u", code="TL301"), MemoryError(), KeyboardInterrupt()]


@pytest.mark.parametrize("error", NOT_OURS, ids=lambda error: type(error).__name__)
def test_what_is_not_a_fault_of_ours_passes_through(folder, monkeypatch, error):
    monkeypatch.setattr(pipeline, "lower", raising(error))
    with pytest.raises(type(error)) as caught:
        tilelang.compile(add(), target="sm_90a")
    assert caught.value is error
    assert not folder.exists()


def test_a_failure_that_repeats_keeps_one_file(folder, monkeypatch):
    for _ in range(2):
        monkeypatch.setattr(pipeline, "lower", raising(KeyError("x")))
        failure()
    assert len(list(folder.iterdir())) == 1


def test_alignments_are_in_the_report(folder, monkeypatch):
    monkeypatch.setattr(pipeline, "lower", raising(KeyError("x")))
    program = add()
    with pytest.raises(InternalError):
        make_program(program, SM_90A, {}, (), {program.params[1]: 4})  # type: ignore[dict-item]
    (saved,) = folder.iterdir()
    assert "alignments in bytes: {'B': 4}\n" in saved.read_text()
    assert "compiler options: none\n" in saved.read_text()


def test_a_program_that_cannot_be_printed_is_reported_all_the_same(folder, monkeypatch):
    monkeypatch.setattr(pipeline, "lower", raising(KeyError("x")))
    monkeypatch.setattr(text, "render", raising(TypeError("no text")))
    failure()
    (saved,) = folder.iterdir()
    assert "the tile program cannot be printed:\n" in saved.read_text()
    assert "Kernel(name='add'" in saved.read_text()


def test_a_folder_that_cannot_be_written_hides_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILELANG_TMP_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(pipeline, "lower", raising(KeyError("x")))
    assert failure().notes[0].startswith("to reproduce it: the text could not be saved: ")


def test_the_process_is_usable_afterwards(folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "lower", raising(KeyError("x")))
        failure()
    assert tilelang.compile(add(), target="sm_90a").get_kernel_source()
