"""Queues of teams, as the engine sees them.

Nothing is counted before there is a queue, or a pod names one that could be there.
"""

from collections.abc import Callable, Collection
from dataclasses import replace

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.eviction_rule import ByPriority
from fairlead.cluster.holdings import Holding
from fairlead.engine.instructions import Instruction, QueueStatusChanged
from fairlead.engine.queue_admissions import QueueAdmissions
from fairlead.engine.queue_order import QueueOrdering
from fairlead.engine.queue_statuses import QueueStatuses
from fairlead.engine.queue_victims import AmongQueues
from fairlead.engine.queue_views import QueueViews
from fairlead.engine.requeuer import Requeuer
from fairlead.model.gangs import GangSpec
from fairlead.model.pods import Amounts
from fairlead.model.queues import QueueSpec, UnitOrder
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.quotas.meters import UseMeters
from fairlead.queue.quotas.names import GangOf, QueueNames
from fairlead.queue.quotas.past_use import day_end
from fairlead.queue.quotas.pending import PendingSums
from fairlead.queue.quotas.policy import ANY_QUEUE, QueuePolicy
from fairlead.queue.quotas.sums import TreeSums
from fairlead.queue.quotas.tree import QueueTree
from fairlead.queue.quotas.unit_order import ORDERED_WAITING, UnitGoal
from fairlead.queue.units import Gang, Unit

#: Queues that have changed are looked at so soon, so that past use is exact to that.
_SOON_S = 1.0
#: After so many changes, statuses wait for the next turn.
_MANY = 1000


class Queues(QueueViews):
    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        requeuer: Requeuer,
        wall_offset_s: Callable[[], float],
        expected_s: Callable[[Unit], float | None],
    ) -> None:
        """`wall_offset_s` says the time since 1970 at which the clock of the engine is 0.

        `expected_s` says how long a waiting unit will run; None: nothing is known.
        """
        self._wall_offset_s, self._expected_s = wall_offset_s, expected_s
        self._cluster = cluster
        self._queue = queue
        self._requeuer = requeuer
        self.tree = QueueTree()
        self.names = QueueNames(self.tree)
        self._charges = cluster.charges
        self.used = TreeSums(self.tree)
        self.asked = self._none_asked()
        self.admissions = QueueAdmissions(self.tree, self.names, self._charges, queue)
        #: What each queue has used so far.
        self.meters = UseMeters(self.tree, self.used)
        self.goal_of: Callable[[Unit], UnitGoal] | None = None
        self.order = self._new_order()
        self.policy = self._policy()
        self.is_active = False
        self._statuses = QueueStatuses(self._status)
        self._now = 0.0
        #: Kinds of queues that were named.
        self._named: set[str] = set()
        #: Queues that have changed, or were above others, since pods were last looked at.
        self._changed: set[str] = set()
        #: Queues whose use has changed in a trial.
        self._tried: set[str] = set()
        #: Grows when a pod is counted for a queue, or for one no longer.
        self._counted = 0
        #: Queues whose use has changed, and since when that was not looked at.
        self._touched: set[str] = set()
        self._touched_s = 0.0
        #: Queues whose units, and those beneath, may differ by namespace now, or do no longer.
        self._unsorted: set[str] = set()
        #: Queues that list other namespaces than before.
        self._relisted: set[str] = set()
        #: It may be known by now whose a pod is that was counted for none.
        self._unresolved = False

    def _none_asked(self) -> PendingSums:
        return PendingSums(self.tree, self.names.of, self._charges.of_request, self._touch)

    def _new_order(self) -> QueueOrdering:
        order = QueueOrdering(
            self._cluster,
            self.tree,
            self.used,
            self.asked.sums,
            self.names.of,
            self._charges.of_request,
            self._wall_offset_s,
            self._expected_s,
        )
        order.past_of = self.meters.fraction
        if self.goal_of is not None:
            order.goal_of = self.goal_of
        return order

    def know_goals(self, goal_of: Callable[[Unit], UnitGoal]) -> None:
        """By when units are to start, for queues with that order."""
        self.goal_of = self.order.goal_of = goal_of

    def _policy(self) -> QueuePolicy:
        charge_of, admitted = self._charges.of_request, self.admissions.gangs
        used, past, on = self.used, self.meters.past, self._charges.on
        return QueuePolicy(
            self.tree, self.names, used, charge_of, admitted, past, on, self.order.not_lent
        )

    # -- what the API server shows -----------------------------------------------------------

    def seen(self, spec: QueueSpec) -> None:
        old = self.tree.get(spec.key)
        if old == spec:
            return
        if old is not None and replace(old, recorded=spec.recorded) == spec:
            self.tree.put(spec)  # the meter of a queue that is known goes on by itself
            return
        reshaped, listed = self.tree.put(spec), _lists_namespaces(old)
        self.names.put_queue(old, spec)
        if not self.is_active:
            self._begin()
            return
        self._change(spec.key, reshaped=reshaped)
        self.order.spec_changed(old, spec)
        if (old.not_lent if old else ()) != spec.not_lent:
            self._free(*self._queue.held_back)
        if self.names.differ(old, spec):
            self._resolve_later()
        if (old and old.namespaces) != spec.namespaces:
            self._relisted.add(spec.key)
        relisted = (reshaped and self.tree.listing_namespaces) or listed != _lists_namespaces(spec)
        if relisted or _waiting_order(old) != _waiting_order(spec):
            self._unsorted.add(spec.key)

    def gone(self, key: str) -> None:
        old = self.tree.remove(key)
        if old is None:
            return
        self.names.put_queue(old, None)
        self._statuses.forget(key)
        if self._is_idle:
            self._end()
            return
        self._change(key, reshaped=True)
        if old.not_lent:
            self._free(*self._queue.held_back)
        if self.names.differ(old, None):
            self._resolve_later()

    def kind_seen(self, dialect: str, problem: str, *, is_served: bool) -> None:
        if not self.names.put_kind(dialect, problem, is_served=is_served):
            return
        if self.is_active and self._is_idle:
            self._end()
        elif self.is_active:
            self._free(ANY_QUEUE)
            self._resolve_later()
        elif not self._is_idle:
            self._begin()

    def namespace_seen(self, name: str, queue: str) -> None:
        changed = self.names.put_namespace(name, queue)
        if queue:
            self.name_seen(queue)
        if changed and self.is_active:
            self._resolve_later()

    def name_seen(self, key: str) -> None:
        """A pod, gang or namespace names a queue, which need not exist.

        Where queues of its kind are served, its pods wait until it does.
        """
        dialect = key.partition("/")[0]
        if dialect not in self._named:
            self._named.add(dialect)
            if not self.is_active and not self._is_idle:
                self._begin()

    @property
    def _is_idle(self) -> bool:
        """Whether there is no queue, and none is named that could be there."""
        return not self.tree and not any(map(self.names.is_served, self._named))

    def gang_seen(self, spec: GangSpec) -> None:
        """The object of a gang was seen; if it names a queue, that is the queue of its pods."""
        if spec.queue:
            self.name_seen(spec.queue)
        entry = self._queue.gang(spec.key) if self.is_active else None
        if entry is None or not isinstance(gang := entry.unit, Gang):
            return
        for pod in gang.pending:
            self.asked.came(pod, spec.key)
        for uid in gang.placed:
            held = self._cluster.holdings.get(uid)
            if held is not None and not (held.tenant and held.pod.charged_queue):
                self._move(held)

    def know_gangs(self, gang_of: GangOf) -> None:
        self.names.gang_of = gang_of

    # -- counting ----------------------------------------------------------------------------

    def _begin(self) -> None:
        self.is_active = True
        self._cluster.eviction_rule = AmongQueues(self.of)
        tenants = self._cluster.count_tenants(self.names.of_held, self._held_changed)
        for tenant, use in tenants:
            self.used.add(tenant, tuple(use.amounts.items()), +1)
        self._requeuer.set_quota(self.policy, tenants)
        self.admissions.policy = self.policy
        self._show_pending()
        self.order.begin(self._queue)
        for spec in map(self.tree.get, self.tree):
            if spec is not None:
                self.order.spec_changed(None, spec)
        for key in self.tree:
            self._touch(key)

    def _show_pending(self) -> None:
        self._queue.observe(self.asked)
        for uid in self._cluster.holdings:
            self.asked.hold(uid, is_held=True)

    def _end(self) -> None:
        self.is_active = self._unresolved = False
        noted = self._changed, self._unsorted, self._touched, self._tried, self._relisted
        for keys in noted:
            keys.clear()
        self._cluster.eviction_rule = ByPriority()
        self._cluster.tenants = None
        self._queue.observe(None)
        self._queue.order_by_team(None)
        self._free(*self._queue.held_back)
        self.used = TreeSums(self.tree)
        self.asked = self._none_asked()
        self.meters = UseMeters(self.tree, self.used)
        self.order = self._new_order()
        self.policy = self._policy()
        self._requeuer.set_quota(None, None)
        self.admissions.policy = None

    def _held_changed(self, key: str, held: Holding, charge: Amounts, change: int) -> None:
        self.used.add(key, charge, change)
        self.order.held_changed(key, held.pod, charge, change)
        moved = self.asked.hold(held.pod.uid, is_held=change > 0, key=key)
        if self._cluster.in_trial:  # shares stay as they are, until it is known what came of it
            self._tried.add(key)
            return
        self._counted += 1
        self._touch(key, asks_as_before=moved == charge)
        if change < 0:
            self._free_above(key)

    def _change(self, key: str, *, reshaped: bool) -> None:
        """A queue came, went or changed. Many may at once, so that is looked at later."""
        self._changed.update(self.tree.last_lineage(key))
        if reshaped:
            self._changed.add(ANY_QUEUE)

    def _free_above(self, key: str) -> None:
        if self.tree.shape.is_settled:
            self._free(*self.tree.lineage(key))
        else:
            self._changed.add(key)

    def _free(self, *keys: str) -> None:
        """These queues may admit more than before."""
        self.admissions.version += 1
        self.meters.touch(keys)
        self._requeuer.freed.update(key for key in keys if key in self._queue.held_back)

    def _touch(self, key: str, *, asks_as_before: bool = False) -> None:
        """The status of the queue, and of those above it, may be another one.

        Many pods come and go in a second: those above it are looked at when it has passed.
        """
        self.order.touch(key, asks_as_before=asks_as_before)
        if not self._touched:
            self._touched_s = self._now
        self._touched.add(key)

    def _look_at_touched(self) -> None:
        touched, self._touched = self._touched, set()
        for key in touched:
            lineage = self.tree.lineage(key)
            self.meters.touch(lineage)
            for each in lineage:
                self._statuses.touch(each, self._now)

    def _resolve_later(self) -> None:
        """Many objects come at once: pods are looked at when all have come."""
        self._unresolved = True

    def settle(self) -> None:
        """Before anything is decided: what queues there are, and whose pods are."""
        if self._changed or self._unsorted:
            self._look_at_changed()
        while self._tried:
            self._touch(self._tried.pop())
        if self._relisted:
            beneath = (key for above in self._relisted for key in self.tree.beneath(above))
            self._count_again({None, "", *self._relisted, *beneath})
            self._relisted.clear()
        unresolved, self._unresolved = self._unresolved, False
        if unresolved:
            self._count_again(None)
            self._show_pending()
        if self.order.look(self._now) and self.order.not_lent:
            self._free(*self._queue.held_back)  # there is more or less beside what is kept
        if unresolved:
            self.order.sort_again()
            self._requeuer.sort_again()

    def _count_again(self, tenants: Collection[str | None] | None) -> None:
        """Pods that are counted for these queues may belong to others; None: for any."""
        self.order.look_again()  # what no queue uses is not divided among queues
        for held in list(self._cluster.holdings.values()):
            if tenants is not None and held.tenant not in tenants:
                continue
            if not (held.tenant and held.pod.charged_queue):
                self._move(held)

    def _look_at_changed(self) -> None:
        changed, self._changed = self._changed, set()
        for key in changed:
            lineage = self.tree.lineage(key)
            self._free(*lineage)
            self._touch(key)
        if self._unsorted:
            self._sort_units()

    def _sort_units(self) -> None:
        unsorted, self._unsorted = self._unsorted, set()
        keys = dict.fromkeys(each for key in unsorted for each in (key, *self.tree.beneath(key)))
        found = [entry for key in keys for entry in self._entries(key)]
        if found:
            self._requeuer.sort_again(found)

    def _move(self, held: Holding) -> None:
        """Counts it for another queue if it is known only now whose it is, or who may use it."""
        tenants = self._cluster.tenants
        if tenants is None or held.assumed:
            return
        key = self.names.of_held(held.pod)
        was_named = held.tenant == held.pod.queue  # by itself, before its gang was known
        if key != held.tenant and (was_named or not held.tenant or not key):
            tenants.move(held)

    # -- what time brings about --------------------------------------------------------------

    def advance(self, now: float, wall_s: float) -> None:
        """It is later; `wall_s` is the time of day, in seconds since 1970."""
        if self._changed and now > self._now + _SOON_S:
            self._look_at_changed()
        if self._touched and now > self._touched_s + _SOON_S:
            self._look_at_touched()
        self._now = self.admissions.now = now
        self.meters.advance(wall_s)

    def due_s(self) -> float | None:
        if not self.is_active:
            return None
        touched_s = self._touched_s + _SOON_S if self._touched else None
        due = self._statuses.due_s(), touched_s, self.admissions.gangs.due_s(), self._next_day_s()
        return min((each for each in due if each is not None), default=None)

    def _next_day_s(self) -> float | None:
        """When budgets begin again for which units wait."""
        if not any(key in self._queue.held_back for key in self.tree.budgeted):
            return None
        return self._now + day_end(self.meters.now_s) - self.meters.now_s

    def tend(self, now: float, wall_s: float) -> list[Instruction]:
        """Statuses that are to be written."""
        if not self.is_active:
            return []
        day_s = day_end(self.meters.now_s)
        self.advance(now, wall_s)
        if wall_s >= day_s:
            self._free(*self.tree.budgeted)
        many = len(self._changed) > _MANY
        self.settle()
        is_busy = self._queue.has_active()
        if not is_busy:  # else when a second has passed
            self._look_at_touched()
        for key in self.admissions.ended(now):
            self._free_above(key)
        if many:  # their shares are divided in the next turn
            return []
        statuses = self._statuses.tend(now, is_busy=is_busy)
        due = ((self.tree.get(key), status) for key, status in statuses)
        return [QueueStatusChanged(spec, status) for spec, status in due if spec is not None]


def _lists_namespaces(spec: QueueSpec | None) -> bool:
    return spec is not None and spec.namespaces is not None


def _waiting_order(spec: QueueSpec | None) -> UnitOrder | None:
    """By which equal units wait; None: by arrival."""
    return spec.order if spec is not None and spec.order in ORDERED_WAITING else None
