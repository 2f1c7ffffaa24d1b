"""Mixed-radix layouts: a bijection between the tile and the places it uses, whatever the sizes; what is refused."""
from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilelang.layout.digits import Axis, Digit, Layout, Place

R, L, W = Axis.REGISTER, Axis.LANE, Axis.WARP


def places(layout: Layout) -> list[Place]:
    """Every place of the box that the layout spans, used or idle."""
    axes = (range(layout.extent(axis)) for axis in (R, L, W))
    return [Place(*place) for place in itertools.product(*axes)]


def check_bijection(layout: Layout) -> int:
    """Asserts that elements and used places correspond one to one, and that every other place is idle; counts the idle ones."""
    indices = list(layout.indices())
    assert len(indices) == math.prod(layout.shape)
    at = {index: layout.place(index) for index in indices}
    used = set(at.values())
    assert len(used) == len(indices), "two elements in one place"
    for index, place in at.items():
        assert layout.element(place) == index
    everywhere = places(layout)
    assert used <= set(everywhere)
    idle = [place for place in everywhere if place not in used]
    assert all(layout.element(place) is None for place in idle)
    return len(idle)


EXAMPLES = {
    # One 16-bit row of a wgmma accumulator of 24 columns: 3 is no power of two.
    "wgmma row": (((Digit(3, R, 4), Digit(4, L, 1), Digit(2, R, 1)),), (24,), 4 * 4),
    "a row to each lane": (((Digit(32, L, 1),), (Digit(5, R, 1),)), (32, 5), 0),
    "one dimension over three axes": (((Digit(3, W, 1), Digit(7, L, 1), Digit(2, R, 1)),), (42,), 0),
    "idle lanes": (((Digit(5, L, 6),),), (5,), 20),
    "idle registers between": (((Digit(3, R, 4), Digit(2, R, 1)),), (6,), 4),
    "most significant digit first": (((Digit(2, R, 1), Digit(3, R, 2)),), (6,), 0),
    "a dimension of one": (((), (Digit(1, L, 7), Digit(4, R, 1))), (1, 4), 0),
    "no dimensions": ((), (), 0),
    "48 x 16 over 4 warps": (((Digit(3, R, 2), Digit(4, W, 1), Digit(4, L, 8)), (Digit(8, L, 1), Digit(2, R, 1))), (48, 16), 0),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_over_their_whole_domain(name: str) -> None:
    dims, shape, idle = EXAMPLES[name]
    layout = Layout(dims)
    assert layout.shape == shape
    assert check_bijection(layout) == idle


def test_an_example_by_hand() -> None:
    layout = Layout(((Digit(3, R, 4), Digit(4, L, 1), Digit(2, R, 1)),))
    assert layout.place((13,)) == Place(register=5, lane=2, warp=0)
    assert layout.element(Place(5, 2, 0)) == (13,)
    assert layout.element(Place(2, 2, 0)) is None, "registers 2 and 3 hold the other row"
    assert layout.element(Place(5, 2, 1)) is None
    assert layout.element(Place(5, 4, 0)) is None


def test_most_significant_digit_first() -> None:
    layout = Layout(((Digit(2, R, 1), Digit(3, R, 2)),))
    assert [layout.place((i,)).register for i in range(6)] == [0, 2, 4, 1, 3, 5]


def test_places_outside_are_idle() -> None:
    layout = Layout(((Digit(4, L, 1), Digit(2, R, 1)),))
    for place in (Place(-1, 0, 0), Place(0, -1, 0), Place(2, 0, 0), Place(0, 4, 0), Place(0, 0, 1), Place(0, 0, -1)):
        assert layout.element(place) is None


def test_indices_are_row_major() -> None:
    layout = Layout(((Digit(2, R, 3),), (Digit(3, R, 1),)))
    assert list(layout.indices()) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert [layout.extent(axis) for axis in (R, L, W)] == [6, 1, 1]


@pytest.mark.parametrize("index", [(), (1,), (1, 1, 1)])
def test_an_index_has_one_part_for_each_dimension(index: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="zip"):
        Layout(((Digit(2, R, 3),), (Digit(3, R, 1),))).place(index)


@pytest.mark.parametrize(
    ("digits", "message"),
    [
        ([Digit(0, R, 1)], "positive sizes and strides"),
        ([Digit(-2, R, 1)], "positive sizes and strides"),
        ([Digit(2, R, 0)], "positive sizes and strides"),
        ([Digit(2, R, -1)], "positive sizes and strides"),
        ([Digit(2, R, 1), Digit(2, R, 1)], "overlap on axis register: stride 1 within the reach 2"),
        ([Digit(4, L, 1), Digit(2, L, 2)], "overlap on axis lane: stride 2 within the reach 4"),
        ([Digit(3, W, 2), Digit(2, W, 4)], "overlap on axis warp: stride 4 within the reach 6"),
        ([Digit(2, R, 1), Digit(2, R, 3)], "overlap on axis register: stride 3 within the reach 2"),
    ],
)
def test_refused(digits: list[Digit], message: str) -> None:
    for split in range(len(digits) + 1):  # in one dimension or in two
        with pytest.raises(ValueError, match=message):
            Layout((tuple(digits[:split]), tuple(digits[split:])))


def test_digits_of_size_one_are_in_nobodys_way() -> None:
    layout = Layout(((Digit(1, R, 3), Digit(2, R, 1), Digit(1, R, 1)),))
    assert [layout.place((i,)).register for i in range(2)] == [0, 1]


@st.composite
def mixed_radix(draw: st.DrawFn) -> Layout:
    """Nested digits with random gaps on each axis, dealt to dimensions in random order."""
    digits = []
    for axis in Axis:
        stride = 1
        for size in draw(st.lists(st.integers(1, 5), max_size=3)):
            stride *= draw(st.sampled_from((1, 1, 1, 2, 3)))
            digits.append(Digit(size, axis, stride))
            stride *= size
    digits = draw(st.permutations(digits))
    cuts = sorted(draw(st.lists(st.integers(0, len(digits)), max_size=2)))
    bounds = [0, *cuts, len(digits)]
    return Layout(tuple(tuple(digits[a:b]) for a, b in itertools.pairwise(bounds)))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(mixed_radix().filter(lambda layout: math.prod(layout.extent(axis) for axis in Axis) < 3000))
def test_nested_digits_are_accepted_and_bijective(layout: Layout) -> None:
    check_bijection(layout)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.builds(Digit, st.integers(1, 4), st.sampled_from(Axis), st.integers(1, 8)), max_size=4))
def test_whatever_is_accepted_is_bijective(digits: list[Digit]) -> None:
    try:
        layout = Layout((tuple(digits),))
    except ValueError:
        return
    check_bijection(layout)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.builds(Digit, st.integers(1, 4), st.just(R), st.integers(1, 8)), max_size=3))
def test_digits_that_meet_are_refused(digits: list[Digit]) -> None:
    positions = [sum(v * digit.stride for v, digit in zip(values, digits, strict=True))
                 for values in itertools.product(*(range(digit.size) for digit in digits))]  # fmt: skip
    if len(set(positions)) < len(positions):
        with pytest.raises(ValueError, match="overlap"):
            Layout((tuple(digits),))
