"""Plans follow what has changed: those that do not hold any more are made again."""

from math import inf

from fairlead.cluster.changes import ANYWHERE
from fairlead.cluster.cluster import Cluster
from fairlead.engine.backfill.ends import KEPT_S
from fairlead.engine.backfill.futures import Plan
from fairlead.engine.backfill.made_plans import MadePlans
from fairlead.engine.backfill.pauses import Pauses
from fairlead.model.backfill import BackfillTerms
from fairlead.queue.entries import Pool
from fairlead.queue.queue import SchedulingQueue

_ALL_ASPECTS = -1


class PlanChecks:
    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        made: MadePlans,
        pauses: Pauses,
        terms: BackfillTerms,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._made = made
        self._pauses = pauses
        self._terms = terms
        self._mark = cluster.changes.mark
        #: When all starts were last looked at.
        self._improved_s = -inf
        #: Whether there may be more room than plans expect.
        self.room_grew = False
        #: Whether a look for an earlier start goes on in the next turn.
        self.is_improving = False

    def done(self) -> None:
        """All that has changed so far was looked at."""
        self._mark = self._cluster.changes.mark

    def nothing_changed(self, since: int) -> None:
        """All changes since this mark are those of trials."""
        if self._mark == since:
            self.done()

    def check(self, now: float) -> None:
        """Plans whose nodes have changed still hold, or are made again."""
        made, changed = self._made, self._cluster.changes.since(self._mark)
        made.unchecked.intersection_update(made.all)
        if not (changed is None or changed or made.unchecked or self.is_improving):
            return
        for at, plan in enumerate(made.all):
            since = None if plan in made.unchecked else changed
            nodes, aspects = self._changed_of(list(plan.on), since)
            if nodes and (made.turn.is_spent or not self._is_looked_at(plan)):
                made.unchecked.add(plan)
                continue
            if nodes and not made.keeps(at, nodes, now, aspects):
                made.make_again(at, now)
                return
            if made.all[at] is not plan:  # those after it must fit beside it
                changed = None
        if not made.turn.is_spent:
            self._improve(now)

    def _is_looked_at(self, plan: Plan) -> bool:
        return not plan.asking or self._made.is_looked_at(plan.entry.unit, plan.asking)

    def _changed_of(
        self, nodes: list[str], changed: dict[int, int] | None
    ) -> tuple[set[str], int]:  # fmt: skip
        """Which of the nodes have changed, and what of them."""
        if changed is None or ANYWHERE in changed:
            return set(nodes), _ALL_ASPECTS
        found, aspects = set(), 0
        for node in nodes:
            row = self._cluster.row_of.get(node, ANYWHERE)
            if row == ANYWHERE:  # it is gone
                return set(nodes), _ALL_ASPECTS
            if row in changed:
                found.add(node)
                aspects |= changed[row]
        return found, aspects

    def _improve(self, now: float) -> None:
        """Units may start earlier than was planned, since others ended early; not too often."""
        if not self.is_improving and not self._may_improve(now):
            return
        self.is_improving = False
        plans = self._made.all
        for at, plan in enumerate(plans):
            others = [*plans[:at], *plans[at + 1 :]]
            if not self._made.begin(plan.entry, plan.order, now, others):
                self.is_improving = True
                return
            made = self._made.go_on()
            if self._made.has_begun:
                self.is_improving = True
                return
            if made is not None and made.start_s < plan.start_s:
                plans[at] = made.follow(plan)
            if self._made.turn.is_spent or self._made.many_pods_run:
                return

    def _may_improve(self, now: float) -> bool:
        pause_s = self._terms.resolution_s / 2
        if not self.room_grew:  # estimates may have changed
            pause_s = KEPT_S if pause_s else inf
        if now - self._improved_s < pause_s:
            return False
        self._improved_s, self.room_grew = now, False
        return True

    def call(self, now: float) -> None:
        """Units whose start has come are tried; those that are late are planned again."""
        for at, plan in enumerate(self._made.all):
            if now >= plan.held_until_s(self._terms.hold_s):
                self._give_up(at, now)
                return
            if plan.start_s > now:
                continue
            if not plan.called:
                plan.called = True
                if plan.entry.pool is Pool.WAITING:
                    self._queue.wake(plan.entry, "ForceActivate", now=now)
            elif self._made.turn.is_spent:
                return
            elif now >= plan.start_s + self._patience_s:  # what it waited for has not ended
                self._made.make_again(at, now)
                return

    @property
    def _patience_s(self) -> float:
        """How late a unit may start before it is planned again."""
        return max(1.0, self._terms.resolution_s)

    def _give_up(self, at: int, now: float) -> None:
        """Room was held for it for too long: others may have it for a while."""
        plan = self._made.all.pop(at)
        self._pauses.add(plan.entry.unit.key, now, self._terms.hold_s)
        self._made.is_due = True

    def due_s(self) -> float | None:
        """When a unit is to start, or is late."""
        late_s, hold_s = self._patience_s, self._terms.hold_s
        times = (
            min(plan.start_s + late_s if plan.called else plan.start_s, plan.held_until_s(hold_s))
            for plan in self._made.all
        )
        return min(times, default=None)
