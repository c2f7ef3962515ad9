"""Gangs that lack nodes, and for which nodes are requested as a whole.

An autoscaler that adds nodes for single pods may add some for a gang, and not the rest. Where it
takes requests, the driver writes one for each gang in `wanted`, and tells here what became of it.
Meanwhile the pods have a reason for which no autoscaler adds nodes.
"""

from collections import Counter
from collections.abc import Callable

from fairlead.engine import events
from fairlead.engine.reasons import UNSCHEDULABLE, WAITING_FOR_NODES
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod, PodRequest
from fairlead.queue.entries import Pool
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.units import Gang

#: A request has no more kinds of pods.
MOST_KINDS = 32
#: Pods that use a request of their owner's name it.
CONSUMED = "autoscaling.x-k8s.io/consume-provisioning-request"


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """What a gang lacks nodes for: one pod of each kind, and how many there are of it."""

    gang: str
    pods: tuple[tuple[Pod, int], ...]


class NodeRequests:
    def __init__(self, queue: SchedulingQueue, request_of: Callable[[Pod], PodRequest]) -> None:
        self._queue = queue
        self._request_of = request_of
        self._is_on = False
        #: By gang that was tried: what it lacks; None: nothing.
        self._tried: dict[str, NodeRequest | None] = {}
        #: By gang, what became of its request, in a sentence.
        self._sentences: dict[str, str] = {}

    @property
    def wanted(self) -> list[NodeRequest]:
        return [each for each in self._tried.values() if each and not self.is_over(each.gang)]

    def is_over(self, gang: str) -> bool:
        """Whether the gang has no pod that waits, or does not wait for nodes."""
        entry = self._queue.gang(gang)
        if entry is None or not entry.unit.pods:
            return True
        return gang in self._tried and self._tried[gang] is None

    def told(self, event: events.NodeRequestsServed | events.NodeRequestSeen, now: float) -> None:
        match event:
            case events.NodeRequestsServed(is_on):
                if self._is_on != is_on:
                    self._is_on = is_on
                    tried, self._tried = self._tried, {}
                    self._wake(list(tried), now)
            case events.NodeRequestSeen(gang, sentence):
                if sentence is None:
                    self._sentences.pop(gang, None)
                elif self._sentences.get(gang) != sentence:
                    self._sentences[gang] = sentence
                    self._wake([gang], now)

    def refused(self, gang: Gang, reason: str, message: str) -> tuple[str, str]:
        """The reason and the message for a gang that is not placed now."""
        if not self._is_on:
            return reason, message
        lacks = reason == UNSCHEDULABLE and not gang.is_partial
        kinds = self._kinds(gang) if lacks and CONSUMED not in gang.pod.annotations else ()
        self._tried[gang.key] = NodeRequest(gang.key, kinds) if kinds else None
        if not kinds:
            return reason, message
        said = self._sentences.get(gang.key, "Nodes are requested for all of its pods.")
        return WAITING_FOR_NODES, f"{message} {said}"

    def has_room_soon(self, gang: Gang) -> None:
        """Others are evicted for it: no nodes are to be added."""
        if self._is_on:
            self._tried[gang.key] = None

    def forget(self, gang: str) -> None:
        """It has no members any more."""
        self._tried.pop(gang, None)
        self._sentences.pop(gang, None)

    def _kinds(self, gang: Gang) -> tuple[tuple[Pod, int], ...]:
        first: dict[PodRequest, Pod] = {}
        counts: Counter[PodRequest] = Counter()
        for pod in gang.pods:
            request = self._request_of(pod)
            first.setdefault(request, pod)
            counts[request] += 1
        if len(first) > MOST_KINDS:
            return ()
        return tuple((pod, counts[request]) for request, pod in first.items())

    def _wake(self, gangs: list[str], now: float) -> None:
        """Their conditions are to say something else."""
        for key in gangs:
            entry = self._queue.gang(key)
            if entry is not None and entry.pool is Pool.WAITING:
                self._queue.wake(entry, "ForceActivate", now=now)
