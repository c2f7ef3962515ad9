"""Who of the pods that wait may try again, and what is promised to whom meanwhile."""

from collections.abc import Collection, Mapping

from fairlead.cluster.aspects import NOTHING, Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.model.pods import Pod
from fairlead.placement.place import Placement
from fairlead.queue.entries import Entry, Group, Pool
from fairlead.queue.queue import SchedulingQueue

FLUSH_EVERY_S = 30.0

# Changes of a node after which a refused pod may find somebody to evict there.
NEW_GROUND = (
    Aspect.PRESENCE | Aspect.ALLOCATABLE | Aspect.LABELS | Aspect.TAINTS | Aspect.TRUST
)  # fmt: skip

# What looking at waiting pods may cost in one turn (see `Work.spent`), if one look does not cost
# more; and how many of them are sorted into groups again.
_SLICE = 15_000
_REGROUPED = 1000

# What a promise keeps from others.
_PROMISED = Aspect.USAGE | Aspect.PODS | Aspect.PORTS | Aspect.DEVICES


class Waking:
    """Told of all that became better for somebody; looks at those who wait when asked to."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        placements: Mapping[str, Placement],
        evicting: Collection[str],
    ) -> None:
        """`evicting` are the pods for which others are being evicted just now, by uid."""
        self._cluster = cluster
        self._queue = queue
        self._placements = placements
        self._evicting = evicting
        #: What became better for somebody since waiting pods were last looked at.
        self.freed = NOTHING
        self._woken_mark = cluster.changes.mark
        #: Who is still to be looked at, the last first: groups, and nominated pods by uid.
        self._round: list[Group | str] = []
        #: What became better for them.
        self._round_freed = NOTHING
        #: The labels by which waiting pods are told apart, and those not yet sorted by them.
        self._keys_asked = cluster.columns.pods.keys_asked
        self._unsorted: list[Entry] = []
        self._flushed_s = 0.0

    def due_s(self) -> float | None:
        """When to look again at the latest, if nothing happens before."""
        if self._round or self._unsorted:
            return 0.0  # at once
        due = self._queue.next_due_s()
        if not self._queue.counts()[Pool.WAITING]:
            return due
        flush = self._flushed_s + FLUSH_EVERY_S
        return flush if due is None else min(due, flush)

    # -- promises ----------------------------------------------------------------------------

    def see_promise(self, pod: Pod) -> None:
        """Anybody may nominate a pod. What we promised stands until its status has shown it."""
        if pod.nominated:
            self._cluster.nominations.put(pod, pod.nominated)
            return
        known = self._queue.get(pod.uid)
        if known is not None and known.pod.nominated:
            self.forget_promise(pod.uid)

    def forget_promise(self, uid: str) -> None:
        if self._cluster.nominations.drop(uid) is not None:
            self.freed |= _PROMISED

    def settle_promise(self, uid: str, node: str) -> None:
        """It has a node: what was promised elsewhere is for others."""
        if self._cluster.nominations.node_of(uid) not in ("", node):
            self.freed |= _PROMISED
        self._cluster.nominations.drop(uid)

    def renounce(self, uid: str, now: float) -> None:
        """Its place went to a more important pod: it may look for another at once."""
        self._cluster.nominations.drop(uid)
        entry = self._queue.get(uid)
        if entry is not None and entry.pool is Pool.WAITING:
            self._queue.wake(entry, "UnschedulablePodUpdate", now=now)

    # -- waking ------------------------------------------------------------------------------

    def wake(self, now: float) -> None:
        """Lets waiting pods try again: those that would now find a node, and the very patient.

        Thousands may wait, so they are looked at in rounds, a slice each turn. What becomes better
        meanwhile is for the next round.
        """
        if self._sort() and not self._round and self.freed:
            self._begin_round()
        self._look(now)
        if now - self._flushed_s >= FLUSH_EVERY_S:
            self._flushed_s = now
            self._queue.flush(now=now)

    def _sort(self) -> bool:
        """Keeps pods together that are alike by the labels asked about; True when all are."""
        if self._keys_asked is not self._cluster.columns.pods.keys_asked:
            self._keys_asked = self._cluster.columns.pods.keys_asked
            self._unsorted = self._queue.all_waiting()
            self.freed |= self._round_freed if self._round else NOTHING
            self._round.clear()
        if self._unsorted:
            slice_, self._unsorted = self._unsorted[:_REGROUPED], self._unsorted[_REGROUPED:]
            self._queue.regroup(slice_, self.group)
            if self._unsorted:  # who looked for pods alike meanwhile did not find them
                self.freed |= self._queue.awaited
        return not self._unsorted

    def _begin_round(self) -> None:
        """The most important are looked at first."""
        self._round_freed, self.freed = self.freed, NOTHING
        groups = [entry.group for entry in self._queue.waiting(self._round_freed)]
        waiting = sorted((group for group in groups if group), key=lambda group: -group[2])
        nominated = self._nominated_on_changed() if self._cluster.nominations else []
        self._round = [*reversed(waiting), *reversed(nominated)]
        self._woken_mark = self._cluster.changes.mark

    def _look(self, now: float) -> None:
        """At some of the round, and at one in any case."""
        if not self._round:
            return
        work, start = self._cluster.work, self._cluster.work.spent
        cause = _cause(self._round_freed)
        while self._round and work.spent - start <= _SLICE:
            next_ = self._round.pop()
            work.asks += 1
            if isinstance(next_, str):
                self._wake_nominated(next_, cause, now)
            elif (entry := self._queue.next_like(next_)) is not None:
                hope = self.has_hope(entry.pod, self._round_freed)
                self.wake_or_wait(entry, hope, now, cause)

    def wake_or_wait(
        self, entry: Entry, hope: bool, now: float, cause: str = "AssignedPodDelete"
    ) -> None:
        if hope:
            self._queue.wake(entry, cause, now=now)
        else:  # perhaps for another reason than before
            placement = self._placements[entry.pod.scheduler]
            self._queue.await_also(entry, placement.refused_by(entry.pod))

    def _nominated_on_changed(self) -> list[str]:
        """Pods whose promised node changed: they wait for just that."""
        changed = self._cluster.changes.since(self._woken_mark)
        rows = self._cluster.row_of.values() if changed is None else changed
        nodes = (self._cluster.columns.nodes[row] for row in rows if row >= 0)
        on = self._cluster.nominations.on
        return [pod.uid for node in nodes if node for pod in on(node.name)]

    def _wake_nominated(self, uid: str, cause: str, now: float) -> None:
        entry = self._queue.get(uid)
        if entry and entry.pool is Pool.WAITING and self.would_fit(entry.pod):
            self._queue.wake(entry, cause, now=now)

    def has_hope(self, pod: Pod, freed: Aspect) -> bool:
        if self.would_fit(pod):
            return True
        return bool(freed & NEW_GROUND) and self.might_make_room(pod)

    def would_fit(self, pod: Pod) -> bool:
        try:
            return self._placements[pod.scheduler].fits(pod)
        except Exception:  # let the attempt itself fail, where it is reported
            return True

    def might_make_room(self, pod: Pod) -> bool:
        promised = self._cluster.nominations.node_of(pod.uid)
        if pod.uid in self._evicting or promised in self._cluster.row_of:
            return False  # it has done so already
        try:
            return self._placements[pod.scheduler].could_make_room(pod)
        except Exception:  # let the attempt itself fail, where it is reported
            return True

    def group(self, pod: Pod) -> Group:
        return pod.scheduler, self._placements[pod.scheduler].request(pod), pod.priority


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
