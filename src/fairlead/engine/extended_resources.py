"""Pods whose extended resources devices of a class can stand in for.

Such a pod has one more claim, which is made when it is bound. Which classes there are decides
whether it has it, so pods change with the classes.
"""

from collections.abc import Callable
from itertools import islice

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.extended_classes import with_classes
from fairlead.engine.gangs import member_of
from fairlead.model.claims import ClaimObject, ResourceClaim
from fairlead.model.devices import DeviceClass
from fairlead.model.pods import Pod
from fairlead.queue.entries import Pool
from fairlead.queue.queue import SchedulingQueue

#: Pods that are looked at in one turn, since a class has changed: about 50 ms.
_SLICE = 2000

Put = Callable[[Pod, float], None]


class ExtendedResources:
    """`put` gives the queue a pod that has changed."""

    def __init__(self, cluster: Cluster, queue: SchedulingQueue, put: Put) -> None:
        self._cluster = cluster
        self._queue = queue
        self._put = put
        #: Pods that were not looked at since a class has changed, in order.
        self.changed: dict[str, None] = {}

    def seen(self, about: ClaimObject, now: float) -> None:
        """An object of claims came, changed or went."""
        if isinstance(about, DeviceClass):
            self.changed = self._queue.uids()
            self.go_on(now)
        elif isinstance(about, ResourceClaim) and about.for_extended_resources:
            self._wake(about.owner, now)

    def go_on(self, now: float) -> None:
        """Looks at some pods, which may have another claim now, or none."""
        for uid in list(islice(self.changed, _SLICE)):
            del self.changed[uid]
            entry = self._queue.get(uid)
            if entry is not None:
                self._look_at(member_of(entry, uid), now)

    def _look_at(self, pod: Pod, now: float) -> None:
        new = with_classes(pod, self._cluster.claims.extended) if pod.request.extended else pod
        if new is not pod:
            self._put(new, now)

    def _wake(self, uid: str, now: float) -> None:
        """The claim that was made for a pod changed or is gone."""
        entry = self._queue.get(uid)
        if entry is not None and entry.pool is Pool.WAITING:
            self._queue.wake(entry, "ResourceClaimUpdate", now=now)
