"""The scheduler itself: events in, instructions out.

It does no I/O, reads no clock and draws no lots: the same events at the same times give the same
instructions, live, in simulation and in tests. A driver feeds it what the API server says, carries
out what it asks for, and tells it how that went.
"""

from collections.abc import Mapping
from typing import assert_never

from fairlead.cluster.aspects import NOTHING, Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.demand import Demand
from fairlead.engine import events
from fairlead.engine.adviser import Adviser
from fairlead.engine.instructions import (
    AnnounceFailure,
    AnnounceScheduled,
    Bind,
    BindVolumes,
    ClearNomination,
    Decided,
    Decline,
    Evict,
    Instruction,
)
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod
from fairlead.model.prices import Basis
from fairlead.model.storage import VolumePlan
from fairlead.placement.place import Placement
from fairlead.placement.profile import Profile
from fairlead.placement.verdicts import Eviction, Placed, Refused
from fairlead.queue.entries import Entry, Group, Pool
from fairlead.queue.queue import SchedulingQueue

FLUSH_EVERY_S = 30.0

_FINAL = (events.BindProblem.GONE, events.BindProblem.TAKEN)

# Changes of a node after which a refused pod may find somebody to evict there.
_NEW_GROUND = (
    Aspect.PRESENCE | Aspect.ALLOCATABLE | Aspect.LABELS | Aspect.TAINTS | Aspect.TRUST
)  # fmt: skip

# What a promise keeps from others.
_PROMISED = Aspect.USAGE | Aspect.PODS | Aspect.PORTS | Aspect.DEVICES

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"

_VOLUMES_FAILED = 'running PreBind plugin "VolumeBinding"'  # kube-scheduler's words


class Engine:
    """One scheduler for one cluster, serving every scheduler name that has a profile."""

    def __init__(self, profiles: Mapping[str, Profile], advises: Profile | None = None) -> None:
        """`advises` is what other schedulers are advised by, on pods that no profile serves."""
        self.cluster = Cluster()
        self.queue = SchedulingQueue()
        #: What pods ask for, those of other schedulers included if they ask for GPUs.
        self.demand = Demand()
        self._placements = {
            name: Placement(profile, self.cluster) for name, profile in profiles.items()
        }
        self.adviser = Adviser(Placement(advises, self.cluster), self.cluster) if advises else None
        #: Pods whose bind is under way, by uid.
        self._binding: dict[str, Entry] = {}
        #: Pods for which others are being evicted just now, by uid.
        self._evicting: set[str] = set()
        #: What is being done about the volumes of some of them.
        self._plans: dict[str, VolumePlan] = {}
        #: What became better for somebody since waiting pods were last looked at.
        self._freed = NOTHING
        self._woken_mark = self.cluster.changes.mark
        #: The labels by which waiting pods are told apart.
        self._keys_asked = self.cluster.columns.pods.keys_asked
        self._flushed_s = 0.0
        #: Is anybody interested in why pods went where they went?
        self.keeps_records = False

    def handle(self, event: events.Event, *, now: float) -> list[Instruction]:
        """Takes in one event. `now` never goes backwards."""
        match event:
            case events.Decide():
                return self._decide(now)
            case events.PodSeen(pod):
                return self._see_pod(pod, now)
            case events.BindDone(uid):
                return self._bind_done(uid)
            case events.NodeChosen(pod, node):
                return self._take(pod, node)
            case events.ServerKnown(behaviour):
                self.cluster.behaviour = behaviour
            case events.PodGone(pod):
                self._lose_pod(pod)
            case events.NodeSeen(node):
                self._freed |= self.cluster.put_node(node) | self.cluster.trust(f"node/{node.name}")
            case events.NodeGone(name):
                self._freed |= self.cluster.remove_node(name)
            case events.NodeDistrusted(name, cause):
                self.cluster.distrust(name, cause)
            case events.NamespaceSeen(name, labels):
                self._freed |= self.cluster.put_namespace(name, labels)
            case events.KinSeen(kind, namespace, name, selector):
                self.cluster.kin.put(kind, namespace, name, selector)
            case events.TrustRestored(cause):
                self._freed |= self.cluster.trust(cause)
            case events.StorageSeen(told):
                self._freed |= self.cluster.put_storage(told)
            case events.StorageGone(gone):
                self._freed |= self.cluster.remove_storage(gone)
            case events.VolumesReady(uid):
                return self._volumes_ready(uid, now)
            case events.VolumesFailed(uid, message):
                return self._volumes_failed(uid, message, now)
            case events.BindFailed():
                return self._bind_failed(event, now)
            case events.BudgetSeen(budget):
                self.cluster.budgets[budget.key] = budget
            case events.BudgetGone(key):
                self.cluster.budgets.pop(key, None)
            case events.EvictionEnded(uid, problem):
                self._eviction_ended(uid, problem, now)
            case events.PricesComputed(prices):
                self.cluster.put_prices(prices)
            case events.ReadingsTaken(readings):
                self._freed |= self.cluster.put_readings(readings, now)
            case _:
                assert_never(event)
        return []

    def basis(self) -> Basis:
        """What prices can be computed from. The answer comes back as `PricesComputed`."""
        return Basis(
            self.demand.shapes(self.cluster.card_mib()), tuple(self.cluster.card_models().items())
        )

    def wake_at_s(self) -> float | None:
        """When `Decide` should be sent at the latest, if nothing happens before."""
        due = self.queue.next_due_s()
        if not self.queue.counts()[Pool.WAITING]:
            return due
        flush = self._flushed_s + FLUSH_EVERY_S
        return flush if due is None else min(due, flush)

    # -- what the API server shows -----------------------------------------------------------

    def _see_pod(self, pod: Pod, now: float) -> list[Instruction]:
        self._freed |= self.cluster.trust(pod.key)
        if pod.finished:
            self._lose_pod(pod)
        elif pod.node:
            self._see_bound(pod)
        elif pod.uid in self._binding:
            self._binding[pod.uid].pod = pod
        elif pod.scheduler in self._placements:
            return self._see_pending(pod, now)
        elif self.adviser and pod.uid not in self.cluster.holdings:
            self._see_advised(pod)
        return []

    def _see_advised(self, pod: Pod) -> None:
        """What another scheduler promised to a pod is not for those whom it asks about next."""
        promised = self.cluster.behaviour.honours_nomination(pod.nominated, gated=bool(pod.gates))
        if promised and not pod.deleting:
            self.cluster.nominations.put(pod, pod.nominated)
        else:
            self._forget_nomination(pod.uid)

    def _see_bound(self, pod: Pod) -> None:
        if pod.uid not in self._binding and self._leave_queue(pod.uid) is None:
            self._count(pod, known=pod.uid in self.cluster.holdings)
        self._settle_nomination(pod.uid, pod.node)
        self._freed |= self.cluster.confirm(pod) | (self.queue.awaited & Aspect.PODS)
        if pod.problem:
            self.cluster.distrust(pod.node, pod.key)

    def _see_pending(self, pod: Pod, now: float) -> list[Instruction]:
        if not pod.deleting:
            self._count(pod, known=pod.uid in self.queue)
            self._see_nomination(pod)
            self.queue.put(pod, now=now)
            return []
        self._forget_nomination(pod.uid)
        if self._leave_queue(pod.uid) is None:
            return []
        return [AnnounceFailure(pod, SCHEDULER_ERROR, f"skip schedule deleting pod: {pod.key}")]

    def _count(self, pod: Pod, *, known: bool) -> None:
        ours = pod.scheduler in self._placements
        if not known and (ours or pod.request.gpus or pod.request.amount(GPU)):
            self.demand.add(pod.request)

    def _see_nomination(self, pod: Pod) -> None:
        """Anybody may nominate a pod. What we promised stands until its status has shown it."""
        if self.cluster.behaviour.honours_nomination(pod.nominated, gated=bool(pod.gates)):
            self.cluster.nominations.put(pod, pod.nominated)
            return
        known = self.queue.get(pod.uid)
        if known is not None and known.pod.nominated:
            self._forget_nomination(pod.uid)

    def _forget_nomination(self, uid: str) -> None:
        if self.cluster.nominations.drop(uid) is not None:
            self._freed |= _PROMISED

    def _settle_nomination(self, uid: str, node: str) -> None:
        """It has a node: what was promised elsewhere is for others."""
        if self.cluster.nominations.node_of(uid) not in ("", node):
            self._freed |= _PROMISED
        self.cluster.nominations.drop(uid)

    def _leave_queue(self, uid: str) -> Entry | None:
        """The pod waits no longer. If it was awake, its turn goes to those who wait with it."""
        entry = self.queue.get(uid)
        if entry is not None and entry.pool in (Pool.ACTIVE, Pool.BACKOFF):
            self._freed |= entry.woken_by
        return self.queue.remove(uid)

    def _lose_pod(self, pod: Pod) -> None:
        self._leave_queue(pod.uid)
        self._forget_nomination(pod.uid)
        self._freed |= self.cluster.remove(pod.uid) | self.cluster.trust(pod.key)

    # -- deciding ----------------------------------------------------------------------------

    def _decide(self, now: float) -> list[Instruction]:
        self._wake(now)
        entry = self.queue.pop(now=now)
        if entry is None:
            return []
        pod = entry.pod
        if pod.problem:
            group = (pod.scheduler, pod.request, pod.priority)
            self.queue.park(entry, group, woken_by=NOTHING, now=now)
            return [AnnounceFailure(pod, UNSCHEDULABLE, pod.problem)]
        placement = self._placements[pod.scheduler]
        try:
            verdict = placement.place(pod)
        except Exception as error:  # a user's plugin broke: this pod waits, the others go on
            self.queue.retry(entry, now=now)
            return [AnnounceFailure(pod, SCHEDULER_ERROR, f"a plugin failed: {error!r}")]
        if isinstance(verdict, Placed):
            plan = placement.volume_plan(pod, verdict.node)
            record = placement.record(pod, verdict) if self.keeps_records else None
            made = self._assume(entry, verdict, plan, now)
            return [*made, Decided(pod, verdict.node, record)] if record else made
        return self._refuse(entry, verdict, now)

    def _assume(
        self, entry: Entry, verdict: Placed, plan: VolumePlan | None, now: float
    ) -> list[Instruction]:
        pod = entry.pod
        self._settle_nomination(pod.uid, verdict.node)
        self.cluster.assume(pod, verdict.node, verdict.grant)
        self._freed |= self.queue.awaited & Aspect.PODS  # somebody may want to be near it
        self._binding[pod.uid] = entry
        if self.queue.awaited:
            following = self.queue.next_like(self._group(pod))
            if following is not None:
                self._wake_or_wait(following, self._would_fit(following.pod), now)
        if plan is None:
            return [Bind(pod, verdict.node, grant=verdict.grant)]
        self._plans[pod.uid] = plan
        self.cluster.assume_volumes(plan, verdict.node)
        return [BindVolumes(pod, verdict.node, plan)]

    def _take(self, pod: Pod, node: str) -> list[Instruction]:
        """Holds cards from now on, so that nobody else is given them while the bind is written."""
        held = self.cluster.holdings.get(pod.uid)
        if held is not None:
            return [Decline(pod, f"{pod.key} is on {held.node}, or on its way there")]
        assert self.adviser is not None
        grant = self.adviser.grant(pod, node)
        if isinstance(grant, str):
            return [Decline(pod, f"{node} will not do for {pod.key} any more: {grant}")]
        self._settle_nomination(pod.uid, node)
        self.cluster.assume(pod, node, grant)
        return [Bind(pod, node, grant=grant)]

    def _refuse(self, entry: Entry, refused: Refused, now: float) -> list[Instruction]:
        pod = entry.pod
        self.queue.park(entry, self._group(pod), woken_by=refused.woken_by, now=now)
        failure = AnnounceFailure(pod, UNSCHEDULABLE, refused.message, refused.nomination)
        if refused.eviction is None:
            if refused.nomination == "":
                self._forget_nomination(pod.uid)
            return [failure]
        return [failure, *self._make_room(pod, refused.eviction, now)]

    def _make_room(self, pod: Pod, eviction: Eviction, now: float) -> list[Instruction]:
        made: list[Instruction] = []
        for other in self.cluster.nominations.on(eviction.node):
            if other.priority < pod.priority:
                made.append(ClearNomination(other))
                self._renounce(other.uid, now)
        self.cluster.nominations.put(pod, eviction.node)
        victims = tuple(victim for victim in eviction.victims if not victim.deleting)
        if victims and pod.uid not in self._evicting:
            self._evicting.add(pod.uid)
            made.append(Evict(pod, eviction.node, victims))
        following = self.queue.next_like(self._group(pod))
        if following is not None and self._might_make_room(following.pod):
            self.queue.wake(following, "NodeAdd", now=now)
        return made

    def _renounce(self, uid: str, now: float) -> None:
        """Its place went to a more important pod: it may look for another at once."""
        self.cluster.nominations.drop(uid)
        entry = self.queue.get(uid)
        if entry is not None and entry.pool is Pool.WAITING:
            self.queue.wake(entry, "UnschedulablePodUpdate", now=now)

    def _eviction_ended(self, uid: str, problem: str, now: float) -> None:
        self._evicting.discard(uid)
        entry = self.queue.get(uid)
        if entry is None or entry.pool is not Pool.WAITING:
            return
        if problem:  # who denies it once may well do so again
            self.queue.postpone(entry, "ForceActivate")
        elif self.cluster.nominations.node_of(uid) in self.cluster.row_of:
            return  # that the victims go is seen by itself
        elif self._has_hope(entry.pod, _NEW_GROUND):
            self.queue.wake(entry, "ForceActivate", now=now)

    # -- waking ------------------------------------------------------------------------------

    def _wake(self, now: float) -> None:
        """Lets waiting pods try again: those that would now find a node, and the very patient."""
        if self._keys_asked is not self.cluster.columns.pods.keys_asked:
            self._keys_asked = self.cluster.columns.pods.keys_asked
            self.queue.regroup(self._group)
        if self._freed:
            freed, self._freed = self._freed, NOTHING
            if self.cluster.nominations:
                self._wake_nominated(_cause(freed), now)
            for entry in self.queue.waiting(freed):
                hope = self._has_hope(entry.pod, freed)
                self._wake_or_wait(entry, hope, now, _cause(freed))
            self._woken_mark = self.cluster.changes.mark
        if now - self._flushed_s >= FLUSH_EVERY_S:
            self._flushed_s = now
            self.queue.flush(now=now)

    def _wake_or_wait(
        self, entry: Entry, hope: bool, now: float, cause: str = "AssignedPodDelete"
    ) -> None:
        if hope:
            self.queue.wake(entry, cause, now=now)
        else:  # perhaps for another reason than before
            placement = self._placements[entry.pod.scheduler]
            self.queue.await_also(entry, placement.refused_by(entry.pod))

    def _wake_nominated(self, cause: str, now: float) -> None:
        """Pods whose promised node changed: they wait for just that."""
        changed = self.cluster.changes.since(self._woken_mark)
        rows = self.cluster.row_of.values() if changed is None else changed
        for row in rows:
            node = self.cluster.columns.nodes[row] if row >= 0 else None
            for pod in self.cluster.nominations.on(node.name) if node else ():
                entry = self.queue.get(pod.uid)
                if entry and entry.pool is Pool.WAITING and self._would_fit(entry.pod):
                    self.queue.wake(entry, cause, now=now)

    def _has_hope(self, pod: Pod, freed: Aspect) -> bool:
        if self._would_fit(pod):
            return True
        return bool(freed & _NEW_GROUND) and self._might_make_room(pod)

    def _would_fit(self, pod: Pod) -> bool:
        try:
            return self._placements[pod.scheduler].fits(pod)
        except Exception:  # let the attempt itself fail, where it is reported
            return True

    def _might_make_room(self, pod: Pod) -> bool:
        promised = self.cluster.nominations.node_of(pod.uid)
        if pod.uid in self._evicting or promised in self.cluster.row_of:
            return False  # it has done so already
        try:
            return self._placements[pod.scheduler].could_make_room(pod)
        except Exception:  # let the attempt itself fail, where it is reported
            return True

    def _group(self, pod: Pod) -> Group:
        return pod.scheduler, self._placements[pod.scheduler].request(pod), pod.priority

    # -- how binds went ----------------------------------------------------------------------

    def _bind_done(self, uid: str) -> list[Instruction]:
        entry = self._binding.pop(uid, None)
        if entry is None:
            return []
        self.queue.remove(uid)
        held = self.cluster.holdings.get(uid)
        if held is None:  # it came, ran and went before the reply was read
            return []
        return [AnnounceScheduled(entry.pod, held.node, entry.attempts, entry.first_queued_s)]

    def _bind_failed(self, event: events.BindFailed, now: float) -> list[Instruction]:
        message = f'running Bind plugin "DefaultBinder": {event.message}'  # kube-scheduler's words
        return self._give_up(event.uid, message, now, final=event.problem in _FINAL)

    def _give_up(
        self, uid: str, message: str, now: float, *, final: bool = False
    ) -> list[Instruction]:
        entry = self._binding.pop(uid, None)
        held = self.cluster.holdings.get(uid)
        if held is not None and held.assumed:
            self._freed |= self.cluster.remove(uid)
        # The pod may have gone, or have been bound by another, while we were trying.
        if entry is None or uid not in self.queue:
            return []
        bound_elsewhere = held is not None and not held.assumed
        if bound_elsewhere or entry.pod.deleting or final:
            self.queue.remove(uid)
            return []
        self.queue.retry(entry, now=now)
        return [AnnounceFailure(entry.pod, SCHEDULER_ERROR, message, nominated="")]

    # -- how volumes were bound --------------------------------------------------------------

    def _volumes_ready(self, uid: str, now: float) -> list[Instruction]:
        plan = self._plans.pop(uid, None)
        entry, held = self._binding.get(uid), self.cluster.holdings.get(uid)
        if plan is None:
            return []
        self._freed |= self.cluster.settle_volumes(plan)
        if entry is None or held is None or not held.assumed:  # gone meanwhile
            return self._give_up(uid, "", now)
        problem = self._placements[entry.pod.scheduler].volumes_out_of_reach(plan, held.node)
        if problem:
            return self._give_up(uid, f"{_VOLUMES_FAILED}: binding volumes: {problem}", now)
        return [Bind(entry.pod, held.node, grant=held.grant)]

    def _volumes_failed(self, uid: str, message: str, now: float) -> list[Instruction]:
        plan = self._plans.pop(uid, None)
        if plan is None:
            return []
        self._freed |= self.cluster.settle_volumes(plan)
        return self._give_up(uid, f"{_VOLUMES_FAILED}: {message}", now)


_CAUSES = {
    Aspect.USAGE: "AssignedPodDelete",
    Aspect.PODS: "AssignedPodAdd",
    Aspect.PRESENCE: "NodeAdd",
    Aspect.ALLOCATABLE: "NodeUpdateNodeAllocatable",
    Aspect.TAINTS: "NodeUpdateNodeTaint",
    Aspect.LABELS: "NodeUpdateNodeLabel",
    Aspect.ANNOTATIONS: "NodeUpdateNodeAnnotation",
    Aspect.VOLUMES: "PersistentVolumeClaimUpdate",
}


def _cause(freed: Aspect) -> str:
    """kube-scheduler's name for what happened; the first when several things did."""
    return next((name for aspect, name in _CAUSES.items() if aspect & freed), "WildCardEvent")
