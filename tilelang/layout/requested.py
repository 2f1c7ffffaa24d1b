"""Layouts that an author asks for by name, for `T.annotate_layout`."""
from __future__ import annotations

from dataclasses import dataclass

from tilelang.errors import TypeProblem
from tilelang.ir.buffer import Buffer, Region


@dataclass(frozen=True, slots=True)
class SwizzledLayout:
    """Some swizzle of a shared tile's rows; which one is planned."""

    buffer: Buffer


def make_swizzled_layout(buffer: Buffer, k_major: bool = True, allow_pad: bool = True) -> SwizzledLayout:
    """The layout of a shared tile whose 16-byte chunks are exchanged within rows, so that neither rows nor columns of chunks meet
    in one bank.  The options are hints.  Raises TypeProblem TL213 for anything but a whole buffer."""
    if not isinstance(buffer, Buffer):
        shown = f"a part of {buffer.buffer.name}" if isinstance(buffer, Region) else repr(buffer)
        raise TypeProblem(
            f"make_swizzled_layout takes a whole buffer, not {shown}", code="TL213", hint="pass what T.alloc_shared gave"
        )
    return SwizzledLayout(buffer)
