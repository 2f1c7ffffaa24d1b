"""What the planning passes decide, pass by pass, and that they say so."""
from __future__ import annotations

import itertools

import pytest

from tests.passes import programs
from tests.passes.kernels import gemm_kernel
from tests.passes.maker import Maker, tile
from tests.passes.programs import BX, KO, PROGRAMS
from tests.passes.running import compiled
from tilelang.ir.tile import Copy, Fill, For, Gemm, Kernel
from tilelang.ir.types import LoopKind, WarpPolicy
from tilelang.layout.swizzle import PanelLayout
from tilelang.passes.access import statements
from tilelang.passes.pipeline import Lowered
from tilelang.passes.plans import CopyKind, GemmPlan, RolePlan
from tilelang.target import SM_90A
from tilelang.trace import Decision


def named(lowered: Lowered, name: str) -> object:
    """The buffer of that name."""
    kernel = lowered.kernel
    return next(buffer for buffer in (*kernel.buffers, *kernel.tensors) if buffer.name == name)


def decision(lowered: Lowered, subject: str) -> Decision:
    found = [each for each in lowered.decisions if each.subject == subject]
    assert len(found) == 1, [each.subject for each in lowered.decisions]
    return found[0]


# ---- gemm ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "plan"),
    [
        ({}, GemmPlan(n=128, m_tiles=2, n_tiles=1, k_steps=4, a_mn_major=False, b_mn_major=True)),
        ({"transpose_a": True, "transpose_b": True}, GemmPlan(128, 2, 1, 4, True, False)),
        ({"block_m": 64, "block_n": 256}, GemmPlan(128, 1, 2, 4, False, True)),  # two blocks per SM leave no registers for n=256
        ({"block_m": 64, "block_n": 320, "block_k": 32}, GemmPlan(160, 1, 2, 2, False, True)),
        ({"block_m": 64, "block_n": 272, "block_k": 16}, GemmPlan(16, 1, 17, 1, False, True)),
        ({"block_m": 192, "block_n": 48, "block_k": 48}, GemmPlan(48, 3, 1, 3, False, True)),
        ({"threads": 256}, GemmPlan(128, 1, 1, 4, False, True, warpgroups_m=2)),
        ({"threads": 256, "block_m": 64}, GemmPlan(64, 1, 1, 4, False, True, warpgroups_n=2)),
    ],
    ids=lambda value: ",".join(f"{k}={v}" for k, v in value.items()) or "plain" if isinstance(value, dict) else "",
)  # fmt: skip
def test_tiling(options: dict[str, object], plan: GemmPlan) -> None:
    lowered = compiled(gemm_kernel(1024, 1024, 1024, num_stages=2, **options))  # type: ignore[arg-type]
    assert list(lowered.plans.gemms.values()) == [plan]


def test_a_split_n_says_why() -> None:
    found = decision(compiled(gemm_kernel(1024, 1024, 1024, 64, 320, 32, 2)), "T.gemm into C_local")
    assert [(each.alternative, each.predicate, each.value) for each in found.rejected] == [
        ("n=320", "n <= 256, and its registers fit into what a thread starts with", "320")
    ]


def test_operands_lie_in_panels_of_whole_instructions() -> None:
    lowered = compiled(gemm_kernel(1024, 1024, 1024, 64, 96, 64, 2))
    layouts = lowered.plans.shared_layouts
    assert layouts[named(lowered, "A_shared")] == PanelLayout(64, 64, 2, 128)  # type: ignore[index]
    assert layouts[named(lowered, "B_shared")] == PanelLayout(64, 96, 2, 64), "96 columns are no whole 128-byte panels"  # type: ignore[index]


# ---- copies -------------------------------------------------------------------------------------------------------------------


def kinds(lowered: Lowered) -> list[CopyKind]:
    return [plan.kind for plan in lowered.plans.copies.values()]


def test_copies_of_the_gemm() -> None:
    lowered = compiled(gemm_kernel(1024, 1024, 1024))
    assert kinds(lowered) == [CopyKind.TMA_LOAD, CopyKind.TMA_LOAD, CopyKind.FRAGMENT_TO_GLOBAL]
    a, b, c = (plan.tma for plan in lowered.plans.copies.values())
    assert [plan.map.box for plan in (a, b, c)] == [(64, 128), (64, 64), (64, 128)]  # type: ignore[union-attr]
    assert [len(plan.boxes) for plan in (a, b, c)] == [1, 2, 2]  # type: ignore[union-attr]
    assert b.boxes[1].offset_bytes == 64 * 128  # type: ignore[union-attr]
    assert b.boxes[1].steps == (0, 64)  # type: ignore[union-attr]
    assert (a.bytes, b.bytes, c.bytes) == (16384, 16384, 32768)  # type: ignore[union-attr]


def test_long_tiles_are_cut_into_boxes() -> None:
    lowered = compiled(programs.through_shared(shape=(300, 64), extents=(300, 64)))
    load = next(iter(lowered.plans.copies.values())).tma
    assert load is not None
    assert load.map.box == (64, 150)
    assert [(box.offset_bytes, box.steps) for box in load.boxes] == [(0, (0, 0)), (150 * 128, (150, 0))]


def test_one_tensor_in_equal_boxes_has_one_map() -> None:
    lowered = compiled(programs.one_ring_two_loops())
    assert [m.name for m in lowered.device.tensor_maps] == ["A_desc", "B_desc", "C_desc"]


@pytest.mark.parametrize(
    ("shape", "extents", "dtype", "predicate", "value"),
    [
        ((40, 36), (16, 32), "float16", "row pitches are multiples of 16 bytes", "A has one of 72 bytes"),
        ((40, 40), (16, 4), "float16", "the tile's rows are multiples of 16 bytes", "8 bytes"),
        ((40, 264), (16, 264), "float16", "boxes of at most 256 elements along each dimension", "[16, 264]"),
        ((1, 1, 1, 1, 8, 64), (1, 1, 1, 1, 8, 64), "float16", "at most 5 dimensions", "A has 6"),
    ],
)
def test_what_tma_cannot_take_is_done_by_element(
    shape: tuple[int, ...], extents: tuple[int, ...], dtype: str, predicate: str, value: str
) -> None:
    mk = Maker()
    a, d, a_s = mk.tensor("A", *shape, dtype=dtype), mk.tensor("D", *shape, dtype=dtype), mk.shared("A_s", *extents, dtype=dtype)
    base = (0,) * len(shape)
    lowered = compiled(mk.kernel({BX: 1}, mk.copy(tile(a, base, *extents), a_s), mk.copy(a_s, tile(d, base, *extents))))
    assert kinds(lowered) == [CopyKind.ELEMENTWISE, CopyKind.ELEMENTWISE]
    why, = decision(lowered, "T.copy from A to A_s").rejected
    assert (why.alternative, why.predicate, why.value) == ("TMA", predicate, value)


# ---- pipeline -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_one_ring_of_num_stages(stages: int) -> None:
    lowered = compiled(gemm_kernel(1024, 1024, 1024, num_stages=stages))
    ring, = lowered.plans.channels
    assert (ring.stages, ring.bytes_per_stage) == (stages, 32768)
    assert [buffer.name for buffer in ring.buffers] == ["A_shared", "B_shared"]
    assert [barriers.count for barriers in lowered.device.barriers] == [stages, stages]
    assert [barriers.arrivals for barriers in lowered.device.barriers] == [1, 4], "a load; each warp of a consumer warpgroup"


def rings(kernel: Kernel) -> dict[tuple[str, ...], tuple[int, int]]:
    """(stages, sites) of each ring, by the names of its buffers."""
    channels = compiled(kernel).plans.channels
    return {tuple(buffer.name for buffer in ring.buffers): (ring.stages, len(ring.sites)) for ring in channels}


def test_rings() -> None:
    assert rings(programs.two_loops()) == {("A_s", "B_s"): (2, 1), ("D_s", "E_s"): (3, 1)}
    assert rings(programs.one_ring_two_loops(stages=3)) == {("A_s", "B_s"): (3, 2)}, "the larger of 3 and 1"
    assert rings(programs.two_gemms_one_accumulator(stages=2)) == {("A_s",): (2, 1), ("B_s",): (2, 1), ("D_s",): (2, 1)}
    assert rings(programs.resident_operand(stages=2)) == {("Q_s",): (1, 1), ("K_s",): (2, 1)}
    assert rings(programs.outer_and_inner_loads(stages=3)) == {("A_s",): (2, 1), ("B_s",): (3, 1)}
    assert rings(gemm_kernel(64, 64, 64, 64, 64, 64, 0, kind=LoopKind.SERIAL)) == {("A_shared", "B_shared"): (1, 1)}


def read_again() -> Kernel:
    """A tile that is read once more behind the loop that loads it."""
    mk = Maker()
    a, b, c = mk.tensor("A", 64, 64), mk.tensor("B", 64, 48), mk.tensor("C", 64, 48)
    a_s, b_s, acc = mk.shared("A_s", 64, 32), mk.shared("B_s", 32, 48), mk.fragment("acc", 64, 48)
    loads = mk.copy(tile(a, (0, KO * 32), 64, 32), a_s), mk.copy(tile(b, (KO * 32, 0), 32, 48), b_s)
    loop = mk.loop(KO, 2, *loads, mk.gemm(a_s, b_s, acc), stages=2)
    return mk.kernel({BX: 1}, mk.clear(acc), loop, mk.gemm(a_s, b_s, acc), mk.copy(acc, c))


def test_loads_that_cannot_travel_ahead_stay() -> None:
    lowered = compiled(read_again())
    assert lowered.plans.channels == ()
    for name in ("A_s", "B_s"):
        found = decision(lowered, f"load of {name}")
        assert found.chosen == "where it is written, by the consumers, element by element"
        assert found.rejected[0].predicate == f"every read of {name} stands behind its load, in the same block of statements"
    assert lowered.device.barriers == ()


# ---- schedule -----------------------------------------------------------------------------------------------------------------


def clears(kernel: Kernel) -> list[tuple[bool, str]]:
    """For each zero fill: whether a gemm takes it over, else the predicate that failed."""
    lowered = compiled(kernel)
    found = [each for each in lowered.decisions if each.subject.startswith("zeros for ")]
    taken = {clear.fill.span for clear in lowered.plans.clears}
    assert all((each.span in taken) == (not each.rejected) for each in found)
    return [(not each.rejected, each.rejected[0].value if each.rejected else "") for each in found]


def test_clears() -> None:
    assert clears(gemm_kernel(64, 64, 64, 64, 64, 64)) == [(True, "")]
    assert clears(gemm_kernel(64, 64, 0, 64, 64, 64)) == [(False, "it does not run at all")]
    assert clears(programs.block_dependent_trips()) == [(False, "its trip count is not constant")]
    assert clears(programs.nested()) == [(False, "it is not")]
    assert clears(programs.chained()) == [(True, ""), (True, "")]
    assert clears(programs.persistent()) == [(True, "")]
    assert clears(programs.start_value(3)) == [], "no zeros"


def test_a_clear_is_the_first_gemms_business() -> None:
    lowered = compiled(programs.persistent())
    clear, = lowered.plans.clears
    fill, = (stmt for stmt in statements(lowered.kernel.body) if isinstance(stmt, Fill))
    gemm, = (stmt for stmt in statements(lowered.kernel.body) if isinstance(stmt, Gemm))
    loop = next(stmt for stmt in statements(lowered.kernel.body) if isinstance(stmt, For) and gemm in stmt.body)
    assert (clear.fill, clear.gemm, clear.loop) == (fill, gemm, loop)


# ---- shared memory ------------------------------------------------------------------------------------------------------------


def layout_of(kernel: Kernel) -> dict[str, tuple[int, int, int]]:
    """(offset, stages, bytes of a stage) of each array by name; checks that they are aligned, inside, and apart as they must."""
    lowered = compiled(kernel)
    arrays = lowered.plans.shared.arrays
    for array in arrays.values():
        assert array.offset_bytes % max(128, 8 * array.swizzle_bytes) == 0
        assert array.stages == 1 or array.stage_bytes % max(128, 8 * array.swizzle_bytes) == 0
        assert array.offset_bytes + array.stages * array.stage_bytes <= lowered.plans.shared.bytes
    buffers = sorted((arrays[b] for b in lowered.kernel.buffers if b in arrays), key=lambda array: array.offset_bytes)
    for first, second in itertools.pairwise(buffers):
        assert first.offset_bytes + first.stages * first.stage_bytes <= second.offset_bytes
    return {array.name: (array.offset_bytes, array.stages, array.stage_bytes) for array in arrays.values()}


def test_a_store_tile_lies_on_dead_rings() -> None:
    assert layout_of(gemm_kernel(1024, 1024, 1024)) == {
        "A_shared": (0, 3, 16384), "B_shared": (49152, 3, 16384), "C_tile": (0, 1, 32768),
    }  # fmt: skip
    lowered = compiled(gemm_kernel(1024, 1024, 1024))
    assert lowered.plans.shared.bytes == 98304
    assert decision(lowered, "shared memory for storing C").chosen == "on top of the tiles, which are dead by then"


def test_a_store_tile_in_a_loop_has_its_own_memory() -> None:
    arrays = layout_of(programs.persistent(stages=2))
    assert arrays == {"A_s": (0, 2, 4096), "B_s": (8192, 2, 3072), "C_tile": (14336, 1, 6144)}
    found = decision(compiled(programs.persistent()), "shared memory for storing C")
    assert found.chosen == "in memory of its own, since tiles are used after it"


def test_a_store_tile_larger_than_the_rings() -> None:
    arrays = layout_of(gemm_kernel(256, 256, 64, 128, 128, 16, 1, out_dtype="float32"))
    assert arrays["C_tile"] == (0, 1, 65536)
    assert compiled(gemm_kernel(256, 256, 64, 128, 128, 16, 1, out_dtype="float32")).plans.shared.bytes == 65536


@pytest.mark.parametrize("name", PROGRAMS)
def test_arrays_of_every_program(name: str) -> None:
    program, variations = PROGRAMS[name]
    for options in variations:
        assert layout_of(program(**options))


# ---- barriers -----------------------------------------------------------------------------------------------------------------


def meetings(kernel: Kernel) -> list[tuple[int, bool]]:
    """(line of the statement that consumers meet before, whether a proxy fence comes first), in program order."""
    plans = compiled(kernel).plans
    return [(stmt.span.line, plans.syncs[stmt].fence) for stmt in statements(plans.body) if stmt.span and stmt in plans.syncs]


def test_tensor_core_and_tma_see_what_threads_wrote() -> None:
    """S_s is written by stores (line 16), read by wgmma (18) and written again: a fence before the read, none elsewhere."""
    assert meetings(programs.chained()) == [(16, False), (18, True)]
    assert meetings(programs.two_loops()) == [(20, False)], "the store's tile lies on the rings"
    assert meetings(programs.pipelined_copies()) == [], "TMA to TMA by way of mbarriers"
    through = compiled(gemm_kernel(64, 64, 64, 64, 64, 64, through_shared=True))
    (stmt, sync), = through.plans.syncs.items()
    assert isinstance(stmt, Copy)
    assert (stmt.src.buffer.name, sync.fence) == ("C_shared", True)


# ---- roles --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "roles"),
    [
        ({"block_m": 128, "block_n": 128, "num_stages": 3}, RolePlan(128, 128, 232, 24, 2)),
        ({"block_m": 128, "block_n": 128, "num_stages": 4}, RolePlan(128, 128, 240, 24, 1)),
        ({"block_m": 192, "block_n": 128, "num_stages": 2}, RolePlan(128, 128, 240, 24, 1)),
        ({"block_m": 64, "block_n": 64, "num_stages": 4}, RolePlan(128, 128, 232, 24, 2)),
        ({"block_m": 128, "block_n": 128, "num_stages": 2, "threads": 256}, RolePlan(256, 128, 240, 24, 1)),
        ({"block_m": 128, "block_n": 64, "num_stages": 2, "threads": 256}, RolePlan(256, 128, 104, 24, 2)),
    ],
    ids=lambda value: ",".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else "",
)  # fmt: skip
def test_roles(options: dict[str, object], roles: RolePlan) -> None:
    lowered = compiled(gemm_kernel(1024, 1024, 1024, **options))  # type: ignore[arg-type]
    assert lowered.plans.roles == roles
    fits(lowered)


def fits(lowered: Lowered) -> None:
    """Registers and shared memory of all planned blocks are there, in the units that the hardware gives them out."""
    roles, blocks = lowered.plans.roles, lowered.plans.roles.min_blocks_per_sm
    used = roles.consumer_threads * roles.consumer_registers + roles.producer_threads * roles.producer_registers
    assert used * blocks <= SM_90A.registers_per_sm
    assert roles.consumer_registers % 8 == 0
    assert 24 <= roles.consumer_registers <= 255
    assert (lowered.plans.shared.bytes + SM_90A.shared_reserved_bytes_per_block) * blocks <= SM_90A.shared_bytes_per_sm


def test_one_block_says_what_forbids_two() -> None:
    shared, = decision(compiled(gemm_kernel(1024, 1024, 1024, num_stages=4)), "roles and blocks per SM").rejected
    assert (shared.alternative, shared.predicate) == ("2 blocks per SM", "shared memory of the blocks <= 233472 bytes")
    assert shared.value == str(2 * (131072 + 2048))
    registers, = decision(compiled(gemm_kernel(1024, 1024, 1024, 192, 128, 64, 2)), "roles and blocks per SM").rejected
    assert (registers.predicate, registers.value) == ("registers of a consumer thread <= 232", "about 240")
    assert not decision(compiled(gemm_kernel(1024, 1024, 1024)), "roles and blocks per SM").rejected


def test_no_loads_no_producer() -> None:
    mk = Maker()
    c, acc = mk.tensor("C", 64, 64), mk.fragment("acc", 64, 64)
    lowered = compiled(mk.kernel({BX: 1}, mk.fill(acc, 2), mk.copy(acc, c)))
    assert lowered.plans.roles.producer_threads == 0
    assert [role.name for role in lowered.device.roles] == ["consumer"]
    assert lowered.device.threads == 128


# ---- all of them --------------------------------------------------------------------------------------------------------------


def with_spans() -> list[Kernel]:
    """One of each program; all their statements have places in the source."""
    return [program(**variations[-1]) for program, variations in PROGRAMS.values()]


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=list(PROGRAMS))
def test_every_choice_is_a_decision_with_a_place(number: int) -> None:
    """Each copy, gemm, clear, ring and store tile, and the roles."""
    kernel = with_spans()[number]
    lowered = compiled(kernel)
    assert all(each.span is not None for each in lowered.decisions)
    assert all(each.chosen for each in lowered.decisions)
    assert all(why.predicate and why.value for each in lowered.decisions for why in each.rejected)
    made = {(each.span, each.subject) for each in lowered.decisions}
    wanted = {(kernel.span, "roles and blocks per SM")}
    for stmt in statements(kernel.body):
        if isinstance(stmt, Copy):
            wanted.add((stmt.span, f"T.copy from {stmt.src.buffer.name} to {stmt.dst.buffer.name}"))
            if lowered.plans.copies[stmt].staging:
                wanted.add((stmt.span, f"shared memory for storing {stmt.dst.buffer.name}"))
        if isinstance(stmt, Gemm):
            wanted.add((stmt.span, f"T.gemm into {stmt.c.buffer.name}"))
    for ring in lowered.plans.channels:
        wanted.add((ring.sites[0].copies[0].span, f"loads of {' and '.join(buffer.name for buffer in ring.buffers)}"))
    for clear in lowered.plans.clears:
        wanted.add((clear.fill.span, f"zeros for {clear.fill.dst.buffer.name}"))
    assert wanted <= made
    fits(lowered)


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=list(PROGRAMS))
def test_the_same_program_has_the_same_plans(number: int) -> None:
    first, second = compiled(with_spans()[number]), compiled(with_spans()[number])
    assert first.decisions == second.decisions
    assert first.plans.roles == second.plans.roles
    assert list(first.plans.gemms.values()) == list(second.plans.gemms.values())
    arrays = [[(a.name, a.offset_bytes, a.stages, a.stage_bytes) for a in low.plans.shared.arrays.values()] for low in (first,
        second)]
    assert arrays[0] == arrays[1]
    assert [(m.name, m.box, m.swizzle_bytes) for m in first.device.tensor_maps] == [
        (m.name, m.box, m.swizzle_bytes) for m in second.device.tensor_maps
    ]


def test_planning_changes_nothing() -> None:
    from tilelang.ir.text import render

    kernel = programs.chained()
    before = render(kernel)
    assert compiled(kernel).kernel is kernel
    assert render(kernel) == before


def test_the_policy_is_a_preference() -> None:
    mk = Maker()
    a, b, c = mk.tensor("A", 128, 32), mk.tensor("B", 32, 64), mk.tensor("C", 128, 64)
    a_s, b_s, acc = mk.shared("A_s", 128, 32), mk.shared("B_s", 32, 64), mk.fragment("acc", 128, 64)
    gemm = mk.gemm(a_s, b_s, acc, clear_accum=True, policy=WarpPolicy.FULL_COL)
    lowered = compiled(mk.kernel({BX: 1}, mk.copy(a, a_s), mk.copy(b, b_s), gemm, mk.copy(acc, c), threads=256))
    assert lowered.plans.gemms[gemm] == GemmPlan(32, 2, 1, 2, False, True, warpgroups_m=1, warpgroups_n=2)
