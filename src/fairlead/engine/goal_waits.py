"""Units that fit now and wait for a while for nodes that they prefer.

Such a wait is deliberate: its reason is never `Unschedulable`, for which autoscalers add nodes. It
ends when a preferred node fits, and at the latest when the unit's patience ends.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from math import inf

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.engine.reasons import WAITING_FOR_BETTER_PLACE
from fairlead.model.pods import Pod
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.quota import QuotaRefusal
from fairlead.queue.units import Unit

#: Times that are kept without a look at whether they still matter.
_FEW = 64


class GoalWaits:
    def __init__(self, cluster: Cluster, queue: SchedulingQueue) -> None:
        self._cluster = cluster
        self._queue = queue
        #: When the patience of units ends that wait for it, by the key of the unit.
        self._until_s: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def refusal(self, entry: Entry, nodes: Iterable[str], now: float) -> QuotaRefusal | None:
        """Why the unit waits although it could have these nodes; None if it takes them."""
        unit = entry.unit
        until_s = entry.first_queued_s + patience_s(unit.pods)
        if now >= until_s or self._prefers(nodes) or self._is_nominated(unit.pods):
            self._until_s.pop(unit.key, None)
            return None
        self._wait(unit.key, until_s)
        return QuotaRefusal(
            WAITING_FOR_BETTER_PLACE,
            f"it fits now, and waits {until_s - now:.0f} s more at most for spot capacity",
            woken_by=_CHANGES,
        )

    def _prefers(self, nodes: Iterable[str]) -> bool:
        spot = self._cluster.nodes.spot()
        return all(spot[self._cluster.row_of[node]] for node in nodes)

    def _is_nominated(self, pods: Iterable[Pod]) -> bool:
        """Others were evicted for it: it takes the room that they leave."""
        nominations = self._cluster.nominations
        return bool(nominations) and any(nominations.node_of(pod.uid) for pod in pods)

    def _wait(self, key: str, until_s: float) -> None:
        if self._until_s.get(key) != until_s:
            self._until_s[key] = until_s
            heappush(self._heap, (until_s, key))
        if len(self._heap) > 2 * len(self._until_s) + _FEW:
            self._forget()

    def _forget(self) -> None:
        """Without units that are gone, and times that were replaced."""
        self._until_s = {key: s for key, s in self._until_s.items() if self._entry(key)}
        self._heap = [(until_s, key) for key, until_s in self._until_s.items()]
        heapify(self._heap)

    def _entry(self, key: str) -> Entry | None:
        return self._queue.gang(key) or self._queue.get(key)

    def is_waiting(self, unit: Unit) -> bool:
        return unit.key in self._until_s

    def open_rows(self, unit: Unit) -> NodeMask | None:
        """The rows that could end its wait before its time; None: it does not wait."""
        return self._cluster.nodes.spot() if unit.key in self._until_s else None

    def __bool__(self) -> bool:
        return bool(self._until_s)

    def due_s(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def tend(self, now: float) -> None:
        """Lets units try again whose patience has ended."""
        while self._heap and self._heap[0][0] <= now:
            until_s, key = heappop(self._heap)
            if self._until_s.get(key) != until_s:
                continue
            del self._until_s[key]
            entry = self._entry(key)
            if entry is not None and entry.pool is Pool.WAITING:
                self._queue.wake(entry, "UnschedulableTimeout", now=now)


#: What can make a preferred node fit.
_CHANGES = (
    Aspect.PRESENCE | Aspect.ALLOCATABLE | Aspect.USAGE | Aspect.LABELS | Aspect.TAINTS
    | Aspect.DEVICES | Aspect.TRUST
)  # fmt: skip


def patience_s(pods: Iterable[Pod]) -> float:
    """How long the pods wait for nodes that they prefer: the shortest of them counts."""
    found = inf
    for pod in pods:
        terms = pod.request.capacity
        if terms is None or not terms.wait_s:
            return 0.0
        found = min(found, terms.wait_s)
    return 0.0 if found == inf else found
