"""Units that started before a planned one by their word, and run longer than they said.

They lose what their word gave them: when the planned unit is to start on their nodes, they are
evicted. A bound is taken at its word, an estimate at twice as long.
"""

from collections.abc import Iterable, Iterator

from fairlead.cluster.cluster import Cluster
from fairlead.engine.backfill.futures import Plan
from fairlead.engine.instructions import Evict
from fairlead.model.backfill import BackfillTerms
from fairlead.model.pods import Pod

#: How much longer than its estimate a unit may run.
_TOLERATED = 2.0
#: How often an eviction that was refused is asked for again.
_ASK_EVERY_S = 30.0
#: Pods that are evicted in one turn.
_MOST_EVICTED = 50

_BECAUSE = "it started before {} as a unit that ends in time, and runs longer than it said"


class Overruns:
    """By uid of pods that hold a place."""

    def __init__(self, cluster: Cluster, terms: BackfillTerms) -> None:
        self._cluster = cluster
        self._evicts = terms.evicts_overruns
        self._until_s: dict[str, float] = {}
        self._asked_s: dict[str, float] = {}

    def started(self, pods: Iterable[Pod], now: float) -> None:
        """They start before a planned unit, because they end in time."""
        for pod in pods if self._evicts else ():
            said = pod.run_time
            if said is not None and said.bound_s is not None:
                self._until_s[pod.uid] = now + said.bound_s
            elif said is not None and said.estimate_s is not None:
                self._until_s[pod.uid] = now + _TOLERATED * said.estimate_s

    def left(self, uid: str) -> None:
        if self._until_s.pop(uid, None) is not None:
            self._asked_s.pop(uid, None)

    def has(self, uid: str, now: float) -> bool:
        """Whether the pod runs longer than it said."""
        return bool(self._until_s) and self._until_s.get(uid, float("inf")) <= now

    def evictions(self, plans: Iterable[Plan], now: float) -> list[Evict]:
        """For units that are to start now, and were tried."""
        if not self._until_s:
            return []
        found: dict[str, Evict] = {}
        for plan in plans:
            if plan.called and plan.start_s <= now:
                because = _BECAUSE.format(plan.entry.unit.pod.key)
                for pod in self._on_nodes_of(plan, now):
                    found[pod.uid] = Evict(pod, pod.node, {pod.node: (pod,)}, because, moves=True)
        self._asked_s |= dict.fromkeys(found, now)
        return list(found.values())[:_MOST_EVICTED]

    def _on_nodes_of(self, plan: Plan, now: float) -> Iterator[Pod]:
        """With all of a gang."""
        pods = [held.pod for node in plan.on for held in self._cluster.held_on(node)]
        gangs = {pod.gang.gang for pod in pods if pod.gang and self.has(pod.uid, now)}
        for uid in sorted(self._until_s):
            held = self._cluster.holdings.get(uid)
            if held is None or not self.has(uid, now) or not held.pod.node or held.pod.deleting:
                continue
            is_near = held.node in plan.on or (held.pod.gang and held.pod.gang.gang in gangs)
            if is_near and now - self._asked_s.get(uid, float("-inf")) >= _ASK_EVERY_S:
                yield held.pod
