"""What the author asks of the passes beyond the program: the pass configurations that mean something here."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DISABLE_WARP_SPECIALIZED = "tl.disable_warp_specialized"
DISABLE_TMA = "tl.disable_tma_lower"
DISABLE_PING_PONG = "tl.disable_ping_pong"


@dataclass(frozen=True, slots=True)
class Options:
    """`warp_specialize`: loads may travel ahead in rings filled by producer warps, if there is `room_for_producer` in the block.
    `tma`: copies may use tensor maps.  `ping_pong`: warpgroups may take tiles in turn."""

    warp_specialize: bool = True
    tma: bool = True
    room_for_producer: bool = True
    ping_pong: bool = True


def parse_options(configs: Mapping[str, object] | None) -> Options:
    """The options in a mapping of pass configurations; other keys are other rooms' business."""
    given = {str(key): value for key, value in (configs or {}).items()}
    return Options(
        warp_specialize=not given.get(DISABLE_WARP_SPECIALIZED, False),
        tma=not given.get(DISABLE_TMA, False),
        ping_pong=not given.get(DISABLE_PING_PONG, False),
    )  # fmt: skip
