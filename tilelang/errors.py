"""The one exception tree, and how an error is shown.

    TileError(message, code=, span=, hint=, notes=)
      KernelError              the kernel's author must change the kernel
        SyntaxProblem          a Python construct that means nothing in a kernel
        NameProblem            a name that is not defined
        TypeProblem            a dtype, scope or kind of value that does not fit
        ShapeProblem           extents, ranks or indices that do not fit
        LayoutConflict         two tile ops need different layouts of one buffer
        Unsupported            meaningful, but not there yet; says what is
        ResourceExceeded       more shared memory, registers or threads than the chip has
      ArgumentError            the caller must change the arguments of a call
      PlatformError            the machine: driver, compiler, architecture, disk
        Unavailable            something that is needed is not installed
        ArchMismatch           the kernel was compiled for another chip
        ToolchainFailed        the CUDA driver or runtime compiler returned an error
      HazardError              the simulated machine objects to a pipeline
      InternalError            a fault of this compiler; please report it

Every error is rendered the same way: one line with code, class and message, the user's file with a caret, notes, and a
hint that names the edit which helps.  Codes are stable; their hundreds say where: TL1 syntax and names, TL2 types and
shapes, TL3 unsupported, TL4 resources, TL5 arguments, TL6 platform, TL7 plans and layouts, TL8 hazards, TL9 internal.
"""
from __future__ import annotations

import linecache
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A place in the user's source: 1-based lines, 0-based columns, the end column exclusive."""

    file: str
    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def short(self) -> str:
        """The file's name without its folders, and the line."""
        return f"{self.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{self.line}"

    def source_line(self) -> str:
        """The text of the first line, without its end; empty if the file cannot be read."""
        return linecache.getline(self.file, self.line).rstrip("\n")

    def excerpt(self) -> list[str]:
        """The lines that show this place: location, source line, caret."""
        lines = [f"  --> {self.file}:{self.line}:{self.column + 1}"]
        text = self.source_line()
        if not text:
            return lines
        number = str(self.line)
        end = self.end_column if self.end_line in (0, self.line) and self.end_column > self.column else len(text)
        end = max(min(end, len(text)), self.column + 1)
        lines.append(f"  {number} | {text}")
        lines.append(f"  {' ' * len(number)} | {' ' * self.column}{'^' * (end - self.column)}")
        return lines


class TileError(Exception):
    """Root of every error this package raises on purpose."""

    def __init__(
        self, message: str, *, code: str, span: Span | None = None, hint: str = "", notes: tuple[str, ...] = ()
    ) -> None:
        self.message, self.code, self.span, self.hint, self.notes = message, code, span, hint, notes
        super().__init__(message)

    def __str__(self) -> str:
        lines = [f"{self.code} {type(self).__name__}: {self.message}"]
        if self.span is not None:
            lines += self.span.excerpt()
        lines += [f"  note: {note}" for note in self.notes]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class KernelError(TileError):
    """The kernel's author must change the kernel."""


class SyntaxProblem(KernelError):
    """A Python construct that has no meaning inside a kernel."""


class NameProblem(KernelError):
    """A name that is not defined where the kernel uses it."""


class TypeProblem(KernelError):
    """A dtype, a memory scope or a kind of value that does not fit."""


class ShapeProblem(KernelError):
    """Extents, ranks or indices that do not fit together."""


class LayoutConflict(KernelError):
    """Two tile ops need different layouts of the same buffer."""


class Unsupported(KernelError):
    """Meaningful, but not there (yet); the message says what is."""


class ResourceExceeded(KernelError):
    """More shared memory, registers or threads than the target has."""


class ArgumentError(TileError):
    """The caller must change the arguments of a kernel call."""


class PlatformError(TileError):
    """The machine the compiler runs on: driver, runtime compiler, architecture, disk."""


class Unavailable(PlatformError):
    """Something that this step needs is not installed or not present."""


class ArchMismatch(PlatformError):
    """The kernel was compiled for another architecture than the GPU at hand."""


class ToolchainFailed(PlatformError):
    """The CUDA driver or the runtime compiler returned an error."""


class HazardError(TileError):
    """The simulated machine objects: a deadlock, a race, an access out of bounds."""


class InternalError(TileError):
    """A fault of this compiler, not of the kernel."""
