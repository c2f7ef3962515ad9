"""Plans for units of the queue: what `fairlead defrag` shows and what the engine carries out."""

from collections.abc import Iterator, Mapping

from fairlead.cluster.cluster import Cluster
from fairlead.engine.consolidation.draining import DrainPlanner, FreedNode
from fairlead.engine.consolidation.gang_fills import GangFills
from fairlead.engine.consolidation.movable import Movability, requested_milli
from fairlead.engine.consolidation.planner import USUAL, ConsolidationPlanner, Effort
from fairlead.engine.consolidation.plans import ConsolidationPlan, NoConsolidation
from fairlead.engine.queues import Queues
from fairlead.engine.requeuer import Requeuer
from fairlead.model.consolidation import MoveLimits
from fairlead.model.pods import Pod
from fairlead.placement.place import Placement
from fairlead.queue.entries import Entry
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.units import Gang, Unit

#: Larger gangs are not helped: that would take too long in one turn.
MOST_PODS = 256


class Planning:
    """It looks, and changes nothing."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        placements: Mapping[str, Placement],
        requeuer: Requeuer,
        queues: Queues,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._placements = placements
        self._requeuer = requeuer
        self._queues = queues
        self._gangs = GangFills(cluster, placements, requeuer.beyond_quota)

    def plan(
        self, entry: Entry, limits: MoveLimits, now_s: float, effort: Effort = USUAL
    ) -> ConsolidationPlan | NoConsolidation:
        """Moves that let the unit start; `now_s` is in seconds since 1970."""
        unit = entry.unit
        if not unit.is_ready:
            return NoConsolidation("it is not ready: it has scheduling gates, or pods are missing")
        if len(unit.pods) > MOST_PODS:
            return NoConsolidation(f"it has more than {MOST_PODS} pods")
        if why := unit.pod.problem or self._beyond_quota(entry):
            return NoConsolidation(why)
        movability = self._movability(limits, now_s)
        planner = ConsolidationPlanner(
            self._cluster, self._placements, self._gangs, movability, limits, effort
        )  # fmt: skip
        return planner.plan(unit)

    def _movability(self, limits: MoveLimits, now_s: float) -> Movability:
        return Movability(
            self._cluster, self._placements.keys(), self._gang_of, limits, now_s, self._least_run_s
        )  # fmt: skip

    def drain(self, limits: MoveLimits, now_s: float) -> list[FreedNode]:
        """Nodes that could be removed, some of them after moves."""
        movability = self._movability(limits, now_s)
        return DrainPlanner(self._cluster, self._placements, movability).plan()

    def candidates(self) -> Iterator[Entry]:
        """Units that wait and ask for GPUs: of equal ones the first, by priority and age."""
        entries = {id(entry): entry for entry in self._queue.entries() if entry.unit.is_ready}
        seen: set[object] = set()
        for entry in sorted(entries.values(), key=_order):
            class_ = self._requeuer.class_of(entry.unit)
            if self.asks_for_gpus(entry.unit) and class_ not in seen:
                seen.add(class_)
                yield entry

    def asks_for_gpus(self, unit: Unit) -> bool:
        return any(requested_milli(pod.request) for pod in unit.pods)

    def _beyond_quota(self, entry: Entry) -> str:
        unit = entry.unit
        if isinstance(unit, Gang):
            refusal = self._requeuer.gang_beyond_quota(unit)
        else:
            refusal = self._requeuer.beyond_quota(unit.pod)
        return refusal.message if refusal else ""

    def _least_run_s(self, pod: Pod) -> float:
        """What the queue of the pod says, or one above it."""
        tree, key = self._queues.tree, self._queues.of(pod)
        specs = map(tree.get, tree.lineage(key)) if key in tree else ()
        return max((spec.min_run_s for spec in specs if spec), default=0.0)

    def _gang_of(self, key: str) -> Gang | None:
        entry = self._queue.gang(key)
        return entry.unit if entry and isinstance(entry.unit, Gang) else None


def _order(entry: Entry) -> tuple[int, float, str]:
    return -entry.unit.priority, entry.first_queued_s, entry.unit.key
