"""Pods whose extended resources devices of a class can stand in for.

Such a pod has one more claim, which is made when it is bound. Which classes there are decides
whether it has it, so pods change with the classes.
"""

from collections.abc import Callable

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.extended_classes import with_classes
from fairlead.model.claims import ClaimObject, ResourceClaim
from fairlead.model.devices import DeviceClass
from fairlead.model.extended import IMPLICIT
from fairlead.model.pods import Pod
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.units import Gang

Put = Callable[[Pod, float], None]


class ExtendedResources:
    """`put` gives the queue a pod that has changed."""

    def __init__(self, cluster: Cluster, queue: SchedulingQueue, put: Put) -> None:
        self._cluster = cluster
        self._queue = queue
        self._put = put
        #: The resource that a class had before the change under way.
        self._resource = ""

    def before(self, about: ClaimObject) -> None:
        """The object is about to change."""
        if isinstance(about, DeviceClass):
            known = self._cluster.claims.classes.get(about.name)
            self._resource = known.extended_resource if known else ""

    def seen(self, about: ClaimObject, now: float) -> None:
        """An object of claims came, changed or went."""
        if isinstance(about, DeviceClass):
            names = {IMPLICIT + about.name, about.extended_resource, self._resource}
            self._classes_changed(names, now)
        elif isinstance(about, ResourceClaim) and about.for_extended_resources:
            self._wake(about.owner, now)

    def _classes_changed(self, names: set[str], now: float) -> None:
        """Pods that ask for these resources may have another claim now, or none."""
        for pod in self._pending():
            asked = (name for each in pod.request.extended for name, _, _ in each.resources)
            if names.isdisjoint(asked):
                continue
            new = with_classes(pod, self._cluster.claims.extended)
            if new is not pod:
                self._put(new, now)

    def _pending(self) -> list[Pod]:
        entries = {id(entry): entry for entry in self._queue.entries()}.values()
        return [pod for entry in entries for pod in _pods(entry)]

    def _wake(self, uid: str, now: float) -> None:
        """The claim that was made for a pod changed or is gone."""
        entry = self._queue.get(uid)
        if entry is not None and entry.pool is Pool.WAITING:
            self._queue.wake(entry, "ResourceClaimUpdate", now=now)


def _pods(entry: Entry) -> list[Pod]:
    unit = entry.unit
    return list(unit.pending if isinstance(unit, Gang) else unit.pods)
