"""Order between accesses: for each rule a kernel that keeps it and its twin that does not, under every schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tests.sim.machine_kernels import kernel as make_kernel
from tests.sim.machine_kernels import role
from tests.sim.ring_gemm import RingGemm, exact_inputs
from tilelang.errors import HazardError, Span
from tilelang.ir import device as d
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import BLOCK_IDX, THREAD, i32, u32
from tilelang.ir.expr import FLOAT32, INT32, UINT32, UINT64, Binary, Call, Cast, Compare, Const, Expr, Var
from tilelang.ir.types import DType, Scope
from tilelang.sim.machine import run
from tilelang.sim.schedule import SCHEDULES, random_schedules

HALF = DType("float16")
X = Buffer("X", (16, 64), HALF, Scope.GLOBAL)
Y = Buffer("Y", (16, 64), HALF, Scope.GLOBAL)
Z = Buffer("Z", (256,), FLOAT32, Scope.GLOBAL)
TILE = d.SharedArray(name="tile", offset_bytes=0, stage_bytes=8192, stages=2, swizzle_bytes=128)
SEEN = d.Registers(name="seen", dtype=FLOAT32, shape=(4,))
ACC = d.Registers(name="acc", dtype=FLOAT32, shape=(4,))
BAR = d.BarrierArray(name="full", count=2, arrivals=1)
FREE = d.BarrierArray(name="empty", count=2, arrivals=4)


def box(tensor: Buffer) -> d.TensorMap:
    return d.TensorMap(
        name=f"map_{tensor.name}", tensor=tensor, dtype=HALF, dims=(64, 16), strides_bytes=(128,), box=(64, 16), swizzle_bytes=128
    )


MAP_X, MAP_Y = box(X), box(Y)


def at(line: int) -> Span:
    return Span("pair.tl", line)


def ref(array: d.BarrierArray = BAR, index: int = 0) -> d.BarrierRef:
    return d.BarrierRef(array, i32(index))


def one(*body: d.Stmt, warp: int | None = 0) -> d.Elected:
    return d.Elected(warp=warp, body=body)


def wait(array: d.BarrierArray = BAR, parity: int | Expr = 0, index: int = 0) -> d.MbarrierWait:
    return d.MbarrierWait(barrier=ref(array, index), parity=u32(parity) if isinstance(parity, int) else parity, span=at(50))


def arrive(array: d.BarrierArray = BAR, index: int = 0) -> d.MbarrierArrive:
    return d.MbarrierArrive(barrier=ref(array, index), span=at(60))


def expect(index: int = 0) -> d.MbarrierExpectTx:
    return d.MbarrierExpectTx(barrier=ref(index=index), bytes=2048)


def load(index: int = 0, line: int = 10, address: int = 0) -> d.TmaLoad:
    place = d.SharedAddress(TILE) + address if address else d.SharedAddress(TILE)
    return d.TmaLoad(map=MAP_X, address=place, barrier=ref(index=index), coordinates=(i32(0), i32(0)), span=at(line))


STORE = d.TmaStore(map=MAP_Y, address=d.SharedAddress(TILE), coordinates=(i32(0), i32(0)), span=at(11))
STORED = (STORE, d.BulkCommitGroup(), d.BulkWaitGroupRead(pending=0))
FENCE, SYNC, WARP = d.FenceProxyAsync(), d.SyncThreads(), d.SyncWarp()


def write(thread: Expr = THREAD, line: int = 20) -> d.StoreShared:
    """Thread t writes the t-th 16 bytes of the tile."""
    address = d.SharedAddress(TILE) + Cast(thread, UINT32) * 16
    return d.StoreShared(address=address, values=(Const(1.0, FLOAT32),) * 4, span=at(line))


def read(thread: Expr = THREAD & 127, line: int = 30) -> d.LoadShared:
    address = d.SharedAddress(TILE) + Cast(thread, UINT32) * 16
    return d.LoadShared(address=address, target=SEEN, first=(i32(0),), count=4, span=at(line))


def descriptor(row_bytes: int = 128) -> Expr:
    low = Call("descriptor_low", (d.SharedAddress(TILE), u32(16)), UINT32)
    return Call("matrix_descriptor", (low, u32(8 * row_bytes), u32(128)), UINT64)


def wgmma(accumulate: bool = False, n: int = 8, registers: d.Registers = ACC) -> d.WgmmaSS:
    return d.WgmmaSS(
        n=n, dtype="float16", accumulator=d.RegisterSlice(registers, ()), a=descriptor(), b=descriptor(),
        accumulate=Const(accumulate), span=at(40),
    )  # fmt: skip


COMMIT, WAIT_ALL, WFENCE = d.WgmmaCommitGroup(), d.WgmmaWaitGroup(pending=0), d.WgmmaFence()
MULTIPLY = (WFENCE, wgmma(), COMMIT, WAIT_ALL)


def fill(count: int = 4) -> d.Body:
    """All of the operands' 8192 bytes, by 128 threads."""
    return tuple(write(THREAD + 128 * i) for i in range(count))


def when(condition: Expr, *body: d.Stmt) -> d.If:
    return d.If(condition=condition, then=body, uniform=False)


def block(
    *bodies: d.Body, barriers: Sequence[d.BarrierArray] = (BAR, FREE), init: d.Body | None = None, grid: int = 1,
    pointers: tuple[Buffer, ...] = (Z,),
) -> d.DeviceKernel:  # fmt: skip
    """One role of 128 threads for each body, behind a setup that initialises the barriers."""
    inits = tuple(d.MbarrierInit(barrier=ref(array, i)) for array in barriers for i in range(array.count))
    setup = (one(*inits, d.FenceMbarrierInit()), SYNC) if init is None else init
    declare = (d.DeclareRegisters(registers=SEEN), d.DeclareRegisters(registers=ACC))
    roles = [role(*declare, *body, first=128 * i, name=f"role{i}") for i, body in enumerate(bodies)]
    made = make_kernel(*roles, setup=setup, maps=(MAP_X, MAP_Y), grid=(grid,))
    return dataclasses.replace(made, barriers=tuple(barriers), shared=(TILE,), shared_bytes=16384, pointers=pointers)


def launch(kernel: d.DeviceKernel, schedule: str = "fifo", **options: object) -> None:
    x = (np.arange(1024) % 7).reshape(16, 64).astype(HALF.numpy)
    arrays = {X: x, Y: x.copy(), Z: np.zeros(256, np.float32)}
    run(kernel, arrays, schedule=schedule, step_limit=20_000, **options)  # type: ignore[arg-type]


# ---- pairs --------------------------------------------------------------------------------------------------------------------

PAIRS: dict[str, tuple[str, Callable[[bool], d.DeviceKernel]]] = {}


def pair(code: str) -> Callable[[Callable[[bool], d.DeviceKernel]], Callable[[bool], d.DeviceKernel]]:
    """Registers a kernel that is clean, or with its argument true breaks one rule."""

    def register(build: Callable[[bool], d.DeviceKernel]) -> Callable[[bool], d.DeviceKernel]:
        PAIRS[build.__name__] = (code, build)
        return build

    return register


def unless(fault: bool, *body: d.Stmt) -> d.Body:
    return () if fault else body


@pair("TL816")
def stores_then_tma_store(fault: bool) -> d.DeviceKernel:
    return block((write(), *unless(fault, FENCE), SYNC, one(*STORED)))


@pair("TL815")
def stores_then_tma_store_without_barrier(fault: bool) -> d.DeviceKernel:
    return block((write(), FENCE, *unless(fault, SYNC), one(*STORED)))


@pair("TL816")
def stores_then_wgmma(fault: bool) -> d.DeviceKernel:
    return block((*fill(), *unless(fault, FENCE), SYNC, *MULTIPLY))


@pair("TL815")
def stores_of_other_warps_then_wgmma(fault: bool) -> d.DeviceKernel:
    """B is read by every warp, so that a warp's own fence does not do."""
    return block((*fill(), FENCE, *unless(fault, SYNC), *MULTIPLY))


@pair("TL816")
def a_fence_covers_what_its_thread_has_seen(fault: bool) -> d.DeviceKernel:
    """The reader may fence for the writer, but only after the wait that tells it of the writes."""
    many = d.BarrierArray(name="ready", count=1, arrivals=128)
    after = (FENCE, wait(many)) if fault else (wait(many), FENCE)
    return block((write(), arrive(many)), (one(*after, *STORED),), barriers=(many,))


@pair("TL815")
def tma_load_then_read(fault: bool) -> d.DeviceKernel:
    """No fence is needed after the wait."""
    rest = (wait(),) if not fault else ()
    return block((one(expect(), load()), *rest, read()), (wait(),))


@pair("TL815")
def tma_load_then_wgmma(fault: bool) -> d.DeviceKernel:
    loads = tuple(load(address=2048 * i) for i in range(4))
    expected = d.MbarrierExpectTx(barrier=ref(), bytes=8192)
    return block((one(expected, *loads), *unless(fault, wait()), *MULTIPLY), (wait(),))


@pair("TL815")
def tma_load_then_tma_store(fault: bool) -> d.DeviceKernel:
    return block((one(expect(), load(), *unless(fault, wait()), *STORED),), (wait(),))


@pair("TL815")
def reads_then_tma_load(fault: bool) -> d.DeviceKernel:
    """A slot filled again: whoever read it must have said so."""
    readers = (wait(), read(), WARP, *unless(fault, one(arrive(FREE), warp=None)), wait(index=1))
    again = (wait(FREE), expect(1), load(1, line=12)) if not fault else (expect(1), load(1, line=12))
    return block((one(expect(), load(), *again),), readers)


@pair("TL815")
def reads_of_other_lanes_then_arrival(fault: bool) -> d.DeviceKernel:
    """Lane 0 arrives for its warp: the other lanes' reads must be over."""
    readers = (wait(), read(), *unless(fault, WARP), one(arrive(FREE), warp=None), wait(index=1))
    return block((one(expect(), load(), wait(FREE), expect(1), load(1, line=12)),), readers)


@pair("TL815")
def wgmma_then_tma_load(fault: bool) -> d.DeviceKernel:
    """The slot is free after wgmma.wait_group, not after wgmma was issued."""
    loads = tuple(load(address=2048 * i) for i in range(4))
    expected = d.MbarrierExpectTx(barrier=ref(), bytes=8192)
    free = one(arrive(FREE), warp=None)
    last = (free, WAIT_ALL) if fault else (WAIT_ALL, free)
    consumer = (wait(), WFENCE, wgmma(), COMMIT, *last, wait(index=1))
    return block((one(expected, *loads, wait(FREE), expect(1), load(1, line=12)),), consumer)


@pair("TL815")
def tma_store_then_stores(fault: bool) -> d.DeviceKernel:
    """The source of a store is overwritten: after it was read, and the writers know."""
    store = (STORE, d.BulkCommitGroup()) if fault else STORED
    end = (one(d.BulkWaitGroupRead(pending=0)),) if fault else ()
    return block((write(), FENCE, SYNC, one(*store), SYNC, write(line=21), *end))


@pair("TL815")
def tma_store_then_stores_of_others(fault: bool) -> d.DeviceKernel:
    return block((write(), FENCE, SYNC, one(*STORED), *unless(fault, SYNC), write(line=21)))


@pair("TL815")
def threads_of_two_warps(fault: bool) -> d.DeviceKernel:
    """Two warps of one role march together here; on the hardware they need not."""
    return block((write(), *unless(fault, SYNC), read(127 - THREAD)))


@pair("TL815")
def lanes_of_a_warp(fault: bool) -> d.DeviceKernel:
    return block((write(), *unless(fault, WARP), read(THREAD ^ 1)))


@pair("TL815")
def reads_then_stores(fault: bool) -> d.DeviceKernel:
    return block((write(), SYNC, read(127 - THREAD), *unless(fault, SYNC), write(line=21)))


@pair("TL815")
def a_named_barrier_of_half_the_threads(fault: bool) -> d.DeviceKernel:
    """Each half of the role meets at a barrier of its own; what the other half wrote is not ordered by it."""
    half = Var("half", INT32)
    other = THREAD ^ 32 if not fault else THREAD ^ 64
    meet = d.If(
        condition=Compare("==", half, i32(0)), then=(d.NamedBarrierSync(id=1, threads=64),),
        otherwise=(d.NamedBarrierSync(id=2, threads=64),),
    )  # fmt: skip
    first, second = (role(d.DeclareRegisters(registers=SEEN), d.Declare(var=half, value=i32(h)), write(), meet, read(other),
                          threads=64, first=64 * h, name=f"half{h}") for h in (0, 1))  # fmt: skip
    made = make_kernel(first, second)
    return dataclasses.replace(made, shared=(TILE,), shared_bytes=16384, barriers=())


@pair("TL831")
def initialisation_seen_by_threads(fault: bool) -> d.DeviceKernel:
    start = (one(*(d.MbarrierInit(barrier=ref(index=i)) for i in (0, 1)), d.FenceMbarrierInit()), *unless(fault, SYNC))
    return block((one(arrive(), warp=0),), (wait(),), barriers=(BAR,), init=start)


@pair("TL831")
def initialisation_seen_by_tma(fault: bool) -> d.DeviceKernel:
    start = (one(d.MbarrierInit(barrier=ref()), *unless(fault, d.FenceMbarrierInit())), SYNC)
    return block((one(expect(), load()), wait()), barriers=(BAR,), init=start)


@pair("TL809")
def arrivals_of_one_phase(fault: bool) -> d.DeviceKernel:
    """Two lanes may not arrive where a phase takes one."""
    lanes = Compare("<", THREAD, i32(2 if fault else 1))
    return block((when(lanes, arrive()), wait()), barriers=(BAR,))


@pair("TL809")
def an_arrival_knows_its_phase(fault: bool) -> d.DeviceKernel:
    """Two arrivals make a phase, and the first thread comes twice: whether its second arrival is for the next phase depends on
    the other thread, unless it waits."""
    two = d.BarrierArray(name="two", count=1, arrivals=2)
    first = (one(arrive(two), *unless(fault, wait(two)), arrive(two)),)
    return block(first, (one(arrive(two), wait(two), arrive(two)),), barriers=(two,))


@pair("TL808")
def a_wait_is_not_overtaken(fault: bool) -> d.DeviceKernel:
    """Phase 1 completes only after the wait for phase 0, or that wait may find parity 1 again and hang."""
    waiter = (one(wait(), *unless(fault, arrive(index=1))),)
    return block((one(arrive(), *unless(fault, wait(index=1)), arrive()),), waiter, barriers=(BAR,))


@pair("TL824")
def a_fence_before_the_first_wgmma(fault: bool) -> d.DeviceKernel:
    return block((*fill(), FENCE, SYNC, *unless(fault, WFENCE), wgmma(), COMMIT, WAIT_ALL))


@pair("TL824")
def a_fence_after_the_accumulator_was_touched(fault: bool) -> d.DeviceKernel:
    touch = d.RegisterStore(registers=ACC, indices=(i32(1),), value=Const(0.0, FLOAT32), span=at(41))
    return block((*fill(), FENCE, SYNC, *MULTIPLY, touch, *unless(fault, WFENCE), wgmma(True), COMMIT, WAIT_ALL))


@pair("TL820")
def the_accumulator_is_left_alone(fault: bool) -> d.DeviceKernel:
    touch = d.RegisterStore(registers=ACC, indices=(i32(1),), value=Const(0.0, FLOAT32))
    last = (touch, WAIT_ALL) if fault else (WAIT_ALL, touch)
    return block((*fill(), FENCE, SYNC, WFENCE, wgmma(), COMMIT, *last))


def store_global(index: Expr) -> d.StoreGlobal:
    return d.StoreGlobal(tensor=Z, offset=index, values=(Const(2.0, FLOAT32),), span=at(70))


def load_global(index: Expr) -> d.LoadGlobal:
    return d.LoadGlobal(tensor=Z, offset=index, target=SEEN, first=(i32(0),), count=1, span=at(71))


@pair("TL817")
def global_memory_within_a_block(fault: bool) -> d.DeviceKernel:
    return block((store_global(THREAD), *unless(fault, SYNC), load_global(127 - THREAD)))


@pair("TL817")
def global_memory_between_blocks(fault: bool) -> d.DeviceKernel:
    return block((store_global(THREAD + BLOCK_IDX[0] * (64 if fault else 128)),), grid=2)


@pair("TL817")
def global_memory_read_by_another_block(fault: bool) -> d.DeviceKernel:
    base = BLOCK_IDX[0] * 128
    other = (BLOCK_IDX[0] ^ 1) * 128
    return block((store_global(THREAD + base), SYNC, load_global(THREAD + (other if fault else base))), grid=2)


@pair("TL817")
def a_tma_store_read_back(fault: bool) -> d.DeviceKernel:
    """wait_group.read says that the source was read, not that the result was written."""
    back = dataclasses.replace(load_global(THREAD), tensor=Y)
    half = d.Registers(name="half", dtype=HALF, shape=(1,))
    back = dataclasses.replace(back, target=half)
    body = (d.DeclareRegisters(registers=half), write(), FENCE, SYNC, one(*STORED), SYNC, *((back,) if fault else ()))
    return block(body, pointers=(Y, Z))


@pair("TL830")
def a_transfer_is_waited_for(fault: bool) -> d.DeviceKernel:
    return block((one(expect(), load()), *unless(fault, wait())))


@pytest.mark.parametrize("schedule", [*SCHEDULES, *random_schedules(3)])
@pytest.mark.parametrize("name", PAIRS)
def test_pair(name: str, schedule: str) -> None:
    code, build = PAIRS[name]
    launch(build(False), schedule)
    with pytest.raises(HazardError) as caught:
        launch(build(True), schedule)
    # A barrier that is used too early may not even be initialised by then.
    assert caught.value.code in ((code, "TL803") if code == "TL831" else (code,)), str(caught.value)


def test_every_rule_of_order_has_a_pair() -> None:
    rules = {"TL808", "TL809", "TL815", "TL816", "TL817", "TL820", "TL824", "TL830", "TL831"}
    assert {code for code, _ in PAIRS.values()} == rules


def test_hazards_can_be_left_out() -> None:
    launch(stores_then_tma_store(True), hazards=False)


# ---- what reports say ---------------------------------------------------------------------------------------------------------


def report(kernel: d.DeviceKernel) -> HazardError:
    with pytest.raises(HazardError) as caught:
        launch(kernel)
    return caught.value


def test_a_missing_fence_is_named() -> None:
    error = report(stores_then_tma_store(True))
    assert "fence.proxy.async is missing between st.shared and the TMA store of Y" in error.message
    assert "tile[stage 0] + 0 bytes" in error.message
    assert error.span == at(11)
    assert any("pair.tl:20" in note for note in error.notes)
    assert any("pair.tl:11" in note for note in error.notes)
    assert "fence.proxy.async" in error.hint


def test_a_missing_wait_names_the_barrier() -> None:
    error = report(tma_load_then_read(True))
    assert "no wait for mbarrier full[0] (phase 0, parity 0) stands between the TMA load of X and ld.shared" in error.message
    assert "full[0]" in error.hint


def test_a_missing_barrier_names_both_warps() -> None:
    """Thread 0, which marches on its own, happens to come first."""
    error = report(threads_of_two_warps(True))
    assert "no barrier stands between ld.shared and st.shared" in error.message
    assert error.notes[0].startswith("first: ld.shared by role0 thread 0 at pair.tl:30")
    assert error.notes[1].startswith("then: st.shared by role0 warp 3 (thread 127) at pair.tl:20")


def test_lanes_of_one_warp_need_syncwarp() -> None:
    assert "no __syncwarp stands between ld.shared and st.shared, by lanes of one warp" in report(lanes_of_a_warp(True)).message


def test_an_early_release_names_the_wait_group() -> None:
    assert "no wgmma.wait_group that covers the wgmma" in report(wgmma_then_tma_load(True)).message


def test_a_source_that_is_overwritten_names_the_bulk_wait() -> None:
    assert "no cp.async.bulk.wait_group.read that covers the TMA store of Y" in report(tma_store_then_stores(True)).message
    with pytest.raises(HazardError) as caught:
        launch(tma_store_then_stores_of_others(True), "random:4")
    assert "was waited for, but no barrier lets role0 know" in caught.value.message


def test_stage_iteration_and_barrier_of_a_ring() -> None:
    """A slot handed back before its wgmma is over, found when the producer fills it again."""
    spec = RingGemm(64, 64, 7 * 64, stages=3, fault="early_release")
    a, b, _ = exact_inputs(64, 64, 7 * 64)
    with pytest.raises(HazardError) as caught:
        spec.run(a, b)
    error = caught.value
    assert error.code == "TL815"
    assert "_shared[stage 0]" in error.message
    first, then, waited = error.notes
    assert "iteration kt = 0" in first
    assert "ring_gemm.tl:31" in first
    assert "completing on full[0] (phase 1, parity 1), iteration kt = 3" in then
    assert waited == "before it producer thread 128 last waited for empty[0] (phase 0)"


RING_FAULTS = {
    "no_empty_wait": {"TL805", "TL809", "TL815"}, "no_full_wait": {"TL815"}, "full_parity": {"TL808", "TL815"},
    "early_release": {"TL815"}, "no_epilogue_barrier": {"TL815"}, "no_wgmma_wait": {"TL815", "TL820"},
    "lax_wgmma_wait": {"TL815", "TL820"}, "no_commit": {"TL815", "TL820"},
}  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("fault", RING_FAULTS)
def test_a_fault_is_found_under_every_schedule(fault: str, schedule: str) -> None:
    spec = RingGemm(64, 64, 7 * 64, stages=3, fault=fault)
    a, b, _ = exact_inputs(64, 64, 7 * 64)
    with pytest.raises(HazardError) as caught:
        spec.run(a, b, schedule)
    assert caught.value.code in RING_FAULTS[fault]


def test_ordinary_reads_before_a_load_need_no_fence_unless_asked() -> None:
    """The mbarrier between them is common practice; `strict_war` asks for the fence that a strict reading would have."""
    launch(reads_then_tma_load(False))
    with pytest.raises(HazardError) as caught:
        launch(reads_then_tma_load(False), strict_war=True)
    assert caught.value.code == "TL815"


def test_each_warp_reads_its_own_rows_of_a() -> None:
    """A warp that wrote the 16 rows of A which it reads needs no barrier with the other warps, only the fence and its own
    lanes."""
    row = Binary(">>", THREAD, i32(1))
    tile_b = d.SharedAddress(TILE) + u32(8192)
    a_chunk = d.SharedAddress(TILE) + Cast(row, UINT32) * 128
    column = Cast((THREAD & 1) ^ (row & 7), UINT32) * 16
    write_a = d.StoreShared(address=a_chunk + column, values=(Const(1.0, FLOAT32),) * 4, span=at(20))
    write_b = d.StoreShared(address=tile_b + Cast(THREAD, UINT32) * 16, values=(Const(1.0, FLOAT32),) * 4, span=at(21))
    low = Call("descriptor_low", (tile_b, u32(16)), UINT32)
    b = Call("matrix_descriptor", (low, u32(1024), u32(128)), UINT64)
    multiply = dataclasses.replace(wgmma(), b=b)
    group = (WFENCE, multiply, COMMIT, WAIT_ALL)
    launch(block((write_b, FENCE, SYNC, write_a, FENCE, WARP, *group)))
    with pytest.raises(HazardError):
        launch(block((write_b, FENCE, SYNC, write_a, FENCE, *group)))
