"""Points of a T.Parallel that meet for certain are refused; those that may not are left to the run."""
# ruff: noqa: F841 - kernels are written as their authors would

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import HazardError, KernelError
from tilelang.ir import tile
from tilelang.sim import reference


def built(body, *extents: int) -> tile.Kernel:
    """A kernel with one T.Parallel around `body`, a macro of (x, s, B, I, n, points)."""

    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64,), "float32"), I: T.Tensor((64,), "int32"), n: T.int32):  # noqa: E741
        with T.Kernel(1) as bx:
            x = T.alloc_fragment((64, 64), "float32")
            s = T.alloc_fragment((64,), "float32")
            T.copy(A, x)
            T.clear(s)
            for points in T.Parallel(*extents):
                body(x, s, B, I, n, points if isinstance(points, tuple) else (points,))
            T.copy(s, B)

    return kernel


# ---- meeting for certain ------------------------------------------------------------------------------------------------------


@T.macro
def through_a_name(x, s, B, I, n, p):  # noqa: E741
    value = x[p[0], p[1]]
    row = p[0] * 2 - p[0]
    s[row] = value


@T.macro
def through_a_scalar(x, s, B, I, n, p):  # noqa: E741
    total = T.alloc_var("float32")
    for k in T.serial(4):
        total += x[k, p[1]]
    s[p[0]] = total


@T.macro
def in_a_loop(x, s, B, I, n, p):  # noqa: E741
    for k in T.serial(8):
        s[k] = T.exp(B[p[0]])


@T.macro
def under_a_condition_of_the_block(x, s, B, I, n, p):  # noqa: E741
    if n > 3:
        s[n] = p[0]


@T.macro
def made_from_the_old_value(x, s, B, I, n, p):  # noqa: E741
    s[0] += 1


@T.macro
def backwards(x, s, B, I, n, p):  # noqa: E741
    s[p[0] * 2] = s[p[0] * 2 + 4]


@T.macro
def across_two_dimensions(x, s, B, I, n, p):  # noqa: E741
    x[p[0], p[1]] = x[p[0] + 1, p[1] + 2]


@pytest.mark.parametrize(
    ("body", "extents"),
    [
        (through_a_name, (64, 64)), (through_a_scalar, (64, 64)), (in_a_loop, (64,)), (under_a_condition_of_the_block, (64,)),
        (made_from_the_old_value, (64,)), (backwards, (30,)), (across_two_dimensions, (62, 62)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_points_that_meet_are_refused(body, extents) -> None:
    with pytest.raises(KernelError) as caught:
        built(body, *extents)
    assert caught.value.code == "TL220"
    assert caught.value.span is not None
    assert caught.value.hint


# ---- perhaps, or not at all ---------------------------------------------------------------------------------------------------


@T.macro
def one_value_for_all(x, s, B, I, n, p):  # noqa: E741
    s[p[0]] = B[p[0]]


@T.macro
def one_group_for_all(x, s, B, I, n, p):  # noqa: E741
    s[p[0]] = B[p[1] // 64]


@T.macro
def by_one_point(x, s, B, I, n, p):  # noqa: E741
    if p[1] == 63:
        s[p[0]] = x[p[0], p[1]]


@T.macro
def a_scalar_set_anew(x, s, B, I, n, p):  # noqa: E741
    value = T.alloc_var("float32", 1)
    value = x[p[0], p[1]]
    value = 3
    s[p[0]] = value


@T.macro
def too_far_apart(x, s, B, I, n, p):  # noqa: E741
    s[p[0]] = s[p[0] + 32] + 1


@T.macro
def odd_from_even(x, s, B, I, n, p):  # noqa: E741
    s[p[0] * 2] = s[p[0] * 2 + 1] + 1


@T.macro
def on_the_side_not_taken(x, s, B, I, n, p):  # noqa: E741
    s[p[0]] = T.if_then_else(n > 100, s[p[0] + 1], 0)


@T.macro
def in_a_loop_that_is_left(x, s, B, I, n, p):  # noqa: E741
    for k in T.serial(64):
        if k != p[0]:
            continue
        s[k] = k


@pytest.mark.parametrize(
    ("body", "extents"),
    [
        (one_value_for_all, (64, 64)), (one_group_for_all, (64, 64)), (by_one_point, (64, 64)), (a_scalar_set_anew, (64, 64)),
        (too_far_apart, (32,)), (odd_from_even, (32,)), (on_the_side_not_taken, (63,)), (in_a_loop_that_is_left, (64,)),
        (made_from_the_old_value, (1,)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_points_that_do_not_meet_run(body, extents) -> None:
    arrays = [np.ones((64, 64), np.float32), np.ones(64, np.float32), np.zeros(64, np.int32), 5]
    reference.run(built(body, *extents), arrays)


@T.macro
def where_the_data_say(x, s, B, I, n, p):  # noqa: E741
    s[I[p[0]]] = B[p[0]]


def test_what_depends_on_data_is_seen_when_it_runs() -> None:
    kernel = built(where_the_data_say, 64)
    ones, apart = np.ones((64, 64), np.float32), np.arange(64, dtype=np.int32)
    reference.run(kernel, [ones, np.arange(64, dtype=np.float32), apart, 0])
    with pytest.raises(HazardError, match="TL860"):
        reference.run(kernel, [ones, np.arange(64, dtype=np.float32), apart // 2, 0])


def copied_within(step: int, count: int) -> tile.Kernel:
    @T.prim_func
    def kernel(A: T.Tensor((64, 8), "float32"), n: T.int32):
        with T.Kernel(1):
            s = T.alloc_shared((64, 8), "float32")
            T.copy(A, s)
            T.copy(s[n : n + count, :], s[n + step : n + step + count, :])

    return kernel


@pytest.mark.parametrize("step", [4, -4, 7])
def test_a_copy_onto_its_own_source_is_refused(step: int) -> None:
    with pytest.raises(KernelError) as caught:
        copied_within(step, 8)
    assert caught.value.code == "TL220"
    assert caught.value.span is not None


@pytest.mark.parametrize("step", [0, 8, -8])
def test_a_copy_beside_its_source_is_taken(step: int) -> None:
    assert isinstance(copied_within(step, 8).body[-1], tile.Copy)
