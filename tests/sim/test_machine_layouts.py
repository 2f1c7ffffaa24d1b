"""TMA boxes, wgmma operands and accumulators, stmatrix: element by element against formulas written here from the PTX ISA."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.sim.machine_kernels import TILE, execute, raises, role
from tilelang.errors import ArgumentError, HazardError, InternalError
from tilelang.ir import device as d
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import THREAD
from tilelang.ir.expr import UINT32, Binary, Cast, Const, Expr
from tilelang.ir.types import DType, Scope
from tilelang.sim import tma, wgmma
from tilelang.sim.memory import WINDOW_BASE, Access, SharedMemory
from tilelang.sim.tma import GlobalMemory

ACCESS = Access("test", "test", None)


def swizzled(address: int, span_bytes: int) -> int:
    """The ISA's XOR, bit by bit: address bits 4.. of the chunk number take bits 7.. ; one, two or three of them."""
    for bit in range({0: 0, 32: 1, 64: 2, 128: 3}[span_bytes]):
        address ^= (address >> (7 + bit) & 1) << (4 + bit)
    return address


def shared(size_bytes: int = 64 * 1024) -> SharedMemory:
    return SharedMemory((d.SharedArray(name="S", offset_bytes=0, stage_bytes=size_bytes, stages=1, swizzle_bytes=0),), size_bytes)


def put(memory: SharedMemory, address: int, value: np.generic) -> None:
    memory.write(np.array([address]), np.frombuffer(value.tobytes(), np.uint8)[None, :], ACCESS)


def get(memory: SharedMemory, address: int, dtype: str = "float16") -> float:
    size = np.dtype(dtype).itemsize
    return memory.read(np.array([address]), size, ACCESS).reshape(-1).view(dtype)[0]


# ---- TMA ----------------------------------------------------------------------------------------------------------------------


def tensor_map(
    shape: tuple[int, ...], box: tuple[int, ...], swizzle_bytes: int = 0, dtype: str = "float16", **changes: object
) -> tuple[d.TensorMap, Buffer]:
    """A map of a row-major tensor of `shape`; `box` innermost first."""
    buffer = Buffer("X", shape, DType(dtype), Scope.GLOBAL)
    strides = [DType(dtype).bytes]
    for extent in shape[:0:-1]:
        strides.append(strides[-1] * extent)
    fields = {"dims": shape[::-1], "strides_bytes": tuple(strides[1:]), "box": box, "swizzle_bytes": swizzle_bytes} | changes
    return d.TensorMap(name="map_X", tensor=buffer, dtype=DType(dtype), **fields), buffer  # type: ignore[arg-type]


def address_in_box(index: tuple[int, ...], box: tuple[int, ...], size: int, base: int, span_bytes: int) -> int:
    """Where element `index` (innermost first) of a box lies."""
    linear = 0
    for at, extent in zip(reversed(index), reversed(box), strict=True):
        linear = linear * extent + at
    return swizzled(base + linear * size, span_bytes)


BOXES = [
    ((32, 64), (16, 8), 32, (0, 0)),
    ((40, 72), (32, 16), 64, (48, 32)),
    ((40, 72), (64, 16), 128, (40, 30)),
    ((40, 72), (64, 16), 128, (-8, -3)),
    ((40, 72), (64, 8), 0, (100, 0)),
    ((24,), (16,), 0, (16,)),
    ((5, 6, 16), (8, 4, 3), 0, (12, 3, 4)),
    ((3, 4, 5, 16), (16, 2, 2, 2), 32, (0, 4, 3, 2)),
    ((2, 2, 3, 4, 8), (8, 3, 2, 2, 1), 0, (0, 2, 1, 1, 1)),
]


@pytest.mark.parametrize(("shape", "box", "span_bytes", "coordinates"), BOXES)
@pytest.mark.parametrize("offset", [0, 128, 384, 1024])
def test_load_box(
    shape: tuple[int, ...], box: tuple[int, ...], span_bytes: int, coordinates: tuple[int, ...], offset: int
) -> None:
    record, buffer = tensor_map(shape, box, span_bytes)
    array = np.arange(1, np.prod(shape) + 1).reshape(shape).astype(np.float16)
    memory, base = shared(), WINDOW_BASE + offset
    tma.load_box(record, GlobalMemory({buffer: array}, [record]), memory, coordinates, base, ACCESS)
    for index in itertools.product(*(range(extent) for extent in box)):
        place = tuple(at + first for at, first in zip(index, coordinates, strict=True))[::-1]
        inside = all(0 <= at < extent for at, extent in zip(place, shape, strict=True))
        expected = array[place] if inside else 0
        assert get(memory, address_in_box(index, box, 2, base, span_bytes)) == expected, index


@pytest.mark.parametrize(("shape", "box", "span_bytes", "coordinates"), BOXES)
def test_store_box_is_clipped(
    shape: tuple[int, ...], box: tuple[int, ...], span_bytes: int, coordinates: tuple[int, ...]
) -> None:
    """Only elements inside are written, and bytes of those outside need not be there."""
    record, buffer = tensor_map(shape, box, span_bytes)
    array = np.zeros(shape, np.float16)
    expected = np.zeros(shape, np.float16)
    memory, base = shared(), WINDOW_BASE + 256
    for number, index in enumerate(itertools.product(*(range(extent) for extent in box)), 1):
        place = tuple(at + first for at, first in zip(index, coordinates, strict=True))[::-1]
        if all(0 <= at < extent for at, extent in zip(place, shape, strict=True)):
            expected[place] = number
            put(memory, address_in_box(index, box, 2, base, span_bytes), np.float16(number))
    tma.store_box(record, GlobalMemory({buffer: array}, [record]), memory, coordinates, base, ACCESS)
    assert np.array_equal(array, expected)


def test_store_of_unwritten_bytes() -> None:
    record, buffer = tensor_map((8, 16), (16, 8))
    with raises("TL810"):
        tma.store_box(
            record, GlobalMemory({buffer: np.zeros((8, 16), np.float16)}, [record]), shared(), (0, 0), WINDOW_BASE, ACCESS
        )


def test_a_map_may_see_a_matrix_as_panels() -> None:
    """{64, K, N / 64} with strides {2 N, 128} bytes names the elements of a row-major (K, N)."""
    record, buffer = tensor_map((16, 256), (64, 16, 2), 128, dims=(64, 16, 4), strides_bytes=(512, 128))
    array = np.arange(16 * 256).reshape(16, 256).astype(np.float16)
    box = GlobalMemory({buffer: array}, [record]).read_box(record, (0, 0, 1))
    assert np.array_equal(box[1], array[:, 128:192])


@pytest.mark.parametrize(
    "changes",
    [
        {"box": (264, 8)},
        {"box": (4, 8)},
        {"box": (0, 8)},
        {"box": (64, 8), "swizzle_bytes": 64},
        {"swizzle_bytes": 16},
        {"strides_bytes": (72,)},
        {"strides_bytes": ()},
        {"strides_bytes": (0,)},
        {"box": (64,)},
        {"dims": (64, 40, 1, 1, 1, 1), "box": (64, 8, 1, 1, 1, 1), "strides_bytes": (144,) * 5},
    ],
)
def test_records_that_cannot_be_encoded(changes: dict[str, object]) -> None:
    record, _ = tensor_map((40, 72), (64, 8), 128)
    fields = {"dims": record.dims, "strides_bytes": record.strides_bytes, "box": record.box, "swizzle_bytes": 128} | changes
    with raises("TL940", InternalError):
        tma.check_map(d.TensorMap(name="m", tensor=record.tensor, dtype=record.dtype, **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("changes", [{"dims": (64, 40)}, {"strides_bytes": (160,)}, {"dims": (72, 39)}, {"dims": (72, 41)}])
def test_records_that_do_not_agree_with_the_array(changes: dict[str, object]) -> None:
    record, buffer = tensor_map((40, 72), (64, 8), 128, **changes)
    with raises("TL941", InternalError):
        GlobalMemory({buffer: np.zeros((40, 72), np.float16)}, [record])


def test_arrays_that_do_not_agree_with_the_buffer() -> None:
    record, buffer = tensor_map((40, 72), (64, 8), 128)
    for array in (np.zeros((40, 64), np.float16), np.zeros((40, 72), np.float32)):
        with pytest.raises(ArgumentError):
            GlobalMemory({buffer: array}, [record])
    with pytest.raises(ArgumentError):
        GlobalMemory({}, [record])


# ---- wgmma --------------------------------------------------------------------------------------------------------------------


def element_address(mn: int, k: int, start: int, span_bytes: int, leading: int, stride: int, mn_major: bool) -> int:
    """Byte address of a 16-bit element of an operand.

    K-major: a row is `span_bytes` long, eight rows are a group, `stride` bytes lead to the next.  MN-major: `span_bytes` along MN
    are a row of a panel, `leading` bytes lead to the next panel, eight k are a group, `stride` bytes lead to the next."""
    if mn_major:
        width = span_bytes // 2
        linear = mn // width * leading + mn % width * 2 + k // 8 * stride + k % 8 * span_bytes
    else:
        linear = mn // 8 * stride + mn % 8 * span_bytes + k * 2
    return swizzled(start + linear, span_bytes)


def descriptor_word(start: int, leading: int, stride: int, span_bytes: int) -> int:
    layout = {128: 1, 64: 2, 32: 3}[span_bytes]
    return (start & 0x3FFFF) >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | layout << 62


@pytest.mark.parametrize("span_bytes", [32, 64, 128])
@pytest.mark.parametrize("mn_major", [False, True])
@pytest.mark.parametrize("extent", [8, 64, 72, 256])
def test_operand_addresses(extent: int, mn_major: bool, span_bytes: int) -> None:
    """Every element of the operand, for every k step that a tile allows."""
    steps = range(1 if mn_major else span_bytes // 32)
    panels = -(-extent // (span_bytes // 2))
    leading = 16 * span_bytes if mn_major else 16
    stride = 8 * span_bytes
    for step in steps:
        start = WINDOW_BASE + 2048 + 32 * step
        memory = shared()
        values = np.random.default_rng(step).integers(-999, 999, (extent, 16)).astype(np.float16)
        for mn, k in itertools.product(range(extent), range(16)):
            put(memory, element_address(mn, k, start, span_bytes, leading, stride, mn_major), values[mn, k])
        word = descriptor_word(start, leading, stride, span_bytes)
        found = wgmma.operand(memory, wgmma.decode(word, None), extent, mn_major, DType("float16"), ACCESS)
        assert np.array_equal(found, values.astype(np.float32)), (panels, step)


def test_operand_in_bfloat16() -> None:
    import ml_dtypes

    memory, values = shared(), np.arange(-64, 64, 0.5).reshape(16, 16).astype(ml_dtypes.bfloat16)
    for mn, k in itertools.product(range(16), range(16)):
        put(memory, element_address(mn, k, WINDOW_BASE, 128, 0, 1024, False), values[mn, k])
    word = descriptor_word(WINDOW_BASE, 0, 1024, 128)
    found = wgmma.operand(memory, wgmma.decode(word, None), 16, False, DType("bfloat16"), ACCESS)
    assert np.array_equal(found, values.astype(np.float32))


def test_decoding() -> None:
    assert wgmma.decode(descriptor_word(0x2C400, 8192, 1024, 128), None) == wgmma.Descriptor(0x2C400, 8192, 1024, 128)
    for bad in (1 << 14, 1 << 30, 1 << 46, 1 << 49, 1 << 52, 3 << 62 | 1 << 15):
        with raises("TL822"):
            wgmma.decode(descriptor_word(1024, 16, 1024, 128) | bad, None)
    with raises("TL822"):
        wgmma.decode(64, None)


@pytest.mark.parametrize("n", [8, 24, 64, 96, 256])
def test_accumulator_order(n: int) -> None:
    """The fragment of D: row 16 * warp + lane / 4 (+ 8 for the upper pair), column 8 * (i / 4) + 2 * (lane % 4) + i % 2."""
    tile = np.arange(64 * n).reshape(64, n)
    registers = wgmma.accumulator_order(tile)
    assert registers.shape == (n // 2, 128)
    for register, thread in itertools.product(range(n // 2), range(128)):
        warp, lane = divmod(thread, 32)
        group, upper, odd = register // 4, register // 2 % 2, register % 2
        assert registers[register, thread] == tile[16 * warp + lane // 4 + 8 * upper, 8 * group + 2 * (lane % 4) + odd]


# ---- stmatrix and st.shared ---------------------------------------------------------------------------------------------------


def thread_u32() -> Expr:
    return Cast(THREAD, UINT32)


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("split", [False, True])
def test_stmatrix(warps: int, split: bool) -> None:
    """Thread t stores word 1000 * r + t into matrix r; `split` makes thread 0 a strand of its own."""
    thread = thread_u32()
    address = d.SharedAddress(TILE) + thread * 16
    store = d.StoreMatrix(address=address, values=tuple(thread + 1000 * r for r in range(4)))
    body = ((d.Elected(warp=0, body=()),) if split else ()) + (store,)
    memory = execute(role(*body, threads=32 * warps)).shared
    for warp, matrix, row, column in itertools.product(range(warps), range(4), range(8), range(4)):
        holder = 32 * warp + 4 * row + column  # two 16-bit elements: row lane / 4, columns 2 * (lane % 4) and + 1
        giver = 32 * warp + 8 * matrix + row  # the lane whose address this row has
        assert get(memory, WINDOW_BASE + 16 * giver + 4 * column, "uint32") == 1000 * matrix + holder


@pytest.mark.parametrize("count", [1, 2, 4])
def test_st_shared_vectors(count: int) -> None:
    thread = thread_u32()
    store = d.StoreShared(
        address=d.SharedAddress(TILE) + thread * (4 * count), values=tuple(thread + 500 * i for i in range(count))
    )
    memory = execute(role(store)).shared
    for lane, i in itertools.product(range(128), range(count)):
        assert get(memory, WINDOW_BASE + 4 * (count * lane + i), "uint32") == lane + 500 * i


def test_st_shared_by_active_threads() -> None:
    thread = thread_u32()
    store = d.StoreShared(address=d.SharedAddress(TILE) + thread * 4, values=(thread,))
    memory = execute(role(d.If(condition=THREAD < 3, then=(store,), uniform=False))).shared
    assert get(memory, WINDOW_BASE + 8, "uint32") == 2
    with raises("TL810"):
        get(memory, WINDOW_BASE + 12, "uint32")


@pytest.mark.parametrize(
    ("address", "count", "code"),
    [
        (thread_u32() * 4, 1, "TL811"),  # an offset, not an address
        (d.SharedAddress(TILE) + thread_u32() * 4 + 2, 1, "TL812"),
        (d.SharedAddress(TILE) + thread_u32() * 8, 4, "TL812"),
        (d.SharedAddress(TILE) + thread_u32() * 1024, 1, "TL811"),
        (d.SharedAddress(TILE) + Binary("//", thread_u32(), Const(2, UINT32)) * 4, 1, "TL813"),
    ],
)
def test_st_shared_hazards(address: Expr, count: int, code: str) -> None:
    with raises(code):
        execute(role(d.StoreShared(address=address, values=(thread_u32(),) * count)))


def test_stmatrix_rows_are_aligned() -> None:
    store = d.StoreMatrix(address=d.SharedAddress(TILE) + thread_u32() * 16 + 8, values=(thread_u32(),) * 4)
    with raises("TL812"):
        execute(role(store))


def test_tma_address_alignment() -> None:
    record, _ = tensor_map((40, 72), (64, 8), 128)
    with pytest.raises(HazardError, match="not a multiple of 128"):
        tma.check_address(record, WINDOW_BASE + 64, ACCESS)
    tma.check_address(record, WINDOW_BASE + 128, ACCESS)  # the swizzle's own alignment is not the hardware's demand
