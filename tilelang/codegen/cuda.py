"""A device kernel as CUDA text: includes, the signature, shared memory, barriers, the roles.

The text is for people first: the user's buffer names, a comment for each tile op with its source line, one wrapper call for each
instruction.  It is the same for the same kernel in every process.
"""
from __future__ import annotations

from tilelang.codegen.c_types import TL_TYPES, c_type, storage_type
from tilelang.codegen.headers import needed
from tilelang.codegen.ops import EMIT
from tilelang.codegen.out import Out
from tilelang.ir import device as d
from tilelang.ir.buffer import Buffer
from tilelang.ir.walk import walk
from tilelang.layout.digits import WARP_THREADS


def emit(kernel: d.DeviceKernel) -> str:
    """The kernel's CUDA text, with `#include` lines for our headers (`codegen.headers` has their texts)."""
    out = Out(EMIT)
    nodes = tuple(walk(kernel.setup)) + tuple(node for role in kernel.roles for node in walk(role.body))
    for line in kernel.title.splitlines():
        out.text.line(f"// {line}")
    _reserve(kernel, out)
    _signature(kernel, out)
    with out.text.indented():
        _shared_memory(kernel, out)
        _block_setup(kernel, nodes, out)
        _roles(kernel, out)
    out.text.line("}")
    text = str(out.text)
    return "\n".join((*_includes(text), *_instructions(nodes), "", text))


def _includes(text: str) -> list[str]:
    return [f'#include "{header}"' for header in needed(text)]


def _instructions(nodes: tuple[object, ...]) -> list[str]:
    """The wide instructions that the kernel asks the headers for."""
    kinds = {d.WgmmaSS: "SS", d.WgmmaRS: "RS"}
    wanted = {(kinds[type(node)], node.n, TL_TYPES[node.dtype]) for node in nodes if isinstance(node, (d.WgmmaSS, d.WgmmaRS))}
    return [f"TL_WGMMA_{kind}({n}, {dtype})" for kind, n, dtype in sorted(wanted)]


def _reserve(kernel: d.DeviceKernel, out: Out) -> None:
    """Names that must come out as they are take theirs first."""
    for axis, extent in zip(d.BLOCK_IDX, (*kernel.grid, 1, 1), strict=False):
        out.names.bind(axis, f"int({axis.name})")
        if isinstance(extent, int):
            out.printer.ranges[axis] = (0, max(extent - 1, 0))
    out.printer.ranges[d.THREAD] = (0, kernel.threads - 1)
    out.names.of(kernel, kernel.name)
    out.names.of(d.THREAD, "thread")
    out.names.of("warp", "warp")
    for array in kernel.shared:
        out.name(array)


def _signature(kernel: d.DeviceKernel, out: Out) -> None:
    params = [(f"const __grid_constant__ CUtensorMap {out.name(m)}", _map_note(m)) for m in kernel.tensor_maps]
    params += [(f"{storage_type(t.dtype)}* __restrict__ {out.name(t)}", _tensor_note(t)) for t in kernel.pointers]
    params += [(f"const {c_type(scalar.dtype)} {out.name(scalar)}", "") for scalar in kernel.scalars]
    out.text.line(f'extern "C" __global__ void __launch_bounds__({kernel.threads}, {kernel.min_blocks_per_sm})')
    head = f"{out.names.of(kernel, kernel.name)}("
    if not params:
        out.text.line(f"{head}) {{")
    for i, (param, note) in enumerate(params):
        start = head if i == 0 else " " * len(head)
        end = ") {" if i == len(params) - 1 else ","
        out.text.line(f"{start}{param}{end}{'  // ' + note if note else ''}")


def _tensor_note(tensor: Buffer) -> str:
    return f"{tensor.dtype} {' x '.join(str(extent) for extent in tensor.shape)}"


def _map_note(m: d.TensorMap) -> str:
    shape = " x ".join(str(extent) for extent in reversed(m.dims))
    box = " x ".join(str(extent) for extent in reversed(m.box))
    swizzle = f", {m.swizzle_bytes}-byte swizzle" if m.swizzle_bytes else ""
    return f"{m.tensor.name}: {m.dtype} {shape}, boxes of {box}{swizzle}"


def _shared_memory(kernel: d.DeviceKernel, out: Out) -> None:
    if kernel.shared:
        out.text.line(f"extern __shared__ __align__(1024) uint8_t shared_memory[];  // {kernel.shared_bytes} bytes, dynamic")
    for array in kernel.shared:
        offset = f" + {array.offset_bytes}" if array.offset_bytes else ""
        slots = f"{array.stages} x {array.stage_bytes} bytes" if array.stages > 1 else f"{array.stage_bytes} bytes"
        note = f"{slots}: {array.text}" if array.text else slots
        out.text.line(f"const uint32_t {out.name(array)} = tl::shared_address(shared_memory){offset};  // {note}")
    for barriers in kernel.barriers:
        note = f"  // {barriers.text}" if barriers.text else ""
        out.text.line(f"__shared__ __align__(8) uint64_t {out.name(barriers)}[{barriers.count}];{note}")


def _block_setup(kernel: d.DeviceKernel, nodes: tuple[object, ...], out: Out) -> None:
    if any(node is d.THREAD for node in nodes):
        out.text.line("const int thread = threadIdx.x;")
    if len(kernel.roles) > 1 or any(isinstance(node, d.Elected) for node in nodes):
        # The shuffle tells the compiler that the value is the same in the whole warp.
        out.text.line(f"const int warp = __shfl_sync(0xffffffff, threadIdx.x / {WARP_THREADS}, 0);")
    out.body(kernel.setup)


def _roles(kernel: d.DeviceKernel, out: Out) -> None:
    if len(kernel.roles) == 1:
        out.body(kernel.roles[0].body)
        return
    for i, role in enumerate(kernel.roles):
        last = i == len(kernel.roles) - 1
        end = (role.first_thread + role.threads) // WARP_THREADS
        start = role.first_thread // WARP_THREADS
        condition = "" if last else f"if (warp < {end}) " if start == 0 else f"if (warp >= {start} && warp < {end}) "
        out.first_warp = start
        out.text.line(f"{'} else ' if i else ''}{condition}{{  // {role.text or role.name}")
        with out.inner():
            out.body(role.body)
    out.text.line("}")
