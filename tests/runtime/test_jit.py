"""`compile` and `jit`: what they take, what they keep, what they refuse."""
from __future__ import annotations

import logging
import sys
import types
from typing import Any

import numpy as np
import pytest

import tilelang
from tests.runtime.kernels import add, kernel, tensor
from tests.runtime.test_kernel import TEXT, device_kernel
from tilelang.errors import ArgumentError, KernelError, TypeProblem, Unsupported
from tilelang.runtime import jit, nvrtc
from tilelang.runtime.device import Gpu, Probe

WIDTH = 8


@pytest.fixture(autouse=True)
def compiler(monkeypatch):
    """Lowering and printing by stand-ins, on a machine without a GPU; returns what was compiled."""
    seen: list[Any] = []

    def compile_kernel(program: Any, target: Any, options: Any, alignments: Any) -> Any:
        assert alignments == {}
        seen.append((program, target, options))
        return types.SimpleNamespace(device=device_kernel(), decisions=())

    pipeline: Any = types.ModuleType("tilelang.passes.pipeline")
    pipeline.compile_kernel = compile_kernel
    cuda: Any = types.ModuleType("tilelang.codegen.cuda")
    cuda.emit = lambda device: TEXT
    monkeypatch.setitem(sys.modules, "tilelang.passes.pipeline", pipeline)
    monkeypatch.setitem(sys.modules, "tilelang.codegen.cuda", cuda)
    monkeypatch.setattr(jit, "probe", lambda: Probe((), "a test"))
    monkeypatch.delenv("TILELANG_DEFAULT_TARGET", raising=False)
    return seen


def factory(m: int, n: int = 8) -> Any:
    return add(m, n)


def test_compile(compiler):
    program = add()
    made = tilelang.compile(
        program, out_idx=[2], target={"kind": "cuda", "arch": "sm_90a"}, pass_configs={"tl.enable_fast_math": True}
    )
    assert isinstance(made, tilelang.JITKernel)
    assert made.prim_func is program
    assert made.get_kernel_source() == TEXT
    ((seen, target, options),) = compiler
    assert (seen is program, target.arch, options) == (True, "sm_90a", {"tl.enable_fast_math": True})


def test_without_a_gpu_nothing_is_compiled_until_asked(monkeypatch):
    compiled = []
    monkeypatch.setattr(nvrtc, "compile_text", lambda *a, **k: compiled.append(a))
    tilelang.compile(add())
    assert compiled == []


@pytest.mark.parametrize(("capability", "count"), [((9, 0), 1), ((8, 0), 0)])
def test_with_a_gpu_of_its_kind_it_is_compiled_at_once(monkeypatch, capability, count):
    compiled = []
    monkeypatch.setattr(jit, "probe", lambda: Probe((Gpu(0, "GPU", capability, 132),)))
    monkeypatch.setattr(jit, "_compile_now", lambda kernel, verbose: compiled.append(kernel))
    tilelang.compile(add())
    assert len(compiled) == count


def test_verbose_says_what_was_compiled(monkeypatch, caplog):
    monkeypatch.setattr(jit, "probe", lambda: Probe((Gpu(0, "GPU", (9, 0), 132),)))
    with caplog.at_level(logging.INFO, "tilelang"):
        tilelang.compile(add())
        assert caplog.text == ""
        tilelang.compile(add(), verbose=True)
    assert "add: cubin for sm_90a, " in caplog.text
    assert " registers, 0 bytes spilled, in " in caplog.text


def test_compile_refuses_what_is_no_kernel():
    with pytest.raises(TypeProblem) as caught:
        tilelang.compile(factory)  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.message) == ("TL221", "compile takes a T.prim_func, not function")


def test_a_bad_out_idx_is_found_before_lowering(compiler):
    with pytest.raises(KernelError, match="out_idx of add holds 7, out of range"):
        tilelang.compile(add(), out_idx=7)
    assert compiler == []


@pytest.mark.parametrize("backend", [None, "auto", "nvrtc", "tvm_ffi", "cython"])
def test_backends_that_mean_ours(backend):
    tilelang.compile(add(), execution_backend=backend)


def test_other_backends_are_refused():
    with pytest.raises(Unsupported, match="execution backend 'cutedsl' does not exist here"):
        tilelang.compile(add(), execution_backend="cutedsl")


# ---- jit


def test_the_same_arguments_give_the_same_kernel(compiler):
    f = tilelang.jit(factory)
    assert f(4, 5) is f(4, 5) is f(4, n=5) is f(m=4, n=5)
    assert f(4) is f(4, 8)
    assert f(4, 5) is not f(5, 4)
    assert len(compiler) == 3


def test_one_is_not_true_and_not_one_point_zero():
    def made(value: Any) -> Any:
        return add()

    f = tilelang.jit(made)
    assert len({id(f(value)) for value in (1, True, 1.0, "1")}) == 4
    assert f(0.0) is not f(-0.0)
    assert f(float("nan")) is f(float("nan"))


def test_lists_and_mappings_are_compared_by_content():
    def made(shape: Any) -> Any:
        return add()

    f = tilelang.jit(made)
    assert f([1, 2]) is f([1, 2])
    assert f([1, 2]) is not f((1, 2))
    assert f({"a": [1]}) is f({"a": [1]})
    assert f({"a": [1]}) is not f({"a": [2]})


def test_what_cannot_be_compared_is_compiled_each_time():
    def made(value: Any) -> Any:
        return add()

    f, value = tilelang.jit(made), bytearray(1)
    assert f(value) is not f(value)


def test_a_changed_global_or_closure_value_is_a_new_kernel(monkeypatch):
    depth = 2

    def made(m: int) -> Any:
        def inner() -> int:
            return WIDTH * depth

        return add(m, inner())

    f = tilelang.jit(made)
    first = f(4)
    monkeypatch.setattr(sys.modules[__name__], "WIDTH", 16)
    second = f(4)
    assert [kernel.params[0].shape for kernel in (first, second)] == [(4, 16), (4, 32)]
    depth = 3
    assert f(4).params[0].shape == (4, 48)


def test_options_reach_compile(compiler):
    @tilelang.jit(out_idx=[-1], target="sm_90a", pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
    def f(m: int) -> Any:
        return add(m, 8)

    assert f(4).out_idx == [2]
    assert f(4).pass_configs == {"tl.enable_fast_math": True}
    assert f.mode == "lazy"
    assert f.__name__ == "f"
    assert f.compile(4) is f(4)
    assert f.get_kernel_source(4) == TEXT
    assert f.get_tir(4).name == "add"


def test_jit_refusals():
    with pytest.raises(Unsupported, match="jit option 'debug_root_path' does not exist here"):
        tilelang.jit(debug_root_path="x")  # type: ignore[call-overload]
    with pytest.raises(TypeProblem, match=r"jit decorates a function that returns a T.prim_func, not Kernel"):
        tilelang.jit(add())  # type: ignore[arg-type]
    with pytest.raises(TypeProblem, match=r"returned int, not a T.prim_func"):
        tilelang.jit(lambda: 3)()
    with pytest.raises(Unsupported, match="par_compile"):
        _ = tilelang.jit(factory).par_compile
    with pytest.raises(AttributeError):
        _ = tilelang.jit(factory).no_such_name


def test_the_eager_style_is_refused_by_name():
    with pytest.raises(Unsupported) as caught:
        tilelang.jit(factory)(np.zeros((4, 8), np.float16))
    assert (caught.value.code, caught.value.message) == (
        "TL364", "factory was called with arrays: the eager style (T.const, T.empty) does not exist here",
    )  # fmt: skip


def test_a_call_that_does_not_fit_the_function_is_pythons_own_error():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'm'"):
        tilelang.jit(factory)()


# ---- pass configurations, flags, logging, helpers


@pytest.fixture
def warnings_of(caplog):
    def of(configs: Any) -> tuple[dict[str, object], list[str]]:
        from tilelang.runtime.options import normalise

        caplog.clear()
        with caplog.at_level(logging.WARNING, "tilelang"):
            found = normalise(configs)
        return found, [record.message for record in caplog.records]

    return of


def test_known_keys_as_strings_and_as_members(warnings_of):
    key = tilelang.PassConfigKey.TL_ENABLE_FAST_MATH
    assert warnings_of({key: True}) == warnings_of({"tl.enable_fast_math": True}) == ({"tl.enable_fast_math": True}, [])
    assert warnings_of(None) == ({}, [])


def test_unknown_keys_and_keys_without_effect_are_said(warnings_of):
    assert warnings_of({"tl.enable_fastmath": True}) == (
        {}, ["pass_configs: the key 'tl.enable_fastmath' does not exist and is ignored; did you mean 'tl.enable_fast_math'?"],
    )  # fmt: skip
    assert warnings_of({"tl.disable_wgmma": True}) == (
        {"tl.disable_wgmma": True},
        ["pass_configs: 'tl.disable_wgmma' has no effect here"],
    )
    assert warnings_of({"tl.disable_wgmma": False}) == ({"tl.disable_wgmma": False}, [])


def test_keys_that_the_passes_read_are_not_warned_about(warnings_of, monkeypatch):
    monkeypatch.setattr(sys.modules["tilelang.passes.pipeline"], "OPTIONS", {"tl.disable_wgmma"}, raising=False)
    assert warnings_of({"tl.disable_wgmma": True}) == ({"tl.disable_wgmma": True}, [])


@pytest.mark.parametrize("configs", [["tl.disable_wgmma"], {1: True}])
def test_configurations_are_mappings_of_names(configs):
    with pytest.raises(ArgumentError, match="pass_configs is a mapping"):
        tilelang.compile(add(), pass_configs=configs)


@pytest.mark.parametrize(
    ("configs", "flags", "options"),
    [
        ({}, None, ()),
        ({"tl.enable_fast_math": True}, None, ("--use_fast_math",)),
        ({"tl.enable_fast_math": True, "tl.disable_fast_math": True}, None, ()),
        ({"tl.ptxas_register_usage_level": 0}, None, ("--ptxas-options=--register-usage-level=0",)),
        ({"tl.device_compile_flags": "-DX=1 -DY"}, ["-lineinfo", "-DZ -DW"], ("-DX=1", "-DY", "-lineinfo", "-DZ", "-DW")),
    ],
)
def test_options_of_the_cuda_compiler(configs, flags, options):
    from tilelang.runtime.options import nvrtc_options

    assert nvrtc_options(configs, flags) == options


def test_flags_that_are_no_words():
    with pytest.raises(ArgumentError, match="compile flags are a string or a list of strings, not 3"):
        tilelang.compile(add(), compile_flags=3)  # type: ignore[arg-type]


def test_log_levels():
    log = logging.getLogger("tilelang")
    before = log.level
    try:
        for level, value in (("warning", logging.WARNING), ("DEBUG", logging.DEBUG), (25, 25)):
            tilelang.set_log_level(level)
            assert log.level == value
        for bad in ("loud", True, None):
            with pytest.raises(ArgumentError, match="log level"):
                tilelang.set_log_level(bad)  # type: ignore[arg-type]
    finally:
        log.setLevel(before)


def test_messages_are_shown_unless_the_application_takes_them(run_python):
    code = "from tilelang.runtime.log import logger; logger().info('hello'); logger().debug('no')"
    assert run_python("-c", code).stderr == "tilelang: hello\n"
    assert run_python("-c", f"import logging; logging.basicConfig(format='app %(message)s'); {code}").stderr == "app hello\n"


@pytest.mark.parametrize(
    ("a", "b", "result"), [(7, 2, 4), (8, 2, 4), (0, 3, 0), (-7, 2, -3), (7, -3, -2), (10**30 + 1, 10, 10**29 + 1)]
)
def test_cdiv(a, b, result):
    assert tilelang.cdiv(a, b) == result


@pytest.mark.parametrize(("n", "result"), [(-3, 1), (0, 1), (1, 1), (2, 2), (3, 4), (64, 64), (65, 128), (2**40 + 1, 2**41)])
def test_next_power_of_2(n, result):
    assert tilelang.next_power_of_2(n) == result


def test_two_kernels_of_one_program_keep_their_own_results():
    program = kernel(*(tensor(name, 4, 8) for name in "ABC"), writes=2)
    assert [tilelang.compile(program, out_idx=i).out_idx for i in (1, 2, [1, 2])] == [[1], [2], [1, 2]]
