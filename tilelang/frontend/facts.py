"""What is known about the variables of a kernel while it is built: ranges, definitions, and how loops step."""

from __future__ import annotations

from tilelang.ir.arith import LinearForm, add_forms, bounds, linear_form
from tilelang.ir.buffer import Extent, Region
from tilelang.ir.expr import Const, Expr, Load, Var, as_expr


class Facts:
    """`ranges`: inclusive bounds of a variable.  `lets`: the linear form of an immutable integer.  `loops`: a loop variable as
    `start + step * n`, n being a variable of its own.  `attained`: variables that reach both ends of their range whatever the
    others are."""

    def __init__(self) -> None:
        self.ranges: dict[Var, tuple[int, int]] = {}
        self.lets: dict[Var, LinearForm] = {}
        self.loops: dict[Var, LinearForm] = {}
        self.attained: set[Var] = set()

    def add_axis(self, var: Var, extent: Extent) -> None:
        """A grid or parallel variable, in 0 .. extent - 1."""
        self.add_loop(var, as_expr(0), as_expr(extent), 1)

    def add_loop(self, var: Var, start: Expr, stop: Expr, step: int) -> None:
        """A loop variable of range(start, stop, step)."""
        self.loops[var] = add_forms(self.as_written(start), (0, {Var(f"{var.name}.n"): step}))
        low, high = self.range_of(start), self.range_of(stop)
        if low is None or high is None:
            return
        if isinstance(start, Const) and isinstance(stop, Const):
            values = range(int(start.value), int(stop.value), step)
            if values:
                self.ranges[var] = min(values[0], values[-1]), max(values[0], values[-1])
                self.attained.add(var)
        elif step > 0 and low[0] < high[1]:
            self.ranges[var] = low[0], high[1] - 1
        elif step < 0 and high[0] < low[1]:
            self.ranges[var] = high[0] + 1, low[1]

    def add_let(self, var: Var, value: Expr) -> None:
        """An immutable name.  What it was loaded from may change later, so a loaded value is only as known as its range."""
        if not value.dtype.is_int:
            return
        found = bounds(value, self.ranges)
        if found is not None:
            self.ranges[var] = found
        if not reads_memory(value):
            self.lets[var] = self.form(value)

    def form(self, expr: Expr) -> LinearForm:
        """The linear form of `expr` with immutable names replaced by what they stand for."""
        return _expanded(linear_form(expr), self.lets)

    def as_written(self, expr: Expr) -> LinearForm:
        """`form`, with each loop variable as start + step * n besides."""
        return _expanded(self.form(expr), self.loops)

    def range_of(self, expr: Expr) -> tuple[int, int] | None:
        """Inclusive bounds of `expr`, None where they are not known."""
        constant, terms = self.form(expr)
        low = high = constant
        for atom, coefficient in terms.items():
            found = bounds(atom, self.ranges)
            if found is None:
                return None
            ends = sorted((found[0] * coefficient, found[1] * coefficient))
            low, high = low + ends[0], high + ends[1]
        return low, high

    def attained_range(self, expr: Expr) -> tuple[int, int] | None:
        """The exact smallest and largest value, where every variable in it is known to reach its ends; else None."""
        _, terms = self.form(expr)
        return self.range_of(expr) if all(atom in self.attained for atom in terms) else None

    def constant(self, value: Extent) -> int | None:
        """`value` as a number, if it is one whatever the variables are."""
        if isinstance(value, int):
            return value
        constant, terms = self.form(value)
        return None if terms else constant


def reads_memory(value: object) -> bool:
    """Whether an expression or region loads an element of any buffer."""
    from tilelang.ir.walk import walk

    if not isinstance(value, (Expr, Region)):
        return False
    return any(isinstance(node, Load) for node in walk(value))


def _expanded(form: LinearForm, definitions: dict[Var, LinearForm]) -> LinearForm:
    """`form` with every variable that has a definition replaced by it.  Definitions hold none of the variables they define."""
    constant, terms = form
    result: LinearForm = (constant, {})
    for atom, coefficient in terms.items():
        part = definitions.get(atom) if isinstance(atom, Var) else None
        result = add_forms(result, part if part is not None else (0, {atom: 1}), coefficient)
    return result
