"""One pod is tried: it gets a node, or it waits."""

from contextlib import suppress
from functools import partial

from fairlead.cluster.aspects import NOTHING
from fairlead.cluster.planned_places import planned_places
from fairlead.engine import reservations
from fairlead.engine.attempts import Attempt, Outcome
from fairlead.engine.backfill.limits import Limit
from fairlead.engine.instructions import (
    AnnounceFailure,
    AskExtenders,
    AttemptCrashed,
    Decided,
    FreeClaim,
    Instruction,
    Prepare,
)
from fairlead.engine.parts import Parts
from fairlead.engine.pod_binding import PodBinding
from fairlead.engine.reasons import INVALID_POD, SCHEDULER_ERROR, UNSCHEDULABLE
from fairlead.model.pods import Pod
from fairlead.placement.goal_report import recorded
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed, Refused, Verdict
from fairlead.plugins.prepare import PrepareStep
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.quota import QuotaRefusal
from fairlead.queue.units import Gang

# An enum is slow to ask for a member, and this is asked for every placement.
_SCHEDULED = Outcome.SCHEDULED


class PodAttempts:
    def __init__(self, parts: Parts, binding: PodBinding) -> None:
        self._kept = parts.kept
        self._cluster = parts.cluster
        self._queue = parts.queue
        self._in_flight = parts.in_flight
        self._placements = parts.placements
        self._requeuer = parts.requeuer
        self._queues = parts.queues
        self._counted = parts.counted
        self._plans = parts.plans
        self._gangs = parts.gangs
        self._pod_rooms = parts.pod_rooms
        self._device_rooms = parts.device_rooms
        self._evictions = parts.evictions
        self._extending = parts.extending
        self._binding = binding

    def attempt(self, entry: Entry, now: float, limit: Limit | None) -> Attempt:
        """`limit`: what the pod must leave free for planned starts."""
        if entry.unit.pod.request.claims and self._cluster.claims.kept:
            with self._gangs.rooms.opened_to(entry.unit):
                return self._attempt(entry, now, limit)
        return self._attempt(entry, now, limit)

    def _attempt(self, entry: Entry, now: float, limit: Limit | None) -> Attempt:
        pod = entry.unit.pod
        if pod.problem:
            return self._refuse_invalid(entry, now)
        placement, record = self._placements[pod.scheduler], None
        steps: tuple[PrepareStep, ...] = ()
        try:
            verdict = self._place(entry, placement, limit, now)
            if verdict is None or isinstance(verdict, AskExtenders):
                return Attempt(entry.unit, Outcome.UNFINISHED, (verdict,) if verdict else ())
            if isinstance(verdict, QuotaRefusal):
                return self._await_quota(entry, verdict, now)
            if isinstance(verdict, Placed):
                steps = self._steps(placement, pod, verdict, limit)
                steps += reservations.steps(verdict.node, verdict.grant)
                if self._kept.keeps_records:
                    record = recorded(placement, self._cluster, pod, verdict)
        except Exception as error:  # a user's plugin broke: this pod waits, the others go on
            self._queue.retry(entry, now=now)
            failure = AnnounceFailure(pod, SCHEDULER_ERROR, str(error))
            return Attempt(entry.unit, Outcome.ERROR, (failure,))
        if isinstance(verdict, Refused):
            return self._refuse(entry, verdict, limit, now)
        made = self._assume(entry, verdict, steps, now)
        noted = [*made, Decided(pod, verdict.node, record)] if record else made
        outcome = _SCHEDULED if pod.uid in self._in_flight else Outcome.ERROR
        return Attempt(entry.unit, outcome, noted)

    def _steps(
        self, placement: Placement, pod: Pod, placed: Placed, limit: Limit | None
    ) -> tuple[PrepareStep, ...]:
        """A pod whose planned start has come gets the devices of its plan, if they are free."""
        if limit is None or not limit.own_places:
            return placement.steps(pod, placed.node)
        with planned_places(self._cluster, limit.own_places):
            return placement.steps(pod, placed.node)

    def crashed(self, entry: Entry, error: Exception, now: float) -> Attempt:
        """The attempt failed half-way: the unit is tried again, and the ledger is checked."""
        pod, held = entry.unit.pod, self._cluster.holdings.get(entry.unit.pod.uid)
        retries = pod.uid in self._queue
        if isinstance(entry.unit, Gang):
            retries = self._gangs.crashed(entry)
        else:
            self._in_flight.end(pod.uid)
            self._in_flight.evicting.discard(pod.uid)
            with suppress(Exception):
                self._cluster.remove(pod.uid)
        if entry.pool is Pool.NONE and retries:
            self._queue.retry(entry, now=now)
        message = f"internal error: {error!r:.300}; please report it as a bug in Fairlead"
        failure = AnnounceFailure(pod, SCHEDULER_ERROR, message)
        crashed = AttemptCrashed(pod, held.node if held else "", error)
        return Attempt(entry.unit, Outcome.ERROR, (failure, crashed))

    # -- choosing a node ---------------------------------------------------------------------

    def _place(
        self, entry: Entry, placement: Placement, limit: Limit | None, now: float
    ) -> Verdict | QuotaRefusal | AskExtenders | None:
        """Where the pod goes, or what it waits for; extenders may have to answer first."""
        pod = entry.unit.pod
        early = self._requeuer.too_early(entry, now) if pod.start is not None else None
        if beyond := early or self._requeuer.beyond_quota(pod):
            return beyond
        evicts = not (self._queues.is_active and self._is_queued(pod))
        verdict: Verdict | QuotaRefusal | AskExtenders | None
        if self._extending is None and limit is None:  # most pods: nothing is asked in between
            verdict = placement.place(pod, evicts=evicts)
        elif self._extending is None:
            verdict = self._place_by_rules(pod, placement, limit, now, evicts=evicts)
        else:
            place = partial(self._place_by_rules, pod, placement, limit, now)
            verdict = self._extending.place(entry, placement, place, evicts=evicts)
        if isinstance(verdict, Placed):
            return self._allowed(entry, placement, verdict, limit, now)
        if self._cluster.counted is not None and isinstance(verdict, Refused):
            beyond = self._requeuer.beyond_quota(pod, verdict)
            return beyond or self._counted.said_of_all(pod, verdict)
        return verdict

    def _place_by_rules(
        self, pod: Pod, placement: Placement, limit: Limit | None, now: float, *, evicts: bool
    ) -> Verdict | QuotaRefusal:
        """By all rules but those of extenders."""
        if limit is None:
            return placement.place(pod, evicts=evicts)
        return self._plans.attempts.place(pod, placement, limit, now, evicts=evicts)

    def _allowed(
        self, entry: Entry, placement: Placement, placed: Placed, limit: Limit | None, now: float
    ) -> Placed | QuotaRefusal:
        """The node, or another one if the quota does not allow the GPUs there."""
        pod = entry.unit.pod
        if (pod.request.capacity is not None or placement.limited_levels) and (
            wait := self._requeuer.goal_waits.refusal(entry, ((pod, placed.node),), now)
        ):
            return wait
        if beyond := self._requeuer.beyond_quota(pod, placed):
            with self._cluster.limited_to(limit.strict if limit else None):
                return self._requeuer.on_other_models(pod, beyond)
        return placed

    def _is_queued(self, pod: Pod) -> bool:
        """Whether the pod is of a queue of a team."""
        return self._queues.is_active and bool(self._queues.names.of(pod))

    # -- the pod has a node ------------------------------------------------------------------

    def _assume(
        self, entry: Entry, verdict: Placed, steps: tuple[PrepareStep, ...], now: float
    ) -> list[Instruction]:
        pod = entry.unit.pod
        self._cluster.nominations.settle(pod.uid, verdict.node)
        if self._gangs.rooms.held:
            self._gangs.rooms.held.used(pod.uid)
        self._cluster.assume(pod, verdict.node, verdict.grant)
        self._in_flight.begin(pod.uid, entry, steps)
        if self._queue.awaited or self._queue.held_back:
            self._requeuer.look_at_next(self._requeuer.class_of(entry.unit), now)
        if not steps:
            return self._binding.bind(pod, verdict.node, verdict.grant, now)
        for step in steps:
            step.assume(self._cluster, verdict.node)
        return [Prepare(pod, verdict.node, steps)]

    # -- the pod waits -----------------------------------------------------------------------

    def _refuse_invalid(self, entry: Entry, now: float) -> Attempt:
        pod = entry.unit.pod
        class_ = (pod.scheduler, pod.request, pod.priority, "")
        self._queue.park(entry, class_, woken_by=NOTHING, now=now)
        failure = AnnounceFailure(pod, INVALID_POD, pod.problem)
        return Attempt(entry.unit, Outcome.UNSCHEDULABLE, (failure,))

    def _await_quota(self, entry: Entry, beyond: QuotaRefusal, now: float) -> Attempt:
        class_ = self._requeuer.class_of(entry.unit)
        self._queue.park(
            entry, class_, woken_by=beyond.woken_by, now=now, held_back_by=beyond.queue
        )
        self._requeuer.announced(entry, beyond, class_)
        failure = AnnounceFailure(entry.unit.pod, beyond.reason, beyond.message)
        return Attempt(entry.unit, Outcome.HELD_BACK, (failure,))

    def _refuse(self, entry: Entry, refused: Refused, limit: Limit | None, now: float) -> Attempt:
        pod = entry.unit.pod
        refuse = self._pod_rooms.refuse if self._is_queued(pod) else self._park
        with self._cluster.limited_to(limit.strict if limit else None):
            made = [*self._device_rooms.refuse(entry, refused, now, refuse)]
        made += [FreeClaim(pod, refused.frees)] if refused.frees else []
        return Attempt(entry.unit, Outcome.UNSCHEDULABLE, made)

    def _park(self, entry: Entry, refused: Refused, now: float) -> list[Instruction]:
        pod, class_ = entry.unit.pod, self._requeuer.class_of(entry.unit)
        self._queue.park(entry, class_, woken_by=refused.woken_by, now=now)
        failure = AnnounceFailure(pod, UNSCHEDULABLE, refused.message, refused.nomination)
        if refused.eviction is None:
            if refused.nomination == "":
                self._cluster.nominations.drop(pod.uid)
            if refused.unfinished:
                self._queue.wake(entry, "ScheduleAttemptFailure", now=now)
            return [failure]
        return [failure, *self._evictions.begin(entry.unit, refused.eviction, now)]
