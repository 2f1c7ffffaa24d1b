"""What an author may say about a kernel that does not change what it computes; the kernel's decisions show what became of it."""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.frontend.builder import current


def annotate_layout(layout_map: Mapping[object, object]) -> None:
    """`{tile: tilelang.layout.make_swizzled_layout(tile)}` for shared tiles, which are swizzled anyway.

    Raises Unsupported TL302 for any other layout, TypeProblem TL212, TL213 and TL216."""
    from tilelang.frontend import hints

    hints.annotate_layout(current("T.annotate_layout"), layout_map)


def annotate_safe_value(safe_value_map: Mapping[object, object]) -> None:
    """`{buffer: 0}`: what a read outside of the buffer gives.  Raises Unsupported TL302 for another value than 0."""
    from tilelang.frontend import hints

    hints.annotate_safe_value(current("T.annotate_safe_value"), safe_value_map)


def annotate_l2_hit_ratio(l2_hit_ratio_map: Mapping[object, object]) -> None:
    """`{tensor: 0.8}`: the share of a tensor that should stay in the L2 cache.  Not used so far."""
    from tilelang.frontend import hints

    hints.annotate_l2_hit_ratio(current("T.annotate_l2_hit_ratio"), l2_hit_ratio_map)


def annotate_min_blocks_per_sm(blocks: object) -> None:
    """How many blocks should share an SM.  Not used: shared memory and registers decide."""
    from tilelang.frontend import hints

    hints.annotate_min_blocks_per_sm(current("T.annotate_min_blocks_per_sm"), blocks)


def annotate_restrict_buffers(*buffers: object) -> None:
    """Tensors that may share memory with others.  A call refuses that where the kernel writes one of them."""
    from tilelang.frontend import hints

    hints.annotate_restrict_buffers(current("T.annotate_restrict_buffers"), *buffers)


def assume(cond: object = True) -> None:
    """A condition that holds, for the compiler to use.  Not used so far.  Raises KernelError TL115 if it is false for certain."""
    from tilelang.frontend import hints

    hints.assume(current("T.assume"), cond)


__all__ = [
    "annotate_l2_hit_ratio", "annotate_layout", "annotate_min_blocks_per_sm", "annotate_restrict_buffers", "annotate_safe_value",
    "assume",
]  # fmt: skip
