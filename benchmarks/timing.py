"""Times of launches on a GPU, side by side.  Needs PyTorch.

The card's clock drifts with its power draw, so figures from different minutes do not compare.  Here a *round* times every
function once, one after the other, in an order that alternates from round to round; what compares is the ratio within a round,
and the figure to trust its median over rounds.
"""
from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

import torch

L2_FLUSH_BYTES = 512 << 20  # several times the cache; writing it takes longer than queueing the launch that is timed


def flush_buffer() -> torch.Tensor:
    """What `time_short` overwrites so that a launch finds nothing in the L2 cache."""
    return torch.empty(L2_FLUSH_BYTES, dtype=torch.int8, device="cuda")


def time_short(function: Callable[[], object], flush: torch.Tensor) -> float:
    """Seconds of one launch with a cold L2 cache."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    flush.zero_()
    start.record()
    function()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def time_sustained(function: Callable[[], object], launches: int) -> float:
    """Seconds per launch over the last two thirds of `launches` launches back to back."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(launches - 2 * launches // 3):
        function()
    start.record()
    for _ in range(2 * launches // 3):
        function()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / (2 * launches // 3)


def compare(
    functions: Mapping[str, Callable[[], object]], timer: Callable[..., float], argument: Any, rounds: int
) -> dict[str, list[float]]:
    """Seconds of each function in each round, by `timer(function, argument)`."""
    for function in functions.values():
        for _ in range(3):
            function()
    torch.cuda.synchronize()
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for index in range(rounds):
        for name in (list(functions), list(reversed(functions)))[index % 2]:
            seconds[name].append(timer(functions[name], argument))
    return seconds


def summary(seconds: Mapping[str, list[float]], peer: str, flop: int) -> dict[str, dict[str, Any]]:
    """For each function: median time and TFLOP/s, and median and quartiles of (the peer's time / its time) over the rounds."""
    found = {}
    for name, values in seconds.items():
        ratios = [theirs / ours for ours, theirs in zip(values, seconds[peer], strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4)
        median = statistics.median(values)
        found[name] = {
            "median_us": median * 1e6, "tflops": flop / median / 1e12, "ratio": statistics.median(ratios),
            "ratio_quartiles": [low, high], "rounds": len(ratios),
        }  # fmt: skip
    return found
