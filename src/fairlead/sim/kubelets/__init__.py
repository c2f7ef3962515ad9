"""The kubelets of every simulated node, as one: they work on the embedded server's own store.

    bound ──▶ Running ──(annotation fairlead.dev/run-for: 30s)──▶ Succeeded
      │          │
      └──────────┴── being deleted ──▶ gone

All that is to happen later stands in one heap, so a thousand idle nodes cost a lease each ten
seconds and nothing else. Failures are wished for by annotation: see `kubelets_nodes`.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from fairlead.model.readings import NodeReadings
from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.clock import now_text
from fairlead.sim.apiserver.creating import create
from fairlead.sim.apiserver.store import Change
from fairlead.sim.apiserver.strategy import strategy_for
from fairlead.sim.kubelets import nodes
from fairlead.sim.kubelets.agenda import Agenda, Key, Step
from fairlead.sim.kubelets.gpus import SimulatedReading
from fairlead.sim.kubelets.hosts import Hosts
from fairlead.sim.kubelets.model_readings import node_readings
from fairlead.sim.kubelets.work import RUN_FOR, PodCounts, PodWork
from fairlead.sim.machines import Machine
from fairlead.sim.machines.nodes import node_object

__all__ = ["RUN_FOR", "Kubelets", "PodCounts", "SimulatedReading"]

#: Steps between two looks at the network.
_SLICE = 200


class Kubelets:
    """Plays every node of one embedded server. `speed` shortens what pods take, not leases."""

    def __init__(
        self, api: ApiState, *, speed: float = 1.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api, self._clock = api, clock
        self._agenda: Agenda[Key, Step] = Agenda()
        self._hosts = Hosts(api, self._agenda, clock)
        self._work = PodWork(api, self._agenda, self._hosts, speed, clock)
        self._awake = asyncio.Event()

    @property
    def counts(self) -> PodCounts:
        return self._work.counts

    @property
    def refused_devices(self) -> list[str]:
        """Devices that were allocated to two claims at once: a fault of a scheduler."""
        return self._work.prepared.refused

    # -- life --------------------------------------------------------------------------------

    async def register(self, machines: Iterable[Machine]) -> None:
        """Creates their nodes; those that a saved state brought along stay as they are."""
        now, kind = now_text(), self._api.kinds.plural("nodes")
        for machine in machines:
            if self._api.store.get("nodes", machine.name) is None:
                node = node_object(machine, now)
                strategy_for(kind).default(node)
                await create(self._api, Call(kind, name=machine.name), node)

    async def run(self) -> None:
        """Until cancelled."""
        self.follow()
        try:
            while True:
                self._awake.clear()
                await self._sleep_until(self.step())
        finally:
            self.unfollow()

    def follow(self) -> None:
        """Takes in what is there, and every change from now on."""
        for name, listener in (("nodes", self._on_node), ("pods", self._on_pod)):
            collection = self._api.store.collection(name)
            for entry in collection.entries.values():
                listener(Change("ADDED", entry.version, entry, None))
            collection.listeners.append(listener)

    def unfollow(self) -> None:
        self._api.store.collection("nodes").listeners.remove(self._on_node)
        self._api.store.collection("pods").listeners.remove(self._on_pod)

    def step(self) -> float | None:
        """Does a slice of what is due; returns when there is more to do, on our clock."""
        for (_, name), step in islice(self._agenda.pop_due(self._clock()), _SLICE):
            self._perform(step, name)
        return self._agenda.next_due_s()

    def _perform(self, step: Step, name: str) -> None:
        if step is Step.RENEW:
            self._hosts.renew(name)
        elif step is Step.RECONCILE:
            bereft, going_on = self._hosts.reconcile(name)
            for key in bereft:
                self._work.fail(key, "GpuLost", "a GPU of this pod has fallen off the bus")
            for key in going_on:
                self._work.go_on(key)
        else:
            self._work.perform(step, name)

    def _on_node(self, change: Change) -> None:
        self._hosts.on_change(change)
        self._awake.set()

    def _on_pod(self, change: Change) -> None:
        self._work.on_change(change)
        self._awake.set()

    async def _sleep_until(self, due_s: float | None) -> None:
        wait_s = None if due_s is None else max(0.0, due_s - self._clock())
        try:
            async with asyncio.timeout(wait_s):
                await self._awake.wait()
        except TimeoutError:
            return

    # -- what is asked of us from outside ----------------------------------------------------

    def readings(self, node: str) -> list[SimulatedReading]:
        """What NVML would say on that node now, GPU by GPU; nothing for an unknown node."""
        host = self._hosts.get(node)
        return host.gpus.readings(self._clock()) if host else []

    def node_readings(self) -> Iterator[NodeReadings]:
        """The same of every node, one after another, as agents would publish it."""
        for name, host in list(self._hosts.items()):
            if not host.down:
                now = self._clock()
                yield node_readings(name, host.gpus.readings(now), now)

    def lose_gpu(self, node: str, index: int) -> None:
        """The GPU falls off the bus: no longer allocatable, and pods on it fail."""
        self._set_lost(node, self._hosts.lost_gpus(node) | {index})

    def return_gpu(self, node: str, index: int) -> None:
        self._set_lost(node, self._hosts.lost_gpus(node) - {index})

    def take_down(self, node: str) -> None:
        """The node turns NotReady; its pods stay as they are until it is back."""
        self._hosts.annotate(node, nodes.NOT_READY, "true")

    def bring_back(self, node: str) -> None:
        self._hosts.annotate(node, nodes.NOT_READY, None)

    def _set_lost(self, node: str, lost: frozenset[int]) -> None:
        text = ",".join(map(str, sorted(lost)))
        self._hosts.annotate(node, nodes.LOST_GPUS, text or None)
