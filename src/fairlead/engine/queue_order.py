"""The order of units by the queues of teams, and the shares that it follows, in the engine."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from fairlead.cluster.capacity import capacity, held
from fairlead.cluster.cluster import Cluster
from fairlead.model.pods import Amounts, Pod, PodRequest
from fairlead.model.quantities import CPU, MEMORY
from fairlead.model.queues import GPUS, QueueSpec, UnitOrder
from fairlead.model.sizes import Kept
from fairlead.queue.entries import Entry
from fairlead.queue.order import OrderKey
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.quotas.asks import asked_together
from fairlead.queue.quotas.not_lent import NotLent
from fairlead.queue.quotas.order import QueuePool
from fairlead.queue.quotas.shares import FairShares
from fairlead.queue.quotas.sums import TreeSums
from fairlead.queue.quotas.tree import QueueTree
from fairlead.queue.quotas.unit_order import UnitGoal, unit_key
from fairlead.queue.units import Gang, Unit

#: What the cluster has is looked at so often.
_LOOK_EVERY_S = 1.0
#: Past use changes slowly.
_PAST_EVERY_S = 60.0
_MOST_GANGS = 1024
_REQUEST_BYTES = 2 << 20
_ALWAYS = (GPUS, CPU, MEMORY)

_NO_GOAL = UnitGoal()

#: What a queue used in the past, as a fraction of so many GPUs in thousandths.
PastOf = Callable[[str, int], float]


class QueueOrdering:
    """Lives as long as there are queues; every change of them is passed to it."""

    def __init__(
        self,
        cluster: Cluster,
        tree: QueueTree,
        used: TreeSums,
        asked: TreeSums,
        key_of: Callable[[Pod], str],
        charge_of: Callable[[PodRequest], Amounts],
        wall_offset_s: Callable[[], float],
        expected_s: Callable[[Unit], float | None],
    ) -> None:
        self.wall_offset_s, self.expected_s = wall_offset_s, expected_s
        self._cluster, self._tree, self._used = cluster, tree, used
        self._key_of, self._charge_of = key_of, charge_of
        self.shares = FairShares(tree, used, asked)
        self.not_lent = NotLent(tree, lambda: self.shares.totals)
        self.past_of: PastOf | None = None
        self.goal_of: Callable[[Unit], UnitGoal] = lambda _: _NO_GOAL
        self._pool: QueuePool | None = None
        self.waiting: Callable[[], Iterable[Entry]] = list
        self._pending: Callable[[str], Entry | None] = lambda _: None
        self._capacity: dict[str, int] = {}
        self._looked_s = self._past_s = float("-inf")
        #: What the pods of a namespace use of a queue whose order is by namespace.
        self._namespaces: dict[tuple[str, str], Counter[str]] = {}
        #: What a pod asks for, and a gang with so many pods of which so many are needed.
        self._requests: Kept[PodRequest, Mapping[str, int]] = Kept(_REQUEST_BYTES)
        self._gangs: dict[str, tuple[int, int, Mapping[str, int]]] = {}

    # -- what changes ------------------------------------------------------------------------

    def begin(self, queue: SchedulingQueue) -> None:
        self.waiting, self._pending = queue.all_refused, queue.get
        queue.order_by_team(self._make_pool)

    def _make_pool(self, tickets: Iterator[int]) -> QueuePool:
        self._pool = QueuePool(tickets, self._tree, self.shares, self._used, self)
        return self._pool

    def touch(self, key: str, *, asks_as_before: bool = False) -> None:
        """What the queue uses or asks for has changed; perhaps not both together."""
        if not asks_as_before:
            self.shares.touch(key)
        if self._pool is not None:
            self._pool.touch(key)

    def held_changed(self, key: str, pod: Pod, charge: Amounts, change: int) -> None:
        spec = self._tree.get(key)
        if spec is None or spec.order is not UnitOrder.FAIR:
            return
        uses = self._namespaces.setdefault((key, pod.namespace), Counter())
        for name, amount in charge:
            uses[name] += change * amount
        if not any(uses.values()):
            del self._namespaces[key, pod.namespace]

    def spec_changed(self, old: QueueSpec | None, new: QueueSpec) -> None:
        self.look_again()
        self.shares.spec_changed(new.key)
        if self._pool is not None:
            self._pool.touch(new.key)
            if old is None or old.order is not new.order:
                self._count_namespaces(new)
                self._pool.order_changed(new.key)

    def _count_namespaces(self, spec: QueueSpec) -> None:
        """Of pods that were there before the queue had this order."""
        for place in [place for place in self._namespaces if place[0] == spec.key]:
            del self._namespaces[place]
        tenants = self._cluster.tenants
        if spec.order is not UnitOrder.FAIR or tenants is None:
            return
        for holding in self._cluster.holdings.values():
            if holding.tenant == spec.key:
                charge = tenants.charge(holding.pod.uid)
                self.held_changed(spec.key, holding.pod, charge, +1)

    def sort_again(self) -> None:
        """Units may belong to other queues than before."""
        if self._pool is not None:
            self._pool.sort_again()

    def look_again(self) -> None:
        """What the cluster has for queues is to be looked at before the next decision."""
        self._looked_s = float("-inf")

    def look(self, now: float) -> bool:
        """At what the cluster has, and at past use; not too often. Whether it has more or less."""
        if self._pool is not None:
            self._pool.now = now
        if now - self._looked_s < _LOOK_EVERY_S:
            return False
        self._looked_s = now
        self._requests.clear()  # the GPUs of the cluster may be other ones
        names = {*_ALWAYS, *self._tree.listed}
        totals = self._capacity = capacity(self._cluster, names)
        outside = held(self._cluster, totals)
        for name in outside:
            used = sum(self._used.of(key).get(name, 0) for key in self._tree.children(""))
            outside[name] = max(0, outside[name] - used)  # a driver may publish no GPUs by UUID
        left = {name: max(0, amount - outside.get(name, 0)) for name, amount in totals.items()}
        changed = left != self.shares.totals
        self.shares.set_totals(left)
        if self._pool is not None:
            self._pool.set_outside(outside)
        if self.past_of is not None and now - self._past_s >= _PAST_EVERY_S:
            self._past_s = now
            self.shares.settle()
            for key in self._tree:
                self.shares.set_past(key, self.past_of(key, totals.get(GPUS, 0)))
        return changed

    # -- what the order asks -----------------------------------------------------------------

    def queue_of(self, unit: Unit) -> str:
        return self._key_of(unit.pod)

    def asked_by(self, unit: Unit) -> Mapping[str, int]:
        if not isinstance(unit, Gang):
            return self._asked_by_pod(unit.pod.request)
        size, needed = unit.size, max(1, unit.needed)
        known = self._gangs.get(unit.key)
        if known is None or known[:2] != (size, needed):
            if len(self._gangs) >= _MOST_GANGS:
                self._gangs.clear()
            requests = (pod.request for pod in unit.pods)
            asked = dict(asked_together(requests, needed, self._charge_of))
            known = self._gangs[unit.key] = size, needed, asked
        return known[2]

    def _asked_by_pod(self, request: PodRequest) -> Mapping[str, int]:
        found = self._requests.get(request)
        if found is None:
            asked = dict(self._charge_of(request))
            found = self._requests.keep(request, asked, request.weight_bytes)
        return found

    def used_in(self, key: str, namespace: str) -> float:
        uses, totals = self._namespaces.get((key, namespace)), self.shares.totals
        if not uses:
            return 0.0
        return max((uses[name] / total for name, total in totals.items() if total), default=0.0)

    def nominated(self) -> Iterator[Entry]:
        found = (self._pending(uid) for uid in self._cluster.nominations)
        return (entry for entry in found if entry is not None)

    def is_nominated(self, unit: Unit) -> bool:
        nominations = self._cluster.nominations
        return bool(nominations) and any(nominations.node_of(pod.uid) for pod in unit.pods)

    def could_fit(self, unit: Unit) -> bool:
        asked = self.asked_by(unit)
        if any(asked.get(name, 0) > amount for name, amount in self._capacity.items()):
            return False
        if self.not_lent and self._is_kept_from(self.queue_of(unit), asked):
            return False
        specs = (self._tree.get(key) for key in self._tree.lineage(self.queue_of(unit)))
        limits = (limit for spec in specs if spec for limit in spec.limit)
        return all(asked.get(name, 0) <= most for name, most in limits)

    def _is_kept_from(self, key: str, asked: Mapping[str, int]) -> bool:
        return any(amount > self.not_lent.most(key, name) for name, amount in asked.items())

    # -- for those who look ------------------------------------------------------------------

    def sorted_units(self, key: str, entries: Iterable[Entry]) -> list[Entry]:
        """As the queue would try them if all were active."""
        spec = self._tree.get(key)
        order = spec.order if spec else UnitOrder.PRIORITY

        def place(entry: Entry) -> OrderKey:
            by_priority = (-entry.unit.priority, entry.first_queued_s)
            first: tuple[float, ...] = ()
            if order is UnitOrder.FAIR:
                first = (self.used_in(key, entry.unit.pod.namespace),)
            return *first, *unit_key(order, by_priority, entry, self)

        return sorted(entries, key=place)

    def share_of(self, key: str) -> Amounts:
        return tuple(sorted((name, int(n)) for name, n in self.shares.of(key).items()))
