"""Attention programs as the checks and timings want them: any shape, tile and number of stages, causal or full, in float16 or
bfloat16.

Two kinds of file are taken.  One that defines `attention`, as examples/attention.py does, has all of that but the dtype as
arguments.  One that defines `flash_attn(batch, heads, seq, dim, block_M=, block_N=, num_stages=, threads=)` is causal and in
float16, and its text is varied: "full" is the same text with a loop over all keys and no mask.  bfloat16 is the dtype's name
replaced in either.
"""
from __future__ import annotations

import contextlib
import io
import re
import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilelang.ir.tile import Kernel

Shape = tuple[int, int, int, int]  # batch, heads, seq, dim


@dataclass(frozen=True)
class Variant:
    """`causal` False: every key is seen.  `one_kv_head`: K and V have one head, which all heads of Q read."""

    causal: bool = True
    dtype: str = "float16"
    one_kv_head: bool = False


@dataclass(frozen=True)
class Tiles:
    """Rows of Q, rows of K and V a step, threads, and stages of the pipeline."""

    block_m: int
    block_n: int
    threads: int
    stages: int


@dataclass(frozen=True)
class Program:
    """`build(shape, tiles)` is the kernel: parameters Q, K, V, then the result, then perhaps more outputs.  `keys_masked`: keys
    after the end of the sequence are always left out; otherwise a program without the causal mask counts them as zeros."""

    build: Callable[[Shape, Tiles], Kernel]
    keys_masked: bool


def load(path: Path, variant: Variant, folder: Path) -> Program:
    """The program of a file, varied.  Its text is written to `folder`, which must be there as long as kernels are built; what the
    file itself writes ends up there, too.  Raises ValueError for a file that defines neither function."""
    text = path.read_text()
    flash = re.search(r"^def flash_attn\b", text, re.MULTILINE) is not None
    words = (path.stem, "causal" if variant.causal else "full", variant.dtype, "one_head" if variant.one_kv_head else "all_heads")
    copy = folder / ("_".join(words) + ".py")
    copy.write_text((_varied(text, variant) if flash else text).replace("float16", variant.dtype))
    names = _run(copy, path.parent)
    if flash:
        return Program(lambda shape, tiles: names["flash_attn"](*shape, **_options(tiles)), keys_masked=False)
    if "attention" not in names:
        raise ValueError(f"{path} defines neither flash_attn nor attention")

    def build(shape: Shape, tiles: Tiles) -> Kernel:
        batch, heads, seq, dim = shape
        return names["attention"](batch, heads, 1 if variant.one_kv_head else heads, seq, dim, variant.causal, **_options(tiles))

    return Program(build, keys_masked=True)


def _run(path: Path, imports: Path) -> dict[str, Any]:
    """The names of a file, run where it lies and silently; it may import from the folder `imports`."""
    sys.path.insert(0, str(imports))
    try:
        with contextlib.chdir(path.parent), contextlib.redirect_stdout(io.StringIO()):
            return runpy.run_path(str(path), run_name="program")
    finally:
        sys.path.remove(str(imports))


def _options(tiles: Tiles) -> dict[str, int]:
    return {"block_M": tiles.block_m, "block_N": tiles.block_n, "threads": tiles.threads, "num_stages": tiles.stages}


def _varied(text: str, variant: Variant) -> str:
    if not variant.causal:
        text = _replaced(text, r"T\.ceildiv\(\(bx \+ 1\) \* block_M, block_N\)", "T.ceildiv(seq, block_N)")
        text = _replaced(text, r"T\.if_then_else\(bx.*\n\s*scores\[i, j\] \* scale, .*\)", "scores[i, j] * scale")
    if variant.one_kv_head:
        text = _replaced(text, r"(?<=[KV]\[bz, ko \* block_N, )by", "0", times=2)
        text = _replaced(text, r"(?<=[KV]: T\.Tensor\()shape", "(batch, seq, 1, dim)", times=2)
    return text


def _replaced(text: str, pattern: str, by: str, times: int = 1) -> str:
    """The text with the pattern replaced.  Raises ValueError unless it is there that many times."""
    text, count = re.subn(pattern, by, text)
    if count != times:
        raise ValueError(f"the program has {count} places like {pattern!r}; there should be {times}")
    return text
