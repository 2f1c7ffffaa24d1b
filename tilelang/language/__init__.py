"""The language of kernels: `import tilelang.language as T`.

    @T.prim_func
    def scale(A: T.Tensor((1024, 64), "float16"), B: T.Tensor((1024, 64), "float16")):
        with T.Kernel(8, threads=128) as bx:
            tile = T.alloc_fragment((128, 64), "float16")
            T.copy(A[bx * 128, 0], tile)
            for i, j in T.Parallel(128, 64):
                tile[i, j] *= 2
            T.copy(tile, B[bx * 128, 0])

Inside a kernel, `if`, `for`, `while`, conditional expressions, `and`, `or`, `not` and comparisons of the kernel's values become
part of it; what depends on Python values alone is decided while it is built.
"""

from __future__ import annotations

from tilelang.errors import NameProblem as _NameProblem
from tilelang.errors import Unsupported as _Unsupported
from tilelang.language import alloc as _alloc
from tilelang.language import explicit as _explicit
from tilelang.language import hints as _hints
from tilelang.language import kernel as _kernel
from tilelang.language import loops as _loops
from tilelang.language import math as _math
from tilelang.language import tile_ops as _tile_ops
from tilelang.language import types as _types
from tilelang.language import views as _views
from tilelang.language.alloc import *  # noqa: F403
from tilelang.language.explicit import *  # noqa: F403
from tilelang.language.hints import *  # noqa: F403
from tilelang.language.kernel import *  # noqa: F403
from tilelang.language.loops import *  # noqa: F403
from tilelang.language.math import *  # noqa: F403
from tilelang.language.tile_ops import *  # noqa: F403
from tilelang.language.types import *  # noqa: F403
from tilelang.language.views import *  # noqa: F403

__all__: list[str] = []
__all__ += _alloc.__all__
__all__ += _explicit.__all__
__all__ += _hints.__all__
__all__ += _kernel.__all__
__all__ += _loops.__all__
__all__ += _math.__all__
__all__ += _tile_ops.__all__
__all__ += _types.__all__
__all__ += _views.__all__


class _UnknownName(_NameProblem, AttributeError):
    """A name the language does not have.  An AttributeError as well, so that hasattr and getattr with a default work."""


_UnknownName.__name__ = _UnknownName.__qualname__ = "NameProblem"


def __getattr__(name: str) -> object:
    """Unsupported TL301 for a name of the language that is not there yet, NameProblem TL103 for one it does not have."""
    if name.startswith("__"):
        raise AttributeError(name)
    from tilelang.frontend.dtypes import is_later_dtype
    from tilelang.frontend.problems import caller_span, close_match
    from tilelang.language.later import FORMULAS, INSTEAD, NAMES

    formula = f"write {FORMULAS[name]}" if name in FORMULAS else ""
    if name in NAMES or is_later_dtype(name):
        hint = INSTEAD.get(name, formula)
        notes = () if hint else (f"there is: {_there_is()}",)
        raise _Unsupported(f"T.{name} is not there yet", code="TL301", span=caller_span(), notes=notes, hint=hint)
    found = close_match(name, [*__all__, *NAMES])
    hint = formula or (f"did you mean T.{found}?" if found else f"there is: {_there_is()}")
    raise _UnknownName(f"the language has no T.{name}", code="TL103", span=caller_span(), hint=hint)


def _there_is() -> str:
    """Everything but the dtypes, in a line."""
    return ", ".join(name for name in sorted(__all__) if name not in _types.__all__ or name in ("Tensor", "GemmWarpPolicy"))
