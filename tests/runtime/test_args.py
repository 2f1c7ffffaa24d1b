"""Every check of a call's arguments, by its message."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.runtime.kernels import add, aligned, fake_torch, kernel, tensor
from tilelang.errors import ArgumentError, KernelError, Unsupported
from tilelang.ir import tile
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Var
from tilelang.ir.types import DType, Scope
from tilelang.runtime.args import Signature, signature
from tilelang.runtime.arrays import CPU

CALL = "add(A: float16[4, 8], B: float16[4, 8]) -> C: float16[4, 8]"


@pytest.fixture
def torch(monkeypatch):
    return fake_torch(monkeypatch)


def half(*shape: int) -> np.ndarray:
    return np.zeros(shape or (4, 8), np.float16)


def refusal(found: Signature, *arguments: object) -> ArgumentError:
    with pytest.raises(ArgumentError) as caught:
        found.bind(arguments)
    return caught.value


def test_what_fits_is_bound():
    a, b = half(), half()
    bound = signature(add(), -1).bind((a, b))
    assert bound.device == CPU
    assert bound.like is a
    assert [v and v.pointer for v in bound.values] == [a.ctypes.data, b.ctypes.data, None]


def test_an_error_shows_code_parameter_and_call():
    error = refusal(signature(add(), 2), half(), np.zeros((4, 8), np.float32))
    assert str(error) == (
        "TL503 ArgumentError: add: parameter B: expected dtype float16, got float32\n"
        f"  note: call: {CALL}\n"
        "  hint: convert it: B.astype('float16')"
    )  # fmt: skip


CASES = {
    "count": ((half(),), "TL501", "add: expected 2 arguments, got 1", ""),
    "none": ((half(), None), "TL502", "add: parameter B: expected an array of float16[4, 8], got None", ""),
    "list": (
        (half(), [1, 2]), "TL502", "add: parameter B: expected an array of float16[4, 8], got builtins.list",
        "NumPy arrays, torch tensors and arrays with DLPack or __cuda_array_interface__ are taken",
    ),
    "dtype": (
        (half().astype(np.int32), half()), "TL503", "add: parameter A: expected dtype float16, got int32",
        "convert it: A.astype('float16')",
    ),
    "byte order": (
        (half().astype(">f2"), half()), "TL503",
        "add: parameter A: expected dtype float16, got float16 in foreign byte order", "convert it: A.astype('float16')",
    ),
    "rank": ((half(32), half()), "TL504", "add: parameter A: expected 2 dimensions (4, 8), got 1 dimension (32,)", ""),
    "number": ((np.float16(1), half()), "TL504", "add: parameter A: expected 2 dimensions (4, 8), got 0 dimensions ()", ""),
    "shape": ((half(), half(4, 9)), "TL505", "add: parameter B: expected 8 in dimension 1 of shape (4, 8), got 9 in (4, 9)", ""),
    "strides": (
        (half(), half(8, 4).T), "TL541", "add: parameter B: expected row-major strides (8, 1), got (1, 4)",
        "pass numpy.ascontiguousarray(B)",
    ),
    "every other column": (
        (half(), half(4, 16)[:, ::2]), "TL541", "add: parameter B: expected row-major strides (8, 1), got (16, 2)",
        "pass numpy.ascontiguousarray(B)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "message", "hint"), CASES.values(), ids=CASES)
def test_refusals(arguments, code, message, hint):
    error = refusal(signature(add(), 2), *arguments)
    assert (error.code, error.message, error.hint) == (code, message, hint)
    assert error.notes == (f"call: {CALL}",)


def test_count_hints():
    error = refusal(signature(add(), 2), half(), half(), half())
    assert (error.message, error.hint) == ("add: expected 2 arguments, got 3", "C is a result (out_idx) and not passed")
    error = refusal(signature(add(), None), half(), half())
    assert error.hint == "without out_idx every parameter is passed, the ones that the kernel writes included"


def test_a_written_array_must_be_writable():
    frozen = half()
    frozen.flags.writeable = False
    signature(add(), None).bind((frozen, frozen, half()))
    error = refusal(signature(add(), None), half(), half(), frozen)
    assert error.message == "add: parameter C: expected an array that can be written, got a read-only one"
    assert (error.code, error.hint) == ("TL506", "name it as a result: out_idx=[2]")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8", "bool", "float8_e4m3fn", "float8_e5m2", "uint64"])
def test_dtypes_of_numpy_and_ml_dtypes(dtype):
    array = np.zeros((4, 8), DType(dtype).numpy)
    signature(add(dtype=dtype), 2).bind((array, array))
    other = "float32" if dtype != "float32" else "float16"
    assert refusal(signature(add(dtype=other), 2), array, array).code == "TL503"


def test_strides_of_extent_one_and_of_empty_arrays_say_nothing():
    one = kernel(tensor("A", 1, 8), tensor("C", 1, 8))
    signature(one, 1).bind((half(3, 8)[::3],))
    empty = kernel(tensor("A", 0, 8), tensor("C", 0, 8))
    signature(empty, 1).bind((half(8, 0).T,))


def test_fractional_strides_are_not_row_major():
    records = np.zeros(4, np.dtype([("a", np.float16), ("b", np.uint8)]))
    error = refusal(signature(kernel(tensor("A", 4), tensor("C", 4)), 1), records["a"])
    assert error.message == "add: parameter A: expected row-major strides (1,), got (1.5,)"


def test_torch_tensors(torch):
    found = signature(add(), 2)
    bound = found.bind((torch.zeros(4, 8), torch.zeros(4, 8)))
    assert bound.device == CPU
    assert found.bind((torch.zeros(4, 8, device="cuda", index=1), torch.zeros(4, 8, device="cuda", index=1))).device == 1


def test_torch_refusals(torch):
    found, good = signature(add(), 2), torch.zeros(4, 8)
    error = refusal(found, good, torch.zeros(4, 8, dtype="bfloat16"))
    assert error.message == "add: parameter B: expected dtype float16, got bfloat16"
    assert error.hint == "convert it: B.to(torch.float16)"
    assert refusal(found, good, torch.zeros(4, 8, dtype="complex64")).message.endswith("got complex64")
    turned = torch.zeros(8, 4)
    turned.array = turned.array.T
    error = refusal(found, good, turned)
    assert error.message == "add: parameter B: expected row-major strides (8, 1), got (1, 4)"
    assert error.hint == "pass B.contiguous()"
    assert refusal(found, good, torch.zeros(4, 8, device="meta")).message == (
        "add: parameter B: expected an array on the CPU or a CUDA device, got one on meta:0"
    )


def test_one_device_for_all(torch):
    found = signature(add(), 2)
    error = refusal(found, torch.zeros(4, 8, device="cuda"), torch.zeros(4, 8))
    assert (error.code, error.message) == ("TL542", "add: parameter B: expected an array on cuda:0, where A is, got one on cpu")
    error = refusal(found, torch.zeros(4, 8, device="cuda"), torch.zeros(4, 8, device="cuda", index=1))
    assert error.message == "add: parameter B: expected an array on cuda:0, where A is, got one on cuda:1"
    found.bind((torch.zeros(4, 8), half()))


def memory_refusal(found: Signature, values: list[int | None], device: int) -> ArgumentError:
    with pytest.raises(ArgumentError) as caught:
        found.check_memory(values, device)
    return caught.value


def test_elements_are_aligned_to_their_size_on_a_gpu():
    found = signature(add(), 2)
    found.check_memory([0x1002, 0x2004, 0x3008], 0)
    found.check_memory([0x1001, 0x2000, 0x3000], CPU)
    error = memory_refusal(found, [0x1000, 0x2007, 0x3000], 0)
    assert (error.code, error.hint) == ("TL543", "pass a copy: B.clone()")
    assert error.message == (
        "add: parameter B: expected an address that is a multiple of 2 bytes, the size of float16, got 0x2007, a multiple of 1"
    )


def test_alignments_below_sixteen_bytes():
    found = signature(add(), None)
    assert found.alignments([0x1000, 0x2010, 0x30F0]) == ()
    assert found.alignments([0x1002, 0x2014, 0x3018]) == ((0, 2), (1, 4), (2, 8))
    scalar = signature(kernel(tensor("A", 4), Var("s", DType("int32")), tensor("C", 4)), None)
    assert scalar.alignments([0x1006, b"\1\0\0\0", 0x1000]) == ((0, 2),)
    assert signature(kernel(tensor("A", 0, 8), tensor("C", 0, 8)), None).alignments([0x1002, 0]) == ()


@pytest.mark.parametrize("other", [0x1000, 0x1010, 0xFF0, 0x103F - 63])
def test_a_result_shares_no_byte_with_an_argument(other):
    found = signature(add(), None)
    error = memory_refusal(found, [0x8000, other, 0x1000], CPU)
    assert error.code == "TL544"
    assert error.message == "add: parameter C: expected memory of its own, since the kernel writes it, got memory that B uses too"


def test_neighbours_and_shared_inputs_do_not_overlap():
    found = signature(add(), None)
    found.check_memory([0x8000, 0x8000, 0x1000], CPU)
    found.check_memory([0x1000 - 64, 0x1000 + 64, 0x1000], CPU)


def test_empty_arrays_have_no_bytes_to_share():
    found = signature(kernel(tensor("A", 0, 8), tensor("C", 0, 8)), None)
    found.check_memory([0, 0], 0)


SCALARS = {
    "int": ("int32", 3, 3), "numpy": ("int32", np.int64(-5), -5), "true": ("bool", True, True), "float": ("float32", 0.5, 0.5),
    "int for float": ("float32", 2, 2.0), "numpy float": ("float16", np.float32(1.5), 1.5),
    "inf": ("float16", float("inf"), float("inf")),
    "edge": ("uint8", 255, 255), "bfloat16": ("bfloat16", 3e38, 3e38),
}  # fmt: skip


@pytest.mark.parametrize(("dtype", "value", "bound"), SCALARS.values(), ids=SCALARS)
def test_scalars(dtype, value, bound):
    found = signature(kernel(tensor("A", 4), Var("s", DType(dtype)), tensor("C", 4)), 2)
    got = found.bind((half(4), value)).values[1]
    assert (got, type(got)) == (bound, type(bound))


BAD_SCALARS = {
    "float": ("int32", 1.5, "expected an integer of dtype int32, got float 1.5"),
    "range": ("int32", 2**31, "expected int32, -2147483648 to 2147483647, got int 2147483648"),
    "negative": ("uint8", -1, "expected uint8, 0 to 255, got int -1"),
    "bool": ("bool", 2, "expected bool, 0 to 1, got int 2"),
    "none": ("float32", None, "expected a number of dtype float32, got NoneType None"),
    "text": ("float32", "1", "expected a number of dtype float32, got str '1'"),
    "too large": ("float16", 7e4, "expected float16, at most 65504 in size, got float 70000.0"),
    "huge": ("float64", 10**400, "expected a number of dtype float64, got int"),
    "list": ("int32", [1], "expected an integer of dtype int32, got list [1]"),
}


@pytest.mark.parametrize(("dtype", "value", "message"), BAD_SCALARS.values(), ids=BAD_SCALARS)
def test_scalar_refusals(dtype, value, message):
    found = signature(kernel(tensor("A", 4), Var("s", DType(dtype)), tensor("C", 4)), 2)
    error = refusal(found, half(4), value)
    assert error.code == "TL507"
    assert error.message.startswith(f"add: parameter s: {message}")


@pytest.mark.parametrize(("out_idx", "outputs"), [(None, ()), (2, (2,)), (-1, (2,)), ([2], (2,)), ((), ()), ([-1, 1], (2, 1))])
def test_out_idx(out_idx, outputs):
    program = kernel(*(tensor(name, 4, 8) for name in "ABC"), writes=2)
    assert signature(program, out_idx).outputs == outputs


OUT_IDX = {
    "range": (7, "out_idx of add holds 7, out of range", "an index is -4 to 3"),
    "negative range": ([-5], "out_idx of add holds -5, out of range", "an index is -4 to 3"),
    "twice": ([3, -1], "out_idx of add names parameter C twice", ""),
    "scalar": (2, "out_idx of add names the scalar s; only a tensor can be a result", ""),
    "input": (0, "out_idx of add names A, which the kernel does not write", ""),
    "text": ("C", "out_idx of add holds 'C', which is no index", ""),
    "float": ([1.0], "out_idx of add holds 1.0, which is no index", ""),
    "bool": (True, "out_idx of add holds True, which is no index", ""),
}


@pytest.mark.parametrize(("out_idx", "message", "hint"), OUT_IDX.values(), ids=OUT_IDX)
def test_out_idx_refusals_show_the_parameters(out_idx, message, hint):
    program = kernel(tensor("A", 4, 8), tensor("B", 4, 8), Var("s"), tensor("C", 4, 8))
    with pytest.raises(KernelError) as caught:
        signature(program, out_idx)
    assert (caught.value.code, caught.value.message, caught.value.hint) == ("TL521", message, hint)
    assert caught.value.notes == (
        "parameter 0: A: float16[4, 8]", "parameter 1: B: float16[4, 8]", "parameter 2: s: int32",
        "parameter 3: C: float16[4, 8]",
    )  # fmt: skip


def test_shapes_known_only_at_the_call_are_refused():
    program = kernel(Buffer("A", (Var("n"), 8), DType("float16"), Scope.GLOBAL), tensor("C", 4, 8))
    with pytest.raises(Unsupported, match="parameter A has a dimension"):
        signature(program, 1)


def test_a_view_of_bfloat16_memory_is_that_memory():
    from tilelang.runtime.arrays import as_numpy, view

    array = aligned((2, 3), ml_dtypes.bfloat16)
    found = view(array)
    assert found is not None
    as_numpy(found)[1, 2] = 7
    assert array[1, 2] == 7
    assert as_numpy(found).dtype == ml_dtypes.bfloat16


def test_what_a_view_writes_is_written():
    inner = tensor("A", 32)
    out = tensor("C", 4, 8)
    rows = Buffer("C_rows", (32,), DType("float16"), Scope.GLOBAL, view_of=out)
    body = (tile.Copy(src=inner.whole(), dst=rows.whole()),)
    program = tile.Kernel(name="add", params=(inner, out), grid=(), threads=128, buffers=(), body=body)
    assert signature(program, 1).outputs == (1,)
    output = half()
    output.flags.writeable = False
    assert refusal(signature(program, None), half(32), output).code == "TL506"


def test_an_array_of_indices_is_no_index():
    with pytest.raises(KernelError, match="which is no index"):
        signature(add(), np.array([2, 1]))
    assert signature(add(), np.int64(2)).outputs == (2,)
