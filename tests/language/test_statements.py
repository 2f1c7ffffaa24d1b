"""What the statements and expressions of a kernel's source become."""
# ruff: noqa: C901, F841, PERF401, RET504, SIM108, SIM220, SIM222, SIM223 - kernels are written as their authors would

from typing import Any

import pytest

import tilelang.language as T
from tilelang.errors import NameProblem
from tilelang.frontend.describe import expr_text
from tilelang.ir import tile
from tilelang.ir.expr import BOOL, Binary, Compare, Const, Load, Select, Unary, Var
from tilelang.ir.types import LoopKind, Scope

FLAG, SIZES = True, (4, 8)


def body(kernel: tile.Kernel) -> tuple[Any, ...]:
    return kernel.body


def texts(statements: tuple[Any, ...]) -> list[str]:
    """Stores, lets and fills as short text, blocks as indented lines."""
    lines: list[str] = []
    for statement in statements:
        match statement:
            case tile.Store(buffer=buffer, indices=indices, value=value):
                lines.append(f"{expr_text(Load(buffer, indices))} = {expr_text(value)}")
            case tile.Let(var=var, value=value):
                lines.append(f"let {var.name} = {expr_text(value)}")
            case tile.Fill(dst=dst, value=value):
                lines.append(f"fill {dst.buffer.name} {expr_text(value)}")
            case tile.If(condition=condition, then=then, otherwise=otherwise):
                lines += [f"if {expr_text(condition)}", *(f"  {line}" for line in texts(then))]
                lines += ["else", *(f"  {line}" for line in texts(otherwise))] if otherwise else []
            case tile.While(condition=condition, body=inner):
                lines += [f"while {expr_text(condition)}", *(f"  {line}" for line in texts(inner))]
            case tile.For(var=var, start=start, stop=stop, step=step, body=inner):
                head = f"for {var.name} in {expr_text(start)}, {expr_text(stop)}, {step}"
                lines += [head, *(f"  {line}" for line in texts(inner))]
            case tile.Parallel(vars=points, extents=extents, body=inner):
                head = f"parallel {', '.join(p.name for p in points)} in {', '.join(map(expr_text, extents))}"
                lines += [head, *(f"  {line}" for line in texts(inner))]
            case _:
                lines.append(type(statement).__name__.lower())
    return lines


def test_if_elif_else() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), n: T.int32):
        with T.Kernel(1):
            if n > 3:
                A[0] = 1
            elif n == 2:
                A[0] = 2
            else:
                A[0] = 3
            if n:
                A[1] = 1
            if not n:
                A[2] = 1

    assert texts(kernel.body) == [
        "if n > 3", "  A[0] = 1", "else", "  if n == 2", "    A[0] = 2", "  else", "    A[0] = 3",
        "if n != 0", "  A[1] = 1", "if not n != 0", "  A[2] = 1",
    ]  # fmt: skip


def test_python_conditions_are_decided_now() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), n: T.int32):
        with T.Kernel(1):
            if FLAG and n is not None:
                x = 1
            else:
                x = undefined_name  # noqa: F821 - never run
            if len(SIZES) == 3:
                A[0] = undefined_name  # noqa: F821
            elif SIZES:
                A[0] = x
            A[1] = 5 if FLAG else undefined_name  # noqa: F821

    assert texts(kernel.body) == ["A[0] = 1", "A[1] = 5"]


def test_and_or_keep_python_values() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), n: T.int32):
        with T.Kernel(1):
            shape = None or (2, 3)
            empty = () and shape
            A[0] = shape[1]
            A[1] = len(empty)
            if FLAG and n > 2 and n < 5:
                A[2] = 1
            if n > 2 or FLAG:
                A[3] = 1
            if n > 2 and not FLAG:
                A[4] = 1
            if not FLAG or n != 2:
                A[5] = 1

    assert texts(kernel.body) == [
        "A[0] = 3", "A[1] = 0", "if n > 2 and n < 5", "  A[2] = 1", "A[3] = 1", "if n != 2", "  A[5] = 1",
    ]  # fmt: skip


def test_comparisons() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), n: T.int32, m: T.int32):
        with T.Kernel(8, 8) as (bx, by):
            if 0 <= n < m != 7:
                A[0] = 1
            if (bx, by) == (0, 1):
                A[1] = 1
            if (bx, by) != (0, 1):
                A[2] = 1
            if 1 < 2 < n:
                A[3] = 1
            if 2 < 1 < undefined_name:  # noqa: F821 - Python stops before it
                A[4] = 1
            if n == n:
                A[5] = 1
            if "float16" == A.dtype or 3 in SIZES:  # noqa: SIM300
                A[6] = 1

    assert texts(kernel.body) == [
        "if n >= 0 and n < m and m != 7", "  A[0] = 1", "if bx == 0 and by == 1", "  A[1] = 1",
        "if not (bx == 0 and by == 1)", "  A[2] = 1", "if n > 2", "  A[3] = 1", "if n == n", "  A[5] = 1",
    ]  # fmt: skip


def test_conditional_expressions_are_lazy_selects() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32"), n: T.int32):
        with T.Kernel(1):
            A[0] = A[1] if n < 8 else 0
            A[1] = T.if_then_else(n == 3, 1, A[2])
            A[2] = T.if_then_else(FLAG, 1.5, A[2])

    first, second, third = (statement.value for statement in body(kernel))
    assert isinstance(first, Select)
    assert (first.otherwise, first.dtype) == (Const(0.0, first.dtype), "float32")
    assert isinstance(second, Select)
    assert (second.condition, second.then) == (Compare("==", kernel.params[1], Const(3)), Const(1.0, second.dtype))
    assert third == Const(1.5, first.dtype)


def test_assignment_makes_immutable_names() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), n: T.int32):
        with T.Kernel(8) as bx:
            x = bx * 2
            same = bx
            number = 3 * 4
            x = x + number
            A[0] = x + same

    assert texts(kernel.body) == ["let x = bx * 2", "let x = x + 12", "A[0] = x + bx"]
    assert body(kernel)[1].var is not body(kernel)[0].var


def test_a_let_is_the_value_of_its_moment() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            before = A[0]
            pair = (A[1], A[2] + 1)
            items = [A[3]]
            A[0] = A[1] = A[2] = A[3] = 0
            A[4] = before + pair[0] + pair[1] + items[0]

    assert texts(kernel.body) == [
        "let before = A[0]", "let pair_0 = A[1]", "let pair_1 = A[2] + 1", "let items_0 = A[3]",
        "A[0] = 0", "A[1] = 0", "A[2] = 0", "A[3] = 0", "A[4] = before + pair_0 + pair_1 + items_0",
    ]  # fmt: skip


def test_tuple_assignment_reads_before_it_writes() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            x = T.alloc_var("int32", 1)
            y = T.alloc_var("int32", 2)
            x, y = y, x
            A[0], A[1] = A[1], A[0]
            first, *rest, last = (1, 2, 3, 4)
            (p, q), r = (5, 6), 7
            A[2] = first + len(rest) + last + p + q + r

    assert texts(kernel.body) == [
        "x = 1", "y = 2", "let x = y", "let y = x", "x = x", "y = y",
        "let value = A[1]", "let value = A[0]", "A[0] = value", "A[1] = value", "A[2] = 25",
    ]  # fmt: skip
    stores = [statement for statement in body(kernel) if isinstance(statement, tile.Store)]
    lets = [statement for statement in body(kernel) if isinstance(statement, tile.Let)]
    assert stores[2].value is lets[0].var
    assert isinstance(lets[0].value, Load)
    assert stores[2].buffer is lets[1].value.buffer


def test_mutable_scalars() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32"), n: T.int32):
        with T.Kernel(1):
            total = T.alloc_var("float32")
            for i in T.serial(8):
                total += A[i]
                if n > 2:
                    total = 0
            copy = total
            total = 5
            A[0] = total + copy

    assert texts(kernel.body) == [
        "total = 0.0", "for i in 0, 8, 1", "  total = total + A[i]", "  if n > 2", "    total = 0.0",
        "let copy = total", "total = 5.0", "A[0] = total + copy",
    ]  # fmt: skip
    assert [(buffer.name, buffer.scope, buffer.shape) for buffer in kernel.buffers] == [("total", Scope.VAR, ())]


def test_mutable_scalars_in_a_list() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            sums = [T.alloc_var("float32", i) for i in (1, 2)]
            for k in T.serial(8):
                sums[0] = sums[0] + A[k]
                sums[1] += 1
            first = sums[0]
            first = first + 1
            A[0] = first

    assert texts(kernel.body) == [
        "sums = 1.0", "sums_1 = 2.0", "for k in 0, 8, 1", "  sums = sums + A[k]", "  sums_1 = sums_1 + 1.0",
        "let first = sums", "let first = first + 1.0", "A[0] = first",
    ]  # fmt: skip


def test_loops() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(8) as bx:
            for i in range(n):
                A[i] = 1
            for i in range(2, 10, 3):
                A[i] = 2
            for i in range(10, 2, -1):
                A[i] = 3
            for i in T.serial(bx, n):
                A[i] = 4
            for i in T.unroll(4):
                A[i] = 5
            for i in T.vectorized(4):
                A[i] = 6
            for i in T.Pipelined(1, n, num_stages=2):
                A[i] = 7
            for (i,) in T.Parallel(4):
                A[i] = 8
            for ij in T.Parallel(4, 4):
                A[ij[0] * 4 + ij[1]] = 9

    loops = body(kernel)
    assert [statement.kind for statement in loops[:7]] == [
        *[LoopKind.SERIAL] * 4, LoopKind.UNROLL, LoopKind.VECTORIZED, LoopKind.PIPELINED,
    ]  # fmt: skip
    assert [(expr_text(loop.start), expr_text(loop.stop), loop.step) for loop in loops[:7]] == [
        ("0", "n", 1), ("2", "10", 3), ("10", "2", -1), ("bx", "n", 1), ("0", "4", 1), ("0", "4", 1), ("1", "n", 1),
    ]  # fmt: skip
    assert loops[6].num_stages == 2
    assert texts(loops[7:]) == ["parallel i in 4", "  A[i] = 8", "parallel ij0, ij1 in 4, 4", "  A[ij0 * 4 + ij1] = 9"]


def test_loops_over_python_values_unroll() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            for at, (low, high) in enumerate(zip((1, 2, 3), (4, 5, 6), strict=True)):
                if at == 1:
                    continue
                if low == 3:
                    break
                A[at] = low + high
            for name in {"x": 1}:
                A[9] = len(name)
            for at in T.serial(2):
                A[at] = 0

    assert texts(kernel.body) == ["A[0] = 5", "A[9] = 1", "for at in 0, 2, 1", "  A[at] = 0"]


def test_a_python_loop_may_take_over_a_name_of_its_own_block() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            for i in T.serial(2):
                for i in (1, 2):  # noqa: PLW2901
                    A[i] = 0
                A[i] = 1

    assert texts(kernel.body) == ["for i in 0, 2, 1", "  A[1] = 0", "  A[2] = 0", "  A[2] = 1"]


def test_while_break_continue() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(1):
            i = T.alloc_var("int32", 0)
            while i < n and A[i] != 0:
                i += 1
                if i == 3:
                    continue
                if i > 10:
                    break
            for k in T.serial(4):
                if n == k:
                    break
            step = 8
            while step > 1:
                step //= 2
                if step == 4:
                    continue
                A[step] = 0

    assert texts(kernel.body) == [
        "i = 0", "while i < n and A[i] != 0", "  i = i + 1", "  if i == 3", "    continue", "  if i > 10", "    break",
        "for k in 0, 4, 1", "  if n == k", "    break", "A[2] = 0", "A[1] = 0",
    ]  # fmt: skip


def test_names_may_be_used_again_in_other_blocks() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(1):
            for i in T.serial(4):
                x = i + 1
                A[i] = x
            for i in T.serial(4):
                x = i + 2
                A[i] = x
            if n > 2:
                x = n * 2
                A[0] = x
            else:
                x = n * 3
                A[0] = x
            x = 9
            A[1] = x

    assert len(kernel.body) == 4


def test_return_leaves_a_kernel_early_at_build_time() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            A[0] = 1
            for i in (1, 2):
                if i == 2:
                    return
                A[i] = 0
            A[9] = 9

    assert texts(kernel.body) == ["A[0] = 1", "A[1] = 0"]


def test_ordinary_context_managers() -> None:
    entered: list[str] = []

    class Manager:
        def __enter__(self) -> str:
            entered.append("in")
            return "text"

        def __exit__(self, *error: object) -> bool:
            entered.append("out")
            return True

    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(1) as bx, Manager() as text:
            A[0] = len(text)

    assert entered == ["in", "out"]
    assert texts(kernel.body) == ["A[0] = 4"]


def test_augmented_elements() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 8), "float32"), s: T.float32):
        with T.Kernel(1):
            for i, j in T.Parallel(64, 8):
                A[i, j] *= s
                A[i, j] /= 2
                A[i, j] -= A[i, -1]

    stores = body(kernel)[0].body
    assert [expr_text(store.value) for store in stores] == ["A[i, j] * s", "A[i, j] / 2.0", "A[i, j] - A[i, 7]"]


def test_annotated_assignments() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1):
            x: T.float32 = n
            y: int = 3
            z: T.int32  # noqa: F842
            A[0] = x + y

    assert texts(kernel.body) == ['let x = T.cast(n, "float32")', "A[0] = x + 3.0"]


def test_lambdas_comprehensions_and_nested_functions() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(1):
            double = lambda value: value * 2 if value != 0 else 1  # noqa: E731

            def halve(value):
                return value // 2 if value == 4 else value

            A[0] = double(n)
            A[1] = halve(n)
            A[2] = sum([i * 2 for i in range(4) if i != 1])
            for i, value in enumerate([n + k for k in range(2)]):
                A[i] = value

    first, second = body(kernel)[:2]
    assert isinstance(first.value, Select)
    assert isinstance(second.value, Select)
    assert texts(kernel.body[2:]) == ["A[2] = 10", "A[0] = n + 0", "A[1] = n + 1"]


def outside_equal(x: Any, y: Any) -> Any:
    return x == y


def outside_nested(x: Any) -> Any:
    return outside_equal(x, 3) and x != 4


def test_helpers_outside_the_kernel_mean_what_the_kernel_would() -> None:
    choose = lambda x: 1 if x == 2 else 0  # noqa: E731

    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(1):
            if outside_equal(n, 3):
                A[0] = 1
            if outside_nested(n):
                A[1] = 1
            A[2] = choose(n)
            A[3] = choose(2)
            if outside_equal(3, 3):
                A[4] = 1

    assert texts(kernel.body) == [
        "if n == 3", "  A[0] = 1", "if n == 3 and n != 4", "  A[1] = 1",
        "A[2] = T.if_then_else(n == 2, 1, 0)", "A[3] = 1", "A[4] = 1",
    ]  # fmt: skip
    assert outside_equal(1, 2) is False


def test_numpy_scalars() -> None:
    import numpy as np

    size, scale = np.int64(4), np.float32(0.5)

    @T.prim_func
    def kernel(A: T.Tensor((size, np.int32(8)), np.dtype("float32")), n: T.int32):
        with T.Kernel(size) as bx:
            A[0, 0] = scale * A[0, 1]
            A[0, 1] = A[0, 2] * scale
            A[0, 2] = n + size
            if n == size:
                A[np.int32(1), 0] = scale

    assert kernel.params[0].shape == (4, 8)  # type: ignore[union-attr]
    assert texts(kernel.body) == [
        "A[0, 0] = A[0, 1] * 0.5" if "A[0, 1] * 0.5" in texts(kernel.body)[0] else "A[0, 0] = 0.5 * A[0, 1]",
        "A[0, 1] = A[0, 2] * 0.5", "A[0, 2] = n + 4", "if n == 4", "  A[1, 0] = 0.5",
    ]  # fmt: skip


# ---- macros -------------------------------------------------------------------------------------------------------------------


@T.macro
def scale_rows(tile_: Any, factor: Any, rows: int = 4) -> None:
    for i in T.Parallel(rows):
        tile_[i] = tile_[i] * factor


@T.macro
def bump(x: T.Ref, by: Any = 1) -> None:
    x += by


@T.macro()
def power_of_two(n: int) -> Any:
    if n == 0:
        return 1
    return 2 * power_of_two(n - 1)


def test_macros() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1):
            x = T.alloc_var("int32", 1)
            scale_rows(A, A[0] + 1)
            scale_rows(A, factor=n, rows=8)
            bump(x)
            bump(A[n], by=2)
            A[power_of_two(3)] = x

    assert texts(kernel.body) == [
        "x = 1", "let factor = A[0] + 1.0", "parallel i in 4", "  A[i] = A[i] * factor", "parallel i in 8",
        '  A[i] = A[i] * T.cast(n, "float32")', "x = x + 1", "A[n] = A[n] + 2.0", "A[8] = x",
    ]  # fmt: skip


def test_a_macro_inside_the_kernel_sees_its_names() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(8) as bx:
            row = bx * 8

            @T.macro
            def zero(at):
                if n == at:
                    A[row + at] = 0

            zero(1)
            zero(2)

    assert texts(kernel.body) == ["let row = bx * 8", "if n == 1", "  A[row + 1] = 0.0", "if n == 2", "  A[row + 2] = 0.0"]


def test_names_of_a_macro_are_its_own() -> None:
    @T.macro
    def inner(A):
        x = A[0] + 1
        x = x + 1
        return x

    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            x = A[5]
            for i in T.serial(4):
                y = inner(A)
                A[i] = x + y

    assert texts(kernel.body) == [
        "let x = A[5]", "for i in 0, 4, 1", "  let x = A[0] + 1.0", "  let x = x + 1.0", "  A[i] = x + x_1",
    ]  # fmt: skip


def test_a_tile_made_by_a_macro() -> None:
    @T.macro
    def load(A, rows):
        tile_ = T.alloc_shared((rows, 8), A.dtype)
        T.copy(A[0, 0], tile_)
        return tile_

    @T.prim_func
    def kernel(A: T.Tensor((64, 8), "float16")):
        with T.Kernel(1):
            first = load(A, 16)
            second = load(A, 32)
            T.copy(first, A[0, 0])
            T.copy(second, A[0, 0])

    assert [(buffer.name, buffer.shape) for buffer in kernel.buffers] == [("tile_", (16, 8)), ("tile__1", (32, 8))]


def test_spans_point_at_the_line() -> None:
    import inspect

    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            tile_ = T.alloc_shared((64,), "float32")
            T.copy(A,
                   tile_)  # fmt: skip
            for i in T.serial(4):
                A[i] = 0

    start = inspect.currentframe().f_code.co_firstlineno  # type: ignore[union-attr]
    copy, loop = body(kernel)
    assert kernel.span is not None
    assert kernel.span.file == __file__
    assert kernel.span.line == start + 4
    assert kernel.params[0].span.line == start + 4  # type: ignore[union-attr]
    assert kernel.buffers[0].span.line == start + 6  # type: ignore[union-attr]
    assert (copy.span.line, copy.span.column, copy.span.end_line) == (start + 7, 12, start + 8)
    assert (loop.span.line, loop.span.end_line, loop.span.end_column) == (start + 9, start + 9, 32)
    assert loop.body[0].span.line == start + 10


def test_operators_and_their_types() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), n: T.int32, u: T.uint8, s: T.float16, flag: T.bool):
        with T.Kernel(1):
            A[0] = -n + ~n
            A[1] = (n << 2) | (n >> 1) ^ (n & 3)
            A[2] = n / 2
            A[3] = n // 2 % 3
            A[4] = s * n
            if flag and not flag:
                A[5] = u

    values = [statement.value for statement in body(kernel)[:5]]
    assert isinstance(values[0], Binary)
    assert isinstance(values[0].a, Unary)
    assert [value.dtype for value in values] == ["int32", "int32", "float32", "int32", "float16"]
    condition = body(kernel)[5].condition
    assert condition == Binary("and", kernel.params[4], Unary("not", kernel.params[4]))
    assert condition.dtype == BOOL
    assert [param.dtype for param in kernel.params if isinstance(param, Var)] == ["int32", "uint8", "float16", "bool"]


def test_a_parallel_without_points_is_no_statement() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            for i, j in T.Parallel(4, 0):
                A[i] = j

    assert body(kernel) == ()


def test_an_expression_ends_with_the_block_of_its_variables() -> None:
    with pytest.raises(NameProblem) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                elements = []
                for i in range(4):
                    elements.append(A[i])
                A[5] = elements[0]

    assert caught.value.code == "TL105"
    assert caught.value.message.startswith("i belongs to a block that is over")


def test_expressions_of_a_loop_over_python_values_stay() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            elements = []
            for i in (0, 1):
                element = A[i] + 1
                elements.append(element)
            A[5] = elements[0] + elements[1]

    assert len(body(kernel)) == 3


def test_tile_ops_on_empty_tensors_are_no_statements() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((0, 4), "float32"), B: T.Tensor((0, 4), "float32")):
        with T.Kernel(1):
            T.copy(A, B)
            T.fill(B, 1)

    assert body(kernel) == ()
