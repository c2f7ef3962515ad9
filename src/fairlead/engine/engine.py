"""The scheduler itself: events in, instructions out.

It does no I/O, reads no clock and draws no lots: the same events at the same times give the same
instructions, live, in simulation and in tests. A driver feeds it what the API server says, carries
out what it asks for, and tells it how that went.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from fairlead.cluster import reserving
from fairlead.cluster.holdings import Holding
from fairlead.cluster.named_readings import carry_feeds
from fairlead.engine import events
from fairlead.engine.attempts import Attempt, Outcome
from fairlead.engine.bind_data import BindEncoder, without_annotations
from fairlead.engine.compute_domains import DomainOutlook
from fairlead.engine.consolidation.allowance import MoveAllowance
from fairlead.engine.gang_outlook import GangOutlook
from fairlead.engine.handlers import handlers_of
from fairlead.engine.held_room import HeldRoom
from fairlead.engine.instructions import Instruction
from fairlead.engine.node_requests import NodeRequests
from fairlead.engine.parts import EngineMemory, EngineTerms, Parts
from fairlead.engine.pod_attempts import PodAttempts
from fairlead.engine.pod_binding import PodBinding
from fairlead.engine.queue_victims import AmongQueues
from fairlead.engine.run_times import RunTimes
from fairlead.model.backfill import NO_BACKFILL, BackfillMode, BackfillTerms
from fairlead.model.consolidation import NO_MOVES, ConsolidationTerms
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.gpu_tenants import TenantTerms
from fairlead.model.http_extenders import ExtenderTerms
from fairlead.model.pods import Pod
from fairlead.model.prices import Basis
from fairlead.model.solver import SolverQuestion
from fairlead.model.topology import NO_LEVELS, Topology
from fairlead.placement.place import Placement
from fairlead.placement.profile import Profile
from fairlead.queue.entries import Entry
from fairlead.queue.order import QueueOrder
from fairlead.queue.quota import QuotaPolicy
from fairlead.queue.retry_times import AS_KUBE_SCHEDULER, RetryTimes
from fairlead.queue.service_order import ServiceOrder
from fairlead.queue.units import Gang

#: Events that give no room, or of which planned starts learn when a pod leaves its node.
_OF_PODS = frozenset((
    events.PodSeen, events.PodGone, events.BindDone, events.BindFailed, events.Prepared,
    events.PrepareFailed, events.RunEnded, events.ReadingsTaken, events.ReadingSeen,
    events.ForecastSeen, events.ServiceClassesSeen, events.ServiceRecordLoaded,
))  # fmt: skip

# An enum is slow to ask for a member, and this is asked for every placement.
_SCHEDULED = Outcome.SCHEDULED


class Engine:
    """One scheduler for one cluster, serving every scheduler name that has a profile."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        extender_profile: Profile | None = None,
        encode: BindEncoder = without_annotations,
        order: QueueOrder | None = None,
        quota: QuotaPolicy | None = None,
        *,
        reserves: bool = False,
        topology: Topology = NO_LEVELS,
        consolidation: ConsolidationTerms = NO_MOVES,
        retries: RetryTimes = AS_KUBE_SCHEDULER,
        backfill: BackfillTerms = NO_BACKFILL,
        extenders: Sequence[ExtenderTerms] = (),
        tenants: TenantTerms | None = None,
    ) -> None:
        """`extender_profile` answers an extender's queries about pods that no profile serves.

        `encode` says what goes with a bind, `order` which pod is tried first, and `quota` which
        pods wait although a node may fit. `reserves`: shares are also assigned on nodes with a
        device plugin, of GPUs that are reserved there. `topology`: the levels that rules of gangs
        name; without any, what labels of nodes show. `consolidation`: whether pods are moved so
        that others can start. `retries`: when refused units are tried again without a change.
        `backfill`: whether starts of waiting units are planned, and others must not delay them.
        `extenders`: which HTTP extenders are asked about pods.
        `tenants`: whose pods do not share GPUs; None: all may.
        """
        #: The time of day, in seconds since 1970, minus `now`; the driver sets it.
        self.wall_offset_s = 0.0
        run_times = RunTimes(self._holding_of, lambda: self.wall_offset_s, self._gang_spec_of)
        if order is None and backfill.mode is BackfillMode.SHORT_FIRST:
            order = ServiceOrder(run_times.expected_s)
        self._terms = EngineTerms(
            profiles,
            extender_profile,
            encode,
            order,
            quota,
            topology,
            consolidation,
            retries,
            backfill,
            extenders,
            tenants,
        )
        self._kept = kept = EngineMemory(run_times, MoveAllowance(consolidation), reserves)
        self.run_times, self.moved, self.demand = kept.run_times, kept.moved, kept.demand
        self.in_flight, self.start_record = kept.in_flight, kept.start_record
        self.service_record = kept.service_record
        self._begin()

    def _begin(self) -> None:
        self._parts = parts = Parts(self._terms, self._kept, self.utc_s)
        self.cluster, self.queue = parts.cluster, parts.queue
        self.queues, self.counted, self.plans = parts.queues, parts.counted, parts.plans
        self.planning, self.held_gpus = parts.planning, parts.held_gpus
        self.start_windows, self.start_forecasts = parts.start_windows, parts.start_forecasts
        self.extender_queries, self.service_goals = parts.extender_queries, parts.service_goals
        binding = PodBinding(parts)
        self._attempts = PodAttempts(parts, binding)
        self._handlers = handlers_of(parts, binding)

    @property
    def keeps_records(self) -> bool:
        """Whether to record why each pod was placed on its node."""
        return self._kept.keeps_records

    @keeps_records.setter
    def keeps_records(self, keeps: bool) -> None:
        self._kept.keeps_records = keeps

    @property
    def solver_questions(self) -> tuple[SolverQuestion, ...]:
        """What the solver is to answer, as `PlanComputed`."""
        return self._parts.gangs.solver_questions

    @property
    def node_requests(self) -> NodeRequests:
        """Gangs for which nodes are requested."""
        return self._parts.gangs.node_requests

    def _gang_spec_of(self, said: Membership) -> GangSpec:
        return self._parts.gangs.spec_of(said)

    def _holding_of(self, uid: str) -> Holding | None:
        return self.cluster.holdings.get(uid)

    def utc_s(self, now: float) -> float:
        """The time of day, in seconds since 1970."""
        return now + self.wall_offset_s

    def forget(self) -> None:
        """Forgets what the API server showed, to be shown all of it again, after a defect.

        What was decided and is being carried out stays: no other memory has it.
        """
        cluster, queue, forecasts = self.cluster, self.queue, self.start_windows.forecasts
        classes = self.service_goals.classes.values()
        self._begin()
        self.start_windows.forecasts = forecasts
        self._parts.know_classes(classes, 0.0)
        self.cluster.behaviour = cluster.behaviour
        if not isinstance(cluster.eviction_rule, AmongQueues):  # queues are shown again
            self.cluster.eviction_rule = cluster.eviction_rule
        self.cluster.releasing = cluster.releasing
        self.cluster.reservations.paused = cluster.reservations.paused
        self.cluster.reservations.enabled = cluster.reservations.enabled
        carry_feeds(cluster, self.cluster)
        self.queue.entered = queue.entered
        for _, flight in self.in_flight:
            if flight.entry is not None:
                self.queue.adopt(flight.entry)
        for uid, held in cluster.holdings.items():
            if held.assumed and uid in self.in_flight:
                self._keep(held)

    def _keep(self, held: Holding) -> None:
        try:
            self.cluster.assume(held.pod, held.node, held.grant)
            for holder, grant in held.shared:
                self.cluster.share(held.pod.uid, holder, grant)
            for step in self.in_flight.steps_of(held.pod.uid):
                step.assume(self.cluster, held.node)
        except Exception:  # until the pod is seen there, nothing else goes to that node
            self.cluster.distrust(held.node, held.pod.key)

    def handle(self, event: events.Event, *, now: float) -> list[Instruction]:
        """Takes in one event. `now` never goes backwards."""
        self.queues.advance(now, now + self.wall_offset_s)
        kind = type(event)
        if self.plans.is_enabled and kind not in _OF_PODS:
            self.plans.room_grew()
        return self._handlers[kind](event, now) or []

    def decide(self, *, now: float) -> Attempt | None:
        """Tries the next pod that is due; None if there is none."""
        parts = self._parts
        if parts.gangs.has_more:
            ready = parts.gangs.ready_entry
            return self._try(ready, now) if ready else self._go_on(now)
        if self.queues.is_active:
            self.queues.advance(now, now + self.wall_offset_s)
            self.queues.settle()
        if self.plans.is_enabled and (planned := self.plans.renew(now)) is not None:
            return Attempt(planned, Outcome.UNFINISHED, ())
        if parts.kept_records and (restored := parts.kept_records.restore(now)) is not None:
            return Attempt(restored, Outcome.UNFINISHED, ())
        if parts.claim_gates.has_more:
            parts.claim_gates.go_on(now)
        if self.cluster.counted is not None:
            self.cluster.counted.go_on()
        if parts.extended.changed:
            parts.extended.go_on(now)
        parts.requeuer.wake(now)
        entry = parts.extending.next_ready(now) if parts.extending else None
        entry = entry or self.queue.pop(now=now)
        if self.plans.is_enabled and self.plans.lead(entry, now) and entry is None:
            parts.requeuer.wake(now)
            entry = self.queue.pop(now=now)
        if entry is None:
            return None
        if self.cluster.claims.are_used:
            ready = parts.claim_looks.ready(entry, now)
            if ready is None:
                return Attempt(entry.unit, Outcome.UNFINISHED, ())
            entry = ready
        if self.cluster.reservations.unweighed:
            reserving.weigh(self.cluster)
        return self._try(entry, now)

    def _go_on(self, now: float) -> Attempt:
        """The next slice of a large gang."""
        try:
            return self._parts.gangs.go_on(now)
        finally:
            if self._parts.extending:
                self._parts.extending.end()

    def _try(self, entry: Entry, now: float) -> Attempt:
        try:
            limit = self.plans.limit(entry, now) if self.plans.are_made else None
            of_gangs = isinstance(entry.unit, Gang)
            attempts = self._parts.gangs if of_gangs else self._attempts
            attempt = attempts.attempt(entry, now, limit)
        except Exception as error:  # a defect: this pod waits, the others go on
            return self._attempts.crashed(entry, error, now)
        finally:
            if self._parts.extending:
                self._parts.extending.end()
        if self._parts.consolidation.is_under_way:
            self._parts.consolidation.renew(now)
        if self.plans.is_enabled:
            self.plans.tried(entry, attempt, limit, now)
        if self.plans.advance and attempt.outcome is _SCHEDULED:
            self.plans.advance.started(entry.unit.pods, now)
        if self.start_record and attempt.outcome is _SCHEDULED:
            self.start_record.started(entry.unit.key, now)
        if self.service_goals.is_on:
            self.service_goals.tried(entry, attempt, now)
        return attempt

    def tend(self, *, now: float) -> list[Instruction]:
        """What time alone brings about: limits that have passed, and reports that are due."""
        parts, wall_s = self._parts, now + self.wall_offset_s
        if parts.requeuer.goal_waits:
            parts.requeuer.goal_waits.tend(now)
        made = [*parts.gangs.tend(now), *self.queues.tend(now, wall_s)]
        if self.start_windows:
            made += self.start_windows.tend(now)
        if self.service_goals.is_on:
            made += self.service_goals.tend(now)
        if self.plans.advance or self.plans.is_enabled:
            made += self.plans.tend(now)
        if self.cluster.counted is not None:
            made += self.counted.tend(now)
        if not parts.gangs.has_more:
            made += parts.consolidation.tend(now, wall_s)
        self.held_gpus.tend(now)
        return made

    def placement(self, scheduler: str) -> Placement | None:
        """By what pods with that scheduler name are placed, for those who only look."""
        return self._parts.placements.get(scheduler)

    def gang_outlook(self, pod: Pod) -> GangOutlook | None:
        """What would become of the pod's gang now, for those who only look."""
        return self._parts.gangs.outlook(pod) if pod.gang else None

    def domain_outlooks(self, pod: Pod) -> Sequence[DomainOutlook]:
        """The ComputeDomains whose channels the pod uses, for those who only look."""
        return self._parts.gangs.domains(pod) if pod.request.claims else ()

    @property
    def held_room(self) -> HeldRoom:
        """Room that is held for units for which others were evicted."""
        return self._parts.gangs.rooms.held

    def would_evict(self, uid: str, *, now: float) -> tuple[tuple[Pod, ...], str]:
        """Who would be evicted for a pending pod or its gang, or why that is of no use; a trial."""
        entry = self.queue.get(uid)
        if found := self.evicted_for_devices(uid, now=now):
            return found, ""
        return self._parts.gangs.would_evict(entry, now) if entry else ((), "")

    def with_kept_devices(self, uid: str) -> AbstractContextManager[None]:
        """Meanwhile a pending pod sees devices as free that are kept for it, or for its gang."""
        entry = self.queue.get(uid)
        if entry is None or not self.cluster.claims.kept:
            return nullcontext()
        return self._parts.gangs.rooms.opened_to(entry.unit)

    def evicted_for_devices(self, uid: str, *, now: float) -> tuple[Pod, ...]:
        """Who would be evicted for devices that claims of a pending pod, or of its gang, ask for.

        It is found out in a trial.
        """
        entry = self.queue.get(uid)
        if entry is None or not self._parts.gangs.rooms.evicts_for_devices(entry.unit):
            return ()
        if isinstance(entry.unit, Gang):
            return self._parts.gangs.would_evict(entry, now)[0]
        return self._parts.device_rooms.would_evict(entry, now)

    @property
    def schedulers(self) -> Iterable[str]:
        """The scheduler names that it serves."""
        return self._parts.placements.keys()

    def basis(self) -> Basis:
        """What prices can be computed from. The answer comes back as `PricesComputed`."""
        return Basis(
            self.demand.shapes(self.cluster.gpu_mib()), tuple(self.cluster.gpu_models().items())
        )

    def has_lost(self, pod: Pod) -> bool:
        """Whether this pod, as the API server shows it, waits here for nothing at all."""
        return (
            pod.scheduler in self._parts.placements
            and not (pod.node or pod.finished or pod.deleting)
            and pod.uid not in self.queue
            and self.in_flight.entry_of(pod.uid) is None
            and pod.uid not in self.cluster.holdings
        )

    def wake_at_s(self) -> float | None:
        """When to call `tend` and `decide` at the latest, if nothing happens before."""
        parts = self._parts
        due = (
            0.0 if parts.claim_gates.has_more or parts.extended.changed else None,
            parts.requeuer.due_s(),
            parts.requeuer.goal_waits.due_s(),
            self.start_windows.due_s(),
            self.service_goals.due_s(),
            parts.gangs.due_s(),
            self.queues.due_s(),
            parts.consolidation.due_s(),
            self.plans.due_s(),
            self.counted.due_s(),
        )
        return min((each for each in due if each is not None), default=None)
