"""CUDA text to cubin in this process: NVRTC and our own headers from memory.  No driver, toolkit or host compiler is needed.

The compiler's own report is kept: registers, spills and static shared memory of each kernel, and every ptxas remark C75xx.
Such a remark says that a synchronisation or register instruction was ignored, serialised or moved, so the kernel is not the one
that was planned: it fails the compilation unless it is listed in `ALLOWED_REMARKS` with a reason.  TILELANG_PTXAS_REMARKS=warn
makes it a logged warning.
"""
from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from tilelang.errors import InternalError, ToolchainFailed, Unavailable
from tilelang.runtime.log import logger
from tilelang.runtime.saved import save

# code -> why a kernel with this remark is still the kernel that was planned
ALLOWED_REMARKS: Mapping[str, str] = {}

_REMARK = re.compile(r"\((C75\d\d)\)\s*(.*)")
_ENTRY = re.compile(r"Function properties for (\S+)")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:.*?, (\d+) bytes smem)?")


@dataclass(frozen=True, slots=True)
class Resources:
    """What one thread or one block of a kernel takes, as ptxas reports it; `dynamic_shared_bytes` is what the launch adds."""

    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    static_shared_bytes: int
    dynamic_shared_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Remark:
    """One "potential performance loss" remark of ptxas: its code, e.g. "C7510", and its words."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Cubin:
    """A compiled program: the ELF image, the report per kernel name, the remarks and the whole log."""

    image: bytes
    resources: Mapping[str, Resources]
    remarks: tuple[Remark, ...]
    log: str


@cache
def bindings() -> Any:
    """The module `cuda.bindings.nvrtc`.  Raises Unavailable (TL601) where it or the NVRTC library is missing."""
    try:
        nvrtc = import_module("cuda.bindings.nvrtc")
    except ImportError as error:
        raise Unavailable(
            f"cuda.bindings.nvrtc cannot be imported: {error}", code="TL601", hint='pip install "cuda-bindings>=13,<14"'
        ) from error
    try:
        status, _, _ = nvrtc.nvrtcVersion()
    except Exception as error:
        raise Unavailable(
            f"the NVRTC library cannot be loaded: {error}", code="TL601", hint='pip install "nvidia-cuda-nvrtc>=13.0.88,<14"'
        ) from error
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise Unavailable(f"the NVRTC library does not answer: {status.name}", code="TL601")
    return nvrtc


@cache
def version() -> tuple[int, int]:
    """(major, minor) of the NVRTC library that compiles here."""
    _, major, minor = bindings().nvrtcVersion()
    return major, minor


def arguments(arch: str, options: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Everything that NVRTC is told besides the texts, in its order."""
    # NVRTC's own cache would answer without the report of registers and spills.
    return (f"--gpu-architecture={arch}", "--std=c++17", "--no-cache", "--ptxas-options=-v", *options)


def compile_text(
    text: str,
    *,
    arch: str,
    headers: Mapping[str, str] | None = None,
    options: tuple[str, ...] = (),
    name: str = "kernel",
    standalone: Callable[[str], str] = lambda text: text,
) -> Cubin:
    """`text` compiled for `arch`, e.g. "sm_90a".

    `headers` maps the names that the text includes to their text.  `standalone` inlines them for the copy of the text that is
    saved when the compilation fails.  Raises InternalError (TL951: the text does not compile, TL952: a remark that is not
    allowed), ToolchainFailed (TL621) and Unavailable (TL601).
    """
    words = arguments(arch, options)
    status, image, log = _run(text, f"{name}.cu", headers or {}, words)
    if status == "NVRTC_ERROR_COMPILATION":
        raise InternalError(
            f"the CUDA text of {name} does not compile: {_first_error(log)}",
            code="TL951",
            notes=(save(standalone(text), name, ".cu"), *log.strip().splitlines()),
        )
    if status != "NVRTC_SUCCESS":
        raise ToolchainFailed(f"NVRTC: {status}: {_first_error(log)}", code="TL621", notes=(f"options: {' '.join(words)}",))
    cubin = Cubin(image, parse_resources(log), parse_remarks(log), log)
    judge(cubin.remarks, name, text, standalone)
    return cubin


def _run(text: str, file: str, headers: Mapping[str, str], options: tuple[str, ...]) -> tuple[str, bytes, str]:
    """(status name, cubin, log) of one NVRTC program."""
    nvrtc = bindings()
    texts, names = [body.encode() for body in headers.values()], [name.encode() for name in headers]
    status, program = nvrtc.nvrtcCreateProgram(text.encode(), file.encode(), len(texts), texts, names)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        return status.name, b"", ""
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        log = _bytes(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).decode(errors="replace").strip("\0 \n")
        good = status == nvrtc.nvrtcResult.NVRTC_SUCCESS
        return status.name, _bytes(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program) if good else b"", log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _bytes(size: Callable[[Any], Any], fetch: Callable[[Any, bytes], Any], program: Any) -> bytes:
    """A result of a program, which NVRTC writes into a buffer of the caller's."""
    status, count = size(program)
    if int(status) != 0:
        raise ToolchainFailed(f"NVRTC: {status.name}", code="TL621")
    buffer = b"\0" * count
    (status,) = fetch(program, buffer)
    if int(status) != 0:
        raise ToolchainFailed(f"NVRTC: {status.name}", code="TL621")
    return buffer


def parse_resources(log: str) -> dict[str, Resources]:
    """The report of `--ptxas-options=-v` for each kernel of the log."""
    found: dict[str, Resources] = {}
    kernel, memory = "", (0, 0, 0)
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            kernel = match[1]
        elif match := _SPILLS.search(line):
            memory = (int(match[1]), int(match[2]), int(match[3]))
        elif (match := _USED.search(line)) and kernel:
            found[kernel] = Resources(int(match[1]), *memory, static_shared_bytes=int(match[2] or 0))
            kernel, memory = "", (0, 0, 0)
    return found


def parse_remarks(log: str) -> tuple[Remark, ...]:
    """Every C75xx remark of the log, in its order."""
    return tuple(Remark(match[1], match[2].strip()) for match in _REMARK.finditer(log))


def judge(remarks: tuple[Remark, ...], name: str, text: str, standalone: Callable[[str], str]) -> None:
    """Raises InternalError (TL952) for a remark that is not allowed; the text is saved.  Done whenever a program is used for the
    first time, from a cache too: what TILELANG_PTXAS_REMARKS=warn let pass in one process is judged again in the next."""
    bad = tuple(remark for remark in remarks if remark.code not in ALLOWED_REMARKS)
    if not bad:
        return
    words = f"ptxas did not keep the plan of {name}: {bad[0].code}: {bad[0].text}"
    if os.environ.get("TILELANG_PTXAS_REMARKS") == "warn":
        logger().warning("%s", words)
        return
    raise InternalError(
        words,
        code="TL952",
        notes=(save(standalone(text), name, ".cu"), *(f"{remark.code}: {remark.text}" for remark in bad[1:])),
        hint="TILELANG_PTXAS_REMARKS=warn runs the kernel as it is: it may be slow",
    )


def _first_error(log: str) -> str:
    """The line of a log that names the failure."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if re.search(r"\b(error|fatal)\b", line)), lines[0] if lines else "no log")
