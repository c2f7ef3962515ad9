"""The one plan of a rule that plans the first unit which has waited for long enough."""

from fairlead.cluster.cluster import Cluster
from fairlead.engine.backfill.futures import Plan
from fairlead.engine.backfill.heads import Heads
from fairlead.engine.backfill.made_plans import MadePlans
from fairlead.engine.backfill.pauses import NO_PLAN_S, Pauses
from fairlead.engine.backfill.scopes import PlanScope
from fairlead.model.backfill import BackfillMode
from fairlead.queue.entries import Entry, Pool


class Leads:
    def __init__(self, cluster: Cluster, made: MadePlans, heads: Heads, pauses: Pauses) -> None:
        self._cluster = cluster
        self._made = made
        self._heads = heads
        self._pauses = pauses

    def lead(self, entry: Entry | None, now: float) -> bool:
        """The first unit that has waited for long enough, if it is before this one, is planned.

        None: this is the end of a turn. Whether a plan was dropped for that.
        """
        changed = False
        for scope in self._made.scopes:
            if scope.mode is not BackfillMode.SHORT_FIRST:
                continue
            if self._has_free_gpus():
                changed |= self._lead(scope, entry, now)
            else:
                scope.unseen = ()
        return changed

    def _lead(self, scope: PlanScope, before: Entry | None, now: float) -> bool:
        made, current = self._made, next(iter(self._made.of(scope)), None)
        head = self._heads.of(scope, now)
        if head is None or (current and head is current.entry) or not made.planner.is_ready(now):
            return False
        if before is not None and not self._is_before(head, before):
            return False
        if made.many_pods_run and any(pod.request.claims for pod in head.unit.pods):
            made.give_up(head)  # it takes more than one turn
            self._pauses.add(head.unit.key, now, NO_PLAN_S)
            return False
        if not made.is_looked_at(head.unit, head.unit.pods):
            return False
        made.all = [plan for plan in made.all if plan is not current]
        plan = self._planned(scope, head, now)
        if plan is not None:
            made.insert(plan, scope, 1, now)
        return current is not None

    def _planned(self, scope: PlanScope, head: Entry, now: float) -> Plan | None:
        order = self._made.ranks.order_of(head)
        ahead = [plan for plan in self._made.all if plan.order < order]
        plan = self._made.make(head, order, now, ahead)
        if plan is None:
            self._pauses.add(head.unit.key, now, NO_PLAN_S)
            return None
        if scope.last is not None and scope.last.entry is head:
            plan.follow(scope.last)
        scope.last = plan
        return plan

    def _is_before(self, head: Entry, entry: Entry) -> bool:
        ranks, scopes = self._made.ranks, self._made.scopes
        if scopes.of(head.unit) is scopes.of(entry.unit):
            return ranks.rank_of(head) < ranks.rank_of(entry)
        return ranks.order_of(head) < ranks.order_of(entry)

    def drop_outrun(self, now: float) -> None:
        """A unit that others of its kind have outrun is not the first any more."""
        for plan in self._made.all:
            scope = self._made.scopes.of(plan.entry.unit)
            if scope.mode is not BackfillMode.SHORT_FIRST or plan.entry.pool is not Pool.WAITING:
                continue
            if not self._heads.is_able(plan.entry, scope, now):
                self._made.all = [each for each in self._made.all if each is not plan]

    def _has_free_gpus(self) -> bool:
        """While there are none, no other unit starts before the first one."""
        return bool((self._cluster.nodes.free_gpus()[0] > 0).any())
