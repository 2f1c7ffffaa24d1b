"""`tilelang check FILE`: what it prints, and its exit status."""
from __future__ import annotations

from pathlib import Path

import pytest

import tilelang
from tests.conftest import RunPython
from tilelang.cli import CLEAN, FAILED, HAZARD, main

HEAD = """
import sys
import numpy as np
import tilelang
import tilelang.language as T

def ring(trips, wait=True, stages=2):
    @T.prim_func
    def by_hand(A: T.Tensor((trips * 16, 64), "float16"), B: T.Tensor((trips * 16, 64), "float32")):
        with T.Kernel(1, threads=256) as bx:
            slots = T.alloc_shared((stages, 16, 64), "float16")
            full, empty = T.alloc_barrier([128] * stages), T.alloc_barrier([128] * stages)
            with T.ws(0):
                for k in range(trips):
                    T.mbarrier_wait_parity(empty[k % stages], ((k // stages) & 1) ^ 1)
                    T.tma_copy(A[k * 16, 0], slots[k % stages, :, :], barrier=full[k % stages])
                    T.mbarrier_arrive(full[k % stages])
            with T.ws(1):
                for k in range(trips):
                    if wait:
                        T.mbarrier_wait_parity(full[k % stages], (k // stages) & 1)
                    for i, j in T.Parallel(16, 64):
                        B[k * 16 + i, j] = T.cast(slots[k % stages, i, j], "float32")
                    T.mbarrier_arrive(empty[k % stages])
    return by_hand

@T.prim_func
def copied(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
    with T.Kernel(4, threads=128) as bx:
        for i, j in T.Parallel(16, 64):
            B[bx * 16 + i, j] = A[bx * 16 + i, j]
"""


def program(folder: Path, *lines: str) -> str:
    path = folder / "program.py"
    path.write_text(HEAD + "\n".join(lines) + "\n")
    return str(path)


def checked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["check", *arguments])
    return status, capsys.readouterr().out


def test_every_kernel_of_a_file_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = program(
        tmp_path, 'tilelang.compile(copied, target="sm_90a")', 'tilelang.compile(ring(3), target="sm_90a")',
        'tilelang.compile(copied, target="sm_90a")',
    )  # fmt: skip
    status, printed = checked(capsys, path)
    assert status == CLEAN
    assert printed.count("proved for this shape") == 2, "each kernel once"
    assert "copied" in printed
    assert "by_hand" in printed
    assert "program.py:" in printed
    assert "all 4 blocks" in printed


def test_kernels_of_the_jit_decorator_count_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = program(tmp_path, '@tilelang.jit(target="sm_90a")', "def make(n):", "    return ring(n)", "make(3)")
    status, printed = checked(capsys, path)
    assert status == CLEAN
    assert "by_hand" in printed


def test_a_hazard_ends_with_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = program(
        tmp_path, 'tilelang.compile(ring(5, wait=False), target="sm_90a")', 'tilelang.compile(copied, target="sm_90a")'
    )
    status, printed = checked(capsys, path)
    assert status == HAZARD
    assert "TL815 HazardError: race on slots[stage 0]" in printed
    assert "no wait for mbarrier full[0]" in printed
    assert "program.py:" in printed
    assert "proved for this shape" in printed, "the other kernel is clean"


def test_the_whole_grid_and_extents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = program(tmp_path, 'tilelang.compile(copied, target="sm_90a")')
    assert "all 4 blocks" in checked(capsys, "--grid", "full", path)[1]
    assert "3 of 4 blocks" in checked(capsys, "--grid", "3", path)[1]


def test_arguments_are_the_program_s(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = program(tmp_path, "assert sys.argv[1:] == ['8', '--fast']", 'tilelang.compile(copied, target="sm_90a")')
    assert checked(capsys, path, "8", "--fast")[0] == CLEAN


def test_an_option_behind_the_file_is_not_taken_for_the_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = program(tmp_path, "assert sys.argv[1:] == ['8', '--grid', 'x']", 'tilelang.compile(copied, target="sm_90a")')
    for words in (("--grid", "full"), ("8", "--grid=full"), ("--seed", "3")):
        with pytest.raises(SystemExit):
            main(["check", path, *words])
        assert "stands before FILE" in capsys.readouterr().err
    assert checked(capsys, path, "--", "8", "--grid", "x")[0] == CLEAN


def test_the_module_is_the_command(run_python: RunPython) -> None:
    assert run_python("-m", "tilelang", "--version").stdout.strip() == f"tilelang {tilelang.__version__}"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("pass",), "compiled no kernel"),
        (('tilelang.compile(copied, target="sm_90a")', "raise ValueError('later')"), "failed: ValueError: later"),
        (('tilelang.compile(copied, target="sm_90a")', "sys.exit(3)"), "ended with status 3"),
        (('tilelang.compile(copied, target="sm_90a")', "T.nothing"), "failed:\nTL103"),
    ],
)  # fmt: skip
def test_programs_that_fail(lines: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was compiled before is checked all the same."""
    status, printed = checked(capsys, program(tmp_path, *lines))
    assert status == FAILED
    assert said in printed
    assert ("proved for this shape" in printed) == (len(lines) > 1)


def test_a_normal_exit_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(capsys, program(tmp_path, 'tilelang.compile(copied, target="sm_90a")', "sys.exit(0)"))[0] == CLEAN


def test_files_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, printed = checked(capsys, str(tmp_path / "nothing.py"))
    assert (status, "there is no such file" in printed) == (FAILED, True)


@pytest.mark.parametrize("grid", ["half", "2,x"])
def test_grids_that_mean_nothing(grid: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["check", "--grid", grid, "file.py"])
    assert ended.value.code == 2
    assert "one to three extents" in capsys.readouterr().err


def test_compile_is_itself_again_afterwards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import tilelang
    from tilelang.runtime import jit

    before = tilelang.compile, jit.compile
    checked(capsys, program(tmp_path, "raise ValueError"))
    assert (tilelang.compile, jit.compile) == before


def test_as_a_command(tmp_path: Path, run_python: RunPython) -> None:
    path = program(tmp_path, 'tilelang.compile(ring(4, wait=False), target="sm_90a")')
    done = run_python("-m", "tilelang.cli", "check", path, status=HAZARD)
    assert "TL815" in done.stdout
