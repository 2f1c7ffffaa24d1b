"""The kernels whose CUDA text is kept and compiled: the plain GEMM, what varies it, and programs of several loops."""
from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from tests.passes import programs
from tests.passes.kernels import gemm_kernel
from tests.passes.running import compiled
from tilelang.codegen.cuda import emit
from tilelang.ir.tile import Kernel
from tilelang.ir.types import LoopKind

# Those whose text is kept in a golden file; of the others only the compilation is checked.
GOLDEN: dict[str, Callable[[], Kernel]] = {
    "gemm": partial(gemm_kernel, 1024, 1024, 1024),
    "gemm_tails": partial(gemm_kernel, 1000, 1000, 72, 128, 64, 32, 2),
    "gemm_float32": partial(gemm_kernel, 1024, 1024, 1024, out_dtype="float32"),
    "gemm_both_transposed": partial(gemm_kernel, 1024, 1024, 1024, transpose_a=True, transpose_b=True),
    "gemm_n96": partial(gemm_kernel, 1024, 960, 1024, block_n=96),
    "gemm_one_stage": partial(gemm_kernel, 1024, 1024, 1024, num_stages=1),
    "gemm_through_shared": partial(gemm_kernel, 1024, 1024, 1024, 128, 64, 64, 2, dtype="bfloat16", through_shared=True),
    "two_loops": programs.two_loops,
    "persistent": programs.persistent,
    "chained": programs.chained,
    "pipelined_copies": programs.pipelined_copies,
}
COMPILED: dict[str, Callable[[], Kernel]] = {
    "gemm_a_transposed": partial(gemm_kernel, 1024, 1024, 1024, transpose_a=True),
    "gemm_b_transposed": partial(gemm_kernel, 1024, 1024, 1024, transpose_b=True),
    "gemm_four_stages": partial(gemm_kernel, 1024, 1024, 1024, num_stages=4),
    "gemm_serial": partial(gemm_kernel, 1024, 1024, 1024, num_stages=0, kind=LoopKind.SERIAL),
    "gemm_n320": partial(gemm_kernel, 1024, 1024, 1024, 64, 320, 32, 2, transpose_b=True),
    "gemm_192_registers": partial(gemm_kernel, 1024, 1024, 1024, 192, 128, 64, 2, out_dtype="float32"),
    "gemm_208_registers": partial(gemm_kernel, 1024, 1040, 1024, 128, 208, 64, 2, dtype="bfloat16"),
    "gemm_k16": partial(gemm_kernel, 1024, 1024, 1024, 64, 64, 16, 3),
    "gemm_k192": partial(gemm_kernel, 1024, 1024, 1024, 64, 64, 192, 2, transpose_b=True),
    **{name: getattr(programs, name) for name in (
        "two_gemms_one_accumulator", "two_accumulators", "one_ring_two_loops", "nested", "resident_operand",
        "outer_and_inner_loads", "block_dependent_trips", "strided_loop", "batched", "heads_between", "cleared_by_condition",
        "start_value", "lets", "stored_twice", "through_shared",
    )},
}  # fmt: skip


@cache
def text_of(name: str) -> str:
    """The CUDA text of a variation."""
    return emit(compiled((GOLDEN | COMPILED)[name]()).device)
