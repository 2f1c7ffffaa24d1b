"""The words of a race: which two accesses, where, and which edge between them is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilelang.errors import HazardError
from tilelang.sim.clocks import GENERIC
from tilelang.sim.history import Conflict
from tilelang.sim.memory import Access

if TYPE_CHECKING:
    from tilelang.sim.hazards import Hazards

_ASYNC = ("tma_load", "tma_store", "wgmma")


@dataclass(frozen=True, slots=True)
class Record:
    """One access for reports: its kind (load, store, tma_load, tma_store, wgmma), who and where, the loops around it, the
    mbarrier it completes on, and the mbarrier its issuer waited for last."""

    kind: str
    access: Access
    iteration: tuple[str, ...]
    barrier: str
    waited: str
    agents: tuple[int, ...]


def describe(record: Record, thread: int = -1) -> str:
    """The access in words: who does what, in which iteration, at which line."""
    access = record.access
    who = access.agent if thread < 0 or "thread" in access.agent else f"{access.agent} warp {thread // 32} (thread {thread})"
    loops = f", {record.iteration[0]}" if record.iteration else ""
    barrier = f", completing on {record.barrier}" if record.barrier else ""
    where = ""
    if access.span is not None:
        line = access.span.source_line().strip()
        where = f" at {access.span}" + (f": {line}" if line else "")
    return f"{access.action} by {who}{barrier}{loops}{where}"


def report(
    hazards: Hazards, conflict: Conflict, first: Record, second: Record, place: str, thread: int, code: str
) -> HazardError:
    """The error for two accesses that nothing orders."""
    ordered, edge, hint = _missing(hazards, conflict, first, second, thread)
    fence_only = ordered and code == "TL815"
    verbs = f"{_verb(first.kind, conflict.wrote)} and then {_verb(second.kind, _writes(second.kind))}"
    message = f"{'missing fence' if fence_only else 'race'} on {place}, {verbs}: {edge}"
    notes = (f"first: {describe(first, conflict.thread)}", f"then: {describe(second, thread)}")
    if second.waited:
        notes += (f"before it {second.access.agent} last waited for {second.waited}",)
    return HazardError(message, code="TL816" if fence_only else code, span=second.access.span, notes=notes, hint=hint)


def _writes(kind: str) -> bool:
    return kind in ("store", "tma_load")


def _verb(kind: str, wrote: bool) -> str:
    how = {"tma_load": "by TMA", "tma_store": "by TMA", "wgmma": "by wgmma"}.get(kind, "by threads")
    return f"{'written' if wrote else 'read'} {how}"


def _missing(hazards: Hazards, conflict: Conflict, first: Record, second: Record, thread: int) -> tuple[bool, str, str]:
    """(ordered but for a proxy fence, the missing edge, what to do)."""
    before, after = _short(first), _short(second)
    if first.kind == second.kind == "tma_load":
        return False, f"nothing says that the readers of {before} are done before {after} overwrites it", (
            f"wait, before {after}, for an mbarrier on which those who read the slot arrive behind their last read"
        )
    if first.kind == "tma_load" and conflict.wrote:
        return False, f"no wait for mbarrier {first.barrier} stands between {before} and {after}", (
            f"wait for {first.barrier} before {after}"
        )
    if first.kind in ("wgmma", "tma_store"):
        return False, *_after_groups(hazards, conflict, first, second)
    if second.kind in _ASYNC:
        if not conflict.wrote:
            return False, f"no barrier lets {second.access.agent} know that {before} is done before {after}", (
                f"after the reads arrive on an mbarrier that {second.access.agent} waits for"
            )
        if _ordered(hazards, conflict, second):
            return True, f"fence.proxy.async is missing between {before} and {after}", (
                "let every thread that stores execute fence.proxy.async (T.fence_proxy_async) before the barrier between the two"
            )
        return False, f"no barrier stands between {before} and {after}", (
            f"fence.proxy.async (T.fence_proxy_async) in the storing threads, then a barrier that {second.access.agent} waits at"
        )
    if thread >= 0 and conflict.thread // 32 == thread // 32:
        edge = f"no __syncwarp stands between {before} and {after}, by lanes of one warp"
        return False, edge, "put __syncwarp or a barrier between them"
    return False, f"no barrier stands between {before} and {after}", "put a barrier for these warps between the two"


def _after_groups(hazards: Hazards, conflict: Conflict, first: Record, second: Record) -> tuple[str, str]:
    """What is missing after a wgmma or a bulk store: the wait for its group, or the news of it."""
    before, after = _short(first), _short(second)
    wait = "wgmma.wait_group" if first.kind == "wgmma" else "cp.async.bulk.wait_group" + ("" if conflict.wrote else ".read")
    if not (hazards.clocks.known[GENERIC, :, conflict.component] >= conflict.time).any():
        return f"no {wait} that covers {before}, nor a barrier after it, stands between it and {after}", (
            f"wait with {wait} before the memory is handed on"
        )
    return f"{before} was waited for, but no barrier lets {second.access.agent} know of it before {after}", (
        f"after {wait} arrive on an mbarrier, or meet at a barrier, that {second.access.agent} waits at"
    )


def _ordered(hazards: Hazards, conflict: Conflict, second: Record) -> bool:
    """Whether some issuer of the later access knows the earlier one by ordinary accesses, so that only the proxy is wrong."""
    return bool((hazards.clocks.known[GENERIC, list(second.agents), conflict.component] >= conflict.time).all())


def _short(record: Record) -> str:
    return f"the {record.access.action}" if record.kind in _ASYNC else record.access.action
