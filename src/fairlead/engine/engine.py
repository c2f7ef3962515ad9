"""The scheduler itself: events in, instructions out.

It does no I/O, reads no clock and draws no lots: the same events at the same times give the same
instructions, live, in simulation and in tests. A driver feeds it what the API server says, carries
out what it asks for, and tells it how that went.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import assert_never

from fairlead.cluster import claiming, reserving
from fairlead.cluster.aspects import NOTHING
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.demand import Demand
from fairlead.cluster.extended_classes import with_classes
from fairlead.cluster.holdings import Holding
from fairlead.cluster.named_readings import carry_feeds, put_named_reading
from fairlead.engine import events, releases, reservations, start_dumps
from fairlead.engine.attempts import Attempt, Outcome
from fairlead.engine.backfill.limits import Limit
from fairlead.engine.bind_data import BindEncoder, without_annotations
from fairlead.engine.binds import Binds
from fairlead.engine.claim_gates import ClaimGates
from fairlead.engine.claim_looks import ClaimLooks
from fairlead.engine.consolidation.allowance import MoveAllowance
from fairlead.engine.consolidation.consolidation import Consolidation
from fairlead.engine.consolidation.planning import Planning
from fairlead.engine.counted import CountedResources
from fairlead.engine.edits import edit_of, misspelling_of, queue_edit_of, time_problems_of
from fairlead.engine.evictions import Evictions
from fairlead.engine.extended_resources import ExtendedResources
from fairlead.engine.extender_queries import ExtenderQueries
from fairlead.engine.extender_stage import ExtenderStage
from fairlead.engine.gang_outlook import GangOutlook
from fairlead.engine.gangs import Gangs, member_of
from fairlead.engine.held_gpus import HeldGpus, HeldKind
from fairlead.engine.held_room import HeldRoom
from fairlead.engine.in_flight import InFlight, Stage
from fairlead.engine.instructions import (
    AnnounceFailure,
    AnnounceScheduled,
    AnnounceWarning,
    AskExtenders,
    AttemptCrashed,
    Decided,
    Decline,
    FreeClaim,
    Instruction,
    Prepare,
    ReleaseClaims,
)
from fairlead.engine.node_requests import NodeRequests
from fairlead.engine.plans import Plans
from fairlead.engine.pod_rooms import PodRooms
from fairlead.engine.queue_victims import AmongQueues
from fairlead.engine.queues import Queues
from fairlead.engine.reasons import INVALID_POD, SCHEDULER_ERROR, UNSCHEDULABLE
from fairlead.engine.rejections import REASON, Rejections
from fairlead.engine.requeuer import Requeuer
from fairlead.engine.run_times import RunTimes
from fairlead.engine.start_forecasts import StartForecasts
from fairlead.engine.start_record import StartRecord
from fairlead.engine.start_windows import StartWindows
from fairlead.model.backfill import NO_BACKFILL, BackfillMode, BackfillTerms
from fairlead.model.consolidation import NO_MOVES, ConsolidationTerms
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.gpus import Grant
from fairlead.model.http_extenders import ExtenderTerms
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod
from fairlead.model.prices import Basis
from fairlead.model.topology import NO_LEVELS, Topology
from fairlead.placement.place import Placement
from fairlead.placement.profile import Profile
from fairlead.placement.verdicts import Placed, Refused, Verdict
from fairlead.plugins.prepare import PrepareStep
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.order import QueueOrder
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.quota import QuotaPolicy, QuotaRefusal
from fairlead.queue.retry_times import AS_KUBE_SCHEDULER, RetryTimes
from fairlead.queue.service_order import ServiceOrder
from fairlead.queue.units import Gang

_FINAL = (events.BindProblem.GONE, events.BindProblem.TAKEN)

#: Events that give no room, or of which planned starts learn when a pod leaves its node.
_OF_PODS = (
    events.PodSeen, events.PodGone, events.BindDone, events.BindFailed, events.Prepared,
    events.PrepareFailed, events.RunEnded, events.ReadingsTaken, events.ReadingSeen,
    events.ForecastSeen,
)  # fmt: skip

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
    ) -> None:
        """`extender_profile` answers an extender's queries about pods that no profile serves.

        `encode` says what goes with a bind, `order` which pod is tried first, and `quota` which
        pods wait although a node may fit. `reserves`: shares are also assigned on nodes with a
        device plugin, of GPUs that are reserved there. `topology`: the levels that rules of gangs
        name; without any, what labels of nodes show. `consolidation`: whether pods are moved so
        that others can start. `retries`: when refused units are tried again without a change.
        `backfill`: whether starts of waiting units are planned, and others must not delay them.
        `extenders`: which HTTP extenders are asked about pods.
        """
        self._backfill = backfill
        self._extenders = extenders
        self._retries = retries
        self._topology = topology
        self._move_terms = consolidation
        #: What was moved so far, and what may be.
        self.moved = MoveAllowance(consolidation)
        #: They are allowed, and there was no pod yet that needs one.
        self._reserves = reserves
        self._quota = quota
        self._encode = encode
        self._order = order
        self._profiles = profiles
        self._extender_profile = extender_profile
        #: What pods ask for, those of other schedulers included if they ask for GPUs.
        self.demand = Demand()
        #: Pods that were decided on, and are not seen on their node yet.
        self.in_flight = InFlight()
        self._rejections = Rejections()
        #: The time of day, in seconds since 1970, minus `now`; the driver sets it.
        self.wall_offset_s = 0.0
        #: How long units run.
        self.run_times = RunTimes(self._holding_of, lambda: self.wall_offset_s, self._gang_spec_of)
        if order is None and backfill.mode is BackfillMode.SHORT_FIRST:
            self._order = ServiceOrder(self.run_times.expected_s)
        #: GPU-seconds that were kept free.
        self._held_totals: dict[HeldKind, float] = {}
        #: How forecasts of starts did.
        self.start_record = StartRecord()
        self._begin()
        #: Whether to record why each pod was placed on its node.
        self.keeps_records = False

    def _begin(self) -> None:
        self.cluster = Cluster()
        self.cluster.topology.configured = self._topology
        self.queue = SchedulingQueue(self._order, self._retries)
        self._placements = {
            name: Placement(profile, self.cluster) for name, profile in self._profiles.items()
        }
        profile = self._extender_profile
        placement = Placement(profile, self.cluster) if profile else None
        self.extender_queries = ExtenderQueries(placement, self.cluster) if placement else None
        #: Devices that are looked at before units with claims are tried.
        self._claim_looks = ClaimLooks(self.cluster, self._placements)
        self._requeuer = Requeuer(
            self.cluster, self.queue, self._placements, self.in_flight.evicting, self._quota
        )
        self._requeuer.claim_looks = self._claim_looks
        #: Pods that HTTP extenders are asked about; None if there are no extenders.
        self._extending = (
            ExtenderStage(self.cluster, self.queue, self._extenders) if self._extenders else None
        )
        self._requeuer.extended_class = self._extending.class_of if self._extending else None
        #: Queues of teams.
        self.queues = Queues(
            self.cluster,
            self.queue,
            self._requeuer,
            lambda: self.wall_offset_s,
            self.run_times.expected_s,
        )
        #: Licences, watts and other things of which there are so many in the cluster.
        self.counted = CountedResources(
            self.cluster,
            self.queue,
            self._placements,
            self._requeuer,
            self.utc_s,
        )
        self._evictions = Evictions(self.cluster, self.queue, self.in_flight, self._requeuer)
        self._binds = Binds(self.cluster, self._encode)
        self._gangs = Gangs(
            self.cluster,
            self.queue,
            self.in_flight,
            self._placements,
            self._requeuer,
            self._binds,
            self.queues.admissions,
            self.utc_s,
        )
        #: Pods that are not tried before their resource claims can be used.
        self._claim_gates = ClaimGates(self.cluster, self.queue, self._put)
        self._extended = ExtendedResources(self.cluster, self.queue, self._put)
        #: Which moves would let a waiting unit start.
        self.planning = Planning(
            self.cluster, self.queue, self._placements, self._requeuer, self.queues
        )
        self._consolidation = Consolidation(
            self.cluster, self.queue, self.in_flight, self.planning, self._move_terms, self.moved
        )
        self.queues.know_gangs(self._gangs.spec_of)
        self._gangs.rooms.reclaim_for = self.queues.reclaim_for
        self._gangs.rooms.reclaim_state = self.queues.reclaim_state
        self._gangs.rooms.moves_first = self._consolidation.prefer
        self._pod_rooms = PodRooms(self.queue, self._requeuer, self._gangs.rooms)
        #: Planned starts.
        self.plans = Plans(
            self.cluster,
            self.queue,
            self._placements,
            self._requeuer,
            self.run_times,
            self._backfill,
            self._order,
            self.utc_s,
            self.queues,
        )
        self._gangs.leave_room(self.plans.attempts)
        #: GPUs that are kept free, and for which unit or reservation.
        self.held_gpus = HeldGpus(self.cluster, self.queue, self.plans, self._held_totals)
        #: Units that do not start yet.
        self.start_windows = self._requeuer.start_windows = StartWindows(
            self.queue, self.cluster.nominations, self.run_times, self.utc_s
        )
        self.start_forecasts = StartForecasts(
            self.queue, self.plans, self.run_times, self._holding_of, self.start_record
        )

    @property
    def node_requests(self) -> NodeRequests:
        """Gangs for which nodes are requested."""
        return self._gangs.node_requests

    def _gang_spec_of(self, said: Membership) -> GangSpec:
        return self._gangs.spec_of(said)

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
        self._begin()
        self.start_windows.forecasts = forecasts
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
        if self.plans.is_enabled and not isinstance(event, _OF_PODS):
            self.plans.room_grew()
        match event:
            case events.PodSeen(pod):
                return self._see_pod(pod, now)
            case events.BindDone(uid):
                return self._bind_done(uid, now)
            case events.NodeChosen(pod, node):
                return self._assume_external(pod, node)
            case events.ServerKnown(behaviour):
                self.cluster.behaviour = behaviour
            case events.PodGone(pod):
                return self._pod_gone(pod, now)
            case events.PodRejected(pod, message):
                return self._pod_rejected(pod, message, now)
            case events.RunEnded():
                self.run_times.ended(event)
            case events.OwnerRunTimeSeen(owner, run_time, started):
                self.run_times.owners.put(owner, run_time, started)
            case events.RunTimesLoaded(data):
                self.run_times.load(data)
            case events.ForecastDue(depth):
                self.start_forecasts.note(depth, now)
            case events.StartRecordLoaded(data):
                self.start_record.take(start_dumps.load(data, self.wall_offset_s))
            case events.ReleaseOverdue(uid):
                return self._release_overdue(uid)
            case events.ReservationIdle(name, number):
                return [*reservations.close(self.cluster, name, number)]
            case events.ReservationsPaused(name, why):
                reserving.pause(self.cluster, name, why)
            case events.NodeSeen(node):
                self.cluster.put_node(node)
                for uid in releases.confirmed(self.cluster, node):
                    self.cluster.release(uid)
                self.cluster.trust(f"node/{node.name}")
                if self.plans.advance:
                    self.plans.advance.node_seen(node)
            case events.NodeGone(name):
                self.cluster.remove_node(name)
                if self.plans.advance:
                    self.plans.advance.node_gone(name)
                self.cluster.trust(f"node/{name}")
            case events.InventorySeen(name, source, inventory):
                self.cluster.put_inventory(name, source, inventory)
            case events.NodeDistrusted(name, cause):
                self.cluster.distrust(name, cause)
            case events.NamespaceSeen(name, labels, queue):
                self.cluster.put_namespace(name, labels)
                self.queues.namespace_seen(name, queue)
            case events.SelectorSeen(kind, namespace, name, selector):
                self.cluster.default_selectors.put(kind, namespace, name, selector)
            case events.TrustRestored(cause):
                self.cluster.trust(cause)
            case events.StorageSeen(told):
                self.cluster.put_storage(told)
            case events.StorageGone(gone):
                self.cluster.remove_storage(gone)
            case events.ClaimObjectSeen(claim_object):
                if claiming.put(self.cluster, claim_object):
                    self._claim_gates.seen(claim_object, now)
                    self._extended.seen(claim_object, now)
            case events.ClaimObjectGone(claim_object):
                claiming.remove(self.cluster, claim_object)
                self._claim_gates.seen(claim_object, now)
                self._extended.seen(claim_object, now)
            case events.Prepared(uid):
                return self._prepared(uid, now)
            case events.PrepareFailed(uid, message):
                return self._prepare_failed(uid, message, now)
            case events.BindFailed():
                return self._bind_failed(event, now)
            case events.BudgetSeen(budget):
                self.cluster.put_budget(budget.key, budget)
            case events.BudgetGone(key):
                self.cluster.put_budget(key, None)
            case events.GangSeen(spec):
                self.cluster.claims.groups.put(spec)
                self._gangs.object_seen(spec, now)
                self.queues.gang_seen(spec)
            case events.GangGone(key):
                self.cluster.claims.groups.drop(key)
                self._gangs.object_gone(key, now)
            case events.GangKindSeen(dialect, problem):
                self._gangs.kind_seen(dialect, problem, now)
            case events.QueueSeen(seen):
                self.queues.seen(seen)
                self.plans.queue_seen(seen.key, seen.backfill)
                self._gangs.rooms.limits_changed()
            case events.QueueGone(key):
                self.queues.gone(key)
                self.plans.queue_seen(key, None)
                self._gangs.rooms.limits_changed()
            case events.QueueKindSeen(dialect, is_served, problem):
                self.queues.kind_seen(dialect, problem, is_served=is_served)
            case events.AdvanceSeen(reservation):
                self.plans.advance_seen(reservation)
            case events.AdvanceGone(name):
                self.plans.advance_gone(name)
            case events.CountedSeen(resource):
                self.counted.seen(resource, now)
            case events.CountedGone(name):
                self.counted.gone(name)
            case events.NodeRequestsServed() | events.NodeRequestSeen():
                self.node_requests.told(event, now)
            case events.TopologySeen(key, topology):
                self._gangs.topology_seen(key, topology, now)
            case events.HyperNodeSeen(name, hyper_node):
                self.cluster.topology.put_hyper_node(name, hyper_node)
            case events.EvictionEnded(uid, problem):
                if self._consolidation.ended(uid, problem, now):
                    return []
                if not self._gangs.released(uid, problem, now):
                    self._evictions.ended(uid, problem, now)
            case events.PricesComputed(prices):
                self.cluster.put_prices(prices)
            case events.ReadingsTaken(readings):
                self.cluster.put_readings(readings, now)
            case events.FiguresSeen(seen):
                self.cluster.put_figures(seen)
            case events.ExtendersAnswered(uid, answer):
                if self._extending:
                    self._extending.answered(uid, answer)
            case events.ReadingSeen(reading):
                put_named_reading(self.cluster, reading)
            case events.ForecastSeen(forecast):
                self.start_windows.put(forecast, now)
            case _:
                assert_never(event)
        return []

    def decide(self, *, now: float) -> Attempt | None:
        """Tries the next pod that is due; None if there is none."""
        if self._gangs.has_more:
            ready = self._gangs.ready_entry
            return self._try(ready, now) if ready else self._gangs.go_on(now)
        if self.queues.is_active:
            self.queues.advance(now, now + self.wall_offset_s)
            self.queues.settle()
        if self.plans.is_enabled:
            self.plans.renew(now)
        if self._claim_gates.has_more:
            self._claim_gates.go_on(now)
        if self.cluster.counted is not None:
            self.cluster.counted.go_on()
        if self._extended.changed:
            self._extended.go_on(now)
        self._requeuer.wake(now)
        entry = self._extending.next_ready() if self._extending else None
        entry = entry or self.queue.pop(now=now)
        if self.plans.is_enabled and self.plans.lead(entry, now) and entry is None:
            self._requeuer.wake(now)
            entry = self.queue.pop(now=now)
        if entry is None:
            return None
        if self.cluster.claims.are_used and not self._claim_looks.are_done(entry.unit.pods):
            self.queue.put_back(entry)
            return Attempt(entry.unit, Outcome.UNFINISHED, ())
        if self.cluster.reservations.unweighed:
            reserving.weigh(self.cluster)
        return self._try(entry, now)

    def _try(self, entry: Entry, now: float) -> Attempt:
        try:
            limit = self.plans.limit(entry, now) if self.plans.are_made else None
            attempt_ = self._gangs.attempt if isinstance(entry.unit, Gang) else self._attempt
            attempt = attempt_(entry, now, limit)
        except Exception as error:  # a defect: this pod waits, the others go on
            return self._crash_attempt(entry, error, now)
        finally:
            if self._extending:
                self._extending.end()
        if self._consolidation.is_under_way:
            self._consolidation.renew(now)
        if self.plans.is_enabled:
            self.plans.tried(entry, attempt, limit, now)
        if self.start_record and attempt.outcome is _SCHEDULED:
            self.start_record.started(entry.unit.key, now)
        return attempt

    def tend(self, *, now: float) -> list[Instruction]:
        """What time alone brings about: limits that have passed, and reports that are due."""
        wall_s = now + self.wall_offset_s
        if self._requeuer.goal_waits:
            self._requeuer.goal_waits.tend(now)
        made = [*self._gangs.tend(now), *self.queues.tend(now, wall_s)]
        if self.start_windows:
            made += self.start_windows.tend(now)
        if self.plans.advance or self.plans.is_enabled:
            made += self.plans.tend(now)
        if self.cluster.counted is not None:
            made += self.counted.tend(now)
        if not self._gangs.has_more:
            made += self._consolidation.tend(now, wall_s)
        self.held_gpus.tend(now)
        return made

    def placement(self, scheduler: str) -> Placement | None:
        """By what pods with that scheduler name are placed, for those who only look."""
        return self._placements.get(scheduler)

    def gang_outlook(self, pod: Pod) -> GangOutlook | None:
        """What would become of the pod's gang now, for those who only look."""
        return self._gangs.outlook(pod) if pod.gang else None

    @property
    def held_room(self) -> HeldRoom:
        """Room that is held for units for which others were evicted."""
        return self._gangs.rooms.held

    def would_evict(self, uid: str, *, now: float) -> tuple[tuple[Pod, ...], str]:
        """Who would be evicted for a pending pod or its gang, or why that is of no use; a trial."""
        entry = self.queue.get(uid)
        return self._gangs.would_evict(entry, now) if entry else ((), "")

    @property
    def schedulers(self) -> Iterable[str]:
        """The scheduler names that it serves."""
        return self._placements.keys()

    def basis(self) -> Basis:
        """What prices can be computed from. The answer comes back as `PricesComputed`."""
        return Basis(
            self.demand.shapes(self.cluster.gpu_mib()), tuple(self.cluster.gpu_models().items())
        )

    def has_lost(self, pod: Pod) -> bool:
        """Whether this pod, as the API server shows it, waits here for nothing at all."""
        return (
            pod.scheduler in self._placements
            and not (pod.node or pod.finished or pod.deleting)
            and pod.uid not in self.queue
            and self.in_flight.entry_of(pod.uid) is None
            and pod.uid not in self.cluster.holdings
        )

    def wake_at_s(self) -> float | None:
        """When to call `tend` and `decide` at the latest, if nothing happens before."""
        due = (
            0.0 if self._claim_gates.has_more or self._extended.changed else None,
            self._requeuer.due_s(),
            self._requeuer.goal_waits.due_s(),
            self.start_windows.due_s(),
            self._gangs.due_s(),
            self.queues.due_s(),
            self._consolidation.due_s(),
            self.plans.due_s(),
            self.counted.due_s(),
        )
        return min((each for each in due if each is not None), default=None)

    # -- what the API server shows -----------------------------------------------------------

    def _see_pod(self, pod: Pod, now: float) -> list[Instruction]:
        self.cluster.trust(pod.key)
        if pod.queue:
            self.queues.name_seen(pod.queue)
        if pod.counted is not None:
            self.counted.begin()
        if pod.gang is not None:
            pod = self._gangs.resolved(pod)
        if self._reserves and reservations.are_needed_for(pod):
            self._reserves = False
            reserving.switch(self.cluster, on=True)
        if pod.finished:
            return self._finished(pod, now)
        if pod.node:
            return self._see_bound(pod, now)
        if pod.request.extended and self.cluster.claims.classes:
            pod = with_classes(pod, self.cluster.claims.extended)
        if (entry := self.in_flight.entry_of(pod.uid)) is not None:
            entry.unit.put(pod)
        elif not self._is_on_its_way(pod.uid):
            return self._see_unbound(pod, now)
        return []

    def _is_on_its_way(self, uid: str) -> bool:
        """Whether the pod was bound, and this version of it is from before.

        Versions come in order. So after one that shows the pod on its node, a pending one means
        that the API server was restored to an older state: then the pod holds nothing any more.
        """
        held = self.cluster.holdings.get(uid)
        return held is not None and held.assumed

    def _see_unbound(self, pod: Pod, now: float) -> list[Instruction]:
        made = self._lose_pod(pod, now) if pod.uid in self.cluster.holdings else []
        if pod.scheduler in self._placements:
            return [*made, *self._see_pending(pod, now)]
        if self.extender_queries:
            self._see_external_pod(pod)
        return made

    def _see_external_pod(self, pod: Pod) -> None:
        """Keeps the nominations of another scheduler, whose pods this profile only checks."""
        if pod.nominated and not pod.deleting:
            self.cluster.nominations.put(pod, pod.nominated)
        else:
            self.cluster.nominations.drop(pod.uid)

    def _see_bound(self, pod: Pod, now: float) -> list[Instruction]:
        if pod.reservation is not None:
            return [*reservations.see(self.cluster, pod, pod.reservation)]
        ours, held = pod.scheduler in self._placements, self.cluster.holdings.get(pod.uid)
        warnings = (edit_of(held, pod), queue_edit_of(held, pod)) if ours else ()
        under_way = self.in_flight.entry_of(pod.uid) is not None
        if not under_way:
            was_pending = self._gangs.count(pod, now) if pod.gang else self._leave_queue(pod)
            if was_pending is None:
                self._count(pod, known=held is not None)
        self.in_flight.confirm(pod.uid)
        self.cluster.nominations.settle(pod.uid, pod.node)
        self.cluster.confirm(pod)
        if pod.problem:
            self.cluster.distrust(pod.node, pod.key)
        return [warning for warning in warnings if warning]

    def _see_pending(self, pod: Pod, now: float) -> list[Instruction]:
        if not pod.deleting:
            if self._extending and pod.gang:
                pod = self._extending.checked(pod)
            if pod.request.claims:
                pod = self._claim_gates.gated(pod)
            entry = self.queue.get(pod.uid)
            before = entry.unit.pod if entry else None
            warning = misspelling_of(before, pod)
            times = time_problems_of(before, pod) if pod.run_time or pod.start else ()
            self._count(pod, known=entry is not None)
            self._requeuer.observe_nomination(pod)
            made: list[Instruction] = [each for each in (warning, *times) if each]
            if pod.problem and pod.gang and pod.condition != (INVALID_POD, pod.problem):
                made.append(AnnounceFailure(pod, INVALID_POD, pod.problem))
            pause = self._rejections.pause_of(pod, now) if entry is None else None
            self._put(pod, now, not_before_s=pause.due_s if pause else 0.0)
            if entry is None and self._consolidation.is_under_way:
                self._consolidation.adopt(pod)
            return [*made, AnnounceFailure(pod, SCHEDULER_ERROR, pause.words)] if pause else made
        self.cluster.nominations.drop(pod.uid)
        if self._leave_queue(pod) is None:
            return []
        if pod.gang:
            self._gangs.left(pod, now)
        return [AnnounceFailure(pod, SCHEDULER_ERROR, f"skip schedule deleting pod: {pod.key}")]

    def _put(self, pod: Pod, now: float, not_before_s: float = 0.0) -> None:
        """Into the queue, or as it is now."""
        put = self._gangs.gather if pod.gang else self.queue.put
        put(pod, now=now, not_before_s=not_before_s)

    def _count(self, pod: Pod, *, known: bool) -> None:
        ours = pod.scheduler in self._placements
        if not known and (ours or pod.request.gpu_request or pod.request.amount(GPU)):
            self.demand.add(pod.request)

    def _leave_queue(self, pod: Pod) -> Entry | None:
        if pod.request.claims:
            self._claim_gates.forget(pod)
        return self._requeuer.leave_queue(pod.uid)

    def _finished(self, pod: Pod, now: float) -> list[Instruction]:
        if pod.started and pod.uid in self.cluster.holdings:
            self.run_times.finished(pod, now)
        made = self._lose_pod(pod, now)
        if pod.gang:
            self._gangs.count(pod, now)
        return made

    def _lose_pod(self, pod: Pod, now: float) -> list[Instruction]:
        if pod.reservation is not None:
            return [*reservations.lose(self.cluster, pod, pod.reservation)]
        self._leave_queue(pod)
        self.in_flight.confirm(pod.uid)
        self.cluster.nominations.drop(pod.uid)
        if self.plans.is_enabled and pod.uid in self.cluster.holdings:
            self.plans.pod_left(pod.uid, now)
        self.cluster.remove(pod.uid)
        self.cluster.trust(pod.key)
        self._gangs.victim_gone(pod.uid, now)
        return self._gangs.left(pod, now) if pod.gang else []

    def _pod_gone(self, pod: Pod, now: float) -> list[Instruction]:
        held = self.cluster.holdings.get(pod.uid)
        if held is not None and pod.deleting and pod.run_time is not None:
            self.run_times.finished(pod, now)
        made = self._lose_pod(pod, now)
        releases.keep(self.cluster, held, pod, now)
        return made

    def _pod_rejected(self, pod: Pod, message: str, now: float) -> list[Instruction]:
        found = self._rejections.note(pod, message, now)
        return [AnnounceWarning(pod, REASON, found.warning(now))]

    def _release_overdue(self, uid: str) -> list[Instruction]:
        warning = releases.overdue(self.cluster, uid)
        self.cluster.release(uid)
        return [warning] if warning else []

    # -- deciding ----------------------------------------------------------------------------

    def _crash_attempt(self, entry: Entry, error: Exception, now: float) -> Attempt:
        """The attempt failed half-way: the pod is tried again, and the ledger is checked."""
        pod, held = entry.unit.pod, self.cluster.holdings.get(entry.unit.pod.uid)
        retries = pod.uid in self.queue
        if isinstance(entry.unit, Gang):
            retries = self._gangs.crashed(entry)
        else:
            self.in_flight.end(pod.uid)
            self.in_flight.evicting.discard(pod.uid)
            with suppress(Exception):
                self.cluster.remove(pod.uid)
        if entry.pool is Pool.NONE and retries:
            self.queue.retry(entry, now=now)
        message = f"internal error: {error!r:.300}; please report it as a bug in Fairlead"
        failure = AnnounceFailure(pod, SCHEDULER_ERROR, message)
        crashed = AttemptCrashed(pod, held.node if held else "", error)
        return Attempt(entry.unit, Outcome.ERROR, (failure, crashed))

    def _attempt(self, entry: Entry, now: float, limit: Limit | None) -> Attempt:
        pod = entry.unit.pod
        if pod.problem:
            class_ = (pod.scheduler, pod.request, pod.priority, "")
            self.queue.park(entry, class_, woken_by=NOTHING, now=now)
            failure = AnnounceFailure(pod, INVALID_POD, pod.problem)
            return Attempt(entry.unit, Outcome.UNSCHEDULABLE, (failure,))
        placement = self._placements[pod.scheduler]
        try:
            early = self._requeuer.too_early(entry, now) if pod.start is not None else None
            if beyond := early or self._requeuer.beyond_quota(pod):
                return self._await_quota(entry, beyond, now)
            queued = self.queues.is_active and bool(self.queues.names.of(pod))
            verdict: Verdict | QuotaRefusal
            if self._extending is None:
                verdict = self._place(pod, placement, limit, now, evicts=not queued)
            else:
                place = partial(self._place, pod, placement, limit, now)
                found = self._extending.place(entry, placement, place, evicts=not queued)
                if found is None or isinstance(found, AskExtenders):
                    return Attempt(entry.unit, Outcome.UNFINISHED, (found,) if found else ())
                verdict = found
            if isinstance(verdict, QuotaRefusal):
                return self._await_quota(entry, verdict, now)
            if self.cluster.counted is not None and isinstance(verdict, Refused):
                if beyond := self._requeuer.beyond_quota(pod, verdict):
                    return self._await_quota(entry, beyond, now)
                verdict = self.counted.said_of_all(pod, verdict)
            steps: tuple[PrepareStep, ...] = ()
            record = None
            if isinstance(verdict, Placed):
                if (pod.request.capacity is not None or placement.limited_levels) and (
                    wait := self._requeuer.goal_waits.refusal(entry, ((pod, verdict.node),), now)
                ):
                    return self._await_quota(entry, wait, now)
                if beyond := self._requeuer.beyond_quota(pod, verdict):
                    with self.cluster.limited_to(limit.strict if limit else None):
                        other = self._requeuer.on_other_models(pod, beyond)
                    if isinstance(other, QuotaRefusal):
                        return self._await_quota(entry, other, now)
                    verdict = other
                steps = placement.steps(pod, verdict.node)
                steps += reservations.steps(verdict.node, verdict.grant)
                record = placement.record(pod, verdict) if self.keeps_records else None
        except Exception as error:  # a user's plugin broke: this pod waits, the others go on
            self.queue.retry(entry, now=now)
            failure = AnnounceFailure(pod, SCHEDULER_ERROR, str(error))
            return Attempt(entry.unit, Outcome.ERROR, (failure,))
        if isinstance(verdict, Refused):
            refuse = self._pod_rooms.refuse if queued else self._refuse
            with self.cluster.limited_to(limit.strict if limit else None):
                made = [*refuse(entry, verdict, now)]
            made += [FreeClaim(pod, verdict.frees)] if verdict.frees else []
            return Attempt(entry.unit, Outcome.UNSCHEDULABLE, made)
        made = self._assume(entry, verdict, steps, now)
        noted = [*made, Decided(pod, verdict.node, record)] if record else made
        outcome = _SCHEDULED if pod.uid in self.in_flight else Outcome.ERROR
        return Attempt(entry.unit, outcome, noted)

    def _place(
        self,
        pod: Pod,
        placement: Placement,
        limit: Limit | None,
        now: float,
        *,
        evicts: bool,
    ) -> Verdict | QuotaRefusal:
        """By all rules but those of extenders."""
        if limit is None:
            return placement.place(pod, evicts=evicts)
        return self.plans.attempts.place(pod, placement, limit, now, evicts=evicts)

    def _await_quota(self, entry: Entry, beyond: QuotaRefusal, now: float) -> Attempt:
        class_ = self._requeuer.class_of(entry.unit)
        held_back_by = beyond.queue
        self.queue.park(entry, class_, woken_by=beyond.woken_by, now=now, held_back_by=held_back_by)
        self._requeuer.announced(entry, beyond, class_)
        failure = AnnounceFailure(entry.unit.pod, beyond.reason, beyond.message)
        return Attempt(entry.unit, Outcome.HELD_BACK, (failure,))

    def _assume(
        self, entry: Entry, verdict: Placed, steps: tuple[PrepareStep, ...], now: float
    ) -> list[Instruction]:
        pod = entry.unit.pod
        self.cluster.nominations.settle(pod.uid, verdict.node)
        if self._gangs.rooms.held:
            self._gangs.rooms.held.used(pod.uid)
        self.cluster.assume(pod, verdict.node, verdict.grant)
        self.in_flight.begin(pod.uid, entry, steps)
        if self.queue.awaited or self.queue.held_back:
            self._requeuer.look_at_next(self._requeuer.class_of(entry.unit), now)
        if not steps:
            return self._bind(pod, verdict.node, verdict.grant, now)
        for step in steps:
            step.assume(self.cluster, verdict.node)
        return [Prepare(pod, verdict.node, steps)]

    def _assume_external(self, pod: Pod, node: str) -> list[Instruction]:
        """Holds the GPUs from now on, so that no other pod gets them while the bind is written."""
        held = self.cluster.holdings.get(pod.uid)
        if held is not None:
            return [Decline(pod, f"{pod.key} is on {held.node}, or is being bound there")]
        assert self.extender_queries is not None
        grant = self.extender_queries.grant(pod, node)
        if isinstance(grant, str):
            return [Decline(pod, f"{node} no longer fits {pod.key}: {grant}")]
        bind = self._binds.of(pod, node, grant)
        if isinstance(bind, str):
            return [Decline(pod, bind)]
        self.cluster.nominations.settle(pod.uid, node)
        self.cluster.assume(pod, node, grant)
        self.in_flight.begin(pod.uid, None)
        return [bind]

    def _refuse(self, entry: Entry, refused: Refused, now: float) -> list[Instruction]:
        pod, class_ = entry.unit.pod, self._requeuer.class_of(entry.unit)
        self.queue.park(entry, class_, woken_by=refused.woken_by, now=now)
        failure = AnnounceFailure(pod, UNSCHEDULABLE, refused.message, refused.nomination)
        if refused.eviction is None:
            if refused.nomination == "":
                self.cluster.nominations.drop(pod.uid)
            if refused.unfinished:
                self.queue.wake(entry, "ScheduleAttemptFailure", now=now)
            return [failure]
        return [failure, *self._evictions.begin(entry.unit, refused.eviction, now)]

    # -- binds ------------------------------------------------------------------------------

    def _bind(self, pod: Pod, node: str, grant: Grant | None, now: float) -> list[Instruction]:
        bind = self._binds.of(pod, node, grant)
        if isinstance(bind, str):
            denied = events.BindFailed(pod.uid, events.BindProblem.DENIED, bind)
            return self._bind_failed(denied, now)
        return [bind]

    def _bind_done(self, uid: str, now: float) -> list[Instruction]:
        held = self.cluster.holdings.get(uid)
        entry = self.in_flight.written(uid, seen=held is None or not held.assumed)
        if entry is None:
            return []
        if isinstance(entry.unit, Gang):
            return self._gangs.bound(uid, entry, held, now)
        self.queue.remove(uid)
        if held is None:  # it came, ran and went before the reply was read
            return []
        return [AnnounceScheduled(entry.unit.pod, held.node, entry.attempts, entry.first_queued_s)]

    def _bind_failed(self, event: events.BindFailed, now: float) -> list[Instruction]:
        if self.in_flight.stage_of(event.uid) is Stage.BOUND:
            return []  # a second reply; what was written stays until the watch shows otherwise
        message = f'running Bind plugin "DefaultBinder": {event.message}'  # kube-scheduler's words
        return self._give_up(event.uid, message, now, final=event.problem in _FINAL)

    def _give_up(
        self, uid: str, message: str, now: float, *, final: bool = False
    ) -> list[Instruction]:
        entry = self.in_flight.end(uid)
        held = self.cluster.holdings.get(uid)
        if held is not None and held.assumed:
            self.cluster.remove(uid)
        if entry is None:
            return []
        # The pod may have gone, or have been bound by another, while we were trying.
        lost = uid not in self.queue or (held is not None and not held.assumed)
        final = final or lost or member_of(entry, uid).deleting
        if isinstance(entry.unit, Gang):
            node = held.node if held else ""
            return self._gangs.failed(uid, entry, node, "" if final else message, now)
        if final:
            self.queue.remove(uid)
            return []
        self.queue.retry(entry, now=now)
        return [AnnounceFailure(entry.unit.pod, SCHEDULER_ERROR, message, nominated="")]

    # -- how the steps before a bind went ----------------------------------------------------

    def _prepared(self, uid: str, now: float) -> list[Instruction]:
        steps = self._settle_steps(uid)
        entry, held = self.in_flight.entry_of(uid), self.cluster.holdings.get(uid)
        if not steps:
            return []
        if entry is None or held is None or not held.assumed:  # gone meanwhile
            return self._give_up(uid, "", now)
        if problem := self._problem_after(steps, held):
            released = [ReleaseClaims(held.pod)] if held.pod.request.claims else []
            return [*released, *self._give_up(uid, problem, now)]
        if isinstance(entry.unit, Gang):
            return self._gangs.prepared(uid, entry, now)
        return self._bind(entry.unit.pod, held.node, held.grant, now)

    def _problem_after(self, steps: tuple[PrepareStep, ...], held: Holding) -> str:
        """Why a pod whose steps are done cannot be bound to its node."""
        placement = self._placements[held.pod.scheduler]
        if problem := placement.problem_after(steps, held.node):
            return problem
        if held.pod.request.claims and (problem := claiming.unreserved(self.cluster, held.pod)):
            return problem
        if not reserving.name_gpus(self.cluster, held):
            return f"the reserved GPU of {held.node} is not known"
        if lost := self.cluster.lost_gpu(held):
            done = " and ".join(step.done for step in steps)
            return f"{lost} on {held.node} while {done}"
        return ""

    def _prepare_failed(self, uid: str, message: str, now: float) -> list[Instruction]:
        return self._give_up(uid, message, now) if self._settle_steps(uid) else []

    def _settle_steps(self, uid: str) -> tuple[PrepareStep, ...]:
        """The stage has ended; nothing if it was not under way."""
        steps = self.in_flight.steps_ended(uid)
        for step in steps:
            step.settle(self.cluster)
        return steps
