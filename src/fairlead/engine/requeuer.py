"""Which waiting pods are tried again after a change, and the nominations meanwhile."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import NOTHING, Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.tenants import Tenants
from fairlead.engine.claim_looks import ClaimLooks
from fairlead.engine.goal_waits import GoalWaits
from fairlead.engine.start_windows import StartWindows
from fairlead.model.pods import Amounts, Pod, PodRequest
from fairlead.placement.copies import copies_by_amounts
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed, Refused
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.long_waits import LongWaits
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.quota import QuotaPolicy, QuotaRefusal
from fairlead.queue.units import EquivalenceClass, Gang, Unit

# Changes of a node after which preemption there may become possible for a refused pod.
PREEMPTION_ASPECTS = (
    Aspect.PRESENCE | Aspect.ALLOCATABLE | Aspect.LABELS | Aspect.TAINTS | Aspect.TRUST
)  # fmt: skip

# What looking at waiting pods may cost in one turn (see `Work.spent`), if one look does not cost
# more; and how many of them are sorted into equivalence classes again.
_SLICE = 15_000
_RECLASSIFIED = 1000
#: To look at the GPUs of so many nodes for a pod costs a unit of work more.
_NODES_OF_PARTS = 2

#: A gang with more different requests is looked at by amounts alone: each view costs a look at all
#: nodes.
_MOST_VIEWS = 16

#: A gang of more pods waits its backoff out, however idle the queue is.
_LARGE_GANG = 1000

_PODS = int(Aspect.PODS)


class CountedPolicy(Protocol):
    """What counted resources say of waiting units."""

    def class_of(self, unit: Unit) -> str: ...

    def beyond(self, pod: Pod, found: Placed | Refused | None = None) -> QuotaRefusal | None: ...

    def beyond_layers(self, pod: Pod) -> QuotaRefusal | None: ...

    def beyond_gang(self, gang: Gang) -> QuotaRefusal | None: ...


class Requeuer:
    """Drains what improved in the cluster, and checks the waiting pods for which it matters."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        placements: Mapping[str, Placement],
        evicting: Collection[str],
        quota: QuotaPolicy | None = None,
    ) -> None:
        """`evicting` are the pods for which others are being evicted just now, by uid."""
        self._quota = quota
        self._tenants = cluster.count_tenants(quota.tenant_of) if quota else None
        #: Queues of teams that may admit more than when waiting units were last checked.
        self.freed: set[str] = set()
        self._cluster = cluster
        self._queue = queue
        self._placements = placements
        self._evicting = evicting
        #: What improved since waiting pods were last checked.
        self._pending = NOTHING
        self._round_mark = cluster.changes.mark
        #: What is still to be checked, last first: classes, and nominated pods by uid.
        self._round: list[EquivalenceClass | str] = []
        #: What improved before this round.
        self._round_events = NOTHING
        #: The labels that distinguish waiting pods, and the pods not yet sorted by them.
        self._keys_asked = cluster.columns.pods.keys_of_anti_affinity
        self._unsorted: list[Entry] = []
        self._long_waits = LongWaits(queue)
        #: Which unit of a class may start first, beside planned starts, and what of a unit makes a
        #: difference to that besides its request. Neither exists without backfill.
        self.first_to_start: Callable[[Entry, float], Entry | None] | None = None
        self.more_of_class: Callable[[Unit], str] | None = None
        #: Units that wait for nodes that they prefer.
        self.goal_waits = GoalWaits(cluster, queue, placements)
        #: Units that do not start yet; None: the engine is being made.
        self.start_windows: StartWindows | None = None
        #: Counted resources; None while there are none.
        self.counted: CountedPolicy | None = None
        #: What distinguishes units that an HTTP extender refused; None: there are no extenders.
        self.extended_class: Callable[[Unit], str] | None = None
        #: A gang that is being tried, and how many of its pods ask for what.
        self.asked: tuple[Gang, Counter[PodRequest]] | None = None
        #: What has to be looked at before units with claims are checked.
        self.claim_looks: ClaimLooks | None = None
        #: Whether evicting others could help a waiting gang.
        self.may_make_room: Callable[[Entry, float], bool] = lambda _entry, _now: False

    def due_s(self) -> float | None:
        """When to look again at the latest, if nothing happens before."""
        if self._round or self._unsorted:
            return 0.0  # at once
        due = (self._queue.next_due_s(), self._long_waits.due_s())
        return min((each for each in due if each is not None), default=None)

    def set_quota(self, quota: QuotaPolicy | None, tenants: Tenants | None) -> None:
        """From now on; waiting units are sorted into classes again."""
        self._quota, self._tenants = quota, tenants
        self.sort_again()

    def sort_again(self, entries: list[Entry] | None = None) -> None:
        """Waiting units may belong to other classes than before: these, or all."""
        self._unsorted = (
            self._queue.all_waiting() if entries is None else [*self._unsorted, *entries]
        )
        self._pending |= self._round_events if self._round else NOTHING
        self._round.clear()

    # -- nominations -------------------------------------------------------------------------

    def observe_nomination(self, pod: Pod) -> None:
        """Any writer may nominate a pod. A nomination of ours stands until its status shows it."""
        if pod.nominated:
            self._cluster.nominations.put(pod, pod.nominated)
            return
        known = self._queue.get(pod.uid)
        if known is not None and known.unit.pod.nominated:
            self._cluster.nominations.drop(pod.uid)

    def clear_nomination(self, uid: str, now: float) -> None:
        """A pod of higher priority takes its nominated node: it may be tried again at once."""
        nominations = self._cluster.nominations
        nominations.settle(uid, nominations.node_of(uid))
        entry = self._queue.get(uid)
        if entry is not None and entry.pool is Pool.WAITING:
            self._queue.wake(entry, "UnschedulablePodUpdate", now=now)

    # -- requeuing ---------------------------------------------------------------------------

    def leave_queue(self, uid: str) -> Entry | None:
        """The pod waits no longer. If it was active, the pods of its class are checked again."""
        entry = self._queue.get(uid)
        if entry is not None and entry.pool in (Pool.ACTIVE, Pool.BACKOFF):
            self._pending |= entry.woken_by
        return self._queue.remove(uid)

    def wake(self, now: float) -> None:
        """Requeues the waiting pods that now fit a node, and those that waited for five minutes.

        Thousands may wait, so they are checked in rounds, one slice per turn. What improves
        meanwhile is for the next round.
        """
        self._drain()
        if self._sort() and not self._round and (self._pending or self.freed):
            self._begin_round()
        if self._round:
            self._check_slice(now)
        self._long_waits.wake(now)

    def _drain(self) -> None:
        """Pods come with every bind: that matters only if a waiting pod asks for other pods."""
        relevant = ~_PODS | int(self._queue.awaited)
        if improved := self._cluster.improved.drain() & relevant:
            self._pending |= improved  # flags are slow, and this is asked for every placement

    def _sort(self) -> bool:
        """Sorts pods into classes by the labels that rules ask about; True when all are sorted."""
        if self._keys_asked is not self._cluster.columns.pods.keys_of_anti_affinity:
            self._keys_asked = self._cluster.columns.pods.keys_of_anti_affinity
            self.sort_again()
        if self._unsorted:
            slice_, self._unsorted = self._unsorted[:_RECLASSIFIED], self._unsorted[_RECLASSIFIED:]
            self._queue.reclassify(slice_, self.class_of)
            if self._unsorted:  # `first_of_class` does not find unsorted pods
                self._pending |= self._queue.awaited
        return not self._unsorted

    def _begin_round(self) -> None:
        """In order of priority."""
        self._round_events, self._pending = self._pending, NOTHING
        entries = self._queue.waiting(self._round_events) if self._round_events else ()
        classes = dict.fromkeys(entry.equivalence_class for entry in entries)
        if self.freed:
            classes |= dict.fromkeys(self._queue.held_back.classes(self.freed))
            self.freed.clear()
        waiting = sorted((class_ for class_ in classes if class_), key=lambda class_: -class_[2])
        nominated = self._nominated_on_changed() if self._cluster.nominations else []
        self._round = [*reversed(waiting), *reversed(nominated)]
        self._round_mark = self._cluster.changes.mark

    def _check_slice(self, now: float) -> None:
        """Checks a slice of the round, at least one entry."""
        work, start = self._cluster.work, self._cluster.work.spent
        cause = _cause(self._round_events)
        while self._round and work.spent - start <= _SLICE:
            next_ = self._round.pop()
            work.asks += 1
            if isinstance(next_, str):
                self._wake_nominated(next_, cause, now)
            elif (entry := self._queue.first_of_class(next_)) is not None:
                if not self.are_looked_at(entry.unit.pods):
                    self._round.append(next_)
                    return
                self._look_at(entry, self._round_events, now, cause)

    def are_looked_at(self, pods: Iterable[Pod]) -> bool:
        """Whether all devices were looked at for the claims of pods; some more are, if not."""
        return self.claim_looks is None or self.claim_looks.are_done(pods)

    def _look_at(self, entry: Entry, changed: Aspect, now: float, cause: str) -> None:
        if isinstance(entry.unit, Gang):
            if refusal := self._gang_beyond_quota(entry):
                self._hold_back(entry, refusal, cause, now)
                return
            if not self._may_fit(entry):
                if changed and self.may_make_room(entry, now):
                    self._queue.postpone(entry, cause)
                return
            first = self._first_to_start(entry, now)
            if first is None:
                return
            if isinstance(first.unit, Gang) and first.unit.size > _LARGE_GANG:
                self._queue.postpone(first, cause)  # while it is tried, no other unit is
            else:
                self._queue.wake(first, cause, now=now)
        else:
            if entry.unit.pod.request.gpu_request is not None:
                self._cluster.work.pods += len(self._cluster) // _NODES_OF_PARTS
            fits = self.may_schedule(entry.unit.pod, changed)
            if not fits and changed and self._quota and self.may_make_room(entry, now):
                self._queue.postpone(entry, cause)
                return
            first = self._first_to_start(entry, now) if fits else entry
            if first is not None:
                self.wake_or_keep_waiting(first, fits, now, cause)

    def _first_to_start(self, entry: Entry, now: float) -> Entry | None:
        """Of the units that wait with it, the one that may start beside planned starts."""
        return entry if self.first_to_start is None else self.first_to_start(entry, now)

    def look_at_next(self, class_: EquivalenceClass, now: float) -> None:
        """A unit of the class was placed: the next one may fit as well."""
        entry = self._queue.first_of_class(class_)
        if entry is not None:
            self._look_at(entry, NOTHING, now, "AssignedPodDelete")

    def _may_fit(self, entry: Entry) -> bool:
        """Whether a waiting gang could get nodes; only the trial knows."""
        gang, class_ = entry.unit, entry.equivalence_class
        assert isinstance(gang, Gang)
        if class_ is None:
            return True
        with self._cluster.limited_to(self._rows_for(gang)):
            return self.most_copies(class_) >= gang.needed

    def most_copies(self, class_: EquivalenceClass) -> int:
        """How many pods of a class of gangs could have nodes, each request for itself."""
        placement, request = self._placements[class_[0]], class_[1]
        assert isinstance(request, tuple)
        requests = request[1]
        try:
            counted = [(placement.amounts(request), n) for request, n in requests]
            if len(requests) > _MOST_VIEWS:
                found = self._copies_by_amounts(counted)
            else:
                found = sum(min(n, placement.most_copies(request, n)) for request, n in requests)
            return min(found, self._copies_of_least(counted)) if len(requests) > 1 else found
        except Exception:  # let the attempt itself fail, where it is reported
            return sum(n for _, n in requests)

    def _copies_of_least(self, counted: Collection[tuple[Amounts, int]]) -> int:
        """How many pods could have nodes if each took only what every one of them takes."""
        least = dict(next(iter(counted))[0])
        for each, _ in counted:
            amounts = dict(each)
            least = {name: min(n, amounts[name]) for name, n in least.items() if name in amounts}
        count = sum(n for _, n in counted)
        return min(count, copies_by_amounts(tuple(least.items()), self._cluster, count))

    def _copies_by_amounts(self, counted: Collection[tuple[Amounts, int]]) -> int:
        """For many requests, without their views."""
        counts: Counter[Amounts] = Counter()
        for amounts, n in counted:
            counts[amounts] += n
        return sum(
            min(n, copies_by_amounts(amounts, self._cluster, n)) for amounts, n in counts.items()
        )

    def wake_or_keep_waiting(
        self, entry: Entry, fits: bool, now: float, cause: str = "AssignedPodDelete"
    ) -> None:
        woken_by = None if fits else self._refused_by(entry)
        if woken_by is None:
            self._queue.wake(entry, cause, now=now)
        else:  # perhaps for another reason than before
            self._queue.await_also(entry, woken_by)

    def _nominated_on_changed(self) -> list[str]:
        """Pods whose nominated node changed."""
        changed = self._cluster.changes.since(self._round_mark)
        rows = self._cluster.row_of.values() if changed is None else changed
        nodes = (self._cluster.columns.nodes[row] for row in rows if row >= 0)
        on = self._cluster.nominations.on
        return [pod.uid for node in nodes if node for pod in on(node.name)]

    def _wake_nominated(self, uid: str, cause: str, now: float) -> None:
        entry = self._queue.get(uid)
        if not entry or entry.pool is not Pool.WAITING:
            return
        gang = isinstance(entry.unit, Gang)
        fits = self._may_fit(entry) if gang else self.would_fit(entry.unit.pod)
        if fits and self._first_to_start(entry, now) is entry:
            self._queue.wake(entry, cause, now=now)

    def beyond_quota(self, pod: Pod, placed: Placed | Refused | None = None) -> QuotaRefusal | None:
        """Why the pod must wait whatever the nodes; None without a policy, and if it need not.

        With a placement: why it may not have the GPUs of that node. With a refusal: whether nodes
        fit it, and too little is left there of something that is counted.
        """
        if self.counted is not None and (refusal := self.counted.beyond(pod, placed)):
            return refusal
        if self._quota is None or isinstance(placed, Refused):
            return None
        return self.beyond_queue(pod, placed)

    def beyond_queue(self, pod: Pod, placed: Placed | None = None) -> QuotaRefusal | None:
        """The same by its queue alone."""
        if self._quota is None or self._tenants is None:
            return None
        if placed is None:
            return self._quota.admits(pod, self._tenants)
        return self._quota.admits_on(pod, placed.node, placed.grant)

    def on_other_models(
        self, pod: Pod, beyond: QuotaRefusal, rows: NodeMask | None = None
    ) -> Placed | QuotaRefusal:
        """Where the pod has GPUs of a model that is within its limit; `beyond` if nowhere.

        A node with GPUs of several models is left out if one of them is beyond its limit.
        """
        assert self._quota is not None
        devices, size = self._cluster.columns.devices, self._cluster.columns.size
        codes = [devices.codes[model] for model in self._quota.models_beyond(pod, devices.codes)]
        within: NodeMask = np.logical_not(np.isin(devices.model[:size], codes).any(axis=1))
        if rows is not None:
            within &= rows
        other = self._placements[pod.scheduler].place(pod, within, evicts=False)
        if isinstance(other, Placed):
            return self.beyond_quota(pod, other) or other
        return replace(beyond, woken_by=beyond.woken_by | other.woken_by)

    def too_early(self, entry: Entry, now: float) -> QuotaRefusal | None:
        """Why the unit does not start yet, whatever nodes there are."""
        if self.start_windows is None or all(pod.start is None for pod in entry.unit.pods):
            return None
        return self.start_windows.refusal(entry, now)

    def gang_beyond_quota(self, gang: Gang) -> QuotaRefusal | None:
        """Why a gang must wait whatever the nodes: as many of its pods as it needs, in one sum."""
        if self.counted is not None and (refusal := self.counted.beyond_gang(gang)):
            return refusal
        return self.gang_beyond_queue(gang)

    def gang_beyond_queue(self, gang: Gang) -> QuotaRefusal | None:
        """The same by its queue alone."""
        if self._quota is None or self._tenants is None:
            return None
        return self._quota.admits_some(gang.pods, max(1, gang.needed))

    def _gang_beyond_quota(self, entry: Entry) -> QuotaRefusal | None:
        gang = entry.unit
        assert isinstance(gang, Gang)
        try:
            return self.gang_beyond_quota(gang)
        except Exception:  # let the attempt itself fail, where it is reported
            return None

    def _hold_back(self, entry: Entry, refusal: QuotaRefusal, cause: str, now: float) -> None:
        """The attempt announces a reason that is another one than before."""
        if _is_news(entry, refusal):
            self._queue.wake(entry, cause, now=now)
        else:
            self._queue.held_back.put(entry, refusal.queue)

    def announced(self, entry: Entry, refusal: QuotaRefusal, class_: EquivalenceClass) -> None:
        """A unit was held back and says why; if for a new reason, the next of its class is due."""
        is_news, entry.held_back_as = _is_news(entry, refusal), refusal.reason
        following = self._queue.first_of_class(class_) if is_news else None
        if following is not None and _is_news(following, refusal):
            self._queue.postpone(following, "UnschedulablePodUpdate")

    def may_schedule(self, pod: Pod, changed: Aspect) -> bool:
        if self.would_fit(pod):
            return True
        return bool(changed & PREEMPTION_ASPECTS) and self.may_preempt(pod)

    def would_fit(self, pod: Pod) -> bool:
        try:
            if self.beyond_quota(pod):
                return False
            if not self.goal_waits or (entry := self._queue.get(pod.uid)) is None:
                return self._placements[pod.scheduler].fits(pod)
            with self._cluster.limited_to(self._rows_for(entry.unit)):
                return self._placements[pod.scheduler].fits(pod)
        except Exception:  # let the attempt itself fail, where it is reported
            return True

    def _rows_for(self, unit: Unit) -> NodeMask | None:
        """The rows that a waiting unit prefers; None: all."""
        return self.goal_waits.open_rows(unit) if self.goal_waits else None

    def _refused_by(self, entry: Entry) -> Aspect | None:
        pod = entry.unit.pod
        try:
            refusal = self.beyond_quota(pod)
            if refusal is None and self.counted is not None:
                refusal = self.counted.beyond_layers(pod)
            if refusal:
                if _is_news(entry, refusal):
                    return None  # the attempt announces it
                self._queue.held_back.put(entry, refusal.queue)
                return refusal.woken_by
            return self._placements[pod.scheduler].refused_by(pod)
        except Exception:  # let the attempt itself fail, where it is reported
            return None

    def may_preempt(self, pod: Pod) -> bool:
        nominated = self._cluster.nominations.node_of(pod.uid)
        if pod.uid in self._evicting or nominated in self._cluster.row_of:
            return False  # it has preempted already
        try:
            if self.beyond_quota(pod):
                return False  # room for it would be of no use
            if self._quota and self._quota.tenant_of(pod):
                return False  # others make room for it by the rules of queues
            return self._placements[pod.scheduler].could_make_room(pod)
        except Exception:  # let the attempt itself fail, where it is reported
            return True

    def request_of(self, pod: Pod) -> PodRequest:
        return self._placements[pod.scheduler].request(pod)

    def class_of(self, unit: Unit) -> EquivalenceClass:
        pod = unit.pod
        tenant = self._quota.class_of(pod) if self._quota else ""
        if self.more_of_class is not None:
            tenant += self.more_of_class(unit)
        if self.goal_waits and self.goal_waits.is_waiting(unit):
            tenant += "|waits"
        if self.start_windows and self.start_windows.is_waiting(unit):
            tenant += "|window"
        if self.counted is not None:
            tenant += self.counted.class_of(unit)
        if self.extended_class is not None:
            tenant += self.extended_class(unit)
        if self.asked is not None and self.asked[0] is unit:
            return self.asked[0].class_with(self.asked[1], tenant)
        return unit.equivalence_class(self._placements[pod.scheduler].request, tenant)


def _is_news(entry: Entry, refusal: QuotaRefusal) -> bool:
    """Whether a queue held the unit back for another reason than this one."""
    return bool(entry.held_back_as) and entry.held_back_as != refusal.reason


_CAUSES = {
    Aspect.USAGE: "AssignedPodDelete",
    Aspect.PODS: "AssignedPodAdd",
    Aspect.PRESENCE: "NodeAdd",
    Aspect.ALLOCATABLE: "NodeUpdateNodeAllocatable",
    Aspect.TAINTS: "NodeUpdateNodeTaint",
    Aspect.LABELS: "NodeUpdateNodeLabel",
    Aspect.ANNOTATIONS: "NodeUpdateNodeAnnotation",
    Aspect.VOLUMES: "PersistentVolumeClaimUpdate",
    Aspect.CLAIMS: "ResourceClaimUpdate",
}


def _cause(changed: Aspect) -> str:
    """kube-scheduler's name for the event; the first if there were several."""
    return next((name for aspect, name in _CAUSES.items() if aspect & changed), "WildCardEvent")
