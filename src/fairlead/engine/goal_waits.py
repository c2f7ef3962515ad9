"""Units that fit now and wait for a while for nodes that they prefer.

Such a wait is deliberate: its reason is never `Unschedulable`, for which autoscalers add nodes. It
ends when a preferred node fits, and at the latest when the unit's patience ends, or when it would
miss its deadline.
"""

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush
from math import inf

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.engine.reasons import WAITING_FOR_BETTER_PLACE
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod, PodRequest
from fairlead.placement.place import Placement
from fairlead.plugins.goals import GoalLevel
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.quota import QuotaRefusal
from fairlead.queue.units import Unit

#: Times that are kept without a look at whether they still matter.
_FEW = 64
#: Times that are looked at in one turn.
_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class _Wait:
    """Until when a unit waits, and for what."""

    until_s: float
    spot: bool
    levels: tuple[GoalLevel, ...]


class GoalWaits:
    def __init__(
        self, cluster: Cluster, queue: SchedulingQueue, placements: Mapping[str, Placement]
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._placements = placements
        #: With which start a unit meets its deadline, on the clock of the engine.
        self.latest_start_s: Callable[[Unit], float] = lambda _: inf
        #: Units that wait, by their key.
        self._waits: dict[str, _Wait] = {}
        self._heap: list[tuple[float, str]] = []

    def may_wait(self, pod: Pod) -> bool:
        return pod.request.capacity is not None or bool(
            self._placements[pod.scheduler].limited_levels
        )

    def refusal(
        self, entry: Entry, placed: Iterable[tuple[Pod, str]], now: float
    ) -> QuotaRefusal | None:
        """Why the unit waits although its pods could have these nodes; None if it takes them."""
        unit, waited_s = entry.unit, now - entry.first_queued_s
        rows = [(pod, self._cluster.row_of[node]) for pod, node in placed]
        if self._is_nominated(unit.pods):
            rows = []  # it takes the room that others leave for it
        most_s = self.latest_start_s(unit) - entry.first_queued_s
        patient_s = min(patience_s(unit.pods), most_s)
        spot = patient_s > waited_s and not self._are_spot(rows)
        levels = self._unmet(rows, waited_s) if waited_s < most_s else ()
        waits = [(patient_s, "spot capacity")] if spot else []
        waits += [(min(level.patience_s, most_s), _words(level)) for level in levels]
        if not waits:
            self._waits.pop(unit.key, None)
            return None
        least_s, words = min(waits)
        self._wait(unit.key, _Wait(entry.first_queued_s + least_s, spot, levels))
        return QuotaRefusal(
            WAITING_FOR_BETTER_PLACE,
            f"it fits now, and waits {least_s - waited_s:.0f} s more at most for {words}",
            woken_by=_CHANGES,
        )

    def _are_spot(self, rows: Iterable[tuple[Pod, int]]) -> bool:
        return all(self._cluster.columns.is_spot(row) for _, row in rows)

    def _unmet(
        self, rows: Iterable[tuple[Pod, int]], waited_s: float
    ) -> tuple[GoalLevel, ...]:  # fmt: skip
        """Levels of goals that some pod would exceed, and that there is still time for."""
        found: dict[GoalLevel, None] = {}
        for (placement, request), at in self._alike(rows).items():
            nodes = Nodes(self._cluster.columns, np.unique(at))
            for level in placement.limited_levels:
                if waited_s < level.patience_s and level not in found:
                    counted = level.total(request, nodes).max()
                    if level.at_most is not None and counted > level.at_most:
                        found[level] = None
        return tuple(found)

    def _alike(
        self, rows: Iterable[tuple[Pod, int]]
    ) -> dict[tuple[Placement, PodRequest], list[int]]:
        """The rows of pods that ask for the same."""
        found: dict[tuple[Placement, PodRequest], list[int]] = {}
        for pod, row in rows:
            placement = self._placements[pod.scheduler]
            if placement.limited_levels:
                found.setdefault((placement, placement.request(pod)), []).append(row)
        return found

    def _is_nominated(self, pods: Iterable[Pod]) -> bool:
        """Others were evicted for it: it takes the room that they leave."""
        nominations = self._cluster.nominations
        return bool(nominations) and any(nominations.node_of(pod.uid) for pod in pods)

    def _wait(self, key: str, wait: _Wait) -> None:
        before = self._waits.get(key)
        self._waits[key] = wait
        if before is None or before.until_s != wait.until_s:
            heappush(self._heap, (wait.until_s, key))
        most = min(len(self._waits), len(self._queue.entries()))
        if len(self._heap) > 2 * most + _FEW:
            self._forget()

    def _forget(self) -> None:
        """Without units that are gone, and times that were replaced."""
        self._waits = {key: wait for key, wait in self._waits.items() if self._entry(key)}
        self._heap = [(wait.until_s, key) for key, wait in self._waits.items()]
        heapify(self._heap)

    def _entry(self, key: str) -> Entry | None:
        return self._queue.gang(key) or self._queue.get(key)

    def is_waiting(self, unit: Unit) -> bool:
        """Its pod may have been edited since."""
        return unit.key in self._waits and self.may_wait(unit.pod)

    def open_rows(self, unit: Unit) -> NodeMask | None:
        """The rows that could end its wait before its time; None: it does not wait."""
        wait = self._waits.get(unit.key)
        if wait is None or not self.may_wait(unit.pod):
            return None
        nodes = self._cluster.nodes
        rows: NodeMask = nodes.spot() if wait.spot else nodes.all()
        request = self._placements[unit.pod.scheduler].request(unit.pod)
        for level in wait.levels:
            rows = rows & (level.total(request, nodes) <= (level.at_most or 0.0))
        return rows

    def __bool__(self) -> bool:
        return bool(self._waits)

    def due_s(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def tend(self, now: float) -> None:
        """Lets units try again whose patience has ended."""
        for _ in range(_AT_ONCE):
            if not self._heap or self._heap[0][0] > now:
                break
            until_s, key = heappop(self._heap)
            wait = self._waits.get(key)
            if wait is None or wait.until_s != until_s:
                continue
            del self._waits[key]
            entry = self._entry(key)
            if entry is not None and entry.pool is Pool.WAITING:
                self._queue.wake(entry, "UnschedulableTimeout", now=now)


#: What can make a preferred node fit.
_CHANGES = (
    Aspect.PRESENCE | Aspect.ALLOCATABLE | Aspect.USAGE | Aspect.LABELS | Aspect.TAINTS
    | Aspect.DEVICES | Aspect.TRUST | Aspect.FIGURES | Aspect.IMAGES
)  # fmt: skip


def _words(level: GoalLevel) -> str:
    names = " and ".join(goal.name for goal, _ in level.goals)
    return f"a node with {names} of at most {level.at_most:g} {level.unit}"


def patience_s(pods: Iterable[Pod]) -> float:
    """How long the pods wait for nodes that they prefer: the shortest of them counts."""
    found = inf
    for pod in pods:
        terms = pod.request.capacity
        if terms is None or not terms.wait_s:
            return 0.0
        found = min(found, terms.wait_s)
    return 0.0 if found == inf else found
