"""The first unit that has waited for long enough, for rules that plan no other one."""

from math import inf

from fairlead.cluster.cluster import Cluster
from fairlead.engine.backfill.limits import PLANNED
from fairlead.engine.backfill.pauses import Pauses
from fairlead.engine.backfill.ranks import UnitRanks
from fairlead.engine.backfill.scopes import PlanScope, Scopes
from fairlead.model.backfill import BackfillMode
from fairlead.model.start_terms import StartTerms
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.queue import SchedulingQueue

#: Classes of units that are looked at at once for the first one that has waited, and seconds until
#: more of them are, for each.
_MOST_CLASSES = 512
_LOOK_S = 1e-4


class Heads:
    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        scopes: Scopes,
        ranks: UnitRanks,
        pauses: Pauses,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._scopes = scopes
        self._ranks = ranks
        self._pauses = pauses

    def first_of_class(self, entry: Entry) -> Entry:
        """Of the units that wait with it, the one that comes first where they are planned."""
        class_, mode = entry.equivalence_class, self._scopes.of(entry.unit).mode
        if class_ is None or mode is not BackfillMode.SHORT_FIRST or self._ranks.is_by_service:
            return entry
        return min(self._queue.all_of_class(class_), key=_by_run_time)

    def of(self, scope: PlanScope, now: float) -> Entry | None:
        """The first unit that has waited for long enough; None: none, or not all were looked at.

        Users decide how many classes there are: many of them are looked at over several turns.
        """
        if now < scope.look_s:
            return None
        if not scope.unseen:
            scope.unseen, scope.head = self._queue.first_of_classes(), None
            scope.pause_s = _LOOK_S if len(scope.unseen) > _MOST_CLASSES else 0.0
        some, scope.unseen = scope.unseen[:_MOST_CLASSES], scope.unseen[_MOST_CLASSES:]
        scope.look_s = now + len(some) * scope.pause_s
        able = [entry for entry in some if entry.pool is Pool.WAITING]
        able = [entry for entry in map(self.first_of_class, able) if self._leads(entry, scope, now)]
        if scope.head is not None and self._leads(scope.head, scope, now):
            able.append(scope.head)
        scope.head = min(able, key=self._ranks.rank_of, default=None)
        return None if scope.unseen else scope.head

    def is_able(self, entry: Entry, scope: PlanScope, now: float) -> bool:
        """Whether it is the first unit of its class, and has waited for long enough."""
        class_ = entry.equivalence_class
        first = None if class_ is None else self._queue.first_of_class(class_)
        if first is None or self.first_of_class(first) is not entry:
            return False
        return self._leads(entry, scope, now)

    def _leads(self, entry: Entry, scope: PlanScope, now: float) -> bool:
        if entry.pool is not Pool.WAITING or self._scopes.of(entry.unit) is not scope:
            return False
        return self._may_lead(entry, scope.mode.rule, now)

    def _may_lead(self, entry: Entry, rule: StartTerms, now: float) -> bool:
        if entry.run_s is None or not rule.has_waited(now - entry.first_queued_s, entry.run_s):
            return False
        if not self._scopes.waits(entry) or self._pauses.has(entry.unit.key, now):
            return False
        return entry.held_back_by in (None, PLANNED) and not makes_room(self._cluster, entry)


def makes_room(cluster: Cluster, entry: Entry) -> bool:
    """Whether pods are being evicted for it: it needs no plan."""
    nominations = cluster.nominations
    return bool(nominations) and any(nominations.node_of(pod.uid) for pod in entry.unit.pods)


def _by_run_time(entry: Entry) -> tuple[float, float]:
    return inf if entry.run_s is None else entry.run_s, entry.first_queued_s
