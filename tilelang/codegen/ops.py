"""Every statement of device IR with the function that writes its line or lines of CUDA."""
from __future__ import annotations

from tilelang.codegen.ops_barrier import BARRIERS
from tilelang.codegen.ops_memory import MEMORY
from tilelang.codegen.ops_structure import STRUCTURE
from tilelang.codegen.ops_wgmma import TENSOR_CORE
from tilelang.codegen.out import Emit

EMIT: dict[type, Emit] = {**STRUCTURE, **BARRIERS, **MEMORY, **TENSOR_CORE}
