"""Gangs, as the engine sees them: what it asks of them, and what it tells them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.engine.attempts import Attempt
from fairlead.engine.backfill.attempts import LimitedAttempts
from fairlead.engine.backfill.limits import Limit
from fairlead.engine.binds import Binds
from fairlead.engine.compute_domains import DomainOutlook, domain_outlooks, keep_in_clique
from fairlead.engine.events import PlanComputed
from fairlead.engine.gang_admission import AdmissionQuota, GangAdmissions
from fairlead.engine.gang_attempts import GangAttempts
from fairlead.engine.gang_extenders import GangExtenders
from fairlead.engine.gang_moves import GangMoves
from fairlead.engine.gang_outlook import GangOutlook
from fairlead.engine.gang_parts import GangParts
from fairlead.engine.gang_refusals import gang_of
from fairlead.engine.gang_registry import GangRegistry
from fairlead.engine.gang_trees import GangTrees
from fairlead.engine.gang_trials import Filling
from fairlead.engine.in_flight import InFlight
from fairlead.engine.instructions import Instruction
from fairlead.engine.requeuer import Requeuer
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.pods import Pod
from fairlead.model.solver import SolverQuestion
from fairlead.model.topology import Topology
from fairlead.placement.making_room import RoomOutcome
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.units import Gang


class Gangs:
    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        in_flight: InFlight,
        placements: Mapping[str, Placement],
        requeuer: Requeuer,
        binds: Binds,
        quota: AdmissionQuota,
        utc_s: Callable[[float], float],
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._placements = placements
        self._in_flight = in_flight
        self._parts = GangParts(cluster, queue, in_flight)
        admissions = GangAdmissions(cluster, placements.keys(), quota)
        self._trees = GangTrees()
        moves = GangMoves(cluster, queue, self._trees)
        self._registry = GangRegistry(
            queue, self._parts, admissions, cluster.gangs, self._trees, moves, cluster.topology
        )
        self._attempts = GangAttempts(
            cluster, queue, in_flight, placements, requeuer, binds, self._parts, utc_s
        )
        self.rooms = self._attempts.rooms
        #: Nodes that are requested for whole gangs.
        self.node_requests = self._attempts.refusals.node_requests
        requeuer.may_make_room = self.rooms.may_help

    def leave_room(self, limited: LimitedAttempts) -> None:
        """How gangs are placed that must leave room for planned starts."""
        self._attempts.limited = limited

    def keep_records(self, keeps: Callable[[], bool]) -> None:
        """Notes why members go where they go, as long as it is so."""
        self._attempts.keep_records(keeps)

    def ask(self, extenders: GangExtenders) -> None:
        """HTTP extenders are asked about pods of gangs."""
        self._attempts.extenders = extenders

    # -- what the API server shows -----------------------------------------------------------

    def object_seen(self, spec: GangSpec, now: float) -> None:
        if spec.priority is not None and self._cluster.behaviour.compares_group_priority:
            spec = replace(spec, exact_priority=True)
        self._registry.object_seen(spec, now)

    def object_gone(self, key: str, now: float) -> None:
        self._registry.object_gone(key, now)

    def spec_of(self, membership: Membership) -> GangSpec:
        """What is known of the gang of a pod; a problem if that is nothing."""
        return self._registry.spec_of(membership)

    def kind_seen(self, dialect: str, problem: str, now: float) -> None:
        self._registry.kind_seen(dialect, problem, now)

    def resolved(self, pod: Pod) -> Pod:
        """The pod as a member of the gang that it is placed with."""
        return self._trees.resolved(pod)

    def topology_seen(self, key: str, topology: Topology | None, now: float) -> None:
        """An object that lists levels came or changed, or (None) is gone."""
        self._registry.topology_seen(key, topology, now)

    def gather(self, pod: Pod, *, now: float, not_before_s: float) -> None:
        """A pending member."""
        self._registry.gather(pod, now, not_before_s)

    def count(self, pod: Pod, now: float) -> Entry | None:
        """A member with a node, or one that has finished; its entry if it was pending."""
        return self._registry.count(pod, now)

    def left(self, pod: Pod, now: float) -> list[Instruction]:
        """A member is gone, or is not to be placed."""
        entry, gang = self._in_flight.entry_of(pod.uid), self.resolved(pod).gang
        assert gang is not None
        made = self._attempts.binding.lost(pod.uid, entry, now) if entry else []
        self._registry.touch(gang.gang, now)
        if self.rooms.held and self._queue.gang(gang.gang) is None:
            self.rooms.held.forget(gang.gang)
        if self._queue.gang(gang.gang) is None:
            self.node_requests.forget(gang.gang)
        return made

    # -- trying ------------------------------------------------------------------------------

    @property
    def has_more(self) -> bool:
        """Whether a large gang has to be gone on with before another unit is tried."""
        return self._attempts.has_more

    @property
    def ready_entry(self) -> Entry | None:
        """A gang with many different requests that was looked at, and is tried next."""
        return self._attempts.ready_entry

    def go_on(self, now: float) -> Attempt:
        with self._opened_to(self._attempts.under_way):
            attempt = self._attempts.go_on(now)
        self._registry.touch(attempt.unit.key, now)
        return attempt

    def attempt(self, entry: Entry, now: float, limit: Limit | None = None) -> Attempt:
        """`limit`: what the gang must leave free for planned starts."""
        is_ready = entry is self._attempts.ready_entry
        if not is_ready:
            keep_in_clique(gang_of(entry), self._cluster)
        attempt_ = self._attempts.attempt_ready if is_ready else self._attempts.attempt
        with self._opened_to(gang_of(entry)):
            attempt = attempt_(entry, now, limit)
        self._registry.touch(entry.unit.key, now)
        return attempt

    def _opened_to(self, gang: Gang | None) -> AbstractContextManager[None]:
        """With the devices that are kept for it."""
        is_open = gang is not None and gang.pods and self._cluster.claims.kept
        return self.rooms.opened_to(gang) if gang is not None and is_open else nullcontext()

    def crashed(self, entry: Entry) -> bool:
        """An attempt failed half-way; whether the gang is to be tried again."""
        return self._attempts.crashed(entry)

    @property
    def solver_questions(self) -> tuple[SolverQuestion, ...]:
        """About gangs that are held back for it; the driver has the solver answer them."""
        return self._attempts.solver.questions

    def plan_computed(self, event: PlanComputed, now: float) -> None:
        self._attempts.solver.answered(event.gang, event.number, event.answer, now)

    def outlook(self, pod: Pod) -> GangOutlook | None:
        """What would become of a gang now; None if it is not known, or is being placed."""
        gang = self.resolved(pod).gang
        assert gang is not None
        key = gang.gang
        entry = self._queue.gang(key)
        if entry is None or key in self._in_flight.gangs:
            return None
        keep_in_clique(gang_of(entry), self._cluster)
        return self._attempts.outlook(entry)

    def domains(self, pod: Pod) -> Sequence[DomainOutlook]:
        """The ComputeDomains whose channels the pod uses."""
        gang = self.resolved(pod).gang if pod.gang else None
        entry = self._queue.gang(gang.gang) if gang else None
        placement = self._placements.get(pod.scheduler)
        return domain_outlooks(pod, gang_of(entry) if entry else None, self._cluster, placement)

    def would_evict(self, entry: Entry, now: float) -> tuple[tuple[Pod, ...], str]:
        """For a unit that waits; nothing changes."""
        if self.rooms.held.get(entry.unit.key) or entry.pool is Pool.NONE:
            return (), "room is being made for it already"
        found: RoomOutcome[Filling] | RoomOutcome[Placed]
        with self.rooms.asked(entry.unit):
            if isinstance(entry.unit, Gang):
                found = self._attempts.refusals.search_room(entry, now)
            else:
                found = self.rooms.search_for_pod(entry.unit, now)
        units = found.plan.units if found.plan else ()
        return tuple(pod for unit in units for pod in unit.pods if not unit.is_leaving), found.why

    # -- what became of its members ----------------------------------------------------------

    def prepared(self, uid: str, entry: Entry, now: float) -> list[Instruction]:
        made = self._attempts.binding.prepared(uid, entry, now)
        self._registry.touch(entry.unit.key, now)
        return made

    def bound(self, uid: str, entry: Entry, held: Holding | None, now: float) -> list[Instruction]:
        made = self._attempts.binding.bound(uid, entry, held, now)
        self._registry.touch(entry.unit.key, now)
        return made

    def failed(
        self, uid: str, entry: Entry, node: str, message: str, now: float
    ) -> list[Instruction]:
        """A step or the bind of a member failed; without a message it is not to be placed."""
        made = self._attempts.binding.failed(uid, entry, node, message, now)
        self._registry.touch(entry.unit.key, now)
        return made

    def released(self, uid: str, problem: str, now: float) -> bool:
        """An eviction has ended; whether it was the release of a gang, or made room for one."""
        return self._parts.released(uid, problem, now) or self.rooms.ended(uid, problem, now)

    def victim_gone(self, uid: str, now: float) -> None:
        """A pod is gone that may have been evicted for a gang."""
        if self.rooms.held:
            self.rooms.held.victim_gone(uid, now)
            self.rooms.held.forget(uid)

    # -- what time brings about --------------------------------------------------------------

    def due_s(self) -> float | None:
        if self._attempts.has_more:
            return 0.0
        times = (
            self._registry.due_s(),
            self._attempts.patience.due_s(),
            self._attempts.solver.due_s(),
            self.rooms.held.due_s(),
        )
        return min((due_s for due_s in times if due_s is not None), default=None)

    def tend(self, now: float) -> list[Instruction]:
        self._attempts.patience.tend(now)
        if self._attempts.solver.is_on:
            self._attempts.solver.tend(now)
        self.rooms.tend(now)
        return self._registry.tend(now)


def member_of(entry: Entry, uid: str) -> Pod:
    """The pod of that uid in a unit."""
    unit = entry.unit
    found = unit.member(uid) if isinstance(unit, Gang) else None
    return found or unit.pod
