"""A ring GEMM written by hand in device IR, C = A @ B: a producer warpgroup of TMA loads, consumer warpgroups of wgmma.

`fault` leaves out or spoils one piece of synchronisation, for tests that demand to see it reported.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilelang.errors import Span
from tilelang.ir import device as d
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import BLOCK_IDX, THREAD, i32, u32
from tilelang.ir.expr import UINT32, UINT64, Binary, Call, Cast, Compare, Const, Expr, Var
from tilelang.ir.types import DType, Scope
from tilelang.sim.machine import run

FLOAT32 = DType("float32")
BARRIER_LINE = 100
"""Line of the spans of waits, so that tests can find them in reports."""


def at(line: int) -> Span:
    return Span("ring_gemm.tl", line)


@dataclass(frozen=True)
class RingGemm:
    """Sizes in elements; `block_m` rows are `block_m / 64` accumulators of one warpgroup, or one each of `warpgroups`."""

    m: int
    n: int
    k: int
    block_m: int = 64
    block_n: int = 64
    block_k: int = 64
    stages: int = 3
    warpgroups: int = 1
    producer_first: bool = False
    dtype: str = "float16"
    fault: str = ""

    @property
    def swizzle_bytes(self) -> int:
        return min(self.block_k * 2, 128)

    @property
    def panel(self) -> int:
        """Columns of one panel of B and C."""
        return self.swizzle_bytes // 2

    @property
    def trips(self) -> int:
        return -(-self.k // self.block_k)

    @property
    def grid(self) -> tuple[int, int]:
        return -(-self.n // self.block_n), -(-self.m // self.block_m)

    def build(self) -> tuple[d.DeviceKernel, dict[str, Buffer]]:
        return _Builder(self).kernel()

    def run(self, a: np.ndarray, b: np.ndarray, schedule: str = "fifo", **options: object) -> np.ndarray:
        kernel, buffers = self.build()
        c = np.full((self.m, self.n), 7, DType(self.dtype).numpy)
        arrays = {buffers["C"]: c}
        if self.trips:
            arrays |= {buffers["A"]: a, buffers["B"]: b}
        run(kernel, arrays, schedule=schedule, **options)  # type: ignore[arg-type]
        return c


class _Builder:
    def __init__(self, spec: RingGemm) -> None:
        self.spec, self.fault = spec, spec.fault
        dtype = DType(spec.dtype)
        self.dtype = dtype
        self.buffers = {
            "A": Buffer("A", (spec.m, spec.k), dtype, Scope.GLOBAL),
            "B": Buffer("B", (spec.k, spec.n), dtype, Scope.GLOBAL),
            "C": Buffer("C", (spec.m, spec.n), dtype, Scope.GLOBAL),
        }
        self.size_a, self.size_b = spec.block_m * spec.block_k * 2, spec.block_k * spec.block_n * 2
        size_c = spec.block_m * spec.block_n * 2
        swizzle = spec.swizzle_bytes
        self.a = d.SharedArray(
            name="A_shared", offset_bytes=0, stage_bytes=self.size_a, stages=spec.stages, swizzle_bytes=swizzle
        )
        ring = spec.stages * (self.size_a + self.size_b)
        self.b = d.SharedArray(
            name="B_shared",
            offset_bytes=spec.stages * self.size_a,
            stage_bytes=self.size_b,
            stages=spec.stages,
            swizzle_bytes=swizzle,
        )
        self.c = d.SharedArray(name="C_shared", offset_bytes=ring, stage_bytes=size_c, stages=1, swizzle_bytes=swizzle)
        self.shared_bytes = ring + size_c
        self.consumers = 128 * spec.warpgroups
        arrivals = self.consumers + (32 if self.fault == "more_arrivals" else 0)
        self.full = d.BarrierArray(name="full", count=spec.stages, arrivals=1)
        self.empty = d.BarrierArray(name="empty", count=spec.stages, arrivals=arrivals)
        self.tiles = spec.block_m // 64 // spec.warpgroups
        self.acc = d.Registers(name="acc", dtype=FLOAT32, shape=(self.tiles, spec.block_n // 2))
        self.m0, self.n0 = Var("m0"), Var("n0")
        self.first_consumer = 128 if spec.producer_first else 0
        self.first_producer = 0 if spec.producer_first else self.consumers

    def on(self, fault: str, *stmts: d.Stmt) -> d.Body:
        """The statements, unless this is the fault that leaves them out."""
        return () if self.fault == fault else stmts

    def maps(self) -> tuple[d.TensorMap, ...]:
        s = self.spec

        def tensor_map(name: str, dims: tuple[int, int], box: tuple[int, int]) -> d.TensorMap:
            return d.TensorMap(
                name=f"map_{name}", tensor=self.buffers[name], dtype=self.dtype, dims=dims, strides_bytes=(dims[0] * 2,), box=box,
                swizzle_bytes=s.swizzle_bytes,
            )  # fmt: skip

        maps = (tensor_map("C", (s.n, s.m), (s.panel, s.block_m)),)
        if s.trips:
            maps += (tensor_map("A", (s.k, s.m), (s.block_k, s.block_m)), tensor_map("B", (s.n, s.k), (s.panel, s.block_k)))
        self.map = {record.tensor.name: record for record in maps}
        return maps

    def setup(self) -> d.Body:
        i = Var("i")
        inits = tuple(
            d.Unroll(var=i, count=array.count, body=(d.MbarrierInit(barrier=d.BarrierRef(array, i)),))
            for array in (self.full, self.empty)
        )
        return (
            d.Declare(var=self.m0, value=BLOCK_IDX[1] * self.spec.block_m),
            d.Declare(var=self.n0, value=BLOCK_IDX[0] * self.spec.block_n),
            *self.on("no_init", d.Elected(warp=0, body=(*inits, d.FenceMbarrierInit()))),
            d.SyncThreads(),
        )

    def ring(self) -> tuple[Var, Var, d.Body]:
        stage, phase = Var("stage"), Var("phase", UINT32)
        return stage, phase, (d.Declare(var=stage, value=i32(0), mutable=True), d.Declare(var=phase, value=u32(0), mutable=True))

    def producer(self) -> d.Body:
        s = self.spec
        stage, phase, declare = self.ring()
        kt, full = Var("kt"), d.BarrierRef(self.full, stage)
        step = Cast(stage, UINT32)
        flip = phase if self.fault == "empty_parity" else phase ^ 1
        size = self.size_a + self.size_b + {"tx_less": -16, "tx_more": 16}.get(self.fault, 0)
        loads = [d.TmaLoad(
            map=self.map["A"], address=d.SharedAddress(self.a) + step * self.size_a, barrier=full,
            coordinates=(kt * s.block_k, self.m0), span=at(21),
        )]  # fmt: skip
        panel_bytes = s.panel * s.block_k * 2
        loads += [d.TmaLoad(
            map=self.map["B"], address=d.SharedAddress(self.b) + step * self.size_b + p * panel_bytes, barrier=full,
            coordinates=(self.n0 + p * s.panel, kt * s.block_k), span=at(22),
        ) for p in range(s.block_n // s.panel)]  # fmt: skip
        expect = d.MbarrierExpectTx(barrier=full, bytes=size, span=at(20))
        wait = d.MbarrierWait(barrier=d.BarrierRef(self.empty, stage), parity=flip, span=at(BARRIER_LINE))
        loop = d.For(var=kt, start=i32(0), stop=i32(s.trips), body=(
            *self.on("no_empty_wait", wait),
            *self.on("no_expect", expect),
            *loads,
            d.RingAdvance(stage=stage, phase=phase, stages=s.stages),
        ))  # fmt: skip
        return (d.SetMaxRegisters(count=24, increase=False), d.Elected(warp=0, body=(*declare, loop)))

    def consumer(self) -> d.Body:
        s = self.spec
        stage, phase, declare = self.ring()
        kt, i = Var("kt"), Var("i")
        release = self.on("no_empty_arrive", d.MbarrierArrive(barrier=d.BarrierRef(self.empty, stage), span=at(33)))
        early, late = (release, ()) if self.fault == "early_release" else ((), release)
        parity = phase ^ 1 if self.fault == "full_parity" else phase
        wait = d.MbarrierWait(barrier=d.BarrierRef(self.full, stage), parity=parity, span=at(BARRIER_LINE + 1))
        loop = d.For(var=kt, start=i32(0), stop=i32(s.trips), body=(
            *self.on("no_full_wait", wait),
            d.WgmmaFence(),
            *self.multiply(stage, kt),
            *self.on("no_commit", d.WgmmaCommitGroup()),
            *early,
            *self.on("no_wgmma_wait", d.WgmmaWaitGroup(pending=1 if self.fault == "lax_wgmma_wait" else 0, span=at(32))),
            *late,
            d.RingAdvance(stage=stage, phase=phase, stages=s.stages),
        ))  # fmt: skip
        clear = d.Unroll(var=i, count=s.block_n // 2, body=tuple(
            d.RegisterStore(registers=self.acc, indices=(i32(tile), i), value=Const(0.0, FLOAT32)) for tile in range(self.tiles)
        ))  # fmt: skip
        return (
            d.SetMaxRegisters(count=168, increase=True), *declare, d.DeclareRegisters(registers=self.acc), clear,
            d.TileOp(text="T.gemm(A_shared, B_shared, acc)", body=(loop,), span=at(30)), *self.epilogue(),
        )  # fmt: skip

    def warpgroup_row(self, tile: int) -> Expr:
        """First row in the block of accumulator `tile` of this thread's warpgroup."""
        group = Binary("//", THREAD - self.first_consumer, i32(128))
        return group * (64 * self.tiles) + tile * 64 if self.spec.warpgroups > 1 else i32(tile * 64)

    def multiply(self, stage: Var, kt: Var) -> list[d.Stmt]:
        s = self.spec
        row_bytes = s.swizzle_bytes
        stmts: list[d.Stmt] = []
        for tile in range(self.tiles):
            for k in range(s.block_k // 16):
                address = d.SharedAddress(self.a) + Cast(stage, UINT32) * self.size_a
                address += Cast(self.warpgroup_row(tile), UINT32) * row_bytes + k * 32
                a_low = Call("descriptor_low", (address, u32(16)), UINT32)
                b_address = d.SharedAddress(self.b) + Cast(stage, UINT32) * self.size_b
                b_low = Call("descriptor_low", (b_address, u32(s.panel * s.block_k * 2)), UINT32) + (k * 16 * row_bytes >> 4)
                stmts.append(d.WgmmaSS(
                    n=s.block_n, dtype=self.dtype, accumulator=d.RegisterSlice(self.acc, (i32(tile),)),
                    a=Call("matrix_descriptor", (a_low, u32(8 * row_bytes), u32(s.swizzle_bytes)), UINT64),
                    b=Call("matrix_descriptor", (b_low, u32(8 * row_bytes), u32(s.swizzle_bytes)), UINT64),
                    accumulate=Compare("!=", kt | k, i32(0)), b_mn_major=True, span=at(31),
                ))  # fmt: skip
        return stmts

    def epilogue(self) -> d.Body:
        s = self.spec
        row_bytes, mask = s.swizzle_bytes, {32: 1, 64: 3, 128: 7}[s.swizzle_bytes]
        panel_bytes = s.block_m * row_bytes
        thread = Cast(THREAD - self.first_consumer, UINT32)
        stores: list[d.Stmt] = []
        for tile in range(self.tiles):
            row = Cast(self.warpgroup_row(tile), UINT32) + (thread // 32 % 4) * 16 + thread % 16
            for j in range(0, s.block_n // 8, 2):
                chunk = thread // 16 % 2 + j
                chunks = row_bytes // 16
                linear = d.SharedAddress(self.c) + chunk // chunks * panel_bytes + row * row_bytes + chunk % chunks * 16
                stores.append(d.StoreMatrix(
                    address=linear ^ ((linear >> 7 & mask) << 4),
                    values=tuple(self.packed(tile, 4 * j + 2 * r) for r in range(4)), span=at(40),
                ))  # fmt: skip
        copies = tuple(
            d.TmaStore(
                map=self.map["C"], address=d.SharedAddress(self.c) + p * panel_bytes,
                coordinates=(self.n0 + p * s.panel, self.m0), span=at(41),
            )
            for p in range(s.block_n // s.panel)
        )  # fmt: skip
        store = d.Elected(warp=0, body=(
            *copies, *self.on("no_bulk_commit", d.BulkCommitGroup()), *self.on("no_bulk_wait", d.BulkWaitGroupRead(pending=0)),
        ))  # fmt: skip
        meet = d.NamedBarrierSync(id=1, threads=self.consumers, span=at(42))
        return (*stores, d.FenceProxyAsync(), *self.on("no_epilogue_barrier", meet), store)

    def packed(self, tile: int, register: int) -> Expr:
        low, high = (Cast(d.RegisterLoad(self.acc, (i32(tile), i32(register + odd))), self.dtype) for odd in (0, 1))
        return Call("pack", (low, high), UINT32)

    def kernel(self) -> tuple[d.DeviceKernel, dict[str, Buffer]]:
        s = self.spec
        maps = self.maps()
        producer = self.producer() if s.trips else (d.SetMaxRegisters(count=24, increase=False),)
        roles = (
            d.Role(name="consumer", first_thread=self.first_consumer, threads=self.consumers, body=self.consumer()),
            d.Role(name="producer", first_thread=self.first_producer, threads=128, body=producer),
        )
        kernel = d.DeviceKernel(
            name="gemm", arch="sm_90a", title="ring GEMM", grid=s.grid, threads=self.consumers + 128, min_blocks_per_sm=1,
            tensor_maps=maps, scalars=(), shared=(self.a, self.b, self.c), shared_bytes=self.shared_bytes,
            barriers=(self.full, self.empty), setup=self.setup(), roles=roles,
        )  # fmt: skip
        return kernel, self.buffers


def exact_inputs(m: int, n: int, k: int, dtype: str = "float16", seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Integer matrices A and B, and their exact product rounded once; every |C| is at most 2048, or 256 for bfloat16."""
    rng = np.random.default_rng(seed)
    bound = 1 if dtype == "bfloat16" else 2
    a, b = (rng.integers(-bound, bound + 1, shape) for shape in ((m, k), (k, n)))
    storage = DType(dtype).numpy
    return a.astype(storage), b.astype(storage), (a @ b).astype(np.float32).astype(storage)
