"""One call of a kernel: arguments bound, results allocated, and the run where the arrays live."""
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.errors import InternalError
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.device import DeviceKernel
from tilelang.ir.expr import Var
from tilelang.runtime import allocate
from tilelang.runtime.args import Alignments, Bound, ScalarParam, Signature
from tilelang.runtime.arrays import CPU, LEGACY_STREAM, ArrayView, as_numpy, current_stream, framework_of, view
from tilelang.runtime.launch import Launcher, ParameterBlock, Values, pack, synchronize
from tilelang.runtime.log import logger

# frameworks whose current stream we launch on, so that their later work is ordered after ours
_STREAM_ORDERED = ("torch", "cupy")
_said_cpu: set[str] = set()


class Caller:
    """Calls of one kernel, `device` being what it is compiled to.  `load` gives its loaded form for a GPU by ordinal and for the
    alignments of a call; it is asked once for each pair of them."""

    def __init__(
        self, kernel: tile.Kernel, device: DeviceKernel, signature: Signature, load: Callable[[int, Alignments], Launcher]
    ) -> None:
        self._kernel, self._device, self._signature, self._load = kernel, device, signature, load
        self._launchers: dict[int, Launcher] = {}  # by GPU, for addresses that are multiples of 16 bytes
        self._variants: dict[tuple[int, Alignments], Launcher] = {}
        self._torch: TorchPath | None = None

    def __call__(self, arguments: tuple[Any, ...]) -> Any:
        """Runs the kernel; its result, a list of results, or None without out_idx.  Raises ArgumentError."""
        torch = sys.modules.get("torch")
        if torch is not None:
            if self._torch is None or self._torch.module is not torch:
                self._torch = TorchPath(self._signature, torch)
            fast = self._torch.bind(arguments)
            if fast is not None:
                device, values, results = fast
                self._launch(device, self._torch.stream(device), values)
                return _answer(results, self._signature)
        return self._slow(arguments)

    def _launch(self, device: int, stream: int, values: Values) -> None:
        launcher = self._launchers.get(device)
        block = launcher.block(values) if launcher is not None else None
        if launcher is None or block is None:
            launcher, block = self._prepared(device, values)
        launcher.launch(stream, block)

    def _prepared(self, device: int, values: Values) -> tuple[Launcher, ParameterBlock]:
        """The kernel for the alignments of these values, and its parameters."""
        alignments = self._signature.alignments(values)
        launcher = self._variants.get((device, alignments))
        block = launcher.block(values) if launcher is not None else None
        if launcher is not None and block is not None:
            return launcher, block
        self._signature.check_memory(values, device)
        if launcher is None:
            launcher = self._variants.setdefault((device, alignments), self._load(device, alignments))
            if not alignments:
                self._launchers[device] = launcher
        return launcher, launcher.build(values)

    def _slow(self, arguments: tuple[Any, ...]) -> Any:
        """Any arrays, checked one by one."""
        bound = self._signature.bind(arguments)
        results = [allocate.empty(self._signature.tensor(i), bound.like) for i in self._signature.outputs]
        views = list(bound.values)
        for position, result in zip(self._signature.outputs, results, strict=True):
            views[position] = view(result)
        device = bound.device if bound.like is not None or not results else _view(views[self._signature.outputs[0]]).device
        if device == CPU:
            self._on_cpu(views)
        else:
            self._on_gpu(bound, views, device, results)
        return _answer(results, self._signature)

    def _on_cpu(self, views: Sequence[Any]) -> None:
        """By what the program means; a program that its author synchronises means what its threads do, so that is simulated."""
        self._signature.check_memory(_addresses(views), CPU)
        name, by_hand = self._kernel.name, self._kernel.is_explicit
        if name not in _said_cpu:
            _said_cpu.add(name)
            how = "it is synchronised by hand, so its threads are simulated: exact, and very" if by_hand else "exact, and"
            logger().info("%s runs on the CPU, where its arrays are: %s slow", name, how)
        values = [as_numpy(v) if isinstance(v, ArrayView) else v for v in views]
        if by_hand:
            from tilelang.sim import machine

            given = dict(zip(self._kernel.params, values, strict=True))
            arrays = {param: value for param, value in given.items() if isinstance(param, Buffer)}
            machine.run(self._device, arrays, scalars={p: v for p, v in given.items() if isinstance(p, Var)})
        else:
            from tilelang.sim import reference

            reference.run(self._kernel, values)

    def _on_gpu(self, bound: Bound, views: Sequence[Any], device: int, results: Sequence[Any]) -> None:
        arrays = [v for v in views if isinstance(v, ArrayView)]
        like = bound.like if bound.like is not None else results[0]
        stream = current_stream(framework_of(like), device)
        if stream is None:
            stream = next((v.stream for v in arrays if v.stream is not None), LEGACY_STREAM)
        for other in {v.stream for v in arrays if v.stream is not None and not _same_stream(v.stream, stream)}:
            synchronize(device, other)
        packed = [
            pack(param.dtype, value) if isinstance(param, ScalarParam) else value.pointer
            for param, value in zip(self._signature.params, views, strict=True)
        ]
        self._launch(device, stream, tuple(packed))
        if any(v.framework not in _STREAM_ORDERED for v in arrays):
            synchronize(device, stream)


class TorchPath:
    """The short way for CUDA tensors of torch: everything expected is compared at once, and any difference is left to the long
    way, which finds its name."""

    def __init__(self, signature: Signature, torch: Any) -> None:
        self.module = torch
        self._signature = signature
        self._tensor = torch.Tensor
        self._count = len(signature.inputs)
        self._tensors = [
            (i, p.position, getattr(torch, p.dtype, None), torch.Size(p.shape))
            for i, p in enumerate(signature.inputs) if not isinstance(p, ScalarParam)
        ]  # fmt: skip
        self._scalars = [(i, p) for i, p in enumerate(signature.inputs) if isinstance(p, ScalarParam)]
        self._outputs = [(i, signature.tensor(i)) for i in signature.outputs]

    def bind(self, arguments: tuple[Any, ...]) -> tuple[int, Values, list[Any]] | None:
        """(device, values by parameter, results), or None where these are not simply the CUDA tensors that are expected."""
        if len(arguments) != self._count or not self._tensors:
            return None
        values: list[Any] = [0] * (self._count + len(self._outputs))
        device = -1
        tensor_type = self._tensor
        for i, position, dtype, shape in self._tensors:
            tensor = arguments[i]
            if not isinstance(tensor, tensor_type) or tensor.dtype is not dtype or tensor.shape != shape:
                return None
            if not tensor.is_contiguous():
                return None
            index = tensor.get_device()
            if index < 0 or (device >= 0 and index != device):
                return None
            device = index
            values[position] = tensor.data_ptr()
        for i, param in self._scalars:
            values[param.position] = pack(param.dtype, self._signature.scalar(param, arguments[i]))
        results = [allocate.empty(param, arguments[self._tensors[0][0]]) for _, param in self._outputs]
        for (position, _), result in zip(self._outputs, results, strict=True):
            values[position] = result.data_ptr()
        return device, tuple(values), results

    def stream(self, device: int) -> int:
        """torch's current stream on a GPU."""
        stream = current_stream("torch", device)
        return 0 if stream is None else stream


def _answer(results: list[Any], signature: Signature) -> Any:
    if not signature.outputs:
        return None
    return results[0] if len(results) == 1 else results


def _addresses(views: Sequence[Any]) -> list[int | None]:
    return [v.pointer if isinstance(v, ArrayView) else None for v in views]


def _same_stream(a: int, b: int) -> bool:
    """Whether two handles are one stream; 0 and 1 both are the legacy default stream."""
    return a == b or {a, b} == {0, LEGACY_STREAM}


def _view(value: Any) -> ArrayView:
    if not isinstance(value, ArrayView):
        raise InternalError(f"a result that was just allocated is no array: {value!r}", code="TL955")
    return value
