"""Writing text: indented lines, and C identifiers that are unique, readable and the same in every process."""
from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

INDENT = "  "

# C++ keywords, the names our text uses itself, and macros that plain nvcc brings; a user's name that is one of these gets a
# suffix.
_KEYWORDS = """alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr
    const_cast continue decltype default delete do double dynamic_cast else enum explicit export extern false float for
    friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
    public register reinterpret_cast return short signed sizeof static static_assert static_cast struct switch template this
    throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq"""
_OURS = """tl min max threadIdx blockIdx blockDim gridDim warpSize shared_memory CUtensorMap uint8_t uint16_t uint32_t
    uint64_t int8_t int16_t int32_t int64_t half main abs expf logf log2f sqrtf rsqrtf tanhf floorf ceilf fabsf rintf truncf
    sinf cosf erff fminf fmaxf powf exp log log2 sqrt rsqrt tanh floor ceil fabs rint trunc sin cos erf fmin fmax pow
    memcpy"""
_MACROS = "NULL EOF INFINITY NAN HUGE_VAL assert stdin stdout stderr linux unix"
RESERVED = frozenset(f"{_KEYWORDS} {_OURS} {_MACROS}".split())


class Names:
    """Gives each object an identifier derived from a wanted name, unique among those in scope."""

    def __init__(self) -> None:
        self._scopes: list[dict[object, str]] = [{}]

    def bind(self, thing: object, text: str) -> None:
        """Prints `thing` as `text`, which is not made unique (a built-in such as blockIdx.x)."""
        self._scopes[-1][thing] = text

    def of(self, thing: object, wanted: str) -> str:
        """The identifier of `thing`, made from `wanted` the first time it is asked for in this scope."""
        for scope in self._scopes:
            if thing in scope:
                return scope[thing]
        name = self._unique(identifier(wanted))
        self.bind(thing, name)
        return name

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names made inside are free again afterwards, as in a C++ block."""
        self._scopes.append({})
        yield
        self._scopes.pop()

    def _unique(self, base: str) -> str:
        taken = {name for scope in self._scopes for name in scope.values()} | RESERVED
        name, number = base, 0
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        return name


def identifier(text: str) -> str:
    """A C identifier for any name: letters that C does not have become _uXXXX, a reserved start or too long a name is mended."""
    name = "".join(c if re.match(r"[A-Za-z0-9_]", c) else f"_u{ord(c):04x}" for c in text) or "unnamed"
    if name[0].isdigit() or name.startswith(("__", "TL_")) or (name[0] == "_" and name[1:2].isupper()):
        name = "v" + name
    return name[:80]


class Text:
    """Lines with indentation."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def line(self, text: str = "") -> None:
        self._lines.append(INDENT * self._depth + text if text else "")

    @contextmanager
    def indented(self) -> Iterator[None]:
        self._depth += 1
        yield
        self._depth -= 1

    def __str__(self) -> str:
        return "\n".join(self._lines) + "\n"
