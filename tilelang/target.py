"""The chips we compile for.  Every fact about one is a field of its `Target`; nothing else in the package knows any.

Figures are those of the CUDA programming guide ("Technical Specifications per Compute Capability") and of the driver's device
attributes; memory is in bytes, registers are 32 bits wide.
"""
from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from tilelang.errors import Unsupported

DEFAULT_TARGET_VARIABLE = "TILELANG_DEFAULT_TARGET"
CPU_KINDS = ("cpu", "llvm", "c")
"""What other compilers call a target that runs on the CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One chip: the architecture NVRTC is asked for, and what it has."""

    arch: str
    capability: tuple[int, int]
    shared_bytes_per_block: int
    shared_bytes_per_sm: int
    shared_reserved_bytes_per_block: int
    registers_per_sm: int
    registers_per_thread_max: int
    threads_per_block_max: int
    threads_per_sm_max: int
    blocks_per_sm_max: int
    multiprocessors: int
    """Of the whole chip; `tilelang.compile` asks the GPU that is there, since some boards have fewer."""
    lone_warpgroup_cycles: int
    """A warpgroup that is alone at the tensor core keeps it busy if it issues work for so many cycles at a time (measured)."""
    warp_size: int
    has_tma: bool
    has_wgmma: bool

    @property
    def kind(self) -> str:
        """The language of the generated text."""
        return "cuda"

    def __str__(self) -> str:
        return f"{self.kind} -arch={self.arch}"

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Whether a cubin for this target loads on a GPU of this compute capability (an "a" target: on no other)."""
        return capability == self.capability

    @staticmethod
    def parse(target: Target | str | Mapping[str, object] | None = None, capability: tuple[int, int] | None = None) -> Target:
        """The target that a user's word for it means.

        `target` is a `Target`, "auto", "cuda", "cuda -arch=sm_90a", "sm_90a", a mapping such as {"kind": "cuda",
        "arch": "sm_90a"} (as text, too), or None for the environment variable TILELANG_DEFAULT_TARGET, else "auto".  Where no
        architecture is named, it is that of the GPU at hand (`capability`) if it is one of ours, else sm_90a.

        Raises Unsupported (TL350) for a kind, an architecture or an option that does not exist here.
        """
        if isinstance(target, Target):
            return target
        if target is None:
            target = os.environ.get(DEFAULT_TARGET_VARIABLE) or "auto"
        kind, arch = _kind_and_arch(target)
        if kind == "auto":
            kind = "cuda"
        if kind != "cuda":
            hint = "any target runs on the CPU too: call the kernel with NumPy arrays" if kind in CPU_KINDS else ""
            raise _unsupported(f"target {kind!r} does not exist here", hint)
        return _for_capability(capability) if arch is None else _for_arch(arch)


SM_90A = Target(
    arch="sm_90a",
    capability=(9, 0),
    shared_bytes_per_block=232448,
    shared_bytes_per_sm=233472,
    shared_reserved_bytes_per_block=1024,
    registers_per_sm=65536,
    registers_per_thread_max=255,
    threads_per_block_max=1024,
    threads_per_sm_max=2048,
    blocks_per_sm_max=32,
    multiprocessors=132,
    lone_warpgroup_cycles=128,
    warp_size=32,
    has_tma=True,
    has_wgmma=True,
)
TARGETS: Mapping[str, Target] = {target.arch: target for target in (SM_90A,)}


def _for_capability(capability: tuple[int, int] | None) -> Target:
    """The target of a GPU, or sm_90a where there is none that we compile for."""
    return next((target for target in TARGETS.values() if target.capability == capability), SM_90A)


def _for_arch(arch: str) -> Target:
    if arch in TARGETS:
        return TARGETS[arch]
    if f"{arch}a" in TARGETS:
        raise _unsupported(
            f"architecture {arch!r} lacks wgmma and setmaxnreg",
            f'write "{arch}a": these instructions belong to the architecture-specific targets, whose names end in "a"',
        )
    raise _unsupported(f"architecture {arch!r} does not exist here")


def _kind_and_arch(target: object) -> tuple[str, str | None]:
    """The two words of a target in any of its spellings; an architecture that is not named is None."""
    if isinstance(target, str):
        text = target.strip()
        if not text.startswith("{"):
            return _from_words(text)
        try:
            target = json.loads(text)
        except ValueError:
            raise _unsupported(f"target {text!r} is not JSON") from None
    if not isinstance(target, Mapping):
        raise _unsupported(f"a target is a string, a mapping or a Target, not {type(target).__name__} {target!r}")
    unknown = sorted(str(key) for key in target if key not in ("kind", "arch"))
    if unknown:
        raise _unsupported(f"target key {unknown[0]!r} does not exist here", 'the keys of a target are "kind" and "arch"')
    arch = target.get("arch")
    return str(target.get("kind", "cuda")), None if arch is None else str(arch)


def _from_words(text: str) -> tuple[str, str | None]:
    """The words of "cuda", "auto", "sm_90a" and "cuda -arch=sm_90a"."""
    kind, *options = text.split() or [""]
    if kind.startswith("sm_") and not options:
        return "cuda", kind
    arch = None
    for option in options:
        name, _, value = option.lstrip("-").partition("=")
        if name != "arch" or not value:
            raise _unsupported(f"target option {option!r} does not exist here", 'write "cuda -arch=sm_90a"')
        arch = value
    return kind, arch


def _unsupported(message: str, hint: str = "") -> Unsupported:
    known = ", ".join(f'"{arch}"' for arch in TARGETS)
    note = f'targets: "auto", "cuda", {known}, {{"kind": "cuda", "arch": "{SM_90A.arch}"}}'
    return Unsupported(message, code="TL350", hint=hint, notes=(note,))
