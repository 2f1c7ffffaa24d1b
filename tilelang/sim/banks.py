"""Bank conflicts of ordinary accesses to shared memory, counted.

Shared memory has 32 banks of 4 bytes.  An access of a warp is served in *wavefronts*, each at most one word from every bank
(threads that want the same word share it): of 4 bytes or less for all 32 lanes at once, of 8 bytes for half a warp at a time, of
16 bytes for a quarter.  What TMA and wgmma do is not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tilelang.errors import Span

Place = tuple[Span | None, str]
"""Where in the source, and the kind of access."""
BANKS = 32
WORD_BYTES = 4


@dataclass(slots=True)
class Count:
    """Accesses of warps at one place in the source: how many, the wavefronts they took, and the fewest they could have taken."""

    accesses: int = 0
    wavefronts: int = 0
    fewest: int = 0

    @property
    def extra(self) -> int:
        """Wavefronts that conflicts cost."""
        return self.wavefronts - self.fewest


@dataclass(slots=True)
class BankCounter:
    """Collects counts by place and kind of access ("ld.shared", "st.shared", "stmatrix"); pass one to `machine.run`."""

    counts: dict[Place, Count] = field(default_factory=dict)
    _turns: Counter[tuple[object, Place]] = field(default_factory=Counter)
    _parts: dict[tuple[Place, int, int, int], list[tuple[np.ndarray, np.ndarray]]] = field(default_factory=dict)

    def __str__(self) -> str:
        """A line for each place and kind of access."""
        lines = [
            f"{span.short if span else '?'}: {kind}: {each.accesses} accesses, {each.wavefronts} wavefronts, {each.fewest} needed"
            for (span, kind), each in self.counts.items()
        ]
        return "\n".join(lines) or "no access to shared memory"

    def add(self, place: Place, marching: object, apart: bool, threads: np.ndarray, starts: np.ndarray, width: int) -> None:
        """One access of `width` bytes by each of `threads`, at byte addresses `starts`.

        `apart`: some lanes of these warps march elsewhere and make the access at another time; it is counted once the block ends,
        the n-th of one part together with the n-th of the others.  `marching` tells the parts from each other."""
        turn = self._turns[marching, place]
        self._turns[marching, place] += 1
        for warp, lanes in _warps(threads):
            if apart:
                self._parts.setdefault((place, width, warp, turn), []).append((threads[lanes], starts[lanes]))
            else:
                self._count(place, threads[lanes], starts[lanes], width)

    def end_block(self) -> None:
        """Counts what was put together from parts."""
        for (place, width, _, _), parts in self._parts.items():
            self._count(place, np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]), width)
        self._parts.clear()
        self._turns.clear()

    def _count(self, place: Place, threads: np.ndarray, starts: np.ndarray, width: int) -> None:
        """One access of one warp."""
        count = self.counts.setdefault(place, Count())
        count.accesses += 1
        for phase in _phases(threads % 32, width):
            count.wavefronts += wavefronts(starts[phase], width)
            count.fewest += 1

    @property
    def extra(self) -> int:
        """Wavefronts that conflicts cost, in all."""
        return sum(count.extra for count in self.counts.values())


def wavefronts(starts: np.ndarray, width: int) -> int:
    """Wavefronts that lanes served together take: the most words of one bank."""
    words = (starts[:, None] + np.arange(0, max(width, WORD_BYTES), WORD_BYTES)).reshape(-1) // WORD_BYTES
    return int(np.bincount(np.unique(words) % BANKS).max(initial=0))


def _warps(threads: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Each warp, and the positions of its threads."""
    warps = threads // 32
    for warp in np.unique(warps).tolist():
        yield warp, np.flatnonzero(warps == warp)


def _phases(lanes: np.ndarray, width: int) -> Iterator[np.ndarray]:
    """Which of a warp's lanes are served together."""
    together = lanes // max(32 * WORD_BYTES // max(width, WORD_BYTES), 1)
    for part in np.unique(together).tolist():
        yield np.flatnonzero(together == part)
