"""Planned starts of waiting units, and which other units may start before them.

The first waiting unit that no node fits gets a start and a place in the future, or several do. It
comes from when running units end, by the same placement as any other decision. A unit that comes
after it may start now if it ends before that start, or where the planned unit fits beside it.
Without backfill nothing of this exists.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nsmallest

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.cluster import Cluster
from fairlead.engine.advance import AdvanceReservations
from fairlead.engine.attempts import Attempt, Outcome
from fairlead.engine.backfill.attempts import LimitedAttempts
from fairlead.engine.backfill.ends import Ends, KnowsRunTimes
from fairlead.engine.backfill.futures import Plan, UnitKey
from fairlead.engine.backfill.limits import PLANNED, Limit, Limits, delay_refusal, reserved_refusal
from fairlead.engine.backfill.plan_book import PlanBook
from fairlead.engine.backfill.planner import Planner
from fairlead.engine.instructions import Instruction
from fairlead.engine.queues import Queues
from fairlead.engine.reasons import WAITING_FOR_PLANNED_START, WAITING_FOR_RESERVATION
from fairlead.engine.requeuer import Requeuer
from fairlead.model.advance import AdvanceReservation
from fairlead.model.backfill import BackfillMode, BackfillTerms, PlannedStart
from fairlead.model.pods import Pod
from fairlead.placement.place import Placement
from fairlead.queue.entries import Entry
from fairlead.queue.order import PrioritySort, QueueOrder
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.units import Unit

#: What plans for all may cost (see `Work.spent`).
_MOST_WORK = 200_000


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
        self._order = None if order is None or isinstance(order, PrioritySort) else order
        self._utc_s = utc_s
        self._ends = Ends(cluster, run_times, terms, utc_s)
        #: Nodes that people keep free.
        self.advance = AdvanceReservations(cluster, self._ends, self._queues_of, utc_s)
        planner = Planner(
            cluster, placements, requeuer.beyond_quota, self._ends, terms, self.advance
        )
        self._book = PlanBook(cluster, queue, planner, terms, self._mode_of)
        self._queues = queues
        #: Of queues with a mode of their own.
        self._modes: dict[str, BackfillMode] = {}
        #: Whether starts are planned at all.
        self.is_enabled = False
        self._limits = Limits(cluster, planner.futures)
        self.attempts = LimitedAttempts(cluster, self._limits)
        self._now = 0.0
        self._switch()

    def _switch(self) -> None:
        """Plans begin or end with the configuration, and with queues that ask for them."""
        modes = {self._terms.mode, *self._modes.values()}
        self.is_enabled = modes != {BackfillMode.NONE}
        limits = self.is_enabled or bool(self.advance)
        self._requeuer.open_rows = self._open_rows if limits else None
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
        """Reservations begin and end."""
        self._now = now
        made = self.advance.tend(now)
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
                self._book.scope_of(entry.unit).candidates.add(entry, self._order_of)
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

    def plan_all(self, depth: int, *, now: float) -> list[PlannedStart]:
        """When and where the first waiting units would start, in their order; nothing changes.

        Each is planned so that it delays none before it, whatever the mode. Units without a start
        within the window are left out, and so are the last ones if there are very many.
        """
        made: list[Plan] = []
        waiting = self._book.waiting(self._queue.entries())
        work_until = self._cluster.work.spent + _MOST_WORK
        for entry in nsmallest(depth, waiting, key=self._order_of):
            plan = self._book.planned(entry, self._order_of(entry), now, made, at_once=True)
            if plan is not None:
                made.append(plan)
            if self._cluster.work.spent > work_until:
                break
        return [plan.planned for plan in made]

    def renew(self, now: float) -> None:
        """Before the next unit is tried: plans follow what has changed."""
        self._now = now
        if self._book.renew(now):
            self._requeuer.freed.add(PLANNED)

    def due_s(self) -> float | None:
        """When a unit is to start, or is late."""
        times = self._book.due_s(), self.advance.due_s()
        return min((at_s for at_s in times if at_s is not None), default=None)

    def tried(self, entry: Entry, attempt: Attempt) -> None:
        """A unit was tried: if no node fits it, or it would delay another, it may get a plan."""
        if attempt.outcome is Outcome.HELD_BACK:
            if entry.held_back_as not in (WAITING_FOR_PLANNED_START, WAITING_FOR_RESERVATION):
                return
        elif attempt.outcome is not Outcome.UNSCHEDULABLE:
            return
        if self._book.scope_of(entry.unit).candidates.add(entry, self._order_of):
            self._book.refused(entry, self._order_of(entry))

    def _order_of(self, entry: Entry) -> UnitKey:
        unit = entry.unit
        ticket = self._book.scope_of(unit).candidates.ticket(entry)
        if self._order is not None:
            return *self._order.active(entry), ticket
        return -unit.priority, entry.first_queued_s, ticket

    def _more_of_class(self, unit: Unit) -> str:
        """What makes a difference to planned starts, and is not part of a request."""
        filler, admitted = self._ends.is_filler(unit.pod), self.advance.admitted(unit)
        return f"|{self._ends.run_s(unit)}|{filler:d}|{admitted}"

    # -- which units may start ---------------------------------------------------------------

    def limit(self, entry: Entry, now: float) -> Limit | None:
        """What the unit must leave free; None: nothing."""
        unit, mark = entry.unit, self._cluster.changes.mark
        run_s = self._ends.run_s(unit)
        end_s = float("inf") if run_s is None else now + run_s + self._terms.margin_s
        plans = self._hindered(unit, self._order_of(entry), end_s) if self._book else []
        closed = self.advance.closed(unit, now, end_s) if self.advance else None
        if not plans and closed is None:
            return None
        pods = self._different(unit)
        rows, strict = self._limits.rows(plans, pods, self._fits(pods), now)
        self._book.nothing_changed(mark)
        if closed is not None:
            rows, strict = rows & ~closed[0], strict & ~closed[0]
        if not plans:
            return Limit(rows, strict, plans, reserved_refusal(closed[1] if closed else 0.0))
        first_s = min(plan.start_s for plan, _ in plans)
        return Limit(rows, strict, plans, delay_refusal(self._utc_s(first_s)))

    def _hindered(
        self, unit: Unit, order: UnitKey, end_s: float
    ) -> list[tuple[Plan, Sequence[Plan]]]:
        """Plans of units before it that it could delay, each with those before."""
        return [
            (plan, self._book.before(plan))
            for plan in self._book
            if plan.order < order
            and plan.start_s < end_s
            and not all(self._ends.yields(pod, plan.evictor) for pod in unit.pods)
        ]

    def _different(self, unit: Unit) -> list[Pod]:
        """One pod for each request."""
        found = {self._placements[pod.scheduler].request(pod): pod for pod in unit.pods}
        return list(found.values())

    def _fits(self, pods: Sequence[Pod]) -> NodeMask:
        masks = [self._placements[pod.scheduler].view(pod).left for pod in pods]
        found: NodeMask = np.logical_or.reduce(masks)
        return found

    def _open_rows(self, unit: Unit) -> NodeMask | None:
        """The rows that a waiting unit may use; None: all."""
        if not self.are_made:
            return None
        entry = self._queue.gang(unit.key) or self._queue.get(unit.key)
        limit = self.limit(entry, self._now) if entry else None
        return limit.rows if limit else None
