"""What an author says about a kernel that does not change what it computes: checked, and kept as a decision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilelang.errors import KernelError, TypeProblem, Unsupported
from tilelang.frontend.builder import Builder, truth
from tilelang.frontend.describe import expr_text, place_text, shape_text
from tilelang.frontend.dtypes import literal
from tilelang.frontend.operands import require_scope
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Const, Expr
from tilelang.ir.types import Scope
from tilelang.layout.requested import SwizzledLayout
from tilelang.trace import Decision


def annotate_layout(builder: Builder, layouts: object) -> None:
    """`T.annotate_layout`.  Raises TypeProblem TL212, TL213 and TL216, Unsupported TL302 for every layout but a swizzle."""
    for buffer, layout in _pairs(builder, layouts, "T.annotate_layout"):
        if not isinstance(layout, SwizzledLayout):
            shown = layout.name if isinstance(layout, Buffer) else f"a {type(layout).__name__}"
            raise Unsupported(
                f"T.annotate_layout of {buffer.name} by {shown} is not there yet; layouts are planned", code="TL302",
                hint="leave it out, or ask for tilelang.layout.make_swizzled_layout(buffer)",
            )  # fmt: skip
        require_scope(buffer, "a tile with a swizzled layout", (Scope.SHARED,), "leave it out; layouts of fragments are planned")
        wanted, given = (buffer.shape, buffer.dtype.bits), (layout.buffer.shape, layout.buffer.dtype.bits)
        if wanted != given:
            raise TypeProblem(
                f"the layout for {buffer.name} ({shape_text(buffer.shape)}, {buffer.dtype}) is made for {layout.buffer.name} "
                f"({shape_text(layout.buffer.shape)}, {layout.buffer.dtype})",
                code="TL216", hint=f"make_swizzled_layout({buffer.name})", notes=(place_text(buffer), place_text(layout.buffer)),
            )  # fmt: skip
        decide(
            builder, f"layout of {buffer.name}", "a swizzle, by plan",
            "every shared tile gets the widest swizzle that its rows take, which is what make_swizzled_layout asks for",
        )  # fmt: skip


def annotate_safe_value(builder: Builder, safe_values: object) -> None:
    """`T.annotate_safe_value`: what a read outside of a buffer gives.  Unsupported TL302 for anything but 0."""
    for buffer, value in _pairs(builder, safe_values, "T.annotate_safe_value"):
        number = literal(value, buffer.dtype)
        if not isinstance(number, Const) or number.value != 0:
            raise Unsupported(
                f"T.annotate_safe_value of {buffer.name} with {expr_text(number)} is not there yet; what lies outside reads as 0",
                code="TL302", hint="fill the tile's overhang after the copy: T.if_then_else(row < rows, tile[i, j], value)",
            )  # fmt: skip
        decide(builder, f"reads outside of {buffer.name}", "0", "as everywhere")


def annotate_l2_hit_ratio(builder: Builder, ratios: object) -> None:
    """`T.annotate_l2_hit_ratio`: how much of a tensor should stay in the L2 cache."""
    for buffer, ratio in _pairs(builder, ratios, "T.annotate_l2_hit_ratio"):
        if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or not 0 <= ratio <= 1:
            raise TypeProblem(f"the L2 hit ratio of {buffer.name} is {ratio!r}; it must be a number from 0 to 1", code="TL216")
        require_scope(buffer, "what stays in the L2 cache", (Scope.GLOBAL,))
        subject = f"share of {buffer.name} that stays in the L2 cache"
        decide(builder, subject, "the hardware's", f"{ratio} is asked for; hints are not used")


def annotate_min_blocks_per_sm(builder: Builder, blocks: object) -> None:
    """`T.annotate_min_blocks_per_sm`: how many blocks should share an SM."""
    if isinstance(blocks, (bool, Expr)) or not isinstance(blocks, int) or blocks < 1:
        shown = "an expression" if isinstance(blocks, Expr) else repr(blocks)
        raise TypeProblem(f"T.annotate_min_blocks_per_sm({shown}); it must be an int of at least 1", code="TL216")
    decide(builder, "blocks per SM", "by plan", f"{blocks} are asked for; shared memory and registers decide")


def annotate_restrict_buffers(builder: Builder, *buffers: object) -> None:
    """`T.annotate_restrict_buffers`: tensors that may overlap others, which calls refuse wherever it could matter."""
    for value in buffers:
        buffer = _buffer(value, "T.annotate_restrict_buffers")
        require_scope(buffer, "a buffer without __restrict__", (Scope.GLOBAL,))
        decide(builder, f"overlap of {buffer.name} with other tensors", "refused", "a call refuses an output that shares memory")


def assume(builder: Builder, condition: object) -> None:
    """`T.assume(condition)`.  KernelError TL115 where it is false for certain."""
    found = truth(condition)
    if found is False:
        raise KernelError("T.assume of a condition that is false", code="TL115", hint="assume what holds")
    if isinstance(found, Expr):
        decide(builder, f"assumption {expr_text(found)}", "not used", "what is proved comes from shapes and loops")


def _pairs(builder: Builder, values: object, what: str) -> Iterator[tuple[Buffer, object]]:
    """The items of a dictionary from buffers."""
    builder.require_kernel(what)
    if not isinstance(values, Mapping):
        raise TypeProblem(
            f"{what} takes a dictionary from buffers, not {type(values).__name__}", code="TL213", hint=f"{what}({{tile: ...}})"
        )
    return ((_buffer(key, what), value) for key, value in values.items())


def _buffer(value: object, what: str) -> Buffer:
    if not isinstance(value, Buffer):
        shown = f"a part of {value.buffer.name}" if isinstance(value, Region) else f"{type(value).__name__} {value!r}"
        raise TypeProblem(f"{what} takes whole buffers, not {shown}", code="TL213")
    return value


def decide(builder: Builder, subject: str, chosen: str, reason: str) -> None:
    """Keeps what became of a hint."""
    builder.decisions.append(Decision(builder.span, subject, chosen, reason))
