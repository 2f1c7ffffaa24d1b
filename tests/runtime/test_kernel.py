"""The kernel object and its calls, with hand-written CUDA text, a stand-in for the reference and one for a loaded kernel."""
from __future__ import annotations

import logging
import sys
from typing import Any

import numpy as np
import pytest

from tests.runtime.kernels import add, aligned, fake_reference, fake_torch, fill, kernel, tensor
from tilelang.errors import ArchMismatch, ArgumentError, InternalError, PlatformError, Span, Unsupported
from tilelang.ir import tile
from tilelang.ir.device import DeviceKernel
from tilelang.ir.expr import Var
from tilelang.ir.types import DType
from tilelang.runtime import allocate, call, launch
from tilelang.runtime.args import signature
from tilelang.runtime.device import Probe
from tilelang.runtime.kernel import Image, JITKernel, Program
from tilelang.target import SM_90A
from tilelang.trace import ONLY_CHOICE, Decision, Rejection

TEXT = 'extern "C" __global__ void add(float* x) { x[threadIdx.x] += 1.0f; }\n'
DECISIONS = (
    Decision(
        Span("gemm.py", 12),
        "copy A to A_shared",
        "TMA load",
        "rows are 2048 bytes",
        (Rejection("cp.async", "no TMA", "TMA", "x"),),
    ),
    Decision(None, "dimensions", "0 and 1", ONLY_CHOICE),
    Decision(None, "blocks per SM", "2"),
)


def device_kernel(**changes: Any) -> DeviceKernel:
    fields: dict[str, Any] = {
        "name": "add", "arch": "sm_90a", "title": "", "grid": (1,), "threads": 128, "min_blocks_per_sm": 1, "tensor_maps": (),
        "scalars": (), "shared": (), "shared_bytes": 2048, "barriers": (), "setup": (), "roles": (),
    }  # fmt: skip
    return DeviceKernel(**{**fields, **changes})


def jitted(program: tile.Kernel, out_idx: Any = -1, text: str = TEXT, **changes: Any) -> JITKernel:
    made = Program(program, SM_90A, device_kernel(**changes), DECISIONS, text, ())
    return JITKernel(made, signature(program, out_idx), {})


@pytest.fixture
def reference(monkeypatch):
    monkeypatch.setattr(call, "_said_cpu", set())
    return fake_reference(monkeypatch)


@pytest.fixture
def torch(monkeypatch):
    return fake_torch(monkeypatch)


class FakeLauncher:
    """Stands in for a loaded kernel."""

    def __init__(self) -> None:
        self.built, self.launches = {}, []

    def block(self, values):
        return self.built.get(values)

    def build(self, values):
        self.built[values] = values
        return values

    def launch(self, stream, block):
        self.launches.append((stream, block))


@pytest.fixture
def loaded(monkeypatch):
    """Every JITKernel is loaded on every GPU as one FakeLauncher per GPU."""
    found: dict[int, FakeLauncher] = {}
    monkeypatch.setattr(JITKernel, "_load", lambda self, device, alignments: found.setdefault(device, FakeLauncher()))
    return found


def ones(*shape: int, dtype: Any = np.float16) -> np.ndarray:
    return np.ones(shape or (4, 8), dtype)


# ---- on the CPU


def test_numpy_arrays_run_on_the_cpu_and_a_result_is_numpy(reference):
    result = jitted(add())(ones(), ones())
    assert type(result) is np.ndarray
    assert result.dtype == np.float16
    assert (result == 2).all()


def test_without_out_idx_everything_is_passed_and_none_comes_back(reference):
    out = np.zeros((4, 8), np.float16)
    assert jitted(add(), None)(ones(), ones(), out) is None
    assert (out == 2).all()


def test_several_results_are_a_list_in_the_order_asked_for(reference):
    program = kernel(tensor("A", 4, 8), tensor("B", 4, 8), tensor("C", 2, 8), writes=2)
    sys.modules["tilelang.sim.reference"].run = lambda program, arrays: None
    results = jitted(program, [2, 1])(ones())
    assert [result.shape for result in results] == [(2, 8), (4, 8)]


def test_the_reference_gets_all_parameters_in_order_without_copies(reference):
    program = kernel(tensor("A", 4, 8), Var("s", DType("float32")), tensor("C", 4, 8))
    a, c = ones(), ones()
    reference_arrays: list[Any] = []
    sys.modules["tilelang.sim.reference"].run = lambda program, arrays: reference_arrays.extend(arrays)
    jitted(program, None)(a, 2, c)
    assert reference_arrays[1] == 2.0
    assert [array.ctypes.data for array in reference_arrays[::2]] == [a.ctypes.data, c.ctypes.data]


def test_cpu_tensors_of_torch_give_a_torch_tensor(reference, torch):
    a, b = torch.zeros(4, 8, dtype="bfloat16"), torch.zeros(4, 8, dtype="bfloat16")
    a.array[...], b.array[...] = 1, 3
    result = jitted(add(dtype="bfloat16"))(a, b)
    assert isinstance(result, torch.Tensor)
    assert (str(result.dtype), result.device.type) == ("torch.bfloat16", "cpu")
    assert (result.array.astype(np.float32) == 4).all()


def test_it_says_once_that_it_runs_on_the_cpu(reference, caplog):
    with caplog.at_level(logging.INFO, "tilelang"):
        for _ in range(2):
            jitted(add())(ones(), ones())
    assert [record.message for record in caplog.records] == ["add runs on the CPU, where its arrays are: exact, and slow"]


def test_a_kernel_without_arguments_gives_numpy(reference, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert type(jitted(fill(), 0)()) is np.ndarray


def test_overlap_is_refused_on_the_cpu_too(reference):
    a = np.zeros((5, 8), np.float16)
    with pytest.raises(ArgumentError) as caught:
        jitted(add(), None)(a[:4], ones(), a[1:])
    assert caught.value.code == "TL544"
    assert reference == []


def test_bad_arguments_run_nothing(reference):
    with pytest.raises(ArgumentError):
        jitted(add())(ones(), ones(4, 9))
    assert reference == []


def test_keyword_arguments_are_refused_by_name():
    with pytest.raises(ArgumentError) as caught:
        jitted(add())(ones(), B=ones())
    assert (caught.value.code, caught.value.message) == ("TL545", "add: got keyword argument 'B'")


def test_a_framework_without_allocation_is_named():
    param = signature(add(), -1).tensor(2)
    foreign = type("Array", (), {"__module__": "numba.cuda"})()
    with pytest.raises(ArgumentError) as caught:
        allocate.empty(param, foreign)
    assert (caught.value.code, caught.value.message) == ("TL546", "parameter C: results cannot be allocated as arrays of numba")


# ---- on a GPU, up to the launch


def cuda(torch: Any, *shape: int, **changes: Any) -> Any:
    return torch.zeros(*(shape or (4, 8)), **{"device": "cuda", **changes})


def test_cuda_tensors_are_launched_on_their_stream_and_device(torch, loaded):
    a, b = cuda(torch, index=1), cuda(torch, index=1)
    result = jitted(add())(a, b)
    assert repr(result.device) == "cuda:1"
    assert loaded[1].launches == [(71, (a.data_ptr(), b.data_ptr(), result.data_ptr()))]


def test_the_same_addresses_build_parameters_once(torch, loaded):
    made, tensors = jitted(add(), None), [cuda(torch) for _ in range(3)]
    for _ in range(3):
        made(*tensors)
    assert len(loaded[0].launches) == 3
    assert len(loaded[0].built) == 1


def test_scalars_are_packed_by_their_dtype(torch, loaded):
    program = kernel(tensor("A", 4, 8), Var("n", DType("int32")), Var("s", DType("float32")), tensor("C", 4, 8))
    made, a, c = jitted(program, None), cuda(torch), cuda(torch)
    made(a, 5, 0.0, c)
    made(a, 5, -0.0, c)
    plus, minus = (values for _, values in loaded[0].launches)
    assert plus == (a.data_ptr(), b"\5\0\0\0", bytes(4), c.data_ptr())
    assert minus == (a.data_ptr(), b"\5\0\0\0", b"\0\0\0\x80", c.data_ptr())
    with pytest.raises(ArgumentError, match="parameter n: expected an integer"):
        made(a, 0.5, 0.0, c)


WRONG = {
    "dtype": (lambda torch: cuda(torch, dtype="float32"), "TL503"),
    "shape": (lambda torch: cuda(torch, 4, 9), "TL505"),
    "device": (lambda torch: cuda(torch, index=1), "TL542"),
    "cpu": (lambda torch: torch.zeros(4, 8), "TL542"),
    "none": (lambda torch: None, "TL502"),
}


@pytest.mark.parametrize(("make", "code"), WRONG.values(), ids=WRONG)
def test_the_short_way_leaves_every_fault_to_the_long_one(torch, loaded, make, code):
    with pytest.raises(ArgumentError) as caught:
        jitted(add())(cuda(torch), make(torch))
    assert caught.value.code == code
    with pytest.raises(ArgumentError) as caught:
        jitted(add())(cuda(torch))
    assert caught.value.code == "TL501"
    assert loaded == {}


def shifted(torch: Any, offset_bytes: int, *shape: int) -> Any:
    """A CUDA tensor whose address is a multiple of 256 bytes plus `offset_bytes`."""
    made = cuda(torch, *shape)
    made.array = aligned(made.shape, np.float16, offset_bytes=offset_bytes)
    return made


def test_strides_alignment_and_overlap_on_a_gpu(torch, loaded):
    made, good = jitted(add(), None), cuda(torch)
    turned = cuda(torch, 8, 4)
    turned.array = turned.array.T
    for argument, code in ((turned, "TL541"), (shifted(torch, 1), "TL543")):
        with pytest.raises(ArgumentError) as caught:
            made(good, argument, cuda(torch))
        assert caught.value.code == code
    with pytest.raises(ArgumentError) as caught:
        made(good, cuda(torch), good)
    assert caught.value.code == "TL544"
    assert all(not launcher.launches for launcher in loaded.values())


@pytest.fixture
def variants(monkeypatch):
    """What is asked of the compiler for each variant - kernel, configuration, options, alignments by name - and the stand-ins for
    loaded kernels by text and GPU."""
    asked: list[Any] = []
    launchers: dict[Any, FakeLauncher] = {}

    def make_program(func, target, configs, options, alignments):
        asked.append((func.name, dict(configs), options, {buffer.name: size for buffer, size in alignments.items()}))
        return Program(func, target, device_kernel(), (), f"// {len(asked)}\n{TEXT}", options)

    monkeypatch.setattr("tilelang.runtime.kernel.make_program", make_program)
    monkeypatch.setattr("tilelang.runtime.kernel.check_architecture", lambda *_: None)
    monkeypatch.setattr(Image, "load", lambda self, device: launchers.setdefault((self.program.text, device), FakeLauncher()))
    return asked, launchers


def test_less_alignment_takes_a_variant_that_is_compiled_once_and_said_once(torch, variants, caplog):
    asked, launchers = variants
    made, good, eight = jitted(add(), None), cuda(torch), shifted(torch, 8)
    with caplog.at_level(logging.INFO, "tilelang"):
        for other in (good, eight, eight, shifted(torch, 24), good):
            made(good, other, cuda(torch))
    assert asked == [("add", {}, (), {"B": 8})]
    said = (
        "add is called with B at a multiple of 8 bytes: a variant for such addresses is compiled once; it may be slower than the "
        "kernel for addresses that are multiples of 16 bytes"
    )
    assert [record.message for record in caplog.records] == [said]
    assert {text: len(found.launches) for (text, _), found in launchers.items()} == {TEXT: 2, f"// 1\n{TEXT}": 3}


def test_each_set_of_alignments_has_its_variant(torch, variants):
    asked, _ = variants
    made = jitted(add(), None)
    for offsets in ((2, 0, 0), (4, 0, 0), (4, 0, 2), (2, 0, 0), (0, 0, 0)):
        made(*(shifted(torch, offset) for offset in offsets))
    assert [alignments for *_, alignments in asked] == [{"A": 2}, {"A": 4}, {"A": 4, "C": 2}]


def test_one_variant_serves_every_gpu_and_the_kernel_itself_is_not_needed_for_it(torch, variants):
    asked, launchers = variants
    made = jitted(add(), None)
    for device in (0, 1, 0):
        tensors = [shifted(torch, 4) for _ in range(3)]
        for one in tensors:
            one.device = type(one.device)("cuda", device)
        made(*tensors)
    assert len(asked) == 1
    assert sorted(device for _, device in launchers) == [0, 1]
    assert TEXT not in {text for text, _ in launchers}


def test_a_variant_that_cannot_be_compiled_fails_each_time_and_leaves_the_kernel_usable(torch, variants, monkeypatch):
    def refused(*_):
        raise Unsupported("no", code="TL301")

    monkeypatch.setattr("tilelang.runtime.kernel.make_program", refused)
    made, good = jitted(add(), None), cuda(torch)
    for _ in range(2):
        with pytest.raises(Unsupported):
            made(good, shifted(torch, 2), cuda(torch))
    made(good, good, cuda(torch))


def test_results_are_always_aligned(torch, variants):
    asked, _ = variants
    jitted(add())(shifted(torch, 2), cuda(torch))
    assert asked[0][-1] == {"A": 2}


def test_other_arrays_run_on_their_stream_and_are_waited_for(loaded, monkeypatch):
    waited = []
    monkeypatch.setattr(call, "synchronize", lambda device, stream: waited.append((device, stream)))

    def array(pointer: int, stream: int | None) -> Any:
        face = {"shape": (4, 8), "typestr": "<f2", "data": (pointer, False), "stream": stream}
        return type("Array", (), {"__cuda_array_interface__": face, "device": type("D", (), {"id": 0}), "__module__": "other"})()

    jitted(add(), None)(array(0x1000, 5), array(0x2000, 6), array(0x3000, None))
    assert loaded[0].launches == [(5, (0x1000, 0x2000, 0x3000))]
    assert waited == [(0, 6), (0, 5)]


def test_a_gpu_of_another_architecture_is_refused_before_anything_is_compiled(torch, monkeypatch):
    monkeypatch.setattr(launch, "probe", lambda: Probe((), "no CUDA driver"))
    with pytest.raises(ArchMismatch) as caught:
        jitted(add(), text="not CUDA")(cuda(torch), cuda(torch))
    assert caught.value.code == "TL641"


# ---- the object


def test_sources(tmp_path, capsys):
    made = jitted(add(), text='#include "tl_types.cuh"\n' + TEXT)
    assert made.get_kernel_source() == made.kernel_source == '#include "tl_types.cuh"\n' + TEXT
    assert '#include "tl_' not in made.get_kernel_source(kernel_only=False)
    made.show_source()
    assert capsys.readouterr().out == made.kernel_source
    made.export_sources(kernel_path=tmp_path / "k.cu")
    assert (tmp_path / "k.cu").read_text() == made.get_kernel_source(kernel_only=False)


def test_what_cannot_be_exported(tmp_path):
    made = jitted(add())
    with pytest.raises(ArgumentError, match="expected a path, got None"):
        made.export_sources()
    with pytest.raises(PlatformError, match="cannot be written: No such file or directory"):
        made.export_sources(tmp_path / "no" / "k.cu")
    with pytest.raises(Unsupported, match="no host code"):
        made.export_sources(tmp_path / "k.cu", tmp_path / "host.cpp")
    with pytest.raises(Unsupported, match="no host code"):
        made.show_source("host")
    assert not (tmp_path / "k.cu").exists()


def test_cubin_and_resources_need_no_gpu():
    made = jitted(add())
    assert made.cubin[:4] == b"\x7fELF"
    assert made.resources.dynamic_shared_bytes == 2048
    assert made.n_regs == made.resources.registers > 0
    assert made.n_spills == 0


def test_a_program_with_two_kernels_is_our_fault():
    with pytest.raises(InternalError, match="expected one kernel"):
        _ = jitted(add(), text=TEXT + TEXT.replace("add", "sub")).resources


def test_facts():
    made = jitted(add(), -1)
    assert [str(param) for param in made.params] == ["A: float16[4, 8]", "B: float16[4, 8]", "C: float16[4, 8]"]
    assert made.out_idx == [2]
    assert made.target is SM_90A
    assert isinstance(made.prim_func, tile.Kernel)
    assert repr(made) == "<JITKernel add(A: float16[4, 8], B: float16[4, 8]) -> C: float16[4, 8] for sm_90a>"


def test_explain():
    assert jitted(add()).explain() == (
        "gemm.py:12: copy A to A_shared: TMA load (rows are 2048 bytes)\n"
        "    not cp.async: no TMA, here TMA; x\n"
        "blocks per SM: 2"
    )  # fmt: skip


def test_explain_says_what_spills_once_it_is_known(monkeypatch):
    made = jitted(add())
    assert "do not fit" not in made.explain()
    monkeypatch.setattr(type(made._image), "is_compiled", True)
    monkeypatch.setattr(type(made), "n_spills", 68)
    assert made.explain().splitlines()[-1].startswith("registers: 68 bytes of each thread do not fit")


@pytest.mark.parametrize("name", ["get_host_source", "show_sass", "get_profiler", "export_library", "adapter", "run_once"])
def test_names_that_are_not_there_say_what_is(name):
    with pytest.raises(Unsupported) as caught:
        getattr(jitted(add()), name)
    assert caught.value.code == "TL362"
    assert caught.value.message == f"JITKernel.{name} does not exist here"
    assert caught.value.hint


def test_a_misspelled_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"no attribute 'get_kernel_sauce'; it has .*get_kernel_source"):
        _ = jitted(add()).get_kernel_sauce
