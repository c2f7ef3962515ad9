"""Who may be evicted where there are queues of teams, by searches and despite nominations."""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holding_groups import TenantGroups
from fairlead.cluster.priority_sums import AmountsByRow, sum_by_row
from fairlead.model.consolidation import time_of
from fairlead.model.pods import Amounts, Pod
from fairlead.placement.disruption_units import DisruptionUnit
from fairlead.queue.quotas.reclaim import Reclaim


class ByQueue:
    """The victims for a unit of a queue."""

    def __init__(self, cluster: Cluster, reclaim: Reclaim, utc_s: float) -> None:
        self._cluster = cluster
        self._reclaim = reclaim
        self._utc_s = utc_s
        self._known: dict[tuple[str, int], bool] = {}

    def may_evict(self, pod: Pod) -> bool:
        held = self._cluster.holdings.get(pod.uid)
        return self._may_go((held.tenant or "") if held else "", pod.priority)

    def _may_go(self, key: str, priority: int) -> bool:
        found = self._known.get((key, priority))
        if found is None:
            found = self._known[key, priority] = self._reclaim.may_evict(key, priority)
        return found

    def levels(self) -> Sequence[AmountsByRow]:
        cluster, vector = self._cluster, self._cluster.columns.vector
        victims = [
            held
            for key, priorities in victim_groups(cluster).items()
            for its, group in priorities.items()
            if self._may_go(key, its)
            for held in group.values()
        ]
        cluster.work.pods += len(victims)
        counted = [
            (row, vector(held.amounts))
            for held in victims
            if (row := cluster.row_of.get(held.node)) is not None
        ]
        return [sum_by_row(cluster.columns, counted)]

    def weight(self, unit: DisruptionUnit) -> float:
        return self._reclaim.weight(self._key(unit))

    def allows(self, unit: DisruptionUnit) -> bool:
        if unit.is_leaving:
            return True
        key = self._key(unit)
        if not self._has_run(unit, self._reclaim.least_run_s(key)):
            return False
        return self._reclaim.allows(key, unit.cost.priority, self._amounts(unit))

    def take(self, unit: DisruptionUnit, sign: int) -> None:
        if not unit.is_leaving:
            self._reclaim.take(self._key(unit), self._amounts(unit), sign)

    def _key(self, unit: DisruptionUnit) -> str:
        return unit.held[0].tenant or ""

    def _amounts(self, unit: DisruptionUnit) -> Amounts:
        tenants = self._cluster.tenants
        if tenants is None:
            return ()
        total: Counter[str] = Counter()
        for held in unit.held:
            for name, amount in tenants.charge(held.pod.uid):
                total[name] += amount
        return tuple(total.items())

    def _has_run(self, unit: DisruptionUnit, least_s: float) -> bool:
        """Members above the minimum of their gang may go at any time."""
        if not least_s or (unit.gang and unit.key != unit.gang):
            return True
        started = [time_of(held.pod.started) for held in unit.held]
        return all(each is not None and self._utc_s - each >= least_s for each in started)


def victim_groups(cluster: Cluster) -> Mapping[str, TenantGroups]:
    """What is held, by queue and priority."""
    tenants = cluster.tenants
    return tenants.groups(cluster.holdings.values()).by_tenant if tenants else {}


class AmongQueues:
    """The cluster's rule for nominations and plain pods: no pod of one queue takes room that is
    held for another queue.
    """

    def __init__(self, queue_of: Callable[[Pod], str]) -> None:
        self._queue_of = queue_of

    def may_evict(self, preemptor: Pod, pod: Pod) -> bool:
        if pod.priority >= preemptor.priority:
            return False
        own = self._queue_of(preemptor)
        return not own or (self._queue_of(pod) or own) == own

    def priority_limit(self, preemptor: Pod) -> int | None:
        return None if self._queue_of(preemptor) else preemptor.priority

    def key(self, preemptor: Pod) -> Hashable:
        return preemptor.priority, self._queue_of(preemptor)
