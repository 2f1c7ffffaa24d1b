"""One device kernel, written by hand, that has every statement of device IR in every form it is printed in."""
from __future__ import annotations

from tilelang.errors import Span
from tilelang.ir import device as d
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import THREAD, RegisterLoad, SharedAddress, i32, u32
from tilelang.ir.expr import BOOL, FLOAT32, INT32, UINT32, UINT64, Call, Cast, Const, Expr, Var, binary, compare
from tilelang.ir.types import DType, Scope

F16, F32 = DType("float16"), FLOAT32


def tensor(name: str, *shape: int, dtype: str = "float16") -> Buffer:
    return Buffer(name, shape, DType(dtype), Scope.GLOBAL)


def tensor_map(buffer: Buffer, *box: int, swizzle: int = 128) -> d.TensorMap:
    """A map of a row-major tensor, `box` innermost first."""
    strides, stride = [], buffer.dtype.bytes
    for extent in reversed(buffer.shape[1:]):
        stride *= int(extent)  # type: ignore[arg-type]
        strides.append(stride)
    return d.TensorMap(
        name=f"{buffer.name}_desc", tensor=buffer, dtype=buffer.dtype, dims=tuple(reversed(buffer.shape)),  # type: ignore[arg-type]
        strides_bytes=tuple(strides), box=box, swizzle_bytes=swizzle,
    )  # fmt: skip


A, C = tensor("A", 64, 64), tensor("C", 64, 64)
X, Y, B8 = tensor("X", 1024), tensor("Y", 1024, dtype="float32"), tensor("B8", 64, dtype="int8")
A_MAP, C_MAP = tensor_map(A, 64, 64), tensor_map(C, 64, 64)
TILE = d.SharedArray(name="A_shared", offset_bytes=0, stage_bytes=8192, stages=2, swizzle_bytes=128, text="64 x 64, swizzled")
OTHER = d.SharedArray(name="B_shared", offset_bytes=16384, stage_bytes=8192, stages=1, swizzle_bytes=128)
FULL = d.BarrierArray(name="full", count=2, arrivals=1, text="the slot's bytes have landed")
EMPTY = d.BarrierArray(name="empty", count=2, arrivals=4)
ACC = d.Registers(name="acc", dtype=F32, shape=(1, 32))
PROBABILITIES = d.Registers(name="p", dtype=F16, shape=(32,), packed=True)
VALUES = d.Registers(name="values", dtype=F32, shape=(4,))
HALVES = d.Registers(name="halves", dtype=F16, shape=(8,))
PACKED = d.Registers(name="packed", dtype=F16, shape=(8,), packed=True)
BYTES = d.Registers(name="bytes", dtype=DType("int8"), shape=(4,))
SPAN = Span("kernel.py", 12)


def at(registers: d.Registers, *indices: int) -> RegisterLoad:
    return RegisterLoad(registers, tuple(i32(index) for index in indices))


def descriptor(array: d.SharedArray, step: Expr | None = None) -> Expr:
    low: Expr = Call("descriptor_low", (SharedAddress(array), u32(16)), UINT32)
    return Call("matrix_descriptor", (low if step is None else low + step, u32(1024), u32(128)), UINT64)


def consumer() -> d.Body:
    i, j, k, r, stage, phase, top, mask, left, scalar = (
        Var(name, dtype) for name, dtype in (
            ("i", INT32), ("j", INT32), ("k", INT32), ("r", INT32), ("stage", UINT32), ("phase", UINT32), ("top", F32),
            ("mask", BOOL),
            ("left", INT32), ("scale", F32),
        )
    )  # fmt: skip
    slot = d.BarrierRef(FULL, stage)
    address = SharedAddress(OTHER) + Cast(binary("*", THREAD, 16), UINT32)
    loop = (
        d.MbarrierWait(barrier=slot, parity=phase),
        d.FenceRegisters(registers=ACC),
        d.WgmmaFence(),
        d.Unroll(var=k, count=4, body=(
            d.WgmmaSS(
                n=64, dtype=F16, accumulator=d.RegisterSlice(ACC, (i32(0),)), a=descriptor(TILE, Cast(k * 2, UINT32)),
                b=descriptor(OTHER), accumulate=compare("!=", i, 0), b_mn_major=True,
            ),
        )),
        d.WgmmaRS(
            n=64, dtype=F16, accumulator=d.RegisterSlice(ACC, (i32(0),)), a=PROBABILITIES, a_first=(i32(8),), b=descriptor(OTHER),
            accumulate=Const(True, BOOL), b_mn_major=True,
        ),
        d.WgmmaCommitGroup(),
        d.WgmmaWaitGroup(pending=0),
        d.FenceRegisters(registers=ACC),
        d.Elected(warp=None, body=(d.MbarrierArrive(barrier=d.BarrierRef(EMPTY, stage)),)),
        d.RingAdvance(stage=stage, phase=phase, stages=2),
        d.RingAdvance(stage=stage, phase=phase, stages=3, slots=8),
        d.RingAdvance(stage=stage, phase=phase, stages=3, slots=6),
    )  # fmt: skip
    registers = (ACC, PROBABILITIES, VALUES, HALVES, PACKED, BYTES)
    return (
        d.SetMaxRegisters(count=232, increase=True),
        d.Declare(var=stage, value=u32(0), mutable=True),
        d.Declare(var=phase, value=u32(0), mutable=True, text="of the ring"),
        *(d.DeclareRegisters(registers=each) for each in registers),
        d.Unroll(var=j, count=32, body=(d.RegisterStore(registers=ACC, indices=(i32(0), j), value=Const(0.0, F32)),)),
        d.Unroll(var=j, count=16, body=(
            d.RegisterStoreWord(
                registers=PROBABILITIES, indices=(j * 2,),
                values=tuple(Cast(RegisterLoad(ACC, (i32(0), j * 2 + part)), F16) for part in (0, 1)),
            ),
        )),
        d.For(var=i, start=i32(0), stop=i32(4), body=loop),
        d.For(var=r, start=i32(7), stop=i32(-1), step=-2, body=(
            d.If(condition=compare("==", r, 3), then=(d.Continue(),)),
            d.If(condition=r < 2, then=(d.Break(),), otherwise=(d.Assign(var=stage, value=u32(1)),)),
        )),
        d.Declare(var=left, value=i32(3), mutable=True),
        d.While(condition=left > 0, body=(d.Assign(var=left, value=left - 1),)),
        d.Declare(var=mask, value=THREAD < 100),
        d.TileOp(text="T.copy(X, values)", span=SPAN, body=(
            d.LoadGlobal(tensor=Y, offset=binary("*", THREAD, 4), target=VALUES, first=(i32(0),), count=4, predicate=mask),
            d.LoadGlobal(tensor=X, offset=binary("*", THREAD, 8), target=PACKED, first=(i32(0),), count=8),
            d.LoadGlobal(tensor=X, offset=THREAD, target=HALVES, first=(i32(1),), count=1, predicate=mask),
            d.LoadGlobal(tensor=B8, offset=THREAD, target=BYTES, first=(i32(0),), count=1),
            d.LoadShared(address=address, target=VALUES, first=(i32(2),), count=2),
            d.LoadShared(address=address, target=PACKED, first=(i32(4),), count=4, predicate=mask),
            d.LoadShared(address=address, target=HALVES, first=(i32(2),), count=1),
        )),
        d.ShuffleXor(var=top, value=binary("max", at(VALUES, 0), at(VALUES, 1)), lane_mask=4),
        d.Declare(var=scalar, value=Call("exp2", (top * Const(0.5, F32),), F32)),
        d.NamedBarrierSync(id=1, threads=128),
        d.SyncWarp(),
        d.StoreMatrix(
            address=address,
            values=tuple(
                Call("pack", (Cast(at(ACC, 0, 2 * v), F16), Cast(at(ACC, 0, 2 * v + 1), F16)), UINT32) for v in range(4)
            ),
        ),
        d.StoreShared(address=address, values=(at(VALUES, 0), scalar), predicate=mask),
        d.StoreShared(address=address, values=(Cast(scalar, F16),)),
        d.StoreShared(address=address, values=tuple(Cast(at(VALUES, v), F16) for v in range(4))),
        d.StoreShared(address=address, values=(at(BYTES, 0),)),
        d.StoreGlobal(tensor=Y, offset=binary("*", THREAD, 2), values=(at(VALUES, 0), at(VALUES, 1)), predicate=mask),
        d.StoreGlobal(tensor=X, offset=binary("*", THREAD, 8), values=tuple(at(PACKED, v) for v in range(8))),
        d.StoreGlobal(tensor=X, offset=THREAD, values=(Cast(scalar, F16),)),
        d.StoreGlobal(
            tensor=B8, offset=binary("*", THREAD, 4), values=tuple(at(BYTES, v) for v in range(4)), predicate=THREAD < 16,
        ),
        d.FenceProxyAsync(),
        d.NamedBarrierSync(id=1, threads=128),
        d.Elected(warp=0, body=(
            d.TmaStore(map=C_MAP, address=SharedAddress(OTHER), coordinates=(i32(0), i32(0))),
            d.BulkCommitGroup(),
            d.BulkWaitGroupRead(pending=0),
            d.BulkWaitGroup(pending=0),
        )),
    )  # fmt: skip


def producer() -> d.Body:
    i, stage, phase = Var("i"), Var("stage", UINT32), Var("phase", UINT32)
    full, empty = d.BarrierRef(FULL, stage), d.BarrierRef(EMPTY, stage)
    loop = (
        d.MbarrierWait(barrier=empty, parity=binary("^", phase, u32(1))),
        d.MbarrierExpectTx(barrier=full, bytes=A_MAP.box_bytes),
        d.MbarrierAddTx(barrier=full, bytes=A_MAP.box_bytes),
        d.TmaLoad(map=A_MAP, address=SharedAddress(TILE) + stage * u32(8192), barrier=full, coordinates=(i * 64, i32(0))),
        d.RingAdvance(stage=stage, phase=phase, stages=2),
        d.RingAdvance(stage=None, phase=phase, stages=1),
    )
    return (
        d.SetMaxRegisters(count=24, increase=False),
        d.Elected(warp=0, body=(
            d.Declare(var=stage, value=u32(0), mutable=True), d.Declare(var=phase, value=u32(0), mutable=True),
            d.For(var=i, start=i32(0), stop=i32(4), body=loop),
        )),
    )  # fmt: skip


def every_statement() -> d.DeviceKernel:
    """It compiles; it is not meant to be run."""
    scalar = Var("n")
    inits = tuple(d.MbarrierInit(barrier=d.BarrierRef(array, i32(i))) for array in (FULL, EMPTY) for i in range(2))
    return d.DeviceKernel(
        name="every_statement", arch="sm_90a", title="every statement\nof device IR", grid=(scalar, 2), threads=256,
        min_blocks_per_sm=1,
        tensor_maps=(A_MAP, C_MAP), pointers=(X, Y, B8), scalars=(scalar, Var("threshold", F32)), shared=(TILE, OTHER),
        shared_bytes=24576,
        barriers=(FULL, EMPTY), setup=(d.Elected(warp=0, body=(*inits, d.FenceMbarrierInit())), d.SyncThreads()),
        roles=(
            d.Role(name="consumer", first_thread=0, threads=128, body=consumer(), text="consumers"),
            d.Role(name="producer", first_thread=128, threads=128, body=producer()),
        ),
    )  # fmt: skip
