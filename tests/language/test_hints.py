"""Hints: accepted where they change no result, and told as decisions."""
# ruff: noqa: F841 - kernels are written as their authors would

import pytest

import tilelang.language as T
from tilelang.errors import KernelError, Unsupported
from tilelang.ir import tile
from tilelang.layout import make_swizzled_layout


def built(hint) -> tile.Kernel:
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float16"), n: T.int32):
        with T.Kernel(1, threads=128) as bx:
            tile = T.alloc_shared((64, 64), "float16")
            other = T.alloc_shared((32, 128), "float16")
            hint(A, n, tile, other)
            T.copy(A, tile)

    return kernel


@pytest.mark.parametrize(
    ("hint", "subject", "chosen"),
    [
        (lambda A, n, tile, other: T.annotate_layout({tile: make_swizzled_layout(tile)}), "layout of tile", "a swizzle, by plan"),
        (
            lambda A, n, tile, other: T.annotate_layout({tile: make_swizzled_layout(tile, k_major=False)}),
            "layout of tile", "a swizzle, by plan",
        ),
        (lambda A, n, tile, other: T.annotate_safe_value({A: 0.0}), "reads outside of A", "0"),
        (
            lambda A, n, tile, other: T.annotate_l2_hit_ratio({A: 0.75}),
            "share of A that stays in the L2 cache", "the hardware's",
        ),
        (lambda A, n, tile, other: T.annotate_min_blocks_per_sm(2), "blocks per SM", "by plan"),
        (lambda A, n, tile, other: T.use_swizzle(4, order="column"), "block order", "by plan"),
        (lambda A, n, tile, other: T.annotate_restrict_buffers(A), "overlap of A with other tensors", "refused"),
        (lambda A, n, tile, other: T.assume(n > 3), "assumption n > 3", "not used"),
    ],
)  # fmt: skip
def test_a_hint_becomes_a_decision(hint, subject: str, chosen: str) -> None:
    plain, hinted = built(lambda *_: None), built(hint)
    (decision,) = hinted.decisions
    assert (decision.subject, decision.chosen) == (subject, chosen)
    assert decision.reason
    assert decision.span is not None
    assert [type(stmt) for stmt in hinted.body] == [type(stmt) for stmt in plain.body]


def test_several_buffers_give_several_decisions() -> None:
    kernel = built(lambda A, n, tile, other: T.annotate_layout({b: make_swizzled_layout(b) for b in (tile, other)}))
    assert [decision.subject for decision in kernel.decisions] == ["layout of tile", "layout of other"]


def test_assumptions_that_say_nothing_are_not_kept() -> None:
    assert built(lambda A, n, tile, other: T.assume(True)).decisions == ()
    with pytest.raises(KernelError, match="TL115"):
        built(lambda A, n, tile, other: T.assume(1 > 2))


@pytest.mark.parametrize("name", ["Layout", "Fragment", "make_wgmma_swizzled_layout", "make_linear_layout"])
def test_other_layouts_are_refused_by_name(name: str) -> None:
    import tilelang.layout

    with pytest.raises(Unsupported, match=f"TL360.*{name}"):
        getattr(tilelang.layout, name)
    with pytest.raises(AttributeError):
        tilelang.layout.make_swizled_layout  # noqa: B018


def test_layouts_need_no_numpy(run_python) -> None:
    program = "import sys, tilelang; tilelang.layout.make_swizzled_layout; print('numpy' in sys.modules)"
    assert run_python("-c", program).stdout.split() == ["False"]
