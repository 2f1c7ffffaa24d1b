"""Vector clocks of one block: who knows what of whom, through which proxy.

Agents are the lanes of a warp in two parts, lane 0 (which `Elected` picks) and the 31 others.  Each has a *time* that moves on
when it publishes what it did.  Asynchronous work has times of its own, since it ends in order: the wgmma groups of a warp (each
warp of a warpgroup does its part of a wgmma when it gets there, and waits for that part alone), the bulk groups of a thread, the
phases of an mbarrier.  All of these are *components* of the clocks, and

    clocks[proxy, agent, component] = the time up to which the agent knows what the component did

for three proxies: ordinary (generic) accesses, asynchronous ones to shared memory, asynchronous ones to global memory.  Ordinary
stores enter the row of the asynchronous proxy by fence.proxy.async only.  (PTX ISA, "Memory Consistency Model", "Proxies".)  A
fourth row knows what happened before in time, visible in memory or not: a phase of an mbarrier that waits for the bytes of a copy
completes after the copy was issued.  What phase a wait or an arrival is for is judged by it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

GENERIC, ASYNC_SHARED, ASYNC_GLOBAL, IN_TIME = 0, 1, 2, 3
WARP_LANES = 32


@dataclass(frozen=True, slots=True)
class Components:
    """The numbering of components: agents first, then what works for them."""

    warps: int
    mbarriers: int

    @property
    def agents(self) -> int:
        return 2 * self.warps

    @property
    def count(self) -> int:
        return self.mbarrier(self.mbarriers)

    def wgmma(self, warp: int) -> int:
        """The wgmma groups of a warp; its time is their number."""
        return self.agents + warp

    def bulk_reads(self, agent: int) -> int:
        """The bulk groups of an agent, up to having read shared memory."""
        return self.agents + self.warps + agent

    def bulk_writes(self, agent: int) -> int:
        """The bulk groups of an agent, up to having written global memory."""
        return 2 * self.agents + self.warps + agent

    def mbarrier(self, number: int) -> int:
        """An mbarrier and the transfers that complete on it; its time is the number of completed phases."""
        return 3 * self.agents + self.warps + number


def agents_of(threads: np.ndarray) -> np.ndarray:
    """The agent of each thread."""
    return threads // WARP_LANES * 2 + (threads % WARP_LANES != 0)


class Clocks:
    """The clocks of a block's agents.  A *view* is what is passed on: an array (proxy, component)."""

    def __init__(self, components: Components) -> None:
        self.components = components
        self.known = np.zeros((4, components.agents, components.count), np.int32)
        self.time = np.ones(components.agents, np.int32)
        """Present time of each agent: what it does now is stamped with it."""

    def publish(self, agents: np.ndarray) -> np.ndarray:
        """What these agents together know and did so far, as a view; what they do from now on is later."""
        view = self.known[:, agents].max(axis=1)
        view[GENERIC, agents] = view[IN_TIME, agents] = self.time[agents]
        self.time[agents] += 1
        return view

    def issue(self, agent: int) -> np.ndarray:
        """What came before, in time, of something that an agent sets going now: times by component."""
        known = self.known[IN_TIME, agent].copy()
        known[agent] = self.time[agent]
        self.time[agent] += 1
        return known

    def learn(self, agents: np.ndarray, view: np.ndarray) -> None:
        """These agents learn a view."""
        self.known[:, agents] = np.maximum(self.known[:, agents], view[:, None, :])

    def learn_of(self, agents: np.ndarray, component: int, time: int) -> None:
        """These agents learn that a component's work up to `time` is done, which every proxy sees."""
        self.known[:, agents, component] = np.maximum(self.known[:, agents, component], time)

    def fence_async(self, agents: np.ndarray) -> None:
        """fence.proxy.async of shared memory: what these agents know or did through the ordinary proxy, the asynchronous one
        sees."""
        rows = self.known[ASYNC_SHARED, agents]
        np.maximum(rows, self.known[GENERIC, agents], out=rows)
        rows[np.arange(len(agents)), agents] = self.time[agents]
        self.known[ASYNC_SHARED, agents] = rows
        self.time[agents] += 1

    def sync_warps(self, warps: np.ndarray) -> None:
        """The two agents of each of these warps learn all of each other."""
        pairs = 2 * warps[:, None] + np.arange(2)
        own = self.known[:, pairs]
        merged = own.max(axis=2)
        for part in (0, 1):
            for proxy in (GENERIC, IN_TIME):
                merged[proxy, np.arange(len(warps)), pairs[:, part]] = self.time[pairs[:, part]]
        self.known[:, pairs] = merged[:, :, None]
        self.time[pairs] += 1
