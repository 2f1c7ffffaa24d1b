"""How tiles lie in shared memory and registers.

For a kernel's author there is one name, `make_swizzled_layout`; the modules are the compiler's own.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilelang.layout.requested import SwizzledLayout, make_swizzled_layout

__all__ = ["SwizzledLayout", "make_swizzled_layout"]

_ABSENT = frozenset({
    "Fragment", "Layout", "PartialFragment", "SwizzleMode", "cute", "make_full_bank_swizzled_layout", "make_gemm_fragment_8x8",
    "make_gemm_fragment_8x8_transposed", "make_half_bank_swizzled_layout", "make_linear_layout",
    "make_quarter_bank_swizzled_layout", "make_tcgen05mma_swizzled_layout", "make_volta_swizzled_layout",
    "make_wgmma_swizzled_layout",
})  # fmt: skip


def __getattr__(name: str) -> object:
    """A public name, imported now.  Raises Unsupported TL360 for one that this language has and this package has not."""
    if name in __all__:
        from tilelang.layout import requested

        return getattr(requested, name)
    if name in _ABSENT:
        from tilelang.errors import Unsupported

        raise Unsupported(
            f"tilelang.layout.{name} does not exist here; layouts are planned", code="TL360",
            hint="leave T.annotate_layout out, or ask for make_swizzled_layout(buffer)",
        )  # fmt: skip
    raise AttributeError(f"module 'tilelang.layout' has no attribute {name!r}")
