"""Every kernel we print compiles with NVRTC for sm_90a, without spills and without remarks; so does every wrapper."""
from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from tests.codegen.statements import every_statement
from tests.codegen.variations import COMPILED, GOLDEN, text_of
from tests.passes.kernels import gemm_kernel
from tests.passes.running import compiled
from tilelang.codegen.cuda import emit
from tilelang.codegen.headers import header_texts, standalone
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Var
from tilelang.ir.tile import Kernel
from tilelang.ir.walk import walk
from tilelang.runtime import nvrtc
from tilelang.target import SM_90A

WIDTHS = range(8, 257, 8)
TYPES = ("f16", "bf16")


def cubin(text: str, allowed_stack: int = 0) -> nvrtc.Cubin:
    """The text compiled: an error for any remark, and no spill."""
    done = nvrtc.compile_text(text, arch="sm_90a", headers=header_texts())
    assert done.image[:4] == b"\x7fELF"
    assert not done.remarks
    assert done.resources
    for resources in done.resources.values():
        assert (resources.spill_store_bytes, resources.spill_load_bytes, resources.stack_bytes) == (0, 0, allowed_stack)
    return done


@pytest.mark.parametrize("name", [*GOLDEN, *COMPILED])
def test_variations(name: str) -> None:
    lowered = compiled((GOLDEN | COMPILED)[name]())
    done = cubin(text_of(name))
    assert list(done.resources) == [lowered.device.name]
    resources, roles = done.resources[lowered.device.name], lowered.plans.roles
    # What the launch needs is there: registers for the planned blocks, and shared memory for as many.
    assert resources.registers * lowered.device.threads * roles.min_blocks_per_sm <= SM_90A.registers_per_sm
    block = resources.static_shared_bytes + lowered.device.shared_bytes
    assert block <= SM_90A.shared_bytes_per_block
    assert (block + SM_90A.shared_reserved_bytes_per_block) * roles.min_blocks_per_sm <= SM_90A.shared_bytes_per_sm


def test_every_statement() -> None:
    cubin(emit(every_statement()))


# ---- wrappers -----------------------------------------------------------------------------------------------------------------


@cache
def macros() -> dict[str, str]:
    """The object- and function-like macros of tl_wgmma.cuh by name, their continuation lines joined."""
    text = header_texts()["tl_wgmma.cuh"].replace("\\\n", " ")
    return dict(re.findall(r"^#define (\w+)(?:\([^)]*\))? +(.*)$", text, re.MULTILINE))


def places(text: str) -> list[int]:
    """The placeholders %0, %1, ... of a macro, in order, macros expanded."""
    for name in re.findall(r"\bTL_\w+", text):
        text = text.replace(name, macros()[name], 1)
        return places(text)
    return [int(place) for place in re.findall(r"%(\d+)", text)]


def operands(text: str) -> list[int]:
    """The elements d[i] that a macro lists, in order."""
    found = []
    for call, base in re.findall(r"TL_D(4|16)\((\d+)\)", text):
        found += range(int(base), int(base) + int(call))
    return found


@pytest.mark.parametrize("n", WIDTHS)
def test_registers_of_wgmma_are_in_order(n: int) -> None:
    """Placeholders and operands of an instruction of n / 2 registers are 0, 1, 2, ..., and the other operands follow."""
    count = n // 2
    assert places(macros()[f"TL_PLACES_{n}"]) == list(range(count))
    assert operands(macros()[f"TL_OPERANDS_{n}"]) == list(range(count))
    for kind, others in (("SS", 5), ("RS", 7)):
        macro = macros()[f"TL_WGMMA_{kind}_{n}"]
        assert macro.startswith(f"TL_WGMMA_{kind}_IMPL({n}, TYPE, TL_PLACES_{n}, TL_OPERANDS_{n}, ")
        assert [int(place) for place in re.findall(r'"%(\d+)"', macro)] == list(range(count, count + others))


def wgmma_kernel(kind: str, n: int, dtype: str, major: int) -> str:
    """A kernel of one instruction."""
    call = f"wgmma_ss<{n}, tl::{dtype}, {major}, {major}>(d, a, b, n != 0)" if kind == "SS" else (
        f"wgmma_rs<{n}, tl::{dtype}, {major}>(d, reinterpret_cast<const uint32_t*>(out), b, n != 0)"
    )  # fmt: skip
    return f"""
extern "C" __global__ void __launch_bounds__(128) {kind.lower()}_{n}_{dtype}_{major}(float* out, uint64_t a, uint64_t b, int n) {{
  float d[{n // 2}];
  #pragma unroll
  for (int i = 0; i < {n // 2}; ++i) d[i] = out[threadIdx.x + 128 * i];
  tl::fence_registers(d);
  tl::wgmma_fence();
  tl::{call};
  tl::wgmma_commit_group();
  tl::wgmma_wait_group<0>();
  tl::fence_registers(d);
  #pragma unroll
  for (int i = 0; i < {n // 2}; ++i) out[threadIdx.x + 128 * i] = d[i];
}}
"""


@pytest.mark.parametrize("kind", ["SS", "RS"])
def test_every_wgmma_compiles(kind: str) -> None:
    """All widths, each for one of the two types and one major in turn; both types and majors for the narrowest and the widest."""
    wanted = {(n, TYPES[i % 2], i // 2 % 2) for i, n in enumerate(WIDTHS)}
    wanted |= {(n, dtype, major) for n in (8, 256) for dtype in TYPES for major in (0, 1)}
    instructions = sorted({(n, dtype) for n, dtype, _ in wanted})
    lines = ['#include "tl_wgmma.cuh"', *(f"TL_WGMMA_{kind}({n}, {dtype})" for n, dtype in instructions)]
    done = cubin("\n".join(lines) + "".join(wgmma_kernel(kind, *which) for which in sorted(wanted)))
    assert len(done.resources) == len(wanted)
    for n, dtype, major in wanted:
        assert done.resources[f"{kind.lower()}_{n}_{dtype}_{major}"].registers >= n // 2


WHERE = ("global(out", "shared(u")
NARROW = ("f16", "bf16", "e4m3", "e5m2")
CALLS = {
    "tl_types.cuh": ["u = tl::shared_address(s)"],
    "tl_convert.cuh": [
        *(f"u = tl::pack_{name}(f, f)" for name in NARROW[:2]), *(f"u = tl::pack_{name}(f, f, f, f)" for name in NARROW[2:]),
        *(f"u = tl::bits_{name}(f)" for name in NARROW), *(f"f = tl::from_bits_{name}(u)" for name in NARROW),
        *(f"f = tl::round_{name}(f)" for name in NARROW), *(f"f += tl::unpack_{name}<1>(u)" for name in NARROW),
        *(f"u += tl::pack_two_{name}(f, f)" for name in NARROW[2:]),
        *(f"u += tl::pack_{name}(i, i)" for name in ("i16", "u16")),
        *(f"u += tl::pack_{name}(i, i, i, i)" for name in ("i8", "u8")),
        *(f"i += tl::unpack_{name}<1>(u)" for name in ("i16", "u16", "i8", "u8")),
        "f += tl::sticky(f, i == 0)",
        *(f"f += tl::to_odd_{name}(i)" for name in ("float64", "int32", "uint32", "int64", "uint64")),
        *(f"i += tl::to_{sign}int{bits}(f)" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    ],
    "tl_math.cuh": [
        "f = tl::exp2(f)", "f = tl::sigmoid(f)", "f = tl::infinity()", "f = tl::nan()",
        "i = tl::floor_div(i, 3)", "i = tl::floor_mod(i, 3)",
        "f = tl::floor_div(f, 3.0f)",
        "f = tl::floor_mod(f, 3.0f)",
        *(f"f = tl::{name}(1.0 * f)" for name in ("exp2", "sigmoid")),
        *(f"f = tl::{name}(1.0 * f, 3.0)" for name in ("floor_div", "floor_mod")),
    ],
    "tl_mbarrier.cuh": [
        "tl::mbarrier_init(bar, 1)", "tl::fence_mbarrier_init()", "tl::mbarrier_arrive(bar)",
        "tl::mbarrier_arrive_expect_tx(bar, 16)", "tl::mbarrier_expect_tx(bar, 16)",
        "i = tl::mbarrier_try_wait(bar, 0)",
    ],
    "tl_memory.cuh": [
        *(f"tl::load_global<{n}>({to}, out, i > 0)" for n in (1, 2, 4) for to in ("w", "v", "x")),
        *(f"tl::load_global_constant<{n}>({to}, out, i > 0)" for n in (1, 2, 4) for to in ("w", "v", "x")),
        *(f"tl::load_shared<{n}>({to}, u)" for n in (1, 2, 4) for to in ("w", "v", "x")),
        *(f"tl::store_{where}, {', '.join([value] * n)})" for n in (1, 2, 4) for value in "ufi" for where in WHERE),
        "u = tl::load_shared_b8(u)", "u = tl::load_shared_b16(u)", "tl::store_shared_b8(u, u)", "tl::store_shared_b16(u, u)",
        "f = tl::load_shared_b64<double>(u)", "i = tl::load_shared_b64<long long>(u)", "tl::store_shared_b64(u, 1.0 * f)",
        "u = tl::word(u) + tl::word(i) + tl::word(f)", "tl::set(u, u)", "tl::set(i, u)", "tl::set(f, u)",
    ],
    "tl_stmatrix.cuh": ["tl::stmatrix_x4(u, u, u, u, u)"],
    "tl_sync.cuh": [
        "tl::named_barrier_sync<1, 128>()", "i = tl::elect_one()", "tl::warpgroup_reg_alloc<232>()",
        "tl::warpgroup_reg_dealloc<24>()",
        "tl::fence_proxy_async()",
    ],
    "tl_tma.cuh": [
        *(f"tl::tma_load(map, bar, u, {', '.join(['i'] * rank)})" for rank in range(1, 6)),
        *(f"tl::tma_store(map, u, {', '.join(['i'] * rank)})" for rank in range(1, 6)),
        "tl::tma_store_commit_group()", "tl::tma_store_wait_group_read<0>()", "tl::tma_store_wait_group_read<1>()",
        "tl::tma_store_wait_group<0>()",
    ],
}  # fmt: skip


def test_every_wrapper_compiles() -> None:
    """One kernel that calls each wrapper of every header but tl_wgmma.cuh."""
    calls = [call for header in CALLS.values() for call in header]
    for header, text in header_texts().items():
        if header != "tl_wgmma.cuh":
            used = set(re.findall(r"tl::(\w+)", "\n".join(CALLS[header])))
            assert used == set(re.findall(r"^TL_DEVICE [\w: ]+?\*? ?(\w+)\(", text, re.MULTILINE)), header
    body = "".join(f"  {call};\n" for call in calls)
    done = cubin(
        "".join(f'#include "{header}"\n' for header in header_texts())
        + 'extern "C" __global__ void __launch_bounds__(256, 1)\n'
        + "all_of_them(const __grid_constant__ CUtensorMap map, float* out, uint32_t u, float f, int i) {\n"
        + "  __shared__ uint8_t s[128];\n  __shared__ uint64_t bar;\n  uint32_t w[4];\n  float v[4];\n  int x[4];\n"
        + f"{body}  *out = u + f + i + w[0] + v[0] + x[0];\n}}\n"
    )
    assert done.resources["all_of_them"].registers > 8


def test_headers_compile_alone() -> None:
    """Each header includes what it needs, and takes being included twice."""
    for header in header_texts():
        text = f'#include "{header}"\n#include "{header}"\nextern "C" __global__ void nothing() {{}}\n'
        assert cubin(text).resources


def test_a_standalone_file_is_the_same_program() -> None:
    text = text_of("gemm")
    whole = nvrtc.compile_text(standalone(text), arch="sm_90a")
    assert whole.resources == cubin(text).resources
    assert not whole.remarks


# ---- names --------------------------------------------------------------------------------------------------------------------

DIFFICULT = {
    "A": "int", "B": "threadIdx", "C": "C_local_tile", "A_shared": "full", "B_shared": "empty", "C_local": "thread",
    "bx": "warp", "by": "half",
    "ko": "stage",
}  # fmt: skip
LONG = {name: f"a_very_long_name_that_goes_on_and_on_{'and_on_' * 12}{name}" for name in DIFFICULT}
UNICODE = {name: "αβγδεζηθι"[i] for i, name in enumerate(DIFFICULT)}
OURS = dict(
    zip(
        DIFFICULT,
        ["tl", "CUtensorMap", "shared_memory", "uint32_t", "phase", "row", "TL_DEVICE", "min", "elect_one"],
        strict=True,
    )
)
SAME = dict.fromkeys(DIFFICULT, "x")
BUILT_IN = dict(
    zip(
        DIFFICULT,
        ["float4", "dim3", "linux", "unix", "assert", "printf", "NULL", "expf", "__syncthreads"],
        strict=True,
    )
)


def renamed(kernel: Kernel, names: dict[str, str]) -> Kernel:
    """The kernel with its buffers and variables called otherwise."""
    for thing in (*kernel.params, *kernel.buffers, *(axis.var for axis in kernel.grid), *walk(kernel.body)):
        if isinstance(thing, (Buffer, Var)) and thing.name in names:
            object.__setattr__(thing, "name", names[thing.name])
    return replace(kernel, name=names["A"])


@pytest.mark.parametrize(
    "names", [DIFFICULT, LONG, UNICODE, OURS, SAME, BUILT_IN], ids=["difficult", "long", "unicode", "ours", "same", "built in"]
)
def test_any_names_compile(names: dict[str, str]) -> None:
    kernel = renamed(gemm_kernel(256, 256, 256, 128, 64, 64, 2, through_shared=True), names)
    text = emit(compiled(kernel).device)
    assert cubin(text).resources
    code = re.sub("//.*", "", text)
    for macro in ("linux", "unix", "assert", "NULL"):  # of plain nvcc, and of its host compiler
        assert not re.search(rf"\b{macro}\b", code), macro
