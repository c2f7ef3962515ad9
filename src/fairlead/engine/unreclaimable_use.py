"""What queues use that can not be reclaimed from them, and why."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.model.budgets import Budget
from fairlead.model.consolidation import time_of
from fairlead.model.pods import Amounts, Pod
from fairlead.queue.quotas.tree import QueueTree

NOT_RECLAIMABLE = "of queues that are not reclaimable"
TOO_SHORT = "run for less than the minimum run time"
PROTECTED = "protected by disruption budgets"
NOT_LOWER = "not of lower priority"

#: By queue and reason.
Unreclaimable = Mapping[str, Mapping[str, Amounts]]


class UnreclaimableUse:
    """For those who look: searches find out by themselves what may go."""

    def __init__(self, cluster: Cluster, tree: QueueTree, utc_s: float, below: int | None) -> None:
        """`below`: only units of a lower priority may go; None: whatever the priority."""
        self._cluster = cluster
        self._tree = tree
        self._utc_s = utc_s
        self._below = below
        self._budgets: dict[str, list[Budget]] = defaultdict(list)
        for budget in cluster.budgets.values():
            self._budgets[budget.namespace].append(budget)

    def of(self, keys: Collection[str]) -> Unreclaimable:
        """Each with the queues beneath it. A pod counts for the first reason that applies."""
        found: dict[str, dict[str, Counter[str]]] = {key: defaultdict(Counter) for key in keys}
        above: dict[str, list[str]] = {}
        for held in self._cluster.holdings.values():
            if not held.tenant:
                continue
            if held.tenant not in above:
                lineage = self._tree.lineage(held.tenant)
                above[held.tenant] = [key for key in lineage if key in found]
            reason = self._reason(held, held.tenant) if above[held.tenant] else ""
            for key in above[held.tenant] if reason else ():
                found[key][reason].update(dict(self._charge(held)))
        return {key: _amounts(reasons) for key, reasons in found.items()}

    def _charge(self, held: Holding) -> Amounts:
        tenants = self._cluster.tenants
        return tenants.charge(held.pod.uid) if tenants else ()

    def _reason(self, held: Holding, key: str) -> str:
        specs = [spec for each in self._tree.lineage(key) if (spec := self._tree.get(each))]
        if not all(spec.reclaimable for spec in specs):
            return NOT_RECLAIMABLE
        if self._below is not None and held.pod.priority >= self._below:
            return NOT_LOWER
        least_s = next((s.min_run_reclaim_s for s in specs if s.min_run_reclaim_s), 0.0)
        if least_s and not self._has_run(held.pod, least_s):
            return TOO_SHORT
        return PROTECTED if self._is_protected(held.pod) else ""

    def _has_run(self, pod: Pod, least_s: float) -> bool:
        """Members above the minimum of their gang may go at any time."""
        gang = self._cluster.gangs.get(pod.gang.gang) if pod.gang else None
        started = time_of(pod.started)
        return bool(gang and gang.spare) or (
            started is not None and self._utc_s - started >= least_s
        )

    def _is_protected(self, pod: Pod) -> bool:
        budgets = self._budgets.get(pod.namespace, ())
        protecting = [budget for budget in budgets if budget.protects(pod)]
        return len(protecting) > 1 or any(budget.allowed < 1 for budget in protecting)


def _amounts(reasons: Mapping[str, Counter[str]]) -> Mapping[str, Amounts]:
    def sums() -> Iterator[tuple[str, Amounts]]:
        for reason, amounts in reasons.items():
            yield reason, tuple(sorted(amounts.items()))

    return dict(sums())
