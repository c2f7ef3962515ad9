"""The planned starts of waiting units: made, checked when something changes, and made again.

A plan that still holds is kept: a start does not move because another one was found.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from fairlead.cluster.changes import ANYWHERE
from fairlead.cluster.cluster import Cluster
from fairlead.engine.backfill.ends import KEPT_S
from fairlead.engine.backfill.futures import Plan, UnitKey
from fairlead.engine.backfill.heads import Heads, makes_room
from fairlead.engine.backfill.pauses import Pauses
from fairlead.engine.backfill.planner import Planner
from fairlead.engine.backfill.ranks import UnitRanks
from fairlead.engine.backfill.scopes import PlanScope, Scopes
from fairlead.model.backfill import BackfillMode, BackfillTerms
from fairlead.model.errors import PluginFault
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.order import QueueOrder
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.service_order import ExpectedOf
from fairlead.queue.units import Unit

#: What planning may cost in one turn (see `Work.spent`); at least one unit is planned.
_MOST_WORK = 60_000
#: Until a unit is planned again for which there was no start.
_NO_PLAN_S = 30.0
#: Units beyond the depth that are looked at.
_MOST_LOOKED = 32


@dataclass(frozen=True, slots=True)
class StartedPlace:
    """Of a unit when it started, or now: its scope, its rank there, and among all units."""

    book: "PlanBook"
    scope: tuple[str, BackfillMode]
    rank: UnitKey
    order: UnitKey

    def is_after(self, uid: str) -> bool:
        return self.book.is_before(uid, self)


class PlanBook:
    """In the order of their units."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        planner: Planner,
        terms: BackfillTerms,
        mode_of: Callable[[Unit], tuple[str, BackfillMode]],
        order: QueueOrder | None,
        expected_of: ExpectedOf,
    ) -> None:
        """`mode_of`: the queue that sets the mode for a unit, if any, and the mode."""
        self._scopes = Scopes(queue, mode_of)
        self.ranks = UnitRanks(order, expected_of, self._scopes.mode_and_candidates)
        #: Units that are not planned for a while.
        self._pauses = Pauses()
        self.heads = Heads(cluster, queue, self._scopes, self.ranks, self._pauses)
        self._cluster = cluster
        self._queue = queue
        self._planner = planner
        self._terms = terms
        self._plans: list[Plan] = []
        self._mark = cluster.changes.mark
        #: Whether another unit may have to be planned; and when all starts were last looked at.
        self._is_due = False
        self._improved_s = float("-inf")
        #: Whether there may be more room than plans expect.
        self._room_grew = False
        #: The place of the unit that was last asked about, for one decision: many ask about it.
        self._asked: tuple[str, StartedPlace | None] | None = None

    def __bool__(self) -> bool:
        return bool(self._plans)

    def __iter__(self) -> Iterator[Plan]:
        return iter(self._plans)

    @property
    def has_several(self) -> bool:
        return len(self._plans) > 1

    def plan_for(self, unit_key: str) -> Plan | None:
        return next((plan for plan in self._plans if plan.planned.unit_key == unit_key), None)

    def before(self, plan: Plan) -> Sequence[Plan]:
        """Those of units before it."""
        return self._plans[: self._plans.index(plan)]

    def comes_before(self, plan: Plan, entry: Entry) -> bool:
        """Whether the planned unit comes before the other one."""
        if self._scopes.of(plan.entry.unit) is self._scopes.of(entry.unit):
            return plan.rank < self.ranks.rank_of(entry)
        return plan.order < self.ranks.order_of(entry)

    def place_of(self, entry: Entry) -> "StartedPlace":
        """Its place in the order, before it starts."""
        ranks = self.ranks
        return StartedPlace(
            self, self._scopes.mode_of(entry.unit), ranks.rank_of(entry), ranks.order_of(entry)
        )

    def is_before(self, uid: str, place: "StartedPlace") -> bool:
        """Whether the waiting unit with this pod comes before the place."""
        if self._asked is None or self._asked[0] != uid:
            entry = self._queue.get(uid)
            self._asked = uid, None if entry is None else self.place_of(entry)
        asked = self._asked[1]
        if asked is None:
            return False
        if asked.scope == place.scope:
            return asked.rank < place.rank
        return asked.order < place.order

    def start_over(self) -> None:
        """Units may belong to other queues, or these have other modes."""
        self._scopes.start_over()
        self._plans.clear()
        self._is_due = True

    def refused(self, entry: Entry) -> None:
        """A unit that has no plan may be one of the first."""
        scope = self._scopes.of(entry.unit)
        is_new = scope.candidates.add(entry, self.ranks.order_of)
        if is_new and self._needs_plan(scope, self.ranks.order_of(entry)):
            self._is_due = True

    def room_grew(self) -> None:
        """There may be more room than plans expect: they are looked at again."""
        self._room_grew = True

    def move(self, moved: Mapping[Plan, Plan]) -> None:
        """These plans are on other nodes now."""
        self._plans = [moved.get(plan, plan) for plan in self._plans]

    def nothing_changed(self, since: int) -> None:
        """All changes since this mark are those of trials."""
        if self._mark == since:
            self._mark = self._cluster.changes.mark

    def _needs_plan(self, scope: PlanScope, order: UnitKey) -> bool:
        """Whether a unit that was refused may be one of the first."""
        own = [plan for plan in self._plans if self._scopes.of(plan.entry.unit) is scope]
        depth = self._depth(scope)
        return len(own) < depth or (depth > 0 and order < own[-1].order)

    def _depth(self, scope: PlanScope) -> int:
        """Of units that are planned as soon as they are refused."""
        if scope.mode is BackfillMode.CONSERVATIVE:
            return self._terms.depth
        return 1 if scope.mode is BackfillMode.EASY else 0

    # -- planning ----------------------------------------------------------------------------

    def renew(self, now: float) -> bool:
        """Plans follow what has changed; whether one of them is another one now."""
        self._asked = None
        before = [_start_of(plan) for plan in self._plans]
        if self._plans:
            self._drop_started()
            self._check(now)
            self._call(now)
            self._drop_outrun(now)
        if self._is_due and self._planner.is_ready(now):
            self._is_due = False
            self._add(now)
        self._mark = self._cluster.changes.mark
        return bool(before) and before != [_start_of(plan) for plan in self._plans]

    def _drop_started(self) -> None:
        """Units that are being bound, or are gone, need no plan."""
        kept = [plan for plan in self._plans if self._scopes.waits(plan.entry)]
        if len(kept) < len(self._plans):
            self._plans, self._is_due = kept, True

    def _check(self, now: float) -> None:
        """Plans whose nodes have changed still hold, or are made again."""
        changed = self._cluster.changes.since(self._mark)
        if changed is not None and not changed:
            return
        row_of = self._cluster.row_of
        for at, plan in enumerate(self._plans):
            nodes = set(plan.on)
            if changed is not None and ANYWHERE not in changed:
                nodes = {node for node in nodes if row_of.get(node, ANYWHERE) in changed}
            lost = any(node not in row_of for node in plan.on)
            if lost or (nodes and not self._keeps(at, nodes, now)):
                self._plan_again(at, now)
                return
            if self._plans[at] is not plan:  # those after it must fit beside it
                changed = None
        self._improve(now)

    def _keeps(self, at: int, nodes: set[str], now: float) -> bool:
        """Whether this plan still holds, with other GPUs of its nodes if it must."""
        plan, late_s = self._plans[at], self._terms.resolution_s
        try:
            made = self._planner.futures.held(plan, self._plans[:at], nodes, now, late_s)
        except PluginFault:
            return False
        if made is not None:
            self._plans[at] = made
        return made is not None

    def _plan_again(self, at: int, now: float) -> None:
        """This one, and those after it that do not hold any more."""
        again, self._plans = self._plans[at:], self._plans[:at]
        work_until = self._cluster.work.spent + _MOST_WORK
        for number, plan in enumerate(again):
            self._plans.append(plan)
            if number and self._keeps(len(self._plans) - 1, set(plan.on), now):
                continue
            self._plans.pop()
            made = self.planned(plan.entry, plan.order, now)
            if made is not None:
                self._plans.append(made.follow(plan))
            if self._cluster.work.spent > work_until:
                break
        self._is_due = True

    def _improve(self, now: float) -> None:
        """Units may start earlier than was planned, since others ended early; not too often."""
        pause_s = self._terms.resolution_s / 2
        if not self._room_grew:  # estimates may have changed
            pause_s = KEPT_S if pause_s else inf
        if now - self._improved_s < pause_s:
            return
        self._improved_s, self._room_grew = now, False
        work_until = self._cluster.work.spent + _MOST_WORK
        for at, plan in enumerate(self._plans):
            others = [*self._plans[:at], *self._plans[at + 1 :]]
            made = self.planned(plan.entry, plan.order, now, others)
            if made is not None and made.start_s < plan.start_s:
                self._plans[at] = made.follow(plan)
            if self._cluster.work.spent > work_until:
                return

    def _call(self, now: float) -> None:
        """Units whose start has come are tried; those that are late are planned again."""
        for at, plan in enumerate(self._plans):
            if now >= plan.held_until_s(self._terms.hold_s):
                self._give_up(at, now)
                return
            if plan.start_s > now:
                continue
            if not plan.called:
                plan.called = True
                if plan.entry.pool is Pool.WAITING:
                    self._queue.wake(plan.entry, "ForceActivate", now=now)
            elif now >= plan.start_s + self._patience_s:  # what it waited for has not ended
                self._plan_again(at, now)
                return

    @property
    def _patience_s(self) -> float:
        """How late a unit may start before it is planned again."""
        return max(1.0, self._terms.resolution_s)

    def _give_up(self, at: int, now: float) -> None:
        """Room was held for it for too long: others may have it for a while."""
        plan = self._plans.pop(at)
        self._pauses.add(plan.entry.unit.key, now, self._terms.hold_s)
        self._is_due = True

    def _add(self, now: float) -> None:
        """Plans for the first waiting units that have none."""
        work_until = self._cluster.work.spent + _MOST_WORK
        for scope in self._scopes:
            if not self._add_for(scope, self._depth(scope), work_until, now):
                self._is_due = True

    def _add_for(self, scope: PlanScope, depth: int, work_until: int, now: float) -> bool:
        """Whether all were looked at."""
        known = {plan.planned.unit_key: plan for plan in self._plans}
        count = 0
        for order, entry in scope.candidates.first(depth + _MOST_LOOKED):
            key = entry.unit.key
            if count >= depth:
                break
            if key in known:
                count += 1
                continue
            if self._pauses.has(key, now) or makes_room(self._cluster, entry):
                continue
            if self._cluster.work.spent > work_until:
                return False
            ahead = [plan for plan in self._plans if plan.order < order]
            made = self.planned(entry, order, now, ahead)
            if made is None:
                self._pauses.add(key, now, _NO_PLAN_S)
                continue
            count += 1
            self._insert(made, scope, depth, now)
        return True

    # -- the first of those that have waited for long ----------------------------------------

    def lead(self, entry: Entry | None, now: float) -> bool:
        """The first unit that has waited for long enough, if it is before this one, is planned.

        None: this is the end of a turn. Whether a plan was dropped for that.
        """
        changed = False
        for scope in self._scopes:
            if scope.mode is not BackfillMode.SHORT_FIRST:
                continue
            if self._has_free_gpus():
                changed |= self._lead(scope, entry, now)
            else:
                scope.unseen = ()
        return changed

    def _lead(self, scope: PlanScope, before: Entry | None, now: float) -> bool:
        current = self._plan_of(scope)
        head = self.heads.of(scope, now)
        if head is None or (current and head is current.entry) or not self._planner.is_ready(now):
            return False
        if before is not None and not self._is_before(head, before):
            return False
        self._plans = [plan for plan in self._plans if plan is not current]
        order = self.ranks.order_of(head)
        made = self.planned(head, order, now, [plan for plan in self._plans if plan.order < order])
        if made is None:
            self._pauses.add(head.unit.key, now, _NO_PLAN_S)
            return current is not None
        if scope.last is not None and scope.last.entry is head:
            made.follow(scope.last)
        scope.last = made
        self._insert(made, scope, 1, now)
        return current is not None

    def _is_before(self, head: Entry, entry: Entry) -> bool:
        ranks = self.ranks
        if self._scopes.of(head.unit) is self._scopes.of(entry.unit):
            return ranks.rank_of(head) < ranks.rank_of(entry)
        return ranks.order_of(head) < ranks.order_of(entry)

    def _drop_outrun(self, now: float) -> None:
        """A unit that others of its kind have outrun is not the first any more."""
        for plan in self._plans:
            scope = self._scopes.of(plan.entry.unit)
            if scope.mode is not BackfillMode.SHORT_FIRST or plan.entry.pool is not Pool.WAITING:
                continue
            if not self.heads.is_able(plan.entry, scope, now):
                self._plans = [each for each in self._plans if each is not plan]

    def _plan_of(self, scope: PlanScope) -> Plan | None:
        return next((p for p in self._plans if self._scopes.of(p.entry.unit) is scope), None)

    def _has_free_gpus(self) -> bool:
        """While there are none, no other unit starts before the first one."""
        return bool((self._cluster.nodes.free_gpus()[0] > 0).any())

    def _insert(self, made: Plan, scope: PlanScope, depth: int, now: float) -> None:
        """Those after it are planned again; of more than the depth the last ones are dropped."""
        at = sum(plan.order < made.order for plan in self._plans)
        after = [plan.entry for plan in self._plans[at:]]
        mine = [p for p in (*self._plans[:at], made) if self._scopes.of(p.entry.unit) is scope]
        room = depth - len(mine)
        kept = []
        for plan in self._plans[at:]:
            own = self._scopes.of(plan.entry.unit) is scope
            if own and room <= 0:
                continue
            room -= own
            kept.append(plan)
        self._plans = [*self._plans[:at], made, *kept]
        if after and kept:
            self._plan_again(at + 1, now)

    def planned(
        self,
        entry: Entry,
        order: UnitKey,
        now: float,
        ahead: Sequence[Plan] | None = None,
        *,
        at_once: bool = False,
    ) -> Plan | None:
        """A plan beside those that are before it; None if there is no start."""
        ahead = self._plans if ahead is None else ahead
        try:
            made = self._planner.plan(entry, order, ahead, now, at_once=at_once)
        except PluginFault:  # the attempt itself reports it
            return None
        if made is not None:
            made.rule, made.rank = self._scopes.of(entry.unit).mode.rule, self.ranks.rank_of(entry)
        return made

    def waiting(self, entries: Iterable[Entry]) -> list[Entry]:
        """Units that could start, each once."""
        found = {id(entry): entry for entry in entries}
        return [entry for entry in found.values() if self._scopes.waits(entry)]

    # -- what time brings about --------------------------------------------------------------

    def due_s(self) -> float | None:
        """When a unit is to start, or is late, or more classes are looked at."""
        if self._is_due:
            return 0.0  # at once
        late_s, hold_s = self._patience_s, self._terms.hold_s
        times = [scope.look_s for scope in self._scopes if scope.unseen]
        times += [
            min(plan.start_s + late_s if plan.called else plan.start_s, plan.held_until_s(hold_s))
            for plan in self._plans
        ]
        return min(times, default=None)


def _start_of(plan: Plan) -> tuple[str, float]:
    return plan.planned.unit_key, plan.start_s
