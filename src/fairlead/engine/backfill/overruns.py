"""Units that started before a planned one by their word, and run longer than they said.

They lose what their word gave them: when a planned unit that came before them is to start on their
nodes, they are evicted. A bound is taken at its word, an estimate at twice as long. Units that come
after them evict none of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from fairlead.cluster.cluster import Cluster
from fairlead.engine.backfill.futures import Plan
from fairlead.engine.instructions import Evict
from fairlead.model.backfill import BackfillTerms
from fairlead.model.pods import Pod

#: How much longer than its estimate a unit may run.
_TOLERATED = 2.0
#: How often an eviction that was refused is asked for again, and for how long.
_ASK_EVERY_S = 30.0
_ASK_FOR_S = 300.0
#: Pods that are evicted in one turn, if one gang has not more.
_MOST_EVICTED = 50

_BECAUSE = "it started before {} as a unit that ends in time, and runs longer than it said"


class UnitPlace(Protocol):
    """The place of a unit in the order, as it was when it started."""

    def is_after(self, uid: str) -> bool:
        """Whether the waiting unit with this pod comes before it."""
        ...


class Overruns:
    """By uid of pods that hold a place."""

    def __init__(self, cluster: Cluster, terms: BackfillTerms) -> None:
        self._cluster = cluster
        self._evicts = terms.evicts_overruns
        self._until_s: dict[str, tuple[float, UnitPlace]] = {}
        #: When an eviction was first and last asked for.
        self._asked_s: dict[str, tuple[float, float]] = {}

    def __bool__(self) -> bool:
        """Whether any pod may run longer than it said."""
        return bool(self._until_s)

    def started(self, pods: Iterable[Pod], place: Callable[[], UnitPlace], now: float) -> None:
        """They start before a planned unit, because they end in time."""
        if not self._evicts:
            return
        lengths = {pod.uid: said_s(pod) for pod in pods}
        if any(length_s is not None for length_s in lengths.values()):
            found = place()
            for uid, length_s in lengths.items():
                if length_s is not None:
                    self._until_s[uid] = now + length_s, found

    def left(self, uid: str) -> None:
        self._until_s.pop(uid, None)
        self._asked_s.pop(uid, None)

    def has(self, uid: str, planned_uid: str, now: float) -> bool:
        """Whether the pod runs longer than it said, and is evicted for this unit."""
        known = self._until_s.get(uid)
        return known is not None and known[0] <= now and known[1].is_after(planned_uid)

    def evictions(self, plans: Iterable[Plan], now: float) -> list[Evict]:
        """For units that are to start now, and were tried."""
        made: list[Evict] = []
        if self._until_s:
            self._forgive(now)
            for plan in plans:
                if plan.called and plan.start_s <= now:
                    made += self._for(plan, now, _MOST_EVICTED - len(made))
        return made

    def _forgive(self, now: float) -> None:
        """Those that may not be evicted run on, and plans count on their end no more."""
        for uid, (first_s, _) in [*self._asked_s.items()]:
            if now - first_s >= _ASK_FOR_S:
                self.left(uid)

    def _for(self, plan: Plan, now: float, most: int) -> Iterator[Evict]:
        because = _BECAUSE.format(plan.entry.unit.pod.key)
        for pods in self._units_on(plan, now):
            if most <= 0:
                return
            most -= len(pods)
            for pod in pods:
                first_s, _ = self._asked_s.get(pod.uid, (now, now))
                self._asked_s[pod.uid] = first_s, now
            victims: dict[str, tuple[Pod, ...]] = {}
            for pod in pods:
                victims[pod.node] = (*victims.get(pod.node, ()), pod)
            yield Evict(pods[0], pods[0].node, victims, because, moves=True)

    def _units_on(self, plan: Plan, now: float) -> Iterator[Sequence[Pod]]:
        """Pods on its nodes that overran; of gangs all pods, on whatever nodes they are."""
        uid, pods = plan.evictor.uid, self._running(plan.on)
        late = [pod for pod in pods if self._is_due(pod, now) and self.has(pod.uid, uid, now)]
        late.sort(key=lambda pod: pod.uid)
        gangs: dict[str, list[Pod]] = {pod.gang.gang: [] for pod in late if pod.gang}
        for held in self._cluster.holdings.values() if gangs else ():
            pod = held.pod
            if pod.gang and pod.gang.gang in gangs and pod.node and not pod.deleting:
                gangs[pod.gang.gang].append(pod)
        yield from ([pod] for pod in late if not pod.gang)
        yield from gangs.values()

    def _running(self, nodes: Iterable[str]) -> Iterator[Pod]:
        for node in nodes:
            for held in self._cluster.held_on(node):
                if held.pod.node and not held.pod.deleting:
                    yield held.pod

    def _is_due(self, pod: Pod, now: float) -> bool:
        asked = self._asked_s.get(pod.uid)
        return asked is None or now - asked[1] >= _ASK_EVERY_S


def said_s(pod: Pod) -> float | None:
    """How long it may run by what it said; None: it said nothing."""
    said = pod.run_time
    if said is None or said.bound_s is not None:
        return None if said is None else said.bound_s
    return None if said.estimate_s is None else _TOLERATED * said.estimate_s
