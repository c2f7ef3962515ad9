"""Places that are held for the waiting unit, and for the successors of pods that move.

They are held by nominations: pods that may not evict the unit leave the room free. A successor that
was not created yet is nominated under the name of the pod that it follows. Nothing of this is
written: after a restart the places are not held any more, and all pods are placed as any others.
"""

from collections.abc import Iterable
from dataclasses import replace

from fairlead.cluster.cluster import Cluster
from fairlead.engine.consolidation.plans import ConsolidationPlan
from fairlead.model.pods import Pod
from fairlead.queue.queue import SchedulingQueue


class HeldPlaces:
    """Of one plan."""

    def __init__(self, plan: ConsolidationPlan, cluster: Cluster, queue: SchedulingQueue) -> None:
        self._cluster = cluster
        self._queue = queue
        #: Pods that exist and wait, with their nodes.
        self._waiting: dict[str, tuple[Pod, str]] = {}
        #: Successors that do not exist yet, by the uid of the pod that they follow.
        self._expected: dict[str, tuple[Pod, str]] = {}
        for start in plan.starts:
            self._waiting[start.pod.uid] = start.pod, start.node
        for move in plan.moves:
            self._expected[move.pod.uid] = _successor(move.pod), move.target
        self._names = {start.pod.uid for start in plan.starts}
        self.renew()

    @property
    def is_over(self) -> bool:
        """Whether all pods have nodes."""
        return not self._waiting and not self._expected

    @property
    def waits(self) -> bool:
        """Whether a pod of the waiting unit is still without a node."""
        return bool(self._names & self._waiting.keys())

    def adopt(self, pod: Pod) -> bool:
        """A new pod has the place of the one that it follows, if there is one."""
        followed = next((uid for uid, (one, _) in self._expected.items() if _alike(one, pod)), None)
        if followed is None:
            return False
        expected, node = self._expected.pop(followed)
        self._cluster.nominations.settle(expected.uid, node)
        self._waiting[pod.uid] = pod, node
        self._cluster.nominations.put(pod, node)
        return True

    def renew(self) -> None:
        """Holds again what an attempt has given up; forgets pods that have nodes, or are gone."""
        for uid in [uid for uid in self._waiting if not self._is_pending(uid)]:
            del self._waiting[uid]
        nominations = self._cluster.nominations
        for pod, node in self._all():
            if nominations.node_of(pod.uid) != node and node in self._cluster.row_of:
                nominations.put(pod, node)

    def release(self) -> None:
        """Others may have the room."""
        for pod, _ in self._all():
            self._cluster.nominations.drop(pod.uid)
        self._waiting.clear()
        self._expected.clear()

    def _all(self) -> Iterable[tuple[Pod, str]]:
        return (*self._waiting.values(), *self._expected.values())

    def _is_pending(self, uid: str) -> bool:
        return uid in self._queue and uid not in self._cluster.holdings


def _successor(pod: Pod) -> Pod:
    """As it will be created; under a uid that no pod has."""
    return replace(pod, uid=f"successor of {pod.uid}", node="", grant=None, started="")


def _alike(expected: Pod, pod: Pod) -> bool:
    """Whether the pod is by the same controller, and asks for the same."""
    if (expected.namespace, expected.controller) != (pod.namespace, pod.controller):
        return False
    if bool(expected.gang) != bool(pod.gang) or expected.priority != pod.priority:
        return False
    if expected.gang and pod.gang and expected.gang.gang != pod.gang.gang:
        return False
    one, other = expected.request, pod.request
    return (one.resources, one.gpu_request, one.node_selector) == (
        other.resources,
        other.gpu_request,
        other.node_selector,
    )
