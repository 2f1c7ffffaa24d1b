"""Device IR: what each warp role of one block does, one node for one instruction or one line of CUDA.

The CUDA printer (`codegen/`) and the simulated machine (`sim/`) both read this and nothing else, so what the machine says about
a kernel is about the kernel that ships.

Values are the expressions of `ir/expr.py`, evaluated by every thread (a 32-bit value wraps; the machine reports it), plus the
leaves below.  A local variable is a `Var` brought in by `Declare`, `For` or `Unroll`.  Shared-memory addresses are uint32 byte
addresses in the shared window.  Pure helper calls (`expr.Call`) of device code:

    pack(lo, hi)                         uint32: two 16-bit values of `Call.args[0].dtype` side by side, lo in bits 0-15; the
                                         arguments are Casts to that dtype
    descriptor_low(address, lbo)         uint32: bits 0-31 of a wgmma matrix descriptor: (lbo >> 4) << 16 |
                                         (address & 0x3FFFF) >> 4
    matrix_descriptor(low, sbo, swizzle) uint64: low, plus the stride byte offset (sbo >> 4) in bits 32-45 and the layout type
                                         (1, 2, 3 for swizzle 128, 64, 32 bytes; 0 none) in bits 62-63.  `low` may have been
                                         advanced by adding bytes >> 4.  (PTX ISA, "Matrix descriptor format" of wgmma.)

A value of a 16- or 8-bit float type is a float32 that is exactly such a value: an operation on it computes in float32 and rounds
to its dtype, and loads and stores convert the bits.

Statements carry the span of the tile op they come from.  `TileOp` groups them and is printed as a comment.
"""
from __future__ import annotations

from dataclasses import dataclass

from tilelang.errors import Span
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import INT32, UINT32, Const, Expr, Var
from tilelang.ir.types import DType

THREAD = Var("threadIdx.x")
BLOCK_IDX = (Var("blockIdx.x"), Var("blockIdx.y"), Var("blockIdx.z"))


# ---- declarations -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TensorMap:
    """One CUtensorMap parameter: every field of cuTensorMapEncodeTiled except the address, which is `tensor`'s.

    Dimensions are innermost first: `dims` and `box` in elements, `strides_bytes` without the innermost (one entry fewer than
    `dims`).  `swizzle_bytes` is 0, 32, 64 or 128; elements outside the tensor read as zero and are not written."""

    name: str
    tensor: Buffer
    dtype: DType
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle_bytes: int
    l2_promotion_bytes: int = 256

    @property
    def box_bytes(self) -> int:
        """Bytes of one whole box, which is what a transfer counts, parts out of bounds included."""
        size = self.dtype.bytes
        for extent in self.box:
            size *= extent
        return size


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SharedArray:
    """A buffer of dynamic shared memory: `stages` slots of `stage_bytes` from `offset_bytes`; `text` says the layout to a
    reader."""

    name: str
    offset_bytes: int
    stage_bytes: int
    stages: int
    swizzle_bytes: int
    text: str = ""
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BarrierArray:
    """`count` mbarriers, each completing a phase after `arrivals` arrivals (or its own number of `each`) and all expected
    bytes."""

    name: str
    count: int
    arrivals: int
    text: str = ""
    each: tuple[int, ...] = ()

    def arrivals_of(self, index: int) -> int:
        """Arrivals that the barrier at `index` expects."""
        return self.each[index] if self.each else self.arrivals


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Registers:
    """An array of every thread of a role, in registers: indices are constants once `Unroll` is unrolled.

    `packed` (8- and 16-bit types, the last extent whole registers): 4 or 2 neighbours share a 32-bit register, and are stored
    together by `RegisterStoreWord`.  Otherwise every element has a register of its own."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    packed: bool = False


# ---- leaves of expressions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SharedAddress(Expr):
    """The first byte address of a shared array (the dynamic shared window is 1024-byte aligned)."""

    array: SharedArray
    dtype: DType = UINT32


@dataclass(frozen=True, slots=True)
class RegisterLoad(Expr):
    """One element of a register array, with all its indices."""

    registers: Registers
    indices: tuple[Expr, ...]

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return self.registers.dtype


@dataclass(frozen=True, slots=True)
class BarrierRef:
    """One mbarrier of an array."""

    array: BarrierArray
    index: Expr


@dataclass(frozen=True, slots=True)
class RegisterSlice:
    """A row of a register array: its leading indices; the last dimension is taken whole."""

    registers: Registers
    indices: tuple[Expr, ...]


# ---- structure ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Stmt:
    span: Span | None = None


Body = tuple[Stmt, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TileOp(Stmt):
    """The statements one tile op became, printed below a comment with `text` and its source line."""

    text: str
    body: Body


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Declare(Stmt):
    """A new local variable; `mutable` ones may be the target of `Assign` and `RingAdvance`."""

    var: Var
    value: Expr
    mutable: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Assign(Stmt):
    var: Var
    value: Expr


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DeclareRegisters(Stmt):
    """A register array, contents undefined."""

    registers: Registers


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RegisterStore(Stmt):
    registers: Registers
    indices: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RegisterStoreWord(Stmt):
    """The neighbouring elements of one register of a packed array: from `indices` on (the last one a multiple of their
    number)."""

    registers: Registers
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class For(Stmt):
    """A run-time loop, never unrolled by the compiler; all threads of the role agree on its bounds.  `step` is a constant."""

    var: Var
    start: Expr
    stop: Expr
    body: Body
    step: int = 1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Unroll(Stmt):
    """`body` for var = 0 .. count-1, unrolled."""

    var: Var
    count: int
    body: Body


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class If(Stmt):
    """`uniform` claims that all threads of the role agree; without it the body holds no synchronisation."""

    condition: Expr
    then: Body
    otherwise: Body = ()
    uniform: bool = True


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class While(Stmt):
    """`body` while the condition holds, of which all threads of the role agree."""

    condition: Expr
    body: Body


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Break(Stmt):
    """Leaves the innermost For or While, by all threads of the role together."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Continue(Stmt):
    """Starts the next turn of the innermost For or While, by all threads of the role together."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Elected(Stmt):
    """`body` is done by one thread: lane 0 of warp `warp` (counted within the role).  It may wait and issue; the other threads of
    the role go on to what follows.  `warp` None: by lane 0 of every warp of the role, and then the body does not wait."""

    warp: int | None
    body: Body


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RingAdvance(Stmt):
    """To the next slot of a ring: stage + 1, and at `stages` back to 0 with the phase flipped.  `stage` None: one slot only.
    `slots`: so many times, past slots that others use."""

    stage: Var | None
    phase: Var
    stages: int
    slots: int = 1


# ---- instructions: barriers ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MbarrierInit(Stmt):
    """mbarrier.init: `barrier` expects its array's `arrivals`."""

    barrier: BarrierRef


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FenceMbarrierInit(Stmt):
    """fence.mbarrier_init.release.cluster: makes the inits visible to the async proxy."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MbarrierExpectTx(Stmt):
    """mbarrier.arrive.expect_tx: one arrival, and `bytes` more to come in this phase."""

    barrier: BarrierRef
    bytes: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MbarrierAddTx(Stmt):
    """mbarrier.expect_tx: `bytes` more to come in this phase, without an arrival."""

    barrier: BarrierRef
    bytes: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MbarrierArrive(Stmt):
    """mbarrier.arrive, by every active thread."""

    barrier: BarrierRef


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MbarrierWait(Stmt):
    """mbarrier.try_wait.parity in a loop: until the phase of parity `parity` (uint32 0 or 1) has completed."""

    barrier: BarrierRef
    parity: Expr


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SyncThreads(Stmt):
    """bar.sync 0: the whole block."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SyncWarp(Stmt):
    """bar.warp.sync: the threads of each warp meet, and what they did before is done for all of them."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NamedBarrierSync(Stmt):
    """bar.sync id, threads: `threads` (a multiple of 32) threads of the block meet; `id` is 1 to 15."""

    id: int
    threads: int


# ---- instructions: data movement ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TmaLoad(Stmt):
    """cp.async.bulk.tensor global -> shared: one box at `coordinates` (innermost first, elements) to `address`, completing
    `map.box_bytes` on `barrier`."""

    map: TensorMap
    address: Expr
    barrier: BarrierRef
    coordinates: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TmaStore(Stmt):
    """cp.async.bulk.tensor shared -> global, into the thread's current bulk group."""

    map: TensorMap
    address: Expr
    coordinates: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BulkCommitGroup(Stmt):
    """cp.async.bulk.commit_group."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BulkWaitGroupRead(Stmt):
    """cp.async.bulk.wait_group.read: until at most `pending` groups may still read shared memory."""

    pending: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BulkWaitGroup(Stmt):
    """cp.async.bulk.wait_group: until at most `pending` groups are not complete, their writes to global memory included."""

    pending: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StoreMatrix(Stmt):
    """stmatrix.sync.aligned.m8n8.x4.shared.b16: lane i gives the row address of row i % 8 of matrix i // 8; `values` are the four
    uint32 registers of each thread (two 16-bit elements: row lane // 4, columns 2 * (lane % 4) and + 1 of matrix r)."""

    address: Expr
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LoadGlobal(Stmt):
    """ld.global: `count` neighbouring elements of `tensor` from element `offset` (row-major, int32 or int64) on, into `target`'s
    elements from `first` on; by every active thread for which `predicate` holds, and zeros in the others.  `count` is 1, or the
    elements of 4, 8 or 16 bytes, and the access is aligned to its size; a narrow type's target is packed unless `count` is 1.
    `constant`: nothing writes the tensor while the kernel runs, so the load may be moved and merged."""

    tensor: Buffer
    offset: Expr
    target: Registers
    first: tuple[Expr, ...]
    count: int
    predicate: Expr | None = None
    constant: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StoreGlobal(Stmt):
    """st.global: `values`, of the tensor's dtype, to neighbouring elements from `offset` on; sizes, alignment and `predicate` as
    for `LoadGlobal`."""

    tensor: Buffer
    offset: Expr
    values: tuple[Expr, ...]
    predicate: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LoadShared(Stmt):
    """ld.shared of `count` neighbouring elements of `target`'s dtype from byte `address` on; sizes as for `LoadGlobal`."""

    address: Expr
    target: Registers
    first: tuple[Expr, ...]
    count: int
    predicate: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StoreShared(Stmt):
    """st.shared of `values`, all of one dtype, to neighbouring elements from byte `address` on; sizes as for `LoadGlobal`."""

    address: Expr
    values: tuple[Expr, ...]
    predicate: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ShuffleXor(Stmt):
    """shfl.sync.bfly: declares `var` as `value` (32 bits) of the lane whose number differs by XOR with `lane_mask`; whole
    warps."""

    var: Var
    value: Expr
    lane_mask: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FenceProxyAsync(Stmt):
    """fence.proxy.async.shared::cta: this thread's ordinary shared accesses before later async ones."""


# ---- instructions: tensor core, registers -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WgmmaFence(Stmt):
    """wgmma.fence.sync.aligned."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WgmmaCommitGroup(Stmt):
    """wgmma.commit_group.sync.aligned."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WgmmaWaitGroup(Stmt):
    """wgmma.wait_group.sync.aligned: until at most `pending` groups of this warp are in flight."""

    pending: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WgmmaSS(Stmt):
    """wgmma.mma_async.sync.aligned.m64n{n}k16 (k16 for 16-bit operands), both operands in shared memory:
    accumulator (n / 2 registers of the float32 slice, thread t of the warpgroup) = A @ B + (accumulate ? accumulator : 0).
    `a` and `b` are uint64 matrix descriptors; an operand is K-major, or MN-major where `*_mn_major`.  (PTX ISA,
    "Asynchronous warpgroup-level matrix instructions".)"""

    n: int
    dtype: DType
    accumulator: RegisterSlice
    a: Expr
    b: Expr
    accumulate: Expr
    a_mn_major: bool = False
    b_mn_major: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WgmmaRS(Stmt):
    """As `WgmmaSS`, with A (64 x 16) in registers: 8 elements from `a_first` on of the packed 16-bit array `a`, thread t holding
    for element e: row 16 * (t / 32) + (t % 32) / 4 + 8 * (e / 2 % 2), column 8 * (e / 4) + 2 * (t % 4) + e % 2."""

    n: int
    dtype: DType
    accumulator: RegisterSlice
    a: Registers
    a_first: tuple[Expr, ...]
    b: Expr
    accumulate: Expr
    b_mn_major: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FenceRegisters(Stmt):
    """No instruction: tells the compiler that `registers` change here, since wgmma writes them asynchronously."""

    registers: Registers


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SetMaxRegisters(Stmt):
    """setmaxnreg.sync.aligned, .inc where `increase` else .dec, by every warp of a warpgroup."""

    count: int
    increase: bool


# ---- the kernel ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class TileWalk:
    """Every block does the work of several blocks of the author's, one after the other: `tile`, a loop's variable in each role,
    numbers them, `tiles` of them in the whole launch; `axes` are the author's indices, declared from it.  `neighbours`: the
    numbers of the author's first block and last, and of those beside them."""

    tile: Var
    tiles: int
    axes: tuple[Var, ...]
    neighbours: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Role:
    """What `threads` threads from `first_thread` on do, warps of one purpose; inside, THREAD still counts from the block's
    start."""

    name: str
    first_thread: int
    threads: int
    body: Body
    text: str = ""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DeviceKernel:
    """Everything the printer, the launcher and the machine need.  `setup` is done by all threads before they part into roles.
    Parameters of the CUDA function: the tensor maps, then pointers to the tensors of `pointers`, then `scalars`."""

    name: str
    arch: str
    title: str
    grid: tuple[int | Expr, ...]
    threads: int
    min_blocks_per_sm: int
    tensor_maps: tuple[TensorMap, ...]
    pointers: tuple[Buffer, ...] = ()
    scalars: tuple[Var, ...]
    shared: tuple[SharedArray, ...]
    shared_bytes: int
    barriers: tuple[BarrierArray, ...]
    setup: Body
    roles: tuple[Role, ...]
    walk: TileWalk | None = None
    span: Span | None = None


def i32(value: int) -> Const:
    """An int32 constant."""
    return Const(value, INT32)


def u32(value: int) -> Const:
    """A uint32 constant."""
    return Const(value, UINT32)
