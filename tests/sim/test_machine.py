"""Control flow, roles, elections and the rules of instructions on the machine."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from tests.sim.machine_kernels import BARRIERS, BLOCK_IDX, TILE, execute, kernel, raises, role, run, value_of
from tilelang.errors import ArgumentError, HazardError, InternalError, Span
from tilelang.ir import device as d
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import THREAD, i32, u32
from tilelang.ir.expr import FLOAT32, INT32, UINT32, UINT64, Binary, Call, Cast, Compare, Const, Var
from tilelang.ir.types import DType, Scope
from tilelang.sim.schedule import SCHEDULES
from tilelang.sim.steps import STEP

FIRST = d.BarrierRef(BARRIERS, i32(0))
INIT = d.Elected(warp=0, body=(d.MbarrierInit(barrier=FIRST), d.FenceMbarrierInit()))
ACC = d.Registers(name="acc", dtype=FLOAT32, shape=(8,))
SUM = Var("sum", INT32)


def declare(var: Var, value: int, mutable: bool = True) -> d.Declare:
    return d.Declare(var=var, value=Const(value, var.dtype), mutable=mutable)


def add(value: object, var: Var = SUM) -> d.Assign:
    return d.Assign(var=var, value=var + value)  # type: ignore[operator]


def test_every_statement_has_a_step() -> None:
    kinds = {kind for kind in vars(d).values() if isinstance(kind, type) and issubclass(kind, d.Stmt) and kind is not d.Stmt}
    assert set(STEP) == kinds


# ---- structure ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [(0, 5, 1), (3, 3, 1), (5, 2, 1), (1, 10, 4), (9, -1, -3)])
def test_for(bounds: tuple[int, int, int]) -> None:
    i = Var("i")
    loop = d.For(var=i, start=i32(bounds[0]), stop=i32(bounds[1]), step=bounds[2], body=(add(i),))
    assert (value_of(SUM, 128, declare(SUM, 0), loop) == sum(range(*bounds))).all()


def test_unroll_and_nesting() -> None:
    i, j = Var("i"), Var("j")
    inner = d.Unroll(var=j, count=3, body=(d.TileOp(text="", body=(add(i * 10 + j),)),))
    expected = sum(i * 10 + j for i, j in itertools.product(range(4), range(3)))
    assert (value_of(SUM, 32, declare(SUM, 0), d.Unroll(var=i, count=4, body=(inner,))) == expected).all()


def test_uniform_if() -> None:
    for condition, expected in ((True, 1), (False, 2)):
        chosen = d.If(condition=Compare("==", i32(1), i32(int(condition))), then=(add(1),), otherwise=(add(2),))
        assert (value_of(SUM, 32, declare(SUM, 0), chosen) == expected).all()


def test_per_thread_if_masks_both_branches() -> None:
    inner = d.If(condition=THREAD < 20, then=(add(1),), otherwise=(add(2),), uniform=False)
    outer = d.If(condition=THREAD < 40, then=(inner,), otherwise=(add(3),), uniform=False)
    expected = [1] * 20 + [2] * 20 + [3] * 24
    assert list(value_of(SUM, 64, declare(SUM, 0), outer)) == expected


def test_claims_of_uniformity_are_checked() -> None:
    i = Var("i")
    for stmt in (
        d.If(condition=THREAD < 5, then=(add(1),)),
        d.For(var=i, start=i32(0), stop=THREAD, body=()),
    ):
        with raises("TL842"):
            execute(role(declare(SUM, 0), stmt))


def test_claims_are_checked_between_strands() -> None:
    """The elected thread is a strand of its own: each strand alone finds the condition uniform, together they do not."""
    elect = d.Elected(warp=0, body=())
    with raises("TL842"):
        execute(role(elect, d.If(condition=THREAD < 1, then=())))
    execute(role(elect, d.If(condition=THREAD < 200, then=())))
    execute(role(elect, d.If(condition=THREAD < 1, then=(), uniform=False)))


@pytest.mark.parametrize(
    "stmt",
    [
        d.SyncThreads(),
        d.NamedBarrierSync(id=1, threads=128),
        d.MbarrierWait(barrier=FIRST, parity=u32(1)),
        d.WgmmaFence(),
        d.WgmmaCommitGroup(),
        d.WgmmaWaitGroup(pending=0),
        d.StoreMatrix(address=d.SharedAddress(TILE), values=(u32(0),) * 4),
        d.SetMaxRegisters(count=24, increase=False),
        d.Elected(warp=0, body=()),
        d.BulkWaitGroupRead(pending=0),
    ],
    ids=lambda stmt: type(stmt).__name__,
)
def test_no_synchronisation_under_a_per_thread_if(stmt: d.Stmt) -> None:
    branch = d.If(condition=THREAD < 5, then=(stmt,), uniform=False)
    with raises("TL843"):
        execute(role(branch), setup=(INIT, d.SyncThreads()))
    if not isinstance(stmt, (d.MbarrierWait, d.BulkWaitGroupRead)):  # which an elected thread may do
        with raises("TL843"):
            execute(role(d.Elected(warp=1, body=(stmt,))), setup=(INIT, d.SyncThreads()))


def test_arrivals_count_active_threads() -> None:
    bar = d.BarrierArray(name="bar", count=1, arrivals=4)
    ref = d.BarrierRef(bar, i32(0))
    lanes = d.If(
        condition=Compare("==", Binary("%", THREAD, i32(32)), i32(0)), then=(d.MbarrierArrive(barrier=ref),), uniform=False
    )
    body = (lanes, d.MbarrierWait(barrier=ref, parity=u32(0)))
    setup = (d.Elected(warp=0, body=(d.MbarrierInit(barrier=ref),)), d.SyncThreads())
    run(dataclasses.replace(kernel(role(*body), setup=setup), barriers=(bar,)), {})


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_ring_advance(stages: int) -> None:
    stage, phase, code = Var("stage"), Var("phase", UINT32), Var("code")
    ring = d.RingAdvance(stage=None if stages == 1 else stage, phase=phase, stages=stages)
    seen = []
    for turns in range(2 * stages + 2):
        body = (declare(stage, 0), declare(phase, 0), d.Unroll(var=Var("i"), count=turns, body=(ring,)))
        body += (d.Declare(var=code, value=stage * 10 + Cast(phase, INT32)),)
        seen.append(int(value_of(code, 32, *body)[0]))
    assert seen == [turns % stages * 10 + turns // stages % 2 for turns in range(2 * stages + 2)]


@pytest.mark.parametrize("stages", range(1, 6))
def test_ring_advance_past_several_slots(stages: int) -> None:
    stage, phase, code = Var("stage"), Var("phase", UINT32), Var("code")
    for slots in range(1, 12):
        for start in range(stages):
            ring = d.RingAdvance(stage=None if stages == 1 else stage, phase=phase, stages=stages, slots=slots)
            body = (declare(stage, start), declare(phase, 0), ring, d.Declare(var=code, value=stage * 10 + Cast(phase, INT32)))
            laps, slot = divmod(start + slots, stages)
            assert int(value_of(code, 32, *body)[0]) == slot * 10 + laps % 2


def test_assigning_what_is_not_mutable() -> None:
    with raises("TL931", InternalError):
        execute(role(declare(SUM, 0, mutable=False), add(1)))


def test_step_limit() -> None:
    i = Var("i")
    loop = d.For(var=i, start=i32(0), stop=i32(1_000_000), body=(add(1),), span=Span("kernel.py", 7))
    with raises("TL802") as caught:
        run(kernel(role(declare(SUM, 0), loop)), {}, step_limit=5000)
    assert caught.value.span == Span("kernel.py", 7)


# ---- roles and elections ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_an_elected_thread_may_wait_for_the_rest_of_its_role(schedule: str) -> None:
    """The rest of the role goes on past the election and arrives, which is what the elected thread waits for."""
    waits = d.Elected(warp=1, body=(d.MbarrierWait(barrier=FIRST, parity=u32(0)),))
    arrives = d.If(condition=Compare("==", THREAD, i32(0)), then=(d.MbarrierArrive(barrier=FIRST),), uniform=False)
    execute(role(waits, arrives, d.NamedBarrierSync(id=3, threads=128)), setup=(INIT, d.SyncThreads()), schedule=schedule)


def test_setup_variables_reach_the_roles() -> None:
    made = Var("made")
    store = d.StoreShared(address=d.SharedAddress(TILE) + Cast(made, UINT32) * 4, values=(Cast(made, UINT32),))
    roles = (role(store, threads=128), role(store, threads=32, first=128, name="other"))
    block = execute(*roles, setup=(d.Declare(var=made, value=THREAD + 1),))
    words = block.shared.read(block.shared.address(TILE) + 4 * np.arange(1, 161), 4, None).view(np.uint32)  # type: ignore[arg-type]
    assert list(words.reshape(-1)) == list(range(1, 161))


def test_sync_threads_needs_every_thread_of_the_block() -> None:
    with raises("TL801") as caught:
        execute(role(d.SyncThreads(span=Span("kernel.py", 9))), role(threads=128, first=128, name="other"))
    assert caught.value.notes == ("worker waits for barrier 0 (128 of 256 threads have arrived) at kernel.py:9",)


def test_setup_sync_includes_threads_without_a_role() -> None:
    run(kernel(role(threads=64, first=64), setup=(d.SyncThreads(),)), {})


def test_named_barriers() -> None:
    meets = d.NamedBarrierSync(id=2, threads=64)
    execute(role(meets, threads=32), role(meets, threads=32, first=32, name="other"))
    with raises("TL851"):
        execute(role(d.NamedBarrierSync(id=0, threads=128)))
    with raises("TL851"):
        execute(role(meets, threads=32), role(d.NamedBarrierSync(id=2, threads=32), threads=32, first=32, name="other"))


def test_unreachable_warp_is_elected() -> None:
    with raises("TL933", InternalError):
        execute(role(d.Elected(warp=4, body=())))


# ---- launch -------------------------------------------------------------------------------------------------------------------


def test_scalars_size_the_grid_and_reach_the_kernel() -> None:
    length = Var("length", INT32)
    limit = d.If(condition=Compare(">=", BLOCK_IDX[0] + 10 * BLOCK_IDX[1], length), then=(d.WgmmaCommitGroup(),))
    made = kernel(role(limit, threads=32), grid=(Binary("//", length, i32(4)), 2), scalars=(length,))
    run(made, {}, scalars={length: 23})
    with raises("TL821"):  # block (2, 1) reaches a wgmma instruction, which 32 threads cannot issue
        run(made, {}, scalars={length: 12})
    with raises("TL512", ArgumentError):
        run(made, {})
    with raises("TL513", ArgumentError):
        run(made, {}, scalars={length: 12}, blocks=[(3, 0, 0)])


def test_unknown_schedule() -> None:
    with raises("TL511", ArgumentError):
        run(kernel(), {}, schedule="random")


# ---- instructions -------------------------------------------------------------------------------------------------------------


def descriptor(swizzle_bytes: int = 128) -> Call:
    low = Call("descriptor_low", (d.SharedAddress(TILE), u32(1024)), UINT32)
    return Call("matrix_descriptor", (low, u32(8 * swizzle_bytes), u32(swizzle_bytes)), UINT64)


def wgmma(accumulate: bool = False, acc: d.Registers = ACC, indices: tuple[Const, ...] = (), n: int = 16) -> d.WgmmaSS:
    return d.WgmmaSS(
        n=n, dtype=DType("float16"), accumulator=d.RegisterSlice(acc, indices), a=descriptor(), b=descriptor(),
        accumulate=i32(int(accumulate)),
    )  # fmt: skip


FILL = d.Unroll(
    var=(at := Var("at")),
    count=16,
    body=(d.StoreShared(address=d.SharedAddress(TILE) + Cast(at * 512 + THREAD * 4, UINT32), values=(u32(0x3C003C00),)),),
)
"""The first 8192 bytes of the tile: ones in float16."""


def multiply(*after: d.Stmt, accumulate: bool = False) -> d.Body:
    return (FILL, d.DeclareRegisters(registers=ACC), d.SyncThreads(), d.WgmmaFence(), wgmma(accumulate), *after)


WAIT = (d.WgmmaCommitGroup(), d.WgmmaWaitGroup(pending=0))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_wgmma_needs_a_wait_before_its_registers_are_touched(schedule: str) -> None:
    read = d.Declare(var=Var("x", FLOAT32), value=d.RegisterLoad(ACC, (i32(3),)))
    write = d.RegisterStore(registers=ACC, indices=(i32(3),), value=Const(0.0, FLOAT32))
    for touch in (read, write, d.DeclareRegisters(registers=ACC)):
        for between in (
            (),
            (d.WgmmaCommitGroup(),),
            (d.WgmmaCommitGroup(), d.WgmmaWaitGroup(pending=1)),
            (d.WgmmaWaitGroup(pending=0),),
        ):
            with raises("TL820"):
                execute(role(*multiply(*between, touch)), schedule=schedule)
        execute(role(*multiply(*WAIT, touch)), schedule=schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_wgmma_accumulates_in_order(schedule: str) -> None:
    block = execute(role(*multiply(wgmma(True), wgmma(True), *WAIT)), schedule=schedule)
    found = block.registers.load(ACC, (i32(3).value,), slice(0, 128), None, (0,), None)
    assert (found == 48).all()


def test_wgmma_of_two_groups() -> None:
    """Waiting for all but one group releases the first accumulator, not the second."""
    acc = d.Registers(name="acc", dtype=FLOAT32, shape=(2, 8))
    groups = [(wgmma(acc=acc, indices=(i32(i),)), d.WgmmaCommitGroup()) for i in range(2)]
    body = (FILL, d.DeclareRegisters(registers=acc), d.SyncThreads(), *groups[0], *groups[1], d.WgmmaWaitGroup(pending=1))
    first, second = (d.Declare(var=Var("x", FLOAT32), value=d.RegisterLoad(acc, (i32(i), i32(0)))) for i in range(2))
    execute(role(*body, first, d.WgmmaWaitGroup(pending=0), second))
    with raises("TL820"):
        execute(role(*body, second))


def test_wgmma_left_at_the_end() -> None:
    for after in ((), (d.WgmmaCommitGroup(),)):
        with raises("TL830"):
            execute(role(*multiply(*after)))


def test_wgmma_into_undefined_registers() -> None:
    with raises("TL814"):
        execute(role(*multiply(*WAIT, accumulate=True)))


def test_wgmma_of_unwritten_operands() -> None:
    with raises("TL810"):
        execute(role(d.DeclareRegisters(registers=ACC), d.WgmmaFence(), wgmma(), *WAIT))


def test_wgmma_needs_an_aligned_warpgroup() -> None:
    for threads, first in ((64, 0), (128, 64), (192, 0)):
        with raises("TL821"):
            execute(role(d.DeclareRegisters(registers=ACC), wgmma(), threads=threads, first=first))


def test_wgmma_operands_are_agreed() -> None:
    low = Call("descriptor_low", (d.SharedAddress(TILE) + Cast(THREAD, UINT32) * 16, u32(16)), UINT32)
    word = Call("matrix_descriptor", (low, u32(1024), u32(128)), UINT64)
    stmt = d.WgmmaSS(
        n=16, dtype=DType("float16"), accumulator=d.RegisterSlice(ACC, ()), a=word, b=descriptor(), accumulate=i32(0)
    )
    with raises("TL842"):
        execute(role(d.DeclareRegisters(registers=ACC), stmt))


def test_wgmma_shapes() -> None:
    for n in (12, 264):
        with raises("TL942", InternalError):
            execute(role(d.DeclareRegisters(registers=ACC), wgmma(n=n)))
    with raises("TL933", InternalError):
        execute(role(d.DeclareRegisters(registers=ACC), wgmma(n=32)))


def test_strands_that_part_ways() -> None:
    """Thread 0, a strand of its own, and the others of its warp reach different instructions: reported, not left to hang."""
    branch = d.If(condition=THREAD < 1, then=(d.WgmmaFence(),), otherwise=(d.WgmmaCommitGroup(),))
    with pytest.raises(HazardError) as caught:
        execute(role(d.Elected(warp=0, body=()), branch))
    assert caught.value.code in ("TL842", "TL821")


def test_set_max_registers() -> None:
    down, up = d.SetMaxRegisters(count=24, increase=False), d.SetMaxRegisters(count=232, increase=True)
    run(kernel(role(up), role(down, first=128, name="producer"), min_blocks=2), {})
    with raises("TL801") as caught:
        run(kernel(role(up), role(first=128, name="producer"), min_blocks=2), {})
    assert "setmaxnreg 232" in caught.value.notes[0]
    with raises("TL850"):
        run(kernel(role(d.SetMaxRegisters(count=25, increase=False))), {})
    with raises("TL821"):
        run(kernel(role(down, threads=64)), {})


# ---- copies -------------------------------------------------------------------------------------------------------------------


X = Buffer("X", (16, 64), DType("float16"), Scope.GLOBAL)
MAP = d.TensorMap(
    name="map_X", tensor=X, dtype=X.dtype, dims=(64, 16), strides_bytes=(128,), box=(64, 16), swizzle_bytes=128
)  # fmt: skip
LOAD = d.TmaLoad(map=MAP, address=d.SharedAddress(TILE), barrier=FIRST, coordinates=(i32(0), i32(0)))
STORE = d.TmaStore(map=MAP, address=d.SharedAddress(TILE), coordinates=(i32(0), i32(0)))
EXPECT = d.MbarrierExpectTx(barrier=FIRST, bytes=2048)


def launch(*body: d.Stmt, schedule: str = "fifo", maps: tuple[d.TensorMap, ...] = (MAP,)) -> np.ndarray:
    array = np.arange(1024).reshape(16, 64).astype(np.float16)
    run(kernel(role(*body), setup=(INIT, d.SyncThreads()), maps=maps), {X: array}, schedule=schedule)
    return array


def one(*body: d.Stmt) -> d.Elected:
    return d.Elected(warp=0, body=body)


ARRIVED = d.MbarrierWait(barrier=FIRST, parity=u32(0))
STORED = (d.BulkCommitGroup(), d.BulkWaitGroupRead(pending=0))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_load_then_store(schedule: str) -> None:
    shifted = d.TmaStore(map=MAP, address=d.SharedAddress(TILE), coordinates=(i32(0), i32(4)))
    array = launch(one(EXPECT, LOAD, ARRIVED, shifted, *STORED), schedule=schedule)
    expected = np.arange(1024).reshape(16, 64).astype(np.float16)
    expected[4:] = expected[:12].copy()
    assert np.array_equal(array, expected)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_copy_that_nothing_waits_for(schedule: str) -> None:
    """It may outlive the block, whether it does so here or not."""
    with raises("TL830"):
        launch(one(EXPECT, LOAD), schedule=schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("after", [(), STORED[:1], STORED[1:], (d.BulkCommitGroup(), d.BulkWaitGroupRead(pending=1))])
def test_stores_that_may_still_read(schedule: str, after: d.Body) -> None:
    with raises("TL830"):
        launch(one(EXPECT, LOAD, ARRIVED, STORE, *after), schedule=schedule)


def test_expected_bytes_that_never_come() -> None:
    with raises("TL830") as caught:
        launch(one(EXPECT))
    assert "2048 bytes outstanding on bar[0]" in str(caught.value)


def test_copies_by_many_threads() -> None:
    for stmt in (LOAD, STORE):
        with raises("TL823"):
            launch(stmt)
        with raises("TL823"):
            launch(d.If(condition=THREAD >= 120, then=(stmt,), uniform=False))


def test_a_copy_by_a_single_thread_of_a_per_thread_if() -> None:
    copy = d.If(condition=Compare("==", THREAD, i32(5)), then=(EXPECT, LOAD), uniform=False)
    store = d.If(condition=Compare("==", THREAD, i32(70)), then=(STORE, d.BulkCommitGroup()), uniform=False)
    launch(copy, ARRIVED, store, d.BulkWaitGroupRead(pending=0))


def test_a_coordinate_is_an_int32() -> None:
    far = d.TmaLoad(map=MAP, address=d.SharedAddress(TILE), barrier=FIRST, coordinates=(i32(0), Const(2**32, DType("int64"))))
    with raises("TL840"):
        launch(one(far))


def test_copies_that_mean_nothing() -> None:
    flat = d.TmaLoad(map=MAP, address=d.SharedAddress(TILE), barrier=FIRST, coordinates=(i32(0),))
    for stmt, maps in ((flat, (MAP,)), (LOAD, ())):
        with raises("TL942", InternalError):
            launch(one(stmt), maps=maps)


def test_barrier_index_out_of_bounds() -> None:
    with raises("TL811"):
        launch(one(d.MbarrierArrive(barrier=d.BarrierRef(BARRIERS, i32(2)))))


def test_double_init() -> None:
    with raises("TL804"):
        launch(one(d.MbarrierInit(barrier=FIRST)))
    with raises("TL804"):
        launch(d.MbarrierInit(barrier=d.BarrierRef(BARRIERS, i32(1))))  # by every thread


# ---- loads, stores, shuffles, loops -------------------------------------------------------------------------------------------


Y = Buffer("Y", (4, 64), FLOAT32, Scope.GLOBAL)
FOUR = d.Registers(name="four", dtype=FLOAT32, shape=(4,))


def on_y(*body: d.Stmt, threads: int = 64, known: bool = True) -> np.ndarray:
    """Y = 0, 1, 2, ... after `body`."""
    array = np.arange(256, dtype=np.float32).reshape(4, 64)
    made = dataclasses.replace(kernel(role(*body, threads=threads)), pointers=(Y,) if known else ())
    run(made, {Y: array})
    return array


def load(offset: object, count: int = 4, predicate: object = None) -> d.Body:
    stmt = d.LoadGlobal(tensor=Y, offset=offset, target=FOUR, first=(i32(0),), count=count, predicate=predicate)  # type: ignore[arg-type]
    return d.DeclareRegisters(registers=FOUR), stmt


def element(index: int) -> d.RegisterLoad:
    return d.RegisterLoad(FOUR, (i32(index),))


def store(offset: object, *values: object, predicate: object = None) -> d.StoreGlobal:
    return d.StoreGlobal(tensor=Y, offset=offset, values=values, predicate=predicate)  # type: ignore[arg-type]


@pytest.mark.parametrize("split", [False, True])
def test_global_loads_and_stores(split: bool) -> None:
    elect = (d.Elected(warp=1, body=()),) if split else ()
    reverse = store(THREAD * 4, *(element(3 - i) for i in range(4)))
    expected = np.arange(256, dtype=np.float32).reshape(64, 4)[:, ::-1]
    assert np.array_equal(on_y(*elect, *load(THREAD * 4), reverse).reshape(64, 4), expected)


def test_predicates_give_zeros_and_keep_memory() -> None:
    few = Compare("<", THREAD, i32(3))
    found = on_y(*load(THREAD * 4, predicate=few), store(THREAD * 4, element(0), predicate=Compare("<", THREAD, i32(5))))
    expected = np.arange(256, dtype=np.float32)
    expected[[12, 16]] = 0  # threads 3 and 4 loaded nothing
    assert np.array_equal(found.reshape(-1), expected)


def test_global_access_hazards() -> None:
    for offset, count, code in ((THREAD * 4 + 4, 4, "TL811"), (THREAD - 1, 1, "TL811"), (THREAD + 2, 4, "TL812")):
        with raises(code):
            on_y(*load(offset, count))
    with raises("TL813"):
        on_y(store(i32(0), Cast(THREAD, FLOAT32)))
    on_y(store(i32(0), Const(1.0, FLOAT32)))  # all threads store the same
    with raises("TL942", InternalError):
        on_y(*load(THREAD * 4), known=False)
    with raises("TL942", InternalError):
        on_y(*load(THREAD * 3, 3))
    with raises("TL510", ArgumentError):
        run(dataclasses.replace(kernel(), pointers=(Y,)), {})
    with raises("TL510", ArgumentError):
        run(dataclasses.replace(kernel(), pointers=(Y,)), {Y: np.zeros((64, 4), np.float32).T})


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8"])
def test_shared_loads(dtype: str) -> None:
    """Vectors of 4 to 16 bytes written, and read back by another thread."""
    kind = DType(dtype)
    per_word = 4 // kind.bytes
    target = d.Registers(name="target", dtype=kind, shape=(2, 4 * per_word), packed=per_word > 1)
    for words in (1, 2, 4):
        count = words * per_word
        values = tuple(Cast(Binary("%", THREAD, i32(8)) * 16 + i, kind) for i in range(count))
        here, there = (d.SharedAddress(TILE) + Cast(who, UINT32) * (4 * words) for who in (THREAD, THREAD ^ 1))
        body = (
            d.StoreShared(address=here, values=values),
            d.DeclareRegisters(registers=target),
            d.SyncThreads(),
            d.LoadShared(address=there, target=target, first=(i32(1), i32(0)), count=count),
        )
        block = execute(role(*body))
        found = [block.registers.load(target, (1, i), slice(0, 128), None, (), None) for i in range(count)]
        assert np.array_equal(np.stack(found).astype(int), [[(t ^ 1) % 8 * 16 + i for t in range(128)] for i in range(count)])


def test_register_words() -> None:
    packed = d.Registers(name="packed", dtype=DType("float16"), shape=(8,), packed=True)
    values = tuple(Cast(Cast(THREAD, FLOAT32) + float(i), DType("float16")) for i in range(2))
    word = d.RegisterStoreWord(registers=packed, indices=(i32(2),), values=values)
    found = value_of(d.RegisterLoad(packed, (i32(3),)), 128, d.DeclareRegisters(registers=packed), word)
    assert np.array_equal(found.astype(int), np.arange(128) + 1)
    for bad in (dataclasses.replace(word, indices=(i32(3),)), dataclasses.replace(word, values=values[:1])):
        with raises("TL933", InternalError):
            execute(role(d.DeclareRegisters(registers=packed), bad))


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("lane_mask", [1, 2, 16, 31])
def test_shuffle(lane_mask: int, split: bool) -> None:
    got = Var("got", INT32)
    elect = (d.Elected(warp=0, body=()),) if split else ()
    found = value_of(got, 64, *elect, d.ShuffleXor(var=got, value=THREAD * 3, lane_mask=lane_mask))
    assert list(found) == [(thread ^ lane_mask) * 3 for thread in range(64)]
    with raises("TL843"):
        shuffle = d.ShuffleXor(var=got, value=THREAD, lane_mask=1)
        execute(role(d.If(condition=THREAD < 5, then=(shuffle,), uniform=False)))
    with raises("TL821"):
        value_of(got, 48, d.ShuffleXor(var=got, value=THREAD, lane_mask=1))


def test_while_break_and_continue() -> None:
    """Odd numbers below 8, counted by a while that skips the even ones and ends with a break."""
    i = Var("i")
    step = (
        add(1, i),
        d.If(condition=Compare("==", Binary("%", i, i32(2)), i32(0)), then=(d.TileOp(text="", body=(d.Continue(),)),)),
        d.If(condition=Compare(">", i, i32(8)), then=(d.Break(),)),
        add(i),
    )
    loop = d.While(condition=Compare("<", i, i32(100)), body=step)
    assert (value_of(SUM, 32, declare(SUM, 0), declare(i, 0), loop) == 1 + 3 + 5 + 7).all()
    with raises("TL802"):
        run(kernel(role(d.While(condition=Compare("==", i32(0), i32(0)), body=()))), {}, step_limit=1000)


def test_break_leaves_only_the_inner_loop() -> None:
    i, j = Var("i"), Var("j")
    inner = d.For(var=j, start=i32(0), stop=i32(9), body=(d.If(condition=Compare("==", j, i), then=(d.Break(),)), add(1)))
    outer = d.For(var=i, start=i32(0), stop=i32(4), body=(inner, add(10)))
    assert (value_of(SUM, 32, declare(SUM, 0), outer) == 0 + 1 + 2 + 3 + 40).all()
    with raises("TL843"):
        execute(
            role(d.For(var=i, start=i32(0), stop=i32(4), body=(d.If(condition=THREAD < 5, then=(d.Break(),), uniform=False),)))
        )
    with raises("TL933", InternalError):
        execute(role(d.For(var=i, start=i32(0), stop=i32(4), body=(d.Elected(warp=0, body=(d.Break(),)),))))


def test_one_lane_of_every_warp() -> None:
    bar = d.BarrierArray(name="bar", count=1, arrivals=4)
    ref = d.BarrierRef(bar, i32(0))
    body = (d.Elected(warp=None, body=(d.MbarrierArrive(barrier=ref), add(1))), d.MbarrierWait(barrier=ref, parity=u32(0)))
    setup = (d.Elected(warp=0, body=(d.MbarrierInit(barrier=ref),)), d.SyncThreads())
    run(dataclasses.replace(kernel(role(declare(SUM, 0), *body), setup=setup), barriers=(bar,)), {})
    assert list(np.flatnonzero(value_of(SUM, 128, declare(SUM, 0), d.Elected(warp=None, body=(add(1),))))) == [0, 32, 64, 96]


# ---- wgmma with A in registers ------------------------------------------------------------------------------------------------


FRAGMENT = d.Registers(name="fragment", dtype=DType("float16"), shape=(8,), packed=True)


def multiply_rs(*after: d.Stmt) -> d.Body:
    """A's element e of thread t is t + 128 * e as float16; B is all ones."""
    fill = tuple(
        d.RegisterStore(registers=FRAGMENT, indices=(i32(e),), value=Cast(Cast(THREAD, FLOAT32) + 128.0 * e, DType("float16")))
        for e in range(8)
    )
    rs = d.WgmmaRS(
        n=16, dtype=DType("float16"), accumulator=d.RegisterSlice(ACC, ()), a=FRAGMENT, a_first=(i32(0),), b=descriptor(),
        accumulate=i32(0),
    )  # fmt: skip
    declared = tuple(d.DeclareRegisters(registers=each) for each in (ACC, FRAGMENT))
    return (FILL, *declared, *fill, d.SyncThreads(), d.WgmmaFence(), rs, *after)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_wgmma_with_a_in_registers(schedule: str) -> None:
    a = np.zeros((64, 16))
    for e, t in itertools.product(range(8), range(128)):
        a[16 * (t // 32) + t % 32 // 4 + 8 * (e // 2 % 2), 8 * (e // 4) + 2 * (t % 4) + e % 2] = t + 128 * e
    registers = execute(role(*multiply_rs(*WAIT)), schedule=schedule).registers
    for r, t in itertools.product(range(8), range(128)):
        row = 16 * (t // 32) + t % 32 // 4 + 8 * (r // 2 % 2)
        assert registers.load(ACC, (r,), t, None, (), None) == a[row].sum()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_registers_of_a_stay_untouched_until_the_wait(schedule: str) -> None:
    touch = d.RegisterStore(registers=FRAGMENT, indices=(i32(5),), value=Const(0.0, DType("float16")))
    with raises("TL820"):
        execute(role(*multiply_rs(d.WgmmaCommitGroup(), touch)), schedule=schedule)
    execute(role(*multiply_rs(*WAIT, touch)), schedule=schedule)
