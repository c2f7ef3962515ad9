"""Queues of teams, as the engine sees them.

Nothing is counted before the first queue is seen, and after the last one is gone.
"""

from fairlead.cluster.charges import Charges
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.engine.requeuer import Requeuer
from fairlead.model.pods import Amounts, Pod
from fairlead.model.quantities import PODS
from fairlead.model.queues import QueueReport, QueueSpec
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.quotas.names import GangOf, QueueNames
from fairlead.queue.quotas.pending import UNITS, PendingSums
from fairlead.queue.quotas.policy import ANY_QUEUE, QueuePolicy
from fairlead.queue.quotas.sums import TreeSums
from fairlead.queue.quotas.tree import QueueTree
from fairlead.queue.units import Gang


class Queues:
    def __init__(self, cluster: Cluster, queue: SchedulingQueue, requeuer: Requeuer) -> None:
        self._cluster = cluster
        self._queue = queue
        self._requeuer = requeuer
        self.tree = QueueTree()
        self.names = QueueNames(self.tree)
        self._charges = Charges(cluster)
        self.used = TreeSums(self.tree)
        self.pending = self._no_pending()
        self.policy = self._policy()
        self.is_active = False
        #: It may be known by now whose a pod is that was counted for none.
        self._unresolved = False

    def _no_pending(self) -> PendingSums:
        return PendingSums(self.tree, self.names.of, self._charges.of_request)

    def _policy(self) -> QueuePolicy:
        return QueuePolicy(self.tree, self.names, self.used, self._charges.of_request)

    # -- what the API server shows -----------------------------------------------------------

    def seen(self, spec: QueueSpec) -> None:
        old = self.tree.get(spec.key)
        if old == spec:
            return
        changed = self.tree.lineage(spec.key)
        reshaped = self.tree.put(spec)
        self.names.put_queue(old, spec)
        if not self.is_active:
            self._begin()
            return
        self._free(*changed, *([ANY_QUEUE] if reshaped else []))
        if old is None or old.of_namespace != spec.of_namespace:
            self._resolve_later()
        if _differ_by_namespace(old) != _differ_by_namespace(spec):
            self._requeuer.sort_again()

    def gone(self, key: str) -> None:
        changed = self.tree.lineage(key)
        old = self.tree.remove(key)
        if old is None:
            return
        self.names.put_queue(old, None)
        if not self.tree:
            self._end()
            return
        self._free(*changed, ANY_QUEUE)
        self._resolve_later()

    def kind_seen(self, dialect: str, problem: str, *, is_served: bool) -> None:
        if self.names.put_kind(dialect, problem, is_served=is_served) and self.is_active:
            self._free(ANY_QUEUE)
            self._resolve_later()

    def namespace_seen(self, name: str, queue: str) -> None:
        if self.names.put_namespace(name, queue) and self.is_active:
            self._resolve_later()

    def gang_seen(self, key: str) -> None:
        """The object of a gang was seen; if it names a queue, that is the queue of its pods."""
        entry = self._queue.gang(key) if self.is_active else None
        if entry is None or not isinstance(gang := entry.unit, Gang):
            return
        for pod in gang.pending:
            self.pending.came(pod, key)
        for uid in gang.placed:
            held = self._cluster.holdings.get(uid)
            if held is not None and not held.tenant:
                self._move(held)

    def know_gangs(self, gang_of: GangOf) -> None:
        self.names.gang_of = gang_of

    # -- counting ----------------------------------------------------------------------------

    def _begin(self) -> None:
        self.is_active = True
        tenants = self._cluster.count_tenants(self.names.of, self._held_changed)
        self._requeuer.set_quota(self.policy, tenants)
        self._queue.observe(self.pending)
        for uid in self._cluster.holdings:
            self.pending.hold(uid, is_held=True)

    def _end(self) -> None:
        self.is_active = False
        self._cluster.tenants = None
        self._queue.observe(None)
        self._free(*self._queue.held_back)
        self.used = TreeSums(self.tree)
        self.pending = self._no_pending()
        self.policy = self._policy()
        self._requeuer.set_quota(None, None)

    def _held_changed(self, key: str, held: Holding, charge: Amounts, change: int) -> None:
        self.used.add(key, charge, change)
        self.pending.hold(held.pod.uid, is_held=change > 0)
        if change < 0 and not self._cluster.in_trial:
            self._free(*self.tree.lineage(key))

    def _free(self, *keys: str) -> None:
        """These queues may admit more than before."""
        self._requeuer.freed.update(key for key in keys if key in self._queue.held_back)

    def _resolve_later(self) -> None:
        """Many objects come at once: pods are looked at when all have come."""
        self._unresolved = True

    def settle(self) -> None:
        """Before anything is decided: whose pods are."""
        if not self._unresolved:
            return
        self._unresolved = False
        for held in list(self._cluster.holdings.values()):
            if not held.tenant:
                self._move(held)
        self.pending.look_again()
        self._requeuer.sort_again()

    def _move(self, held: Holding) -> None:
        tenants = self._cluster.tenants
        if tenants is not None and self.names.of(held.pod):
            tenants.move(held)

    # -- for those who look ------------------------------------------------------------------

    def of(self, pod: Pod) -> str:
        """The key of the queue that the pod is counted for, or would be; empty: none."""
        if not self.is_active:
            return ""
        held = self._cluster.holdings.get(pod.uid)
        return self.names.of(pod) if held is None or held.tenant is None else held.tenant

    def why(self, pod: Pod) -> str:
        """Why its queue holds a pending pod back; empty if it does not."""
        tenants = self._cluster.tenants
        if not self.is_active or tenants is None:
            return ""
        refusal = self.policy.admits(pod, tenants)
        return refusal.message if refusal else ""

    def report(self) -> list[QueueReport]:
        """A parent before its children."""
        if not self.is_active:
            return []
        self.settle()
        return [self._report(key) for key in self.tree]

    def _report(self, key: str) -> QueueReport:
        spec = self.tree.get(key)
        assert spec is not None
        used, asked = self.used.of(key), self.pending.sums.of(key)
        return QueueReport(
            spec,
            depth=self.tree.level(key),
            used=tuple(sorted((name, n) for name, n in used.items() if name != PODS)),
            not_reclaimable=(),
            asked=tuple(sorted((name, n) for name, n in asked.items() if name not in _COUNTS)),
            fair_share=(),
            past=spec.recorded,
            pending_units=asked.get(UNITS, 0),
            pending_pods=asked.get(PODS, 0),
            running_pods=used.get(PODS, 0),
            problem=self.tree.problem(key),
        )


_COUNTS = (PODS, UNITS)


def _differ_by_namespace(spec: QueueSpec | None) -> bool:
    return spec is not None and spec.namespaces is not None
