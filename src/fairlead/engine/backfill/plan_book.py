"""The planned starts of waiting units: made, checked when something changes, and made again.

A plan that still holds is kept: a start does not move because another one was found.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from fairlead.cluster.cluster import Cluster
from fairlead.engine.backfill.device_looks import LooksAt
from fairlead.engine.backfill.futures import Plan, UnitKey
from fairlead.engine.backfill.heads import Heads, makes_room
from fairlead.engine.backfill.leads import Leads
from fairlead.engine.backfill.made_plans import MadePlans
from fairlead.engine.backfill.pauses import NO_PLAN_S, Pauses
from fairlead.engine.backfill.plan_checks import PlanChecks
from fairlead.engine.backfill.planner import Planner
from fairlead.engine.backfill.ranks import UnitRanks
from fairlead.engine.backfill.row_states import RowStates
from fairlead.engine.backfill.scopes import PlanScope, Scopes
from fairlead.model.backfill import BackfillMode, BackfillTerms
from fairlead.model.lazy_dataclass import dataclass
from fairlead.queue.entries import Entry
from fairlead.queue.order import QueueOrder
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.service_order import ExpectedOf
from fairlead.queue.units import Unit

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
        looks_at: LooksAt,
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
        states = RowStates(cluster, planner.ends)
        self._made = MadePlans(cluster, planner, terms, self._scopes, self.ranks, states, looks_at)
        self._checks = PlanChecks(cluster, queue, self._made, self._pauses, terms)
        leads = Leads(cluster, self._made, self.heads, self._pauses)
        self.lead, self._drop_outrun = leads.lead, leads.drop_outrun
        self.nothing_changed = self._checks.nothing_changed
        self.planned = self._made.make
        #: The place of the unit that was last asked about, for one decision: many ask about it.
        self._asked: tuple[str, StartedPlace | None] | None = None

    def __bool__(self) -> bool:
        return bool(self._made.all)

    def __iter__(self) -> Iterator[Plan]:
        return iter(self._made.all)

    @property
    def has_several(self) -> bool:
        return len(self._made.all) > 1

    def plan_for(self, unit_key: str) -> Plan | None:
        return next((plan for plan in self if plan.planned.unit_key == unit_key), None)

    def has_given_up(self, entry: Entry) -> bool:
        """Whether it has no plan since looking at devices took too long."""
        return self._made.given_up.get(entry.unit.key) is entry

    def before(self, plan: Plan) -> Sequence[Plan]:
        """Those of units before it."""
        return self._made.all[: self._made.all.index(plan)]

    # -- order -------------------------------------------------------------------------------

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

    def waiting(self, entries: Iterable[Entry]) -> list[Entry]:
        """Units that could start, each once."""
        found = {id(entry): entry for entry in entries}
        return [entry for entry in found.values() if self._scopes.waits(entry)]

    # -- what happens ------------------------------------------------------------------------

    def start_over(self) -> None:
        """Units may belong to other queues, or these have other modes."""
        self._scopes.start_over()
        self._made.all.clear()
        self._made.former.clear()
        self._made.given_up.clear()
        self._made.is_due = True

    def refused(self, entry: Entry) -> None:
        """A unit that has no plan may be one of the first."""
        scope = self._scopes.of(entry.unit)
        is_new = scope.candidates.add(entry, self.ranks.order_of)
        if is_new and self._needs_plan(scope, self.ranks.order_of(entry)):
            self._made.is_due = True

    def room_grew(self) -> None:
        """There may be more room than plans expect: they are looked at again."""
        self._checks.room_grew = True

    def move(self, moved: Mapping[Plan, Plan]) -> None:
        """These plans are on other nodes now."""
        self._made.all = [moved.get(plan, plan) for plan in self]

    def _needs_plan(self, scope: PlanScope, order: UnitKey) -> bool:
        """Whether a unit that was refused may be one of the first."""
        own, depth = self._made.of(scope), self._depth(scope)
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
        self._made.turn.begin()
        before = [_start_of(plan) for plan in self]
        if before:
            self._drop_started()
            self._checks.check(now)
            self._checks.call(now)
            self._drop_outrun(now)
        if self._made.is_due and not self._made.turn.is_spent and self._is_ready(now):
            self._made.is_due = False
            self._add(now)
        self._checks.done()
        return bool(before) and before != [_start_of(plan) for plan in self]

    def _is_ready(self, now: float) -> bool:
        """Whether a plan takes no longer than a turn may."""
        return self._made.has_begun or self._planner.is_ready(now)

    def _drop_started(self) -> None:
        """Units that are being bound, or are gone, need no plan."""
        kept = [plan for plan in self if self._scopes.waits(plan.entry)]
        if len(kept) < len(self._made.all):
            self._made.all, self._made.is_due = kept, True

    def _add(self, now: float) -> None:
        """Plans for the first waiting units that have none."""
        for scope in self._scopes:
            if not self._add_for(scope, self._depth(scope), now):
                self._made.is_due = True
        if not self._made.is_due:
            self._made.former.clear()

    def _add_for(self, scope: PlanScope, depth: int, now: float) -> bool:
        """Whether all were looked at."""
        known = {plan.planned.unit_key for plan in self}
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
            if self._made.turn.is_spent:
                return False
            ahead = [plan for plan in self if plan.order < order]
            if not self._made.begin(entry, order, now, ahead):
                return False
            made = self._made.go_on()
            if self._made.has_begun:
                return False
            if made is None:
                self._pauses.add(key, now, NO_PLAN_S)
                continue
            count += 1
            self._made.insert(made, scope, depth, now)
        return True

    @property
    def spent_on(self) -> Unit | None:
        """The unit whose planning took so long that none is tried in this turn; None: none."""
        return self._made.turn.unit if self._made.turn.is_spent else None

    @property
    def many_pods_run(self) -> bool:
        """Whether it takes a turn of its own to list when pods end."""
        return self._made.many_pods_run

    def due_s(self) -> float | None:
        """When a unit is to start, or is late, or more classes are looked at."""
        if self._made.is_due or self._made.unchecked or self._checks.is_improving:
            return 0.0  # at once
        times = [scope.look_s for scope in self._scopes if scope.unseen]
        if (due_s := self._checks.due_s()) is not None:
            times.append(due_s)
        return min(times, default=None)


def _start_of(plan: Plan) -> tuple[str, float]:
    return plan.planned.unit_key, plan.start_s
