"""What those who only look ask about queues: whose a pod is, why it waits, and all figures."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Hashable

from fairlead.cluster.cluster import Cluster
from fairlead.engine.queue_order import QueueOrdering
from fairlead.engine.requeuer import Requeuer
from fairlead.engine.unreclaimable_use import Unreclaimable, UnreclaimableUse
from fairlead.model.pods import Amounts, Pod
from fairlead.model.quantities import PODS
from fairlead.model.queues import GPUS_OF_MODEL, QueueReport, QueueSpec, QueueStatus, Victims
from fairlead.queue.entries import Entry
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.quota import QuotaRefusal
from fairlead.queue.quotas.guarantees import guarantee_problem
from fairlead.queue.quotas.meters import UseMeters
from fairlead.queue.quotas.names import QueueNames
from fairlead.queue.quotas.pending import UNITS, PendingSums
from fairlead.queue.quotas.reclaim import Reclaim
from fairlead.queue.quotas.sums import TreeSums, amount_of
from fairlead.queue.quotas.tree import QueueTree
from fairlead.queue.units import Gang, Unit


class QueueViews:
    """Answers from what `Queues` keeps."""

    tree: QueueTree
    names: QueueNames
    used: TreeSums
    asked: PendingSums
    meters: UseMeters
    order: QueueOrdering
    is_active: bool
    _cluster: Cluster
    _queue: SchedulingQueue
    _requeuer: Requeuer
    _counted: int

    @abstractmethod
    def settle(self) -> None:
        """What queues there are, and whose pods are, is up to date."""

    def of(self, pod: Pod) -> str:
        """The key of the queue that the pod is counted for, or would be; empty: none."""
        if not self.is_active:
            return ""
        held = self._cluster.holdings.get(pod.uid)
        return self.names.of(pod) if held is None or held.tenant is None else held.tenant

    def reclaim_for(self, unit: Unit) -> Reclaim | None:
        """What may be evicted for a unit that waits; None if it has no queue."""
        key = self.names.of(unit.pod) if self.is_active else ""
        if key not in self.tree:
            return None
        shares, asked = self.order.shares, self.order.asked_by(unit)
        return Reclaim(self.tree, shares, self.used, key, asked, unit.priority)

    def unreclaimable(
        self, keys: Collection[str], utc_s: float, unit: Unit | None = None
    ) -> Unreclaimable:
        """What the queues use that can not be reclaimed from them, for any unit or for that one."""
        own = self.tree.get(self.names.of(unit.pod)) if unit else None
        lower = own is not None and own.reclaims is Victims.LOWER_PRIORITY
        below = unit.priority if unit and lower else None
        return UnreclaimableUse(self._cluster, self.tree, utc_s, below).of(keys) if keys else {}

    def reclaim_state(self) -> Hashable:
        """While this is equal, no queue may reclaim more or less."""
        self.order.shares.refresh()
        return self.tree.revision, self.order.shares.moves, self._counted

    def why(self, pod: Pod) -> QuotaRefusal | None:
        """Why its queue holds a pending pod back, or the gang that it belongs to."""
        entry = self._queue.get(pod.uid)
        if entry is not None and isinstance(entry.unit, Gang) and entry.unit.pods:
            return self._requeuer.gang_beyond_queue(entry.unit)
        return self._requeuer.beyond_queue(pod)

    def pending(self, key: str) -> list[Entry]:
        """The units of this very queue that wait, in the order in which they are tried."""
        return self.order.sorted_units(key, self._entries(key))

    def _entries(self, key: str) -> list[Entry]:
        units = self.asked.units_of(key) if self.is_active else ()
        entries = (self._queue.gang(unit) or self._queue.get(unit) for unit in units)
        return [entry for entry in entries if entry is not None]

    def report(self) -> list[QueueReport]:
        """A parent before its children."""
        if not self.is_active:
            return []
        self.settle()
        return [self._report(key) for key in self.tree]

    def _report(self, key: str) -> QueueReport:
        spec = self.tree.get(key)
        assert spec is not None
        used, asked = self.used.of(key), self.asked.sums.of(key)
        return QueueReport(
            spec,
            depth=self.tree.level(key),
            used=_with_models(used, spec),
            asked=_with_models(asked, spec),
            fair_share=self.order.share_of(key),
            past=self.meters.past(key),
            pending_units=asked.get(UNITS, 0),
            pending_pods=asked.get(PODS, 0),
            running_pods=used.get(PODS, 0),
            problem=self.tree.problem(key) or guarantee_problem(self.tree, spec),
        )

    def _status(self, key: str) -> QueueStatus | None:
        if key not in self.tree:
            return None
        found = self._report(key)
        return QueueStatus(
            found.used,
            found.fair_share,
            found.past,
            found.pending_units,
            found.pending_pods,
            found.running_pods,
            found.problem,
        )


_COUNTS = (PODS, UNITS)


def _with_models(sums: Counter[str], spec: QueueSpec) -> Amounts:
    """Sorted, with those of the models that the queue names beside those of the products."""
    listed = {name for name, _ in (*spec.guaranteed, *spec.limit)}
    found = {name: amount_of(sums, name) for name in listed if name.startswith(GPUS_OF_MODEL)}
    found |= {name: amount for name, amount in sums.items() if name not in _COUNTS}
    return tuple(sorted(found.items()))
