"""CUDA text to cubin, the compiler's report, and what becomes of its failures.  No GPU is needed."""
from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tilelang.errors import InternalError, ToolchainFailed, Unavailable
from tilelang.runtime import nvrtc
from tilelang.runtime.nvrtc import Remark, Resources, compile_text, parse_remarks, parse_resources

GOOD = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2.0f; }'
WITH_HEADER = (
    '#include "tl_twice.cuh"\nextern "C" __global__ void twice(float* x) { x[threadIdx.x] = tl::twice(x[threadIdx.x]); }'
)
HEADERS = {"tl_twice.cuh": "namespace tl { __device__ float twice(float x) { return 2.0f * x; } }"}
SPILLS = """
extern "C" __global__ void __launch_bounds__(1024, 2) many(float* p) {
  __shared__ float s[256];
  float a[64];
  for (int i = 0; i < 64; i++) a[i] = p[i * threadIdx.x];
  for (int i = 0; i < 64; i++) for (int j = 0; j < 64; j++) a[i] += a[j] * a[i];
  s[threadIdx.x % 256] = a[3];
  __syncthreads();
  for (int i = 0; i < 64; i++) p[i * threadIdx.x + 1] = a[i] + s[i];
}"""
# registers can be moved only where their number at entry is known, which no launch bound says here
IGNORED = (
    'extern "C" __global__ void moved(float* p) { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); p[threadIdx.x] = 1; }'
)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("TILELANG_TMP_DIR", str(tmp_path))
    monkeypatch.delenv("TILELANG_PTXAS_REMARKS", raising=False)
    return tmp_path


def test_a_cubin_and_its_report():
    made = compile_text(GOOD, arch="sm_90a")
    assert made.image[:4] == b"\x7fELF"
    assert b"twice" in made.image
    used = made.resources["twice"]
    assert 4 <= used.registers <= 32
    assert (used.stack_bytes, used.spill_store_bytes, used.spill_load_bytes, used.static_shared_bytes) == (0, 0, 0, 0)
    assert made.remarks == ()


def test_headers_come_from_memory():
    assert compile_text(WITH_HEADER, arch="sm_90a", headers=HEADERS).image[:4] == b"\x7fELF"


def test_the_same_text_gives_the_same_bytes():
    assert compile_text(GOOD, arch="sm_90a").image == compile_text(GOOD, arch="sm_90a").image


def test_spills_and_static_shared_memory_are_reported():
    used = compile_text(SPILLS, arch="sm_90a").resources["many"]
    assert used.registers == 32
    assert used.spill_store_bytes > 0
    assert used.spill_load_bytes > 0
    assert used.static_shared_bytes == 1024


def test_a_remark_fails_the_compilation_and_keeps_the_text(folder):
    with pytest.raises(InternalError) as caught:
        compile_text(IGNORED, arch="sm_90a", name="moved")
    assert caught.value.code == "TL952"
    assert caught.value.message.startswith(
        "ptxas did not keep the plan of moved: C7508: Potential Performance Loss: 'setmaxnreg' ignored"
    )
    (saved,) = folder.iterdir()
    assert caught.value.notes == (f"the text is saved in {saved}",)
    assert saved.read_text() == IGNORED


def test_a_remark_can_be_a_warning(folder, monkeypatch, caplog):
    monkeypatch.setenv("TILELANG_PTXAS_REMARKS", "warn")
    with caplog.at_level(logging.WARNING, "tilelang"):
        made = compile_text(IGNORED, arch="sm_90a", name="moved")
    assert [remark.code for remark in made.remarks] == ["C7508"]
    assert "C7508" in caplog.text
    assert list(folder.iterdir()) == []


def test_a_remark_that_is_allowed_is_only_recorded(folder, monkeypatch):
    monkeypatch.setattr(nvrtc, "ALLOWED_REMARKS", {"C7508": "this test"})
    assert [remark.code for remark in compile_text(IGNORED, arch="sm_90a").remarks] == ["C7508"]


def test_text_that_does_not_compile_is_our_fault_and_is_saved_inlined(folder):
    with pytest.raises(InternalError) as caught:
        compile_text("__device__ void f() { foo(); }", arch="sm_90a", name="bad", standalone=lambda text: f"// inlined\n{text}")
    assert caught.value.code == "TL951"
    assert caught.value.message == ('the CUDA text of bad does not compile: bad.cu(1): error: identifier "foo" is undefined')
    (saved,) = folder.iterdir()
    assert saved.read_text() == "// inlined\n__device__ void f() { foo(); }"
    assert caught.value.notes[0] == f"the text is saved in {saved}"


def test_the_same_failure_keeps_one_file(folder):
    for _ in range(2):
        with pytest.raises(InternalError):
            compile_text("bad", arch="sm_90a")
    assert len(list(folder.iterdir())) == 1


def test_a_folder_that_cannot_be_written_hides_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILELANG_TMP_DIR", str(tmp_path / "file" / "below"))
    with pytest.raises(InternalError) as caught:
        compile_text("bad", arch="sm_90a")
    assert caught.value.notes[0].startswith("the text could not be saved: ")


def test_an_option_that_does_not_exist_is_named():
    with pytest.raises(ToolchainFailed) as caught:
        compile_text(GOOD, arch="sm_90a", options=("--no-such-option",))
    assert caught.value.code == "TL621"
    assert "--no-such-option" in caught.value.notes[0]


def test_an_instruction_that_does_not_exist_is_named(folder):
    with pytest.raises(InternalError, match=r"Not a name of any known instruction: 'foo'|Unknown modifier"):
        compile_text('__global__ void k() { asm volatile("foo.bar;"); }', arch="sm_90a")


def test_without_bindings_it_says_what_to_install(monkeypatch):
    def missing(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(nvrtc, "import_module", missing)
    nvrtc.bindings.cache_clear()
    try:
        with pytest.raises(Unavailable) as caught:
            nvrtc.bindings()
    finally:
        monkeypatch.undo()
    assert (caught.value.code, caught.value.hint) == ("TL601", 'pip install "cuda-bindings>=13,<14"')


def test_without_the_library_it_says_what_to_install(monkeypatch):
    class Broken:
        @staticmethod
        def nvrtcVersion() -> None:
            raise RuntimeError("Failure finding libnvrtc.so")

    monkeypatch.setattr(nvrtc, "import_module", lambda name: Broken)
    nvrtc.bindings.cache_clear()
    try:
        with pytest.raises(Unavailable, match=r"the NVRTC library cannot be loaded: Failure finding libnvrtc.so"):
            nvrtc.bindings()
    finally:
        monkeypatch.undo()


LOG = """ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to x in function 'f'
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'f' for 'sm_90a'
ptxas info    : Function properties for f
ptxas         .     896 bytes stack frame, 764 bytes spill stores, 820 bytes spill loads
ptxas info    : Used 168 registers, used 2 barriers, 896 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 31.678 ms
ptxas info    : Function properties for g
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
"""


def test_reading_a_log():
    assert parse_resources(LOG) == {"f": Resources(168, 896, 764, 820, 1024), "g": Resources(8, 0, 0, 0, 0)}
    assert parse_remarks(LOG) == (
        Remark("C7510", "Potential Performance Loss: wgmma.mma_async instructions are serialized due to x in function 'f'"),
    )
    assert parse_resources("") == {}
