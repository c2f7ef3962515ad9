"""GPUs that are free and kept for a unit or a reservation: for which, since when, and for how long.

They are what planned starts, room that others were evicted for, and reservations cost. They are
counted every few seconds, by what was free at the last count.
"""

from collections.abc import Iterator
from dataclasses import field
from enum import Enum

from fairlead.cluster.cluster import Cluster
from fairlead.engine.plans import Plans
from fairlead.model.backfill import PlannedStart
from fairlead.model.gpus import WHOLE
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.placement.disruption_units import gpus_of_pod
from fairlead.queue.queue import SchedulingQueue

#: How often they are counted.
EVERY_S = 10.0


class HeldKind(Enum):
    PLANNED_START = "planned start"  #: of a unit, by backfill
    ROOM = "room"  #: that others were evicted or moved for
    RESERVATION = "reservation"  #: that has begun


@dataclass(slots=True)
class HeldFor:
    """What is kept for one unit or reservation."""

    kind: HeldKind
    #: The key of the unit, or the name of the reservation.
    key: str
    since_s: float
    gpus: float = 0.0
    nodes: dict[str, None] = field(default_factory=dict)
    #: GPU-seconds so far.
    gpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Kept:
    """So many GPUs of a node."""

    kind: HeldKind
    key: str
    node: str
    gpus: float


class HeldGpus:
    """`totals` are GPU-seconds by kind; they outlive an engine that is built again."""

    def __init__(
        self, cluster: Cluster, queue: SchedulingQueue, plans: Plans, totals: dict[HeldKind, float]
    ) -> None:
        self._cluster, self._queue, self._plans = cluster, queue, plans
        self.totals = totals
        self._held: dict[tuple[HeldKind, str], HeldFor] = {}
        self._counted_s = float("-inf")

    def __iter__(self) -> Iterator[HeldFor]:
        return iter(self._held.values())

    def of(self, key: str) -> HeldFor | None:
        """What is kept for a unit; None: nothing."""
        kinds = (HeldKind.PLANNED_START, HeldKind.ROOM)
        return next((held for kind in kinds if (held := self._held.get((kind, key)))), None)

    def tend(self, now: float) -> None:
        """Counts, if it is time to."""
        if now - self._counted_s < EVERY_S:
            return
        is_held = bool(self._plans.are_made or self._cluster.nominations)
        if not is_held and not self._held:
            return
        for held in self._held.values():
            passed = held.gpus * (now - self._counted_s)
            held.gpu_s += passed
            self.totals[held.kind] = self.totals.get(held.kind, 0.0) + passed
        self._counted_s = now
        self._count(now)

    def _count(self, now: float) -> None:
        """For planned starts first: a GPU counts once."""
        found: dict[tuple[HeldKind, str], HeldFor] = {}
        left = self._free()
        for kept in self._kept():
            free = left.get(kept.node, 0.0)
            if free > 0:
                left[kept.node] = max(0.0, free - kept.gpus)
                self._add(found, kept, min(free, kept.gpus), now)
        for name, nodes in self._plans.advance.active(now):
            if not left:
                break
            for node in sorted(left.keys() & nodes):
                free = left.pop(node)
                gpus = min(free, self._plans.advance.kept_gpus(name, node, now))
                if free > gpus:
                    left[node] = free - gpus
                if gpus > 0:
                    kept = _Kept(HeldKind.RESERVATION, name, node, gpus)
                    self._add(found, kept, gpus, now)
        self._held = found

    def _free(self) -> dict[str, float]:
        """Nodes with free GPUs."""
        free_milli = self._cluster.nodes.free_gpus()[0].tolist()
        row_of = self._cluster.row_of.items()
        return {node: free_milli[row] / WHOLE for node, row in row_of if free_milli[row] > 0}

    def _add(
        self, found: dict[tuple[HeldKind, str], HeldFor], kept: _Kept, gpus: float, now: float
    ) -> None:
        key = kept.kind, kept.key
        held = found.get(key)
        if held is None:
            before = self._held.get(key)
            since_s, gpu_s = (before.since_s, before.gpu_s) if before else (now, 0.0)
            held = found[key] = HeldFor(*key, since_s, gpu_s=gpu_s)
        held.gpus += gpus
        held.nodes[kept.node] = None

    # -- what is kept ------------------------------------------------------------------------

    def _kept(self) -> Iterator[_Kept]:
        """For units."""
        for planned in self._plans:
            yield from self._for_plan(planned)
        nominations = self._cluster.nominations
        for node in dict.fromkeys(map(nominations.node_of, nominations)):
            for pod in nominations.on(node):
                yield _Kept(HeldKind.ROOM, _unit_key(pod), node, gpus_of_pod(pod))

    def _for_plan(self, planned: PlannedStart) -> Iterator[_Kept]:
        entry = self._queue.gang(planned.unit_key) or self._queue.get(planned.unit_key)
        pods = {pod.uid: pod for pod in entry.unit.pods} if entry else {}
        for uid, node in planned.nodes:
            if uid in pods:
                gpus = gpus_of_pod(pods[uid])
                yield _Kept(HeldKind.PLANNED_START, planned.unit_key, node, gpus)


def _unit_key(pod: Pod) -> str:
    return pod.gang.gang if pod.gang else pod.uid
