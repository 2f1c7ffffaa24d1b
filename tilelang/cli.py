"""The `tilelang` command.

    tilelang check [--grid full | X[,Y[,Z]]] [--schedules N] [--seed N] FILE [ARGUMENT ...]

runs a program with `tilelang.compile` intercepted, and then every kernel that it compiled on the simulated machine.  Exit
status: 0 if all of them are clean, 1 if the machine objects to one, 2 if the program failed or compiled none.
"""
from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang.errors import ArgumentError, HazardError, TileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilelang.runtime.kernel import JITKernel
    from tilelang.sim.check import CheckReport

CLEAN, HAZARD, FAILED = 0, 1, 2
OPTIONS = ("--grid", "--schedules", "--seed")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command with `argv`, by default the process's arguments; the exit status."""
    parser = _parser()
    words = list(sys.argv[1:] if argv is None else argv)
    ours = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:ours])
    misplaced = [word for word in options.arguments if word.partition("=")[0] in OPTIONS]
    if misplaced:
        parser.error(f"{misplaced[0]} stands before FILE; what stands behind it is FILE's own (after -- it may be any word)")
    options.arguments += words[ours + 1 :]
    return _check(options)


def _parser() -> argparse.ArgumentParser:
    import tilelang

    parser = argparse.ArgumentParser(prog="tilelang", description="Tools for block-level GPU kernels.")
    parser.add_argument("--version", action="version", version=f"tilelang {tilelang.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser(
        "check", help="run a program and check every kernel it compiles on the simulated machine",
        description="Runs FILE and checks every kernel that it compiles: races, deadlocks, bounds.  Needs no GPU.",
    )  # fmt: skip
    check.add_argument("file", type=Path, help="the Python program")
    check.add_argument("arguments", nargs=argparse.REMAINDER, help="its own arguments")
    check.add_argument("--grid", type=_grid, help="'full' for all blocks, or extents X[,Y[,Z]]; by default a few blocks")
    check.add_argument("--schedules", type=_count, help="random schedules beside the fixed ones (default: 64 where data decides)")
    check.add_argument("--seed", type=int, default=0, help="the first random schedule, and the data (default: 0)")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a number of schedules, not {text!r}")
    return int(text)


def _grid(text: str) -> str | tuple[int, ...]:
    if text == "full":
        return text
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"'full' or one to three extents such as 4,2, not {text!r}") from None


# ---- check --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Result:
    """What became of one kernel."""

    kernel: JITKernel
    report: CheckReport | None
    hazard: HazardError | None = None


def _check(options: argparse.Namespace) -> int:
    if not options.file.is_file():
        _say(f"{options.file}: there is no such file")
        return FAILED
    kernels, failure = _compiled_by(options.file, options.arguments)
    try:
        results = [_checked(kernel, options) for kernel in kernels]
    except ArgumentError as error:
        _say(str(error))
        return FAILED
    _show(results)
    hazards = [str(result.hazard) for result in results if result.hazard is not None]
    if failure and not any(hazard.splitlines()[0] in failure for hazard in hazards):
        _say(f"{options.file} {failure}")
    elif not kernels:
        _say(f"{options.file} compiled no kernel")
    if any(result.hazard is not None for result in results):
        return HAZARD
    return FAILED if failure or not kernels else CLEAN


def _checked(kernel: JITKernel, options: argparse.Namespace) -> _Result:
    try:
        return _Result(kernel, kernel.check(grid=options.grid, schedules=options.schedules, seed=options.seed))
    except HazardError as error:
        return _Result(kernel, None, error)


def _compiled_by(file: Path, arguments: Sequence[str]) -> tuple[list[JITKernel], str]:
    """The kernels that a program compiles, each once, and how it failed if it did."""
    kernels: dict[str, JITKernel] = {}
    failure = ""
    with _recording(kernels), _as_script(file, arguments):
        try:
            runpy.run_path(str(file), run_name="__main__")
        except SystemExit as ended:
            failure = f"ended with status {ended.code}" if ended.code not in (None, 0) else ""
        except TileError as error:
            failure = f"failed:\n{error}"
        except Exception as error:  # noqa: BLE001 - whatever the program raises is its own affair
            failure = f"failed: {type(error).__name__}: {error}"
    return list(kernels.values()), failure


@contextmanager
def _recording(kernels: dict[str, JITKernel]) -> Iterator[None]:
    """`tilelang.compile`, and with it `tilelang.jit`, notes what it returns."""
    import tilelang
    from tilelang.runtime import jit

    original: Callable[..., JITKernel] = jit.compile

    def compile_and_note(*args: Any, **options: Any) -> JITKernel:
        kernel = original(*args, **options)
        kernels.setdefault(kernel.kernel_source, kernel)
        return kernel

    jit.compile = tilelang.compile = compile_and_note  # type: ignore[assignment]
    try:
        yield
    finally:
        jit.compile = tilelang.compile = original


@contextmanager
def _as_script(file: Path, arguments: Sequence[str]) -> Iterator[None]:
    """The arguments and the import path that a script sees."""
    before = sys.argv, sys.path
    sys.argv, sys.path = [str(file), *arguments], [str(file.resolve().parent), *sys.path]
    try:
        yield
    finally:
        sys.argv, sys.path = before


# ---- output -------------------------------------------------------------------------------------------------------------------


def _show(results: Sequence[_Result]) -> None:
    """A table of the kernels, and below it what the machine objects to."""
    if not results:
        return
    rows = [_row(result) for result in results]
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        for row in rows:
            _say("  ".join(row))
    else:
        table = Table("kernel", "where", "verdict", "blocks", box=None, padding=(0, 2, 0, 0))
        for result, row in zip(results, rows, strict=True):
            table.add_row(*row, style="red" if result.hazard is not None else "")
        Console().print(table)
    for result in results:
        if result.hazard is not None:
            _say(f"\n{result.hazard}")
        elif result.report is not None and result.report.details:
            _say("\n" + "\n  ".join((f"{result.report.kernel}:", *result.report.details)))
    if any(result.report is not None and result.report.partial for result in results):
        _say("\nBlocks that did not run were not compared with those that did; --grid full runs all of them.")


def _row(result: _Result) -> tuple[str, str, str, str]:
    func = result.kernel.prim_func
    where = f"{Path(func.span.file).name}:{func.span.line}" if func.span is not None else ""
    if result.report is None:
        return func.name, where, result.hazard.code if result.hazard is not None else "", ""
    return func.name, where, result.report.claim, result.report.extent


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
