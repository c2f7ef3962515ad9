"""Pods whose resource claims cannot be used yet: they are gated, without an event or a condition.

A claim may be missing, on its way from a template, being deleted, or of another pod. The gate is
one of the pod as far as the queue is concerned, and is lifted when the claims have changed.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.grouped import Grouped
from fairlead.engine.gangs import member_of
from fairlead.model.claims import ClaimObject, ResourceClaim
from fairlead.model.pods import Pod
from fairlead.queue.entries import Pool
from fairlead.queue.queue import SchedulingQueue

#: In place of the name of a scheduling gate.
GATE = "DynamicResources"
#: Pods that are looked at in one turn, since a claim of theirs has changed: about 50 ms.
_SLICE = 2000

Put = Callable[[Pod, float], None]


class ClaimGates:
    """Which pending pods use which claims."""

    def __init__(self, cluster: Cluster, queue: SchedulingQueue, put: Put) -> None:
        """`put` gives the queue a pod that has changed."""
        self._cluster = cluster
        self._queue = queue
        self._put = put
        #: Uids of pods, by the key of a claim; and these keys by uid.
        self._users: Grouped[str, None] = Grouped()
        self._keys: dict[str, tuple[str, ...]] = {}
        #: Pods whose claims have changed, and that were not looked at since, in order.
        self._changed: dict[str, None] = {}

    @property
    def has_more(self) -> bool:
        """Whether pods are left that `go_on` has to look at."""
        return bool(self._changed)

    def gated(self, pod: Pod) -> Pod:
        """The pod with the gate that it needs now; its claims are followed from now on."""
        self._follow(pod.uid, tuple(use.key for use in pod.request.claims if use.key))
        if self._is_blocked(pod) == (GATE in pod.gates):
            return pod
        others = tuple(gate for gate in pod.gates if gate != GATE)
        return replace(pod, gates=others if GATE in pod.gates else (*others, GATE))

    def forget(self, pod: Pod) -> None:
        """The pod is pending no more."""
        self._follow(pod.uid, ())

    def _follow(self, uid: str, keys: tuple[str, ...]) -> None:
        """The pod uses these claims, and no others any more."""
        before = self._keys.get(uid, ())
        if keys == before:
            return
        for key in before:
            self._users.drop(key, uid)
        for key in keys:
            self._users.put(key, uid, None)
        self._keys[uid] = keys
        if not keys:
            del self._keys[uid]

    def _is_blocked(self, pod: Pod) -> bool:
        return any(map(self._cluster.claims.problem_with, pod.request.claims))

    def seen(self, about: ClaimObject, now: float) -> None:
        """A claim has changed: pods that use it may be tried, or may not any more."""
        if not isinstance(about, ResourceClaim) or about.key not in self._users:
            return
        self._changed |= dict.fromkeys(self._users.of(about.key))
        self.go_on(now)

    def go_on(self, now: float) -> None:
        """Looks at some pods whose claims have changed: thousands may use one claim."""
        for uid in list(islice(self._changed, _SLICE)):
            del self._changed[uid]
            self._look_at(uid, now)

    def _look_at(self, uid: str, now: float) -> None:
        entry = self._queue.get(uid)
        if entry is None:
            return
        pod = member_of(entry, uid)
        if self._is_blocked(pod) != (GATE in pod.gates):
            self._put(self.gated(pod), now)
        elif entry.pool is Pool.WAITING:
            self._queue.wake(entry, "ResourceClaimUpdate", now=now)
