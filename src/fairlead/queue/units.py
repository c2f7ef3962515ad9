"""The unit of scheduling: pods that are placed together.

A plain pod is a unit of one. A gang has several pods, of which at least a minimum number must have
nodes; it gathers them before it is tried. Members that have a node, or that have finished, count
towards the minimum, so that a late or replaced member is placed beside them.
"""

from collections import Counter
from collections.abc import Callable, Collection
from typing import Protocol

from fairlead.model.gangs import GangSpec
from fairlead.model.pods import Pod, PodRequest

#: What the pods of a gang request: how many of which request, and how many of them are needed. With
#: members on nodes already, the gang itself: no other has the same ones.
GangRequest = tuple[int, frozenset[tuple[PodRequest, int]], str]

#: Scheduler name, request, priority and tenant: units of one class get the same answer. The tenant
#: is empty where there is no quota.
EquivalenceClass = tuple[str, PodRequest | GangRequest, int, str]

RequestOf = Callable[[Pod], PodRequest]


class Unit(Protocol):
    """What an entry of the queue stands for."""

    @property
    def key(self) -> str:
        """Its name in the queue; of a plain pod the uid."""
        ...

    @property
    def pod(self) -> Pod:
        """The first of its pods, which stands for all of them where one is enough."""
        ...

    @property
    def pods(self) -> Collection[Pod]:
        """The pods to place, in the order in which they came."""
        ...

    @property
    def priority(self) -> int: ...

    @property
    def is_ready(self) -> bool:
        """Whether it may be tried: no gates, and no pods missing."""
        ...

    def put(self, pod: Pod) -> Pod | None:
        """A pod of the unit came or changed; returns it as it was before."""
        ...

    def take(self, uid: str) -> bool:
        """A pod of the unit is pending no more; whether it was the last one."""
        ...

    def equivalence_class(self, request_of: RequestOf, tenant: str) -> EquivalenceClass: ...


class PodUnit:
    """A plain pod."""

    __slots__ = ("pod",)

    def __init__(self, pod: Pod) -> None:
        self.pod = pod

    @property
    def key(self) -> str:
        return self.pod.uid

    @property
    def pods(self) -> tuple[Pod]:
        return (self.pod,)

    @property
    def priority(self) -> int:
        return self.pod.priority

    @property
    def is_ready(self) -> bool:
        return not self.pod.gates

    def put(self, pod: Pod) -> Pod:
        old, self.pod = self.pod, pod
        return old

    def take(self, uid: str) -> bool:
        return uid == self.pod.uid

    def equivalence_class(self, request_of: RequestOf, tenant: str) -> EquivalenceClass:
        pod = self.pod
        return pod.scheduler, request_of(pod), pod.priority, tenant


class Gang:
    """Pods of which at least `spec.minimum` have nodes, or none has."""

    __slots__ = ("_gated", "_pending", "placed", "spec")

    def __init__(self, spec: GangSpec) -> None:
        self.spec = spec
        #: Members with a node and members that have finished, by uid.
        self.placed: set[str] = set()
        self._pending: dict[str, Pod] = {}
        self._gated: set[str] = set()

    @property
    def key(self) -> str:
        return self.spec.key

    @property
    def pod(self) -> Pod:
        return next(iter(self._pending.values()))

    @property
    def pods(self) -> Collection[Pod]:
        if not self._gated:
            return self._pending.values()
        return [pod for uid, pod in self._pending.items() if uid not in self._gated]

    @property
    def size(self) -> int:
        """Pending members, gated ones included."""
        return len(self._pending)

    @property
    def priority(self) -> int:
        return self.spec.priority

    @property
    def missing(self) -> int:
        """How many pods must still come, or lose their gates, before it is tried."""
        there = len(self._pending) - len(self._gated) + len(self.placed)
        return max(0, self.spec.minimum - there)

    @property
    def is_ready(self) -> bool:
        return not self.missing and len(self._pending) > len(self._gated)

    def put(self, pod: Pod) -> Pod | None:
        old = self._pending.get(pod.uid)
        self._pending[pod.uid] = pod
        (self._gated.add if pod.gates else self._gated.discard)(pod.uid)
        return old

    def take(self, uid: str) -> bool:
        self._pending.pop(uid, None)
        self._gated.discard(uid)
        return not self._pending

    def equivalence_class(self, request_of: RequestOf, tenant: str) -> EquivalenceClass:
        needed = self.spec.minimum - len(self.placed)
        requests = frozenset(Counter(map(request_of, self.pods)).items())
        request = needed, requests, self.key if self.placed else ""
        return self.pod.scheduler, request, self.priority, tenant
