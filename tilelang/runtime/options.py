"""Pass configurations: the keys that programs write, checked, and what they mean to the CUDA compiler."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib import import_module

from tilelang.errors import ArgumentError
from tilelang.runtime.log import logger


class PassConfigKey(StrEnum):
    """The keys of `pass_configs`; a key is its string.  TL_DISABLE_PING_PONG is this compiler's own."""

    TL_DISABLE_WARP_SPECIALIZED = "tl.disable_warp_specialized"
    TL_DISABLE_TMA_LOWER = "tl.disable_tma_lower"
    TL_DISABLE_PING_PONG = "tl.disable_ping_pong"
    TL_ENABLE_FAST_MATH = "tl.enable_fast_math"
    TL_DISABLE_FAST_MATH = "tl.disable_fast_math"
    TL_DISABLE_WGMMA = "tl.disable_wgmma"
    TL_ENABLE_ASYNC_COPY = "tl.enable_async_copy"
    TL_DISABLE_SAFE_MEMORY_ACCESS = "tl.disable_safe_memory_legalize"
    TL_DISABLE_VECTORIZE_256 = "tl.disable_vectorize_256"
    TL_ENABLE_AGGRESSIVE_SHARED_MEMORY_MERGE = "tl.enable_aggressive_shared_memory_merge"
    TL_DISABLE_SHARED_MEMORY_REUSE = "tl.disable_shared_memory_reuse"
    TL_DISABLE_THREAD_STORAGE_SYNC = "tl.disable_thread_storage_sync"
    TL_DISABLE_DATA_RACE_CHECK = "tl.disable_data_race_check"
    TL_DISABLE_BUFFER_INIT_CHECK = "tl.disable_buffer_init_check"
    TL_PTXAS_REGISTER_USAGE_LEVEL = "tl.ptxas_register_usage_level"
    TL_ENABLE_PTXAS_VERBOSE_OUTPUT = "tl.enable_ptxas_verbose_output"
    TL_DEVICE_COMPILE_FLAGS = "tl.device_compile_flags"
    TL_CONFIG_INDEX_BITWIDTH = "tl.config_index_bitwidth"
    TL_LAYOUT_VISUALIZATION_ENABLE = "tl.layout_visualization_enable"
    TL_LAYOUT_VISUALIZATION_FORMATS = "tl.layout_visualization_formats"
    TL_EMIT_LINE_DIRECTIVES = "tl.emit_line_directives"
    TL_LAYOUT_COST_MODEL = "tl.layout_cost_model"
    TL_ENABLE_DUMP_IR = "tl.enable_dump_ir"


# the keys with an effect on the CUDA compiler; the passes name theirs in `passes.pipeline.OPTIONS`
_EFFECTIVE = frozenset({
    PassConfigKey.TL_ENABLE_FAST_MATH, PassConfigKey.TL_DISABLE_FAST_MATH, PassConfigKey.TL_PTXAS_REGISTER_USAGE_LEVEL,
    PassConfigKey.TL_ENABLE_PTXAS_VERBOSE_OUTPUT, PassConfigKey.TL_DEVICE_COMPILE_FLAGS,
})  # fmt: skip


def normalise(pass_configs: Mapping[str, object] | None) -> dict[str, object]:
    """The configuration by key string, sorted; a key that does not exist is dropped with a warning, and one that asks for
    something that has no effect here gets a warning too.

    Raises ArgumentError (TL532) for something that is no mapping with string keys.
    """
    if pass_configs is None:
        return {}
    if not isinstance(pass_configs, Mapping) or not all(isinstance(key, str) for key in pass_configs):
        raise ArgumentError(f"pass_configs is a mapping of PassConfigKey or str, not {pass_configs!r}", code="TL532")
    known = {key.value for key in PassConfigKey}
    found: dict[str, object] = {}
    for key, value in sorted(pass_configs.items()):
        name = str(key)
        if name not in known:
            logger().warning("pass_configs: the key %r does not exist and is ignored%s", name, _nearest(name, known))
            continue
        found[name] = value
        if value and name not in _EFFECTIVE and name not in _passes_take():
            logger().warning("pass_configs: %r has no effect here", name)
    return found


def _passes_take() -> frozenset[str]:
    """The keys that the passes read; none where they name none."""
    return frozenset(getattr(import_module("tilelang.passes.pipeline"), "OPTIONS", ()))


def nvrtc_options(configs: Mapping[str, object], compile_flags: str | Sequence[str] | None) -> tuple[str, ...]:
    """The compiler options that the configuration and the caller's own flags ask for."""
    options: list[str] = []
    if configs.get(PassConfigKey.TL_ENABLE_FAST_MATH) and not configs.get(PassConfigKey.TL_DISABLE_FAST_MATH):
        options.append("--use_fast_math")
    level = configs.get(PassConfigKey.TL_PTXAS_REGISTER_USAGE_LEVEL)
    if level is not None:
        options.append(f"--ptxas-options=--register-usage-level={level}")
    return (*options, *_flags(configs.get(PassConfigKey.TL_DEVICE_COMPILE_FLAGS)), *_flags(compile_flags))


def _flags(flags: object) -> tuple[str, ...]:
    """Compiler flags as a sequence, from one string of words or a sequence of strings."""
    if flags is None:
        return ()
    if isinstance(flags, str):
        return tuple(flags.split())
    if isinstance(flags, Sequence) and all(isinstance(flag, str) for flag in flags):
        return tuple(word for flag in flags for word in flag.split())
    raise ArgumentError(f"compile flags are a string or a list of strings, not {flags!r}", code="TL532")


def _nearest(key: str, known: set[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(key, sorted(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
