"""Launching on a GPU: a hand-written TMA kernel through the whole runtime, without the compiler above it."""
from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from tests.runtime.kernels import kernel, tensor
from tilelang.errors import ArgumentError
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import DeviceKernel, TensorMap
from tilelang.ir.expr import Var
from tilelang.ir.types import DType
from tilelang.runtime.args import signature
from tilelang.runtime.kernel import JITKernel, Program
from tilelang.target import SM_90A

pytestmark = pytest.mark.gpu

BOX = 32
# more than the 48 KiB that a kernel may have without asking
SHARED_BYTES = 100 * 1024
TEXT = """
struct __align__(64) CUtensorMap { unsigned long long opaque[16]; };

__device__ void load(unsigned int to, const CUtensorMap* map, unsigned int barrier, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
      :: "r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y) : "memory");
}

extern "C" __global__ void __launch_bounds__(128, 1)
axpy(const __grid_constant__ CUtensorMap A, const __grid_constant__ CUtensorMap B, const __grid_constant__ CUtensorMap C,
     const float s) {
  extern __shared__ __align__(1024) float tiles[];
  __shared__ __align__(8) unsigned long long barrier;
  const unsigned int shared = (unsigned int)__cvta_generic_to_shared(tiles);
  const unsigned int bar = (unsigned int)__cvta_generic_to_shared(&barrier);
  const int x = 32 * blockIdx.x, y = 32 * blockIdx.y;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 8192;" :: "r"(bar) : "memory");
    load(shared, &A, bar, x, y);
    load(shared + 4096, &B, bar, x, y);
  }
  __syncthreads();
  asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra W; }" :: "r"(bar) : "memory");
  for (int i = threadIdx.x; i < 1024; i += 128) tiles[2048 + i] = tiles[i] + s * tiles[1024 + i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
        :: "l"(&C), "r"(shared + 8192), "r"(x), "r"(y) : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
"""


def record(buffer: Buffer) -> TensorMap:
    rows, columns = (int(str(extent)) for extent in buffer.shape)
    return TensorMap(
        name=f"{buffer.name}_map", tensor=buffer, dtype=buffer.dtype, dims=(columns, rows), strides_bytes=(4 * columns,),
        box=(BOX, BOX), swizzle_bytes=0,
    )  # fmt: skip


def axpy(rows: int, columns: int, out_idx: Any = -1) -> JITKernel:
    """C = A + s B on float32 matrices of `rows` x `columns`; s is the third of four parameters."""
    a, b, c = (tensor(name, rows, columns, dtype="float32") for name in "ABC")
    s = Var("s", DType("float32"))
    program = kernel(a, b, s, c, name="axpy")
    device = DeviceKernel(
        name="axpy", arch="sm_90a", title="", grid=(-(-columns // BOX), -(-rows // BOX)), threads=128, min_blocks_per_sm=1,
        tensor_maps=tuple(record(buffer) for buffer in (a, b, c)), scalars=(s,), shared=(), shared_bytes=SHARED_BYTES,
        barriers=(), setup=(), roles=(),
    )  # fmt: skip
    return JITKernel(Program(program, SM_90A, device, (), TEXT, ()), signature(program, out_idx), {})


@pytest.mark.parametrize("shape", [(32, 32), (256, 512), (100, 72), (1, 4), (4096, 36)])
def test_results_are_right_and_allocated_where_the_arguments_are(torch, shape):
    a, b = torch.randn(shape, device="cuda"), torch.randn(shape, device="cuda")
    result = axpy(*shape)(a, b, 2.0)
    assert (result.dtype, result.device, tuple(result.shape)) == (torch.float32, a.device, shape)
    assert torch.equal(result, torch.add(a, b, alpha=2.0))


def test_without_out_idx(torch):
    a, b, c = (torch.full((64, 64), value, device="cuda") for value in (1.0, 2.0, float("nan")))
    assert axpy(64, 64, None)(a, b, 0.5, c) is None
    assert torch.equal(c, torch.full_like(c, 2.0))


def test_other_addresses_and_scalars_each_count(torch):
    made, inputs = axpy(64, 64), [torch.full((64, 64), float(i), device="cuda") for i in range(4)]
    results = [made(a, b, s) for a in inputs for b in inputs for s in (0.0, 1.0, -3.0)]
    expected = [a.flatten()[0].item() + s * b.flatten()[0].item() for a in inputs for b in inputs for s in (0.0, 1.0, -3.0)]
    assert [result.flatten()[0].item() for result in results] == expected


def test_empty_matrices_launch_nothing(torch):
    a = torch.empty((0, 64), device="cuda")
    assert tuple(axpy(0, 64)(a, a, 1.0).shape) == (0, 64)


def test_the_current_stream_is_used(torch):
    made, a = axpy(256, 256), torch.zeros((256, 256), device="cuda")
    made(a, a, 1.0)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)  # a tenth of a second: work on any other stream would overtake the fill
        a.fill_(3.0)
        result = made(a, a, 1.0)
        busy = not stream.query()
    assert busy
    stream.synchronize()
    assert torch.equal(result, torch.full_like(a, 6.0))


@pytest.mark.parametrize("warm", [True, False])
def test_a_call_is_captured_in_a_graph(torch, warm):
    made = axpy(128, 128, None)
    _ = made.cubin
    a, b, c = (torch.full((128, 128), value, device="cuda") for value in (1.0, 2.0, 0.0))
    if warm:
        made(a, b, 1.0, c)
        torch.cuda.synchronize()
        c.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made(a, b, 10.0, c)
    torch.cuda.synchronize()
    assert c.abs().max().item() == 0.0
    for value in (1.0, 5.0):
        a.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(c, torch.full_like(c, value + 20.0))


def test_a_result_may_be_allocated_inside_a_capture(torch):
    made, a = axpy(128, 128), torch.full((128, 128), 1.0, device="cuda")
    made(a, a, 1.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = made(a, a, 3.0)
    graph.replay()
    assert torch.equal(result, torch.full_like(a, 4.0))


def test_a_thread_without_a_context(torch):
    made, a = axpy(64, 64), torch.full((64, 64), 2.0, device="cuda")
    torch.cuda.synchronize()
    results: list[Any] = []
    out = torch.zeros((64, 64), device="cuda")
    late = axpy(64, 64, None)
    threads = [
        threading.Thread(target=lambda: results.append(made(a, a, 1.0))),
        threading.Thread(target=lambda: results.append(late(a, a, 1.0, out))),
    ]
    for thread in threads:
        thread.start()
        thread.join()
    torch.cuda.synchronize()
    assert len(results) == 2
    assert torch.equal(out, torch.full_like(a, 4.0))


def test_many_threads_at_once(torch):
    made, wrong = axpy(64, 64), []

    def work(seed: int) -> None:
        a = torch.full((64, 64), float(seed), device="cuda")
        for i in range(50):
            result = made(a, a, float(i))
            if not torch.equal(result, torch.full_like(a, seed * (1.0 + i))):
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_faults_are_named(torch):
    made, good = axpy(64, 64), torch.zeros((64, 64), device="cuda")
    faults = {
        "TL501": (good, good), "TL502": (good, None, 1.0), "TL503": (good, good.half(), 1.0), "TL505": (good, good[:32], 1.0),
        "TL541": (good, good.T, 1.0), "TL542": (good, good.cpu(), 1.0),
        "TL507": (good, good, "1"),
    }  # fmt: skip
    for code, arguments in faults.items():
        with pytest.raises(ArgumentError) as caught:
            made(*arguments)
        assert caught.value.code == code
    with pytest.raises(ArgumentError) as caught:
        axpy(64, 64, None)(good, torch.ones_like(good), 1.0, good)
    assert caught.value.code == "TL544"


def test_a_view_at_an_aligned_offset(torch):
    flat = torch.arange(64 * 64 + 4, dtype=torch.float32, device="cuda")
    view = flat[4:].view(64, 64)
    assert torch.equal(axpy(64, 64)(view, view, 0.0), view)


def test_a_tensor_that_needs_a_gradient_is_taken(torch):
    a = torch.ones((64, 64), device="cuda", requires_grad=True)
    assert not axpy(64, 64)(a, a, 1.0).requires_grad


def test_several_gpus(torch):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    made = axpy(64, 64)
    for device in ("cuda:1", "cuda:0", "cuda:1"):
        a = torch.ones((64, 64), device=device)
        result = made(a, a, 1.0)
        assert str(result.device) == device
        assert torch.equal(result, torch.full_like(a, 2.0))
    with pytest.raises(ArgumentError, match="expected an array on cuda:0, where A is, got one on cuda:1"):
        made(torch.ones((64, 64), device="cuda:0"), torch.ones((64, 64), device="cuda:1"), 1.0)


def test_cupy(cupy):
    made, a = axpy(100, 72), cupy.arange(7200, dtype=cupy.float32).reshape(100, 72)
    result = made(a, a, 2.0)
    assert isinstance(result, cupy.ndarray)
    assert bool((result == 3 * a).all())
    with cupy.cuda.Stream(non_blocking=True) as stream:
        b = a + 1
        result = made(b, b, 2.0)
        stream.synchronize()
    assert bool((result == 3 * (a + 1)).all())
    with pytest.raises(ArgumentError, match="expected row-major strides"):
        axpy(72, 72)(a[:72], a[:72].T, 1.0)


def test_jax(jax):
    a = jax.numpy.arange(7200, dtype=jax.numpy.float32).reshape(100, 72)
    result = axpy(100, 72)(a, a, 2.0)
    assert isinstance(result, jax.Array)
    assert np.array_equal(np.asarray(result), 3 * np.asarray(a))
    with pytest.raises(ArgumentError) as caught:
        axpy(100, 72, None)(a, a, 2.0, jax.numpy.zeros_like(a))
    assert caught.value.code == "TL506"


def test_torch_and_cupy_together(torch, cupy):
    a = cupy.ones((64, 64), cupy.float32)
    b = torch.ones((64, 64), device="cuda")
    assert torch.equal(axpy(64, 64)(b, a, 4.0), torch.full_like(b, 5.0))


def microseconds(torch: Any, work: Any) -> float:
    """The least time of one call over several rounds that never fill the launch queue."""
    best = float("inf")
    for _ in range(10):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(100):
            work()
        best = min(best, (time.perf_counter() - start) * 1e4)
    return best


def test_a_thousand_launches_cost_microseconds_beyond_the_drivers_own(torch, record_property):
    from cuda.bindings import driver

    made = axpy(32, 32, None)
    a, b, c = (torch.zeros((32, 32), device="cuda") for _ in range(3))
    made(a, b, 1.0, c)
    launcher = made._caller._launchers[0]
    (block,) = launcher._blocks.values()
    handle, address = launcher._handle, block.address
    bare = microseconds(torch, lambda: driver.cuLaunchKernel(handle, 1, 1, 1, 128, 1, 1, SHARED_BYTES, 0, address, 0))
    ours = microseconds(torch, lambda: made(a, b, 1.0, c))
    torch.cuda.synchronize()
    record_property("launch_microseconds", {"driver": round(bare, 2), "call": round(ours, 2)})
    print(f"\ndriver {bare:.2f} us, whole call {ours:.2f} us")  # noqa: T201 - shown with -s
    assert ours - bare < 20.0
