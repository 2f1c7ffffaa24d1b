"""`if T.get_thread_binding() < 128:` - a condition on the number of the thread, which divides the block's warpgroups like T.ws.

A thread has no life of its own in a kernel of tiles, so its number decides whole warpgroups or nothing.
"""

from __future__ import annotations

from tilelang.errors import TypeProblem, Unsupported
from tilelang.ir.expr import Binary, Cast, Compare, Const, Expr, Unary, Var

THREAD = Var("threadIdx.x")
"""What T.get_thread_binding() gives."""
WARPGROUP_THREADS = 128
HINT = "a condition may divide whole warpgroups of 128 threads: if tx < 128:, or with T.ws(0):"
_OPERATORS = {
    "+": int.__add__, "-": int.__sub__, "*": int.__mul__, "//": int.__floordiv__, "%": int.__mod__, "&": int.__and__,
    "|": int.__or__, "^": int.__xor__, "<<": int.__lshift__, ">>": int.__rshift__, "min": min, "max": max,
    "==": int.__eq__, "!=": int.__ne__, "<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__,
    "and": lambda a, b: bool(a) and bool(b), "or": lambda a, b: bool(a) or bool(b),
}  # fmt: skip


def asks_for_thread(value: object) -> bool:
    """Whether an expression depends on the number of the thread."""
    from tilelang.ir.walk import walk  # which brings device IR along

    return isinstance(value, Expr) and any(node is THREAD for node in walk(value))


def refuse_thread(node: object) -> None:
    """Unsupported TL302 for the thread's number anywhere but in a condition."""
    if node is THREAD:
        message = "T.get_thread_binding() as a value is not there; tiles and loops are spread over threads by the compiler"
        raise Unsupported(message, code="TL302", hint=HINT)


def divided(condition: Expr, threads: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The warpgroups of a block for whose threads the condition holds, and the others.

    Raises TypeProblem TL226 for a block of no whole warpgroups, Unsupported TL302 for a condition that divides one, or that
    depends on more than the thread."""
    if threads % WARPGROUP_THREADS:
        raise TypeProblem(
            f"a condition on the thread divides a block into warpgroups of {WARPGROUP_THREADS} threads, and this one has "
            f"{threads}", code="TL226", hint=f"write threads={-(-threads // WARPGROUP_THREADS) * WARPGROUP_THREADS}",
        )  # fmt: skip
    sides: tuple[list[int], list[int]] = ([], [])
    for group in range(threads // WARPGROUP_THREADS):
        first = WARPGROUP_THREADS * group
        found = {bool(_value(condition, thread)) for thread in range(first, first + WARPGROUP_THREADS)}
        if len(found) > 1:
            raise Unsupported(
                f"this condition holds for some threads of warpgroup {group} and not for others", code="TL302",
                hint=f"{HINT} (which thread starts a T.tma_copy is the compiler's choice)",
            )  # fmt: skip
        sides[0 if found == {True} else 1].append(group)
    return tuple(sides[0]), tuple(sides[1])


def _value(node: Expr, thread: int) -> int:
    """The value of an expression for one thread."""
    match node:
        case Const(value=value):
            return int(value)
        case Var() if node is THREAD:
            return thread
        case Unary(op=op, value=inner):
            value = _value(inner, thread)
            return int(not value) if op == "not" else -value if op == "-" else ~value
        case Binary(op=op, a=a, b=b) | Compare(op=op, a=a, b=b) if op in _OPERATORS:
            return int(_OPERATORS[op](_value(a, thread), _value(b, thread)))
        case Cast(value=inner) if node.dtype.is_int:
            return _value(inner, thread)
    raise Unsupported(
        "which threads take this branch depends on more than their number", code="TL302", hint="write one if inside the other"
    )
