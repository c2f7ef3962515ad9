"""Planned starts of waiting units, and which other units may start before them.

The first waiting unit that no node fits gets a start and a place in the future, or several do. It
comes from when running units end, by the same placement as any other decision. A unit that comes
after it may start now if it ends before that start, or where the planned unit fits beside it.
Without backfill nothing of this exists.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from heapq import nsmallest
from math import isinf

from fairlead.cluster.capacity import all_gpu_models
from fairlead.cluster.cluster import Cluster
from fairlead.engine.advance import AdvanceReservations, ClosedRows
from fairlead.engine.attempts import Attempt, Outcome
from fairlead.engine.backfill.attempts import LimitedAttempts
from fairlead.engine.backfill.claim_ends import ClaimEnds
from fairlead.engine.backfill.ends import Ends, KnowsRunTimes
from fairlead.engine.backfill.futures import Plan
from fairlead.engine.backfill.limits import (
    DELAYS,
    OUTLASTS,
    PLANNED,
    RESERVED,
    RESERVED_GPUS,
    Limit,
    Limits,
    ReservedGpus,
)
from fairlead.engine.backfill.overruns import Overruns
from fairlead.engine.backfill.plan_book import PlanBook
from fairlead.engine.backfill.planner import Planner
from fairlead.engine.device_evictions import evict_for_devices
from fairlead.engine.instructions import Instruction
from fairlead.engine.queues import Queues
from fairlead.engine.reasons import WAITING_FOR_PLANNED_START, WAITING_FOR_RESERVATION
from fairlead.engine.requeuer import Requeuer
from fairlead.model.advance import AdvanceReservation
from fairlead.model.backfill import BackfillMode, BackfillTerms, PlannedStart
from fairlead.model.errors import PluginFault
from fairlead.model.pods import Pod
from fairlead.placement.place import Placement
from fairlead.queue.entries import Entry
from fairlead.queue.order import QueueOrder
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.service_order import gpus_of_unit
from fairlead.queue.units import Unit

#: What plans for all may cost (see `Work.spent`); at least one unit is planned.
_MOST_WORK = 60_000
#: Turns of planning in a row in which no unit is tried.
_IN_A_ROW = 8
#: Pods of a unit that is planned beside all others where very many pods run, at most.
_SMALL = 100
#: Units of one class that are looked at one after the other, and what that may cost.
_FEW = 64
_MOST_LOOKED = 40_000


class Plans:
    """One for each engine."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        placements: Mapping[str, Placement],
        requeuer: Requeuer,
        run_times: KnowsRunTimes,
        terms: BackfillTerms,
        order: QueueOrder | None,
        utc_s: Callable[[float], float],
        queues: Queues,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._placements = placements
        self._requeuer = requeuer
        self._terms = terms
        self._utc_s = utc_s
        self._ends = Ends(cluster, run_times, terms, utc_s)
        self._overruns = Overruns(cluster, terms)
        self._ends.has_overrun = self._overruns.has
        self._ends.has_overruns = self._overruns.__bool__
        self._ends.evicts_for_devices = self._evicts_for_devices
        #: Nodes that people keep free.
        self.advance = AdvanceReservations(
            cluster, self._ends, self._queues_of, utc_s, evicts_overruns=terms.evicts_overruns
        )
        claim_ends = ClaimEnds(cluster, self._ends, queue.__contains__)
        planner = Planner(
            cluster, placements, requeuer.beyond_quota, self._ends, terms, self.advance, claim_ends
        )
        expected_of = run_times.expected_s
        looks_at = requeuer.are_looked_at
        self._book = PlanBook(
            cluster, queue, planner, terms, self._mode_of, order, expected_of, looks_at
        )
        #: GPUs of the cluster; None: they are to be counted.
        self._all_gpus: int | None = None
        self._queues = queues
        #: Of queues with a mode of their own.
        self._modes: dict[str, BackfillMode] = {}
        #: Whether starts are planned at all.
        self.is_enabled = False
        self._limits = Limits(cluster, planner, lambda: list(self._book))
        self.attempts = LimitedAttempts(cluster, placements, self._limits, planner.gangs, terms)
        self._now = 0.0
        self._planning_turns = 0
        #: Until when more units of a class are looked at (see `Work.spent`).
        self._look_until = 0
        self._switch()

    def _evicts_for_devices(self, pod: Pod) -> bool:
        return evict_for_devices((pod,), self._placements, self._cluster)

    def _switch(self) -> None:
        """Plans begin or end with the configuration, and with queues that ask for them."""
        modes = {self._terms.mode, *self._modes.values()}
        self.is_enabled = modes != {BackfillMode.NONE}
        limits = self.is_enabled or bool(self.advance)
        self._requeuer.first_to_start = self.first_to_start if limits else None
        self._requeuer.more_of_class = self._more_of_class if limits else None
        self._requeuer.sort_again()

    def advance_seen(self, reservation: AdvanceReservation) -> None:
        if self.advance.seen(reservation):
            self._switch()

    def advance_gone(self, name: str) -> None:
        self.advance.gone(name)
        self._switch()
        self._requeuer.freed.add(PLANNED)

    def tend(self, now: float) -> list[Instruction]:
        """Reservations begin and end, and units that overrun are evicted for planned ones."""
        self._now = now
        made = [*self.advance.tend(now), *self._overruns.evictions(self._book, now)]
        if self.advance.has_freed:
            self.advance.has_freed = False
            self._requeuer.freed.add(PLANNED)
        return made

    def _queues_of(self, pod: Pod) -> Sequence[str]:
        """The queue of the pod and those above it."""
        tree, key = self._queues.tree, self._queues.of(pod)
        return tree.lineage(key) if key in tree else ()

    def queue_seen(self, key: str, mode: BackfillMode | None) -> None:
        """The object of a queue says how starts of its units are planned; None: it does not."""
        if self._modes.get(key) is mode:
            return
        if mode is None:
            del self._modes[key]
        else:
            self._modes[key] = mode
        self._book.start_over()
        self._switch()
        for entry in self._queue.all_waiting() if self.is_enabled else ():
            if entry.held_back_by in (None, PLANNED):
                self._know_run_time(entry)
                self._book.refused(entry)
        self._requeuer.freed.add(PLANNED)

    def _mode_of(self, unit: Unit) -> tuple[str, BackfillMode]:
        """Of the nearest queue with a mode."""
        if self._modes:
            for each in self._queues_of(unit.pod):
                if each in self._modes:
                    return each, self._modes[each]
        return "", self._terms.mode

    @property
    def are_made(self) -> bool:
        """Whether a unit may have to leave room free."""
        return bool(self._book) or bool(self.advance)

    def __iter__(self) -> Iterator[PlannedStart]:
        return (plan.planned for plan in self._book)

    def start_of(self, unit_key: str) -> PlannedStart | None:
        """The planned start of a waiting unit."""
        return next((planned for planned in self if planned.unit_key == unit_key), None)

    def has_given_up(self, entry: Entry) -> bool:
        """Whether a waiting unit has no planned start since looking at devices took too long."""
        return self._book.has_given_up(entry)

    def plan_all(self, depth: int, *, now: float) -> list[PlannedStart]:
        """When and where the first waiting units would start, in their order; nothing changes.

        Each is planned so that it delays none before it, whatever the mode. Units without a start
        within the window are left out, and so are large ones and the last ones if very many run.
        """
        made: list[Plan] = []
        waiting = self._book.waiting(self._queue.entries())
        work_until = self._cluster.work.spent + _MOST_WORK
        order_of = self._book.ranks.order_of
        if self._book.many_pods_run:
            waiting = [entry for entry in waiting if _is_small(entry.unit)]
        for entry in nsmallest(depth, waiting, key=order_of):
            plan = self._book.planned(entry, order_of(entry), now, made, at_once=True)
            if plan is not None:
                made.append(plan)
            if self._cluster.work.spent > work_until:
                break
        return [plan.planned for plan in made]

    def renew(self, now: float) -> Unit | None:
        """Before the next unit is tried: plans follow what has changed.

        The unit whose planning took so long that the next unit is for the next turn; None: none.
        If that goes on for long, other units are tried in every second turn.
        """
        self._now = now
        self._planning_turns += 1
        long = self._planning_turns > _IN_A_ROW and self._planning_turns % 2
        if long and self._queue.has_active():
            return None
        if self._book.renew(now):
            self._requeuer.freed.add(PLANNED)
        if (planned := self._book.spent_on) is None:
            self._planning_turns = 0
        return planned

    def lead(self, entry: Entry | None, now: float) -> bool:
        """Before this unit is tried, or (None) if there is none: units before it may be planned.

        Whether others may start then that could not before.
        """
        dropped = self._book.lead(entry, now)
        if dropped:
            self._requeuer.freed.add(PLANNED)
        return dropped

    def due_s(self) -> float | None:
        """When a unit is to start, or is late."""
        times = self._book.due_s(), self.advance.due_s()
        return min((at_s for at_s in times if at_s is not None), default=None)

    def room_grew(self) -> None:
        """There may be more room than plans expect."""
        self._all_gpus = None
        self._book.room_grew()

    def pod_left(self, uid: str, now: float) -> None:
        """A pod is about to leave its node. Reservations ask for ends, too, without any plan."""
        self._overruns.left(uid)
        if self._ends.left(uid, now) and self.is_enabled:
            self._book.room_grew()

    def tried(self, entry: Entry, attempt: Attempt, limit: Limit | None, now: float) -> None:
        """A unit was tried: if no node fits it, or it would delay another, it may get a plan."""
        if attempt.outcome is Outcome.SCHEDULED:
            self._started(entry, limit, now)
        if attempt.outcome is Outcome.HELD_BACK:
            if entry.held_back_as not in (WAITING_FOR_PLANNED_START, WAITING_FOR_RESERVATION):
                return
        elif attempt.outcome is not Outcome.UNSCHEDULABLE:
            return
        self._know_run_time(entry)
        self._book.refused(entry)
        if attempt.outcome is Outcome.HELD_BACK and self._book and entry.equivalence_class:
            self._look_for_shorter(entry, now)

    def _look_for_shorter(self, entry: Entry, now: float) -> None:
        """Others of its class may start in its place, before units that come after them."""
        mark = self._cluster.changes.mark
        self._look_until = self._cluster.work.spent + _MOST_LOOKED
        try:
            found = self._shorter_to_start(entry, set(), now)
        except PluginFault:  # let an attempt fail, where it is reported
            return
        finally:
            self._book.nothing_changed(mark)
        if found is not None:
            self._queue.wake(found, "ScheduleAttemptFailure", now=now)

    def _started(self, entry: Entry, limit: Limit | None, now: float) -> None:
        if limit is not None and limit.moved:
            self._book.move(limit.moved)
        relies = limit is None or not limit.plans
        if relies and any(self._book.comes_before(plan, entry) for plan in self._book):
            self._overruns.started(entry.unit.pods, lambda: self._book.place_of(entry), now)

    def _know_run_time(self, entry: Entry) -> None:
        run_s = self._ends.run_s(entry.unit)
        entry.run_s = float("inf") if run_s is None else run_s

    def _more_of_class(self, unit: Unit) -> str:
        """What makes a difference to planned starts, and is not part of a request."""
        return f"|{self._ends.is_filler(unit.pod):d}|{self.advance.admitted(unit)}"

    # -- which units may start ---------------------------------------------------------------

    def limit(self, entry: Entry, now: float) -> Limit | None:
        """What the unit must leave free; None: nothing."""
        unit, run_s = entry.unit, self._ends.run_s(entry.unit)
        end_s = float("inf") if run_s is None else now + run_s + self._terms.margin_s
        own = self._book.plan_for(unit.key) if self._book.has_several else None
        if own is not None:
            return self._own_limit(entry, own, end_s, now)
        return self._limit(entry, end_s, now)

    def _own_limit(self, entry: Entry, own: Plan, end_s: float, now: float) -> Limit | None:
        """A planned unit: before its start, it delays no other, and then none if it can."""
        limit = self._limit(entry, end_s, now, all_others=True)
        if limit is not None and own.start_s <= now:
            limit.own_rows, limit.own_places = self._cluster.nodes.named(own.on), own.places
            nothing = Limit(self._cluster, (), limit.says, limit.start_s)
            limit.least = self._limit(entry, end_s, now) or nothing
        return limit

    def _limit(
        self, entry: Entry, end_s: float, now: float, *, all_others: bool = False
    ) -> Limit | None:
        """`all_others`: also for units that come after it."""
        unit = entry.unit
        plans = self._hindered(entry, end_s, all_others=all_others) if self._book else []
        closed = self.advance.closed(unit, now, end_s) if self.advance else None
        if not plans and closed is None:
            return None
        rows = None if closed is None else ~closed.rows
        keeps = self._keeper(closed)
        if not plans:
            assert closed is not None
            says = RESERVED_GPUS if closed.are_all_by_gpu else RESERVED
            return Limit(self._cluster, (), says, closed.start_s, rows, reserved=keeps)
        first_s = self._utc_s(min(plan.start_s for plan, _ in plans))
        if self._may_outlast(unit, end_s - now, [plan for plan, _ in plans], now):
            return Limit(self._cluster, plans, DELAYS, first_s, rows, reserved=keeps)
        return Limit(self._cluster, plans, OUTLASTS, first_s, rows, forbids=True)

    def _keeper(self, closed: ClosedRows | None) -> ReservedGpus | None:
        """What a unit of several pods must leave on nodes of which GPUs are reserved."""
        if closed is None or not closed.by_gpu:
            return None
        nodes = frozenset(node for each in closed.by_gpu for node in each.nodes)
        return ReservedGpus(nodes, partial(self.advance.leaves_gpus, closed.by_gpu))

    def _hindered(
        self, entry: Entry, end_s: float, *, all_others: bool
    ) -> list[tuple[Plan, Sequence[Plan]]]:
        """Plans of units before it that it could delay, each with all of units before it."""
        unit = entry.unit
        if all(end_s <= plan.latest_s for plan in self._book):
            return []
        respected = [
            plan
            for plan in self._book
            if plan.entry is not entry and (all_others or self._book.comes_before(plan, entry))
        ]
        return [
            (plan, respected)
            for plan in respected
            if plan.latest_s < end_s
            and not all(self._ends.yields(pod, plan.evictor) for pod in unit.pods)
        ]

    def _may_outlast(self, unit: Unit, run_s: float, plans: Sequence[Plan], now: float) -> bool:
        """Whether it is not too long to run past planned starts."""
        if all(isinf(plan.rule.outlast) for plan in plans):
            return True
        if self._all_gpus is None:
            self._all_gpus = sum(all_gpu_models(self._cluster).values())
        service_s, all_gpus = run_s * gpus_of_unit(unit), self._all_gpus
        return all(
            plan.rule.may_outlast(service_s, all_gpus, plan.latest_s - now) for plan in plans
        )

    def first_to_start(self, first: Entry, now: float) -> Entry | None:
        """The first unit of a class that may start now, if there is room for each; None: none.

        A unit that comes later and runs longer than another that may not start may not, either.
        """
        first = self._book.heads.first_of_class(first)
        if not self.are_made:
            return first
        mark = self._cluster.changes.mark
        try:
            return self._first_to_start(first, now)
        except PluginFault:  # let the attempt itself fail, where it is reported
            return first
        finally:
            self._book.nothing_changed(mark)

    def _first_to_start(self, first: Entry, now: float) -> Entry | None:
        refused: set[object] = set()
        self._look_until = self._cluster.work.spent + _MOST_LOOKED
        if self._may_start(first, now, refused):
            return first
        found = self._shorter_to_start(first, refused, now)
        if found is None and first.held_back_by is None:
            self._queue.held_back.put(first, PLANNED)
        return found

    def _shorter_to_start(self, first: Entry, refused: set[object], now: float) -> Entry | None:
        """The first of its class that runs for less time and may start."""
        assert first.equivalence_class is not None
        longest_s = _run_s(first)
        entries = self._queue.all_of_class(first.equivalence_class)
        shorter = [entry for entry in entries if _run_s(entry) < longest_s]
        if len(shorter) > _FEW:
            shorter = self._short_enough(shorter, refused, now)
        for entry in nsmallest(_FEW, shorter, key=self._book.ranks.rank_of):
            if _run_s(entry) < longest_s:
                if self._may_start(entry, now, refused):
                    return entry
                longest_s = _run_s(entry)
        return None

    def _short_enough(
        self, entries: Sequence[Entry], refused: set[object], now: float
    ) -> list[Entry]:
        """Of many units of a class, those that run no longer than the longest that may start."""
        by_time = sorted({_run_s(entry): entry for entry in entries}.items())
        found = bisect_left(
            by_time, 1, key=lambda each: not self._may_start(each[1], now, refused)
        )  # fmt: skip
        longest_s = by_time[found - 1][0] if found else 0.0
        return [entry for entry in entries if found and _run_s(entry) <= longest_s]

    def _may_start(self, entry: Entry, now: float, refused: set[object]) -> bool:
        """`refused`: what units of its class must leave free, and cannot."""
        limit = self.limit(entry, now)
        if limit is None:
            return True
        if limit.key in refused or self._cluster.work.spent > self._look_until:
            return False
        if self.attempts.may_start(entry.unit, limit, now):
            return True
        refused.add(limit.key)
        return False


def _is_small(unit: Unit) -> bool:
    """Whether it can be planned in one turn where very many pods run."""
    return len(unit.pods) <= _SMALL and not any(pod.request.claims for pod in unit.pods)


def _run_s(entry: Entry) -> float:
    return float("inf") if entry.run_s is None else entry.run_s
