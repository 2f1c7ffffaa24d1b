"""Which dimensions a tile covers, by the rule of `binding.py`."""
# ruff: noqa: F841 - kernels name their block indices
from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest

import tilelang.language as T
from tilelang.errors import ShapeProblem
from tilelang.frontend.binding import Fit, bind, judge
from tilelang.frontend.builder import Builder
from tilelang.frontend.facts import Facts
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Cast, Const, Expr, Load, Var, as_expr
from tilelang.ir.tile import Copy, Fill, For, Gemm, Kernel
from tilelang.ir.types import DType, Scope
from tilelang.ir.walk import walk

ROOT = Path(__file__).resolve().parent.parent.parent


def facts_of(**extents: int) -> tuple[Facts, dict[str, Var]]:
    """Facts about grid variables of the given extents."""
    facts, variables = Facts(), {name: Var(name) for name in extents}
    for name, extent in extents.items():
        facts.add_axis(variables[name], extent)
    return facts, variables


def extents_of(shape: tuple[int, ...], indices: tuple[Expr | int, ...], tile: tuple[int, ...], facts: Facts) -> tuple[int, ...]:
    buffer = Buffer("A", shape, DType("float16"), Scope.GLOBAL)
    region, _ = bind(Load(buffer, tuple(as_expr(index) for index in indices)), tile, facts, None)
    return region.extents  # type: ignore[return-value]


# ---- judging one pair ---------------------------------------------------------------------------------------------------------


def test_aligned_needs_a_variable_and_multiples() -> None:
    facts, v = facts_of(bx=16)
    bx = v["bx"]
    assert judge(bx * 64, 64, 1, facts) is Fit.ALIGNED
    assert judge(bx * 128 + 64, 64, 1, facts) is Fit.ALIGNED
    assert judge((bx + 1) * 64 - 64, 64, 1, facts) is Fit.ALIGNED
    assert judge(bx * 64 + 32, 64, 1, facts) is Fit.SPILLS
    assert judge(bx * 32, 64, 16 * 32, facts) is Fit.SPILLS
    assert judge(as_expr(0), 64, 32, facts) is Fit.SPILLS
    assert judge(as_expr(64), 64, 100, facts) is Fit.SPILLS
    assert judge(as_expr(64), 64, 128, facts) is Fit.INSIDE


def test_a_one_valued_variable_is_not_folded() -> None:
    facts, v = facts_of(bx=1)
    assert facts.range_of(v["bx"]) == (0, 0)
    assert judge(v["bx"] * 64, 64, 1, facts) is Fit.ALIGNED
    assert judge(v["bx"], 64, 1, facts) is Fit.SPILLS
    assert judge(v["bx"], 64, 64, facts) is Fit.INSIDE


def test_inside_counts_the_whole_range() -> None:
    facts, v = facts_of(bx=8)
    assert judge(v["bx"], 57, 64, facts) is Fit.INSIDE
    assert judge(v["bx"], 58, 64, facts) is Fit.SPILLS
    assert judge(v["bx"] - 1, 4, 64, facts) is Fit.SPILLS
    assert judge(v["bx"] % 2, 4, 8, facts) is Fit.INSIDE


def test_loaded_values_and_scalars_are_unknown() -> None:
    facts, v = facts_of(bx=8)
    table = Buffer("table", (8,), DType("int32"), Scope.GLOBAL)
    assert judge(Load(table, (v["bx"],)), 64, 1024, facts) is Fit.UNKNOWN
    assert judge(Load(table, (v["bx"],)) * 64, 64, 1024, facts) is Fit.ALIGNED
    assert judge(Var("n"), 64, 1024, facts) is Fit.UNKNOWN
    assert judge(Var("n") % 4, 64, 1024, facts) is Fit.INSIDE


def test_a_loop_variable_is_start_plus_step_times_n() -> None:
    facts = Facts()
    k, m = Var("k"), Var("m")
    facts.add_loop(k, as_expr(0), as_expr(1024), 64)
    facts.add_loop(m, as_expr(32), as_expr(1024), 64)
    assert judge(k, 64, 1, facts) is Fit.ALIGNED
    assert judge(k, 128, 1, facts) is Fit.SPILLS
    assert judge(m, 64, 1, facts) is Fit.SPILLS
    assert judge(m, 32, 1, facts) is Fit.ALIGNED
    assert facts.range_of(k) == (0, 960)


def test_a_loop_from_a_variable_start() -> None:
    facts, v = facts_of(bx=4)
    k = Var("k")
    facts.add_loop(k, v["bx"] * 8, v["bx"] * 8 + 8, 1)
    assert judge(k * 64, 64, 1, facts) is Fit.ALIGNED
    assert facts.range_of(k) == (0, 31)


def test_immutable_names_are_looked_through() -> None:
    facts, v = facts_of(bx=4)
    row, odd = Var("row"), Var("odd")
    facts.add_let(row, v["bx"] * 64)
    facts.add_let(odd, row + 1)
    assert judge(row, 64, 1, facts) is Fit.ALIGNED
    assert judge(odd - 1, 64, 1, facts) is Fit.ALIGNED
    assert judge(odd, 64, 1, facts) is Fit.SPILLS
    assert facts.range_of(odd) == (1, 193)
    assert judge(Cast(row, DType("int64")), 64, 1, facts) is Fit.ALIGNED


# ---- choosing -----------------------------------------------------------------------------------------------------------------


def test_one_candidate_is_taken_however_it_fits() -> None:
    facts, v = facts_of(bx=8)
    assert extents_of((100, 100), (v["bx"] + 7, v["bx"] * 50), (64, 64), facts) == (64, 64)


def test_right_most_where_nothing_spills() -> None:
    facts, v = facts_of(bx=8, by=4)
    assert extents_of((4, 512, 64), (v["by"], v["bx"] * 64, 0), (64, 64), facts) == (1, 64, 64)
    # An unknown base does not spill: TileLang's rule stands.
    assert extents_of((4, 512, 64), (v["by"], Var("n"), 0), (64, 64), facts) == (1, 64, 64)


SIZES = [(1, 8, 1024), (2, 4, 4096), (2, 16, 1000), (1, 2, 64), (1, 1, 64), (1, 1, 1024)]


@pytest.mark.parametrize(("batch", "heads", "seq"), SIZES)
@pytest.mark.parametrize("dim", [64, 128])
def test_rows_are_seq_in_batch_seq_heads_dim(batch: int, heads: int, seq: int, dim: int) -> None:
    facts, v = facts_of(bx=-(-seq // 64), by=heads, bz=batch)
    assert extents_of((batch, seq, heads, dim), (v["bz"], v["bx"] * 64, v["by"], 0), (64, dim), facts) == (1, 64, 1, dim)


@pytest.mark.parametrize("heads", [64, 128])
def test_rows_are_seq_with_as_many_heads_as_rows(heads: int) -> None:
    facts, v = facts_of(bx=4, by=heads, bz=1)
    assert extents_of((1, 256, heads, 64), (v["bz"], v["bx"] * 64, v["by"], 0), (64, 64), facts) == (1, 64, 1, 64)


def test_a_literal_head() -> None:
    facts, v = facts_of(bx=4, bz=2)
    assert extents_of((2, 256, 1, 64), (v["bz"], v["bx"] * 64, 0, 0), (64, 64), facts) == (1, 64, 1, 64)
    assert extents_of((2, 256, 8, 64), (v["bz"], v["bx"] * 64, 7, 0), (64, 64), facts) == (1, 64, 1, 64)
    # 64 heads fit behind a literal 0: the right-most choice does not spill, so it is what the author wrote.
    assert extents_of((2, 256, 64, 64), (v["bz"], v["bx"] * 64, 0, 0), (64, 64), facts) == (1, 1, 64, 64)


def test_a_sequence_shorter_than_the_tile() -> None:
    facts, v = facts_of(bx=1, by=8, bz=1)
    assert extents_of((1, 1, 8, 64), (v["bz"], v["bx"] * 64, v["by"], 0), (64, 64), facts) == (1, 64, 1, 64)


def test_certain_goes_before_unknown() -> None:
    facts, v = facts_of(bx=4, by=8)
    n = Var("n")
    # Dimension 2 spills; (0, 3) is unknown in 0 and inside in 3, (1, 3) is aligned and inside.
    assert extents_of((512, 256, 8, 64), (n, v["bx"] * 64, v["by"], 0), (64, 64), facts) == (1, 64, 1, 64)
    # Without a certain choice the only one that does not spill is taken.
    assert extents_of((2, 256, 8, 64), (v["by"] // 4, n, v["by"], 0), (64, 64), facts) == (1, 64, 1, 64)


def test_several_certain_choices_are_an_error() -> None:
    facts, v = facts_of(bx=4, by=8)
    with pytest.raises(ShapeProblem) as caught:
        extents_of((256, 256, 8, 64), (v["bx"] * 64, v["bx"] * 64, v["by"], 0), (64, 64), facts)
    assert caught.value.code == "TL206"
    assert [note.split(":")[0] for note in caught.value.notes] == ["dimensions (1, 3)", "dimensions (0, 3)", "dimensions (0, 1)"]
    assert "slices" in caught.value.hint


def test_several_unknown_choices_are_an_error() -> None:
    facts, v = facts_of(by=8)
    with pytest.raises(ShapeProblem) as caught:
        extents_of((256, 256, 8, 64), (Var("m"), Var("n"), v["by"], 0), (64, 64), facts)
    assert caught.value.code == "TL206"


def test_everything_spills() -> None:
    facts, v = facts_of(bx=4, by=8)
    buffer = Buffer("A", (8, 8, 16), DType("float16"), Scope.GLOBAL)
    region, decision = bind(Load(buffer, (v["by"], v["by"], v["by"])), (32, 32), facts, None)
    assert region.extents == (1, 32, 32)
    assert "every choice spills" in decision.reason
    assert len(decision.rejected) == 2


def test_one_dimensional_tiles() -> None:
    facts, v = facts_of(bx=8, by=4)
    assert extents_of((4, 512), (v["by"], v["bx"] * 64), (64,), facts) == (1, 64)
    assert extents_of((512, 4), (v["bx"] * 64, v["by"]), (64,), facts) == (64, 1)
    assert extents_of((4, 512), (v["by"], v["bx"]), (), facts) == (1, 1)


def test_too_few_dimensions() -> None:
    facts, _ = facts_of(bx=8)
    with pytest.raises(ShapeProblem) as caught:
        extents_of((512,), (0,), (64, 64), facts)
    assert caught.value.code == "TL205"


def test_the_decision_says_what_failed() -> None:
    facts, v = facts_of(bx=16, by=8, bz=1)
    buffer = Buffer("Q", (1, 1024, 8, 64), DType("float16"), Scope.GLOBAL)
    region, decision = bind(Load(buffer, (v["bz"], v["bx"] * 64, v["by"], Const(0))), (64, 64), facts, None)
    assert region.base == (v["bz"], v["bx"] * 64, v["by"], Const(0))
    assert decision.subject == "dimensions of Q[bz, bx * 64, by, 0] that a 64 x 64 tile covers"
    assert decision.chosen == "dimensions (1, 3): Q[bz, bx * 64 : bx * 64 + 64, by, :]"
    first = decision.rejected[0]
    assert first.alternative == "dimensions (2, 3)"
    assert first.predicate == "by + 64 <= 8 in dimension 2"
    assert first.value == "by is 0 to 7, so the tile ends at up to 71"
    assert first.edit == "write Q[bz, bx * 64, by : by + 64, :]"


# ---- in kernels ---------------------------------------------------------------------------------------------------------------


def copies(kernel: Kernel) -> list[Copy]:
    return [node for node in walk(kernel.body) if isinstance(node, Copy)]


def flash_loads(batch: int, heads: int, seq: int, dim: int, literal_head: bool = False) -> Kernel:
    shape = (batch, seq, 1 if literal_head else heads, dim)

    @T.prim_func
    def kernel(Q: T.Tensor((batch, seq, heads, dim), "float16"), K: T.Tensor(shape, "float16")):
        with T.Kernel(T.ceildiv(seq, 64), heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared((64, dim), "float16")
            K_shared = T.alloc_shared((64, dim), "float16")
            T.copy(Q[bz, bx * 64, by, 0], Q_shared)
            loop_end = T.ceildiv((bx + 1) * 64, 64)
            for ko in T.Pipelined(loop_end, num_stages=2):
                T.copy(K[bz, ko * 64, 0 if literal_head else by, 0], K_shared)
            T.copy(Q_shared, Q[bz, bx * 64, by, 0])

    return kernel


@pytest.mark.parametrize("shape", [(1, 8, 1024, 64), (1, 1, 64, 64), (1, 1, 1, 64), (1, 64, 256, 64), (1, 128, 256, 64)])
@pytest.mark.parametrize("literal_head", [False, True])
def test_attention_tiles_rows_of_seq(shape: tuple[int, int, int, int], literal_head: bool) -> None:
    kernel = flash_loads(*shape, literal_head)
    loads = [region for copy in copies(kernel) for region in (copy.src, copy.dst) if region.buffer.scope is Scope.GLOBAL]
    assert [region.extents for region in loads] == [(1, 64, 1, shape[3])] * 3
    assert len(kernel.decisions) == 3
    assert all(decision.chosen.startswith("dimensions (1, 3)") for decision in kernel.decisions)


def test_an_attention_program_as_others_wrote_it(tmp_path: Path) -> None:
    path = Path(os.environ.get("TILELANG_TEST_PROGRAMS", ROOT.parent / "shared" / "seeds")) / "tl_flash.py"
    if not path.exists():
        pytest.skip(f"no {path}")
    factory = tmp_path / "factory.py"
    factory.write_text(path.read_text().split("\ntarget = ")[0] + "\n")
    kernel = runpy.run_path(str(factory))["flash_attn"](1, 8, 1024, 64)
    tiles = [region.extents for copy in copies(kernel) for region in (copy.src, copy.dst) if region.buffer.rank == 4]
    assert tiles == [(1, 64, 1, 64)] * 4


def test_pipelined_loop_variables_and_names() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, 512, 8, 64), "float16")):
        with T.Kernel(8, 4) as (bx, by):
            tile = T.alloc_shared((64, 64), "float16")
            for ko in T.Pipelined(1, num_stages=3):
                row = ko * 64
                T.copy(A[by, row, bx, 0], tile)
            for k in T.serial(0, 512, 64):
                T.copy(A[by, k, bx, 0], tile)

    assert [copy.src.extents for copy in copies(kernel)] == [(1, 64, 1, 64)] * 2


def test_shared_and_fragment_buffers_bind_alike() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1) as bx:
            ring = T.alloc_shared((3, 64, 64), "float16")
            for k in T.serial(6):
                T.copy(A, ring[k % 3, 0, 0])

    region = copies(kernel)[0].dst
    assert region.extents == (1, 64, 64)


def test_a_gemm_operand_takes_its_tile_from_the_others() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1) as bx:
            ring = T.alloc_shared((3, 64, 128), "float16")
            b = T.alloc_shared((128, 32), "float16")
            c = T.alloc_fragment((64, 32), "float32")
            T.clear(ring)
            T.clear(b)
            for k in T.serial(3):
                T.gemm(ring[k, 0, 0], b, c, clear_accum=True)

    gemm = next(node for node in walk(kernel.body) if isinstance(node, Gemm))
    assert gemm.a.extents == (1, 64, 128)


def test_a_lone_element_is_one_element() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1) as bx:
            T.fill(A[3, 4], 1)
            T.copy(A[0, 0], A[1, 1])

    assert [node.dst.extents for node in walk(kernel.body) if isinstance(node, (Fill, Copy))] == [(1, 1), (1, 1)]
    assert kernel.decisions == ()


def test_built_by_hand() -> None:
    b = Builder("kernel")
    A = b.tensor("A", (4, 512, 8, 64), "float16")
    with b.kernel(8, 4, names=("bx", "by")) as (bx, by):
        tile = b.alloc("tile", (64, 64), "float16", Scope.SHARED)
        with b.loop(T.Pipelined(8, num_stages=2), "ko") as ko:
            T.copy(A[by, ko * 64, bx, 0], tile)
    kernel = b.finish()
    loop = kernel.body[0]
    assert isinstance(loop, For)
    assert loop.num_stages == 2
    assert copies(kernel)[0].src.extents == (1, 64, 1, 64)
