"""The unit of scheduling: pods that are placed together.

A plain pod is a unit of one. A gang has several pods, of which at least a minimum number must have
nodes; it gathers them before it is tried. Members that have a node, or that have finished, count
towards the minimum, so that a late or replaced member is placed beside them.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from fairlead.model.gang_needs import (
    Lack,
    disagreement,
    lacking,
    member_problem,
    priority_problem,
    spare_groups,
    unsatisfied,
)
from fairlead.model.gangs import Counting, GangSpec
from fairlead.model.pods import Pod, PodRequest

#: What the pods of a gang request: how many of which request, and how many of them are needed. With
#: members on nodes already, the gang itself: no other has the same ones.
GangRequest = tuple[int, frozenset[tuple[PodRequest, int]], str]

#: Scheduler name, request, priority and tenant: units of one class get the same answer. The tenant
#: is empty where there is no quota.
EquivalenceClass = tuple[str, PodRequest | GangRequest, int, str]

#: Of gangs with more groups, none goes without the others.
_MOST_COMPARED = 64

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

    __slots__ = (
        "_count", "_gated", "_highest", "_invalid", "_none", "_pending", "_present", "_priorities",
        "_specs", "asked", "failed", "finished", "has_object", "not_before_s", "placed", "refusal",
        "spec", "was_whole",
    )  # fmt: skip

    def __init__(self, spec: GangSpec) -> None:
        self.spec = spec
        #: The group of each member that counts towards the minimum: it has a node, or has finished.
        self.placed: dict[str, str] = {}
        #: Those of them that have finished.
        self.finished: set[str] = set()
        #: Names of members that have failed, and were not replaced by one of the same name.
        self.failed: set[str] = set()
        #: Whether finished members were asked for since it last lost a member.
        self.asked = False
        #: False: its pods say all.
        self.has_object = False
        #: Whether as many as it needs had nodes at one time.
        self.was_whole = False
        #: Why the last attempt was refused.
        self.refusal = ""
        #: Not tried before, however idle the queue is.
        self.not_before_s = 0.0
        self._pending: dict[str, Pod] = {}
        #: The highest priority of a pod that was pending.
        self._highest: int | None = None
        #: Those that are not to be placed now: they have gates, or cannot be placed at all.
        self._gated: set[str] = set()
        self._invalid: dict[str, Pod] = {}
        #: By group, members that count or could be placed, and members that count.
        self._present = Lack()
        self._count = Lack()
        self._none = Lack()
        #: What pending members say of the whole, and how many say it; and their priorities.
        self._specs: Counter[GangSpec] = Counter()
        self._priorities: Counter[int] = Counter()

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
    def pending(self) -> Collection[Pod]:
        """Those to place and those with gates."""
        return self._pending.values()

    def member(self, uid: str) -> Pod | None:
        """A pending member."""
        return self._pending.get(uid)

    @property
    def size(self) -> int:
        """Pending members, gated ones included."""
        return len(self._pending)

    @property
    def priority(self) -> int:
        said = self.spec.priority
        return (self._highest or 0) if said is None else said

    @property
    def problem(self) -> str:
        """Why it cannot be tried, however many pods there are."""
        if self.spec.problem:
            return self.spec.problem
        if len(self._specs) > 1:
            return disagreement(*list(self._specs)[:2])
        if self._invalid and self.missing:
            return member_problem(self.spec, next(iter(self._invalid.values())))
        return priority_problem(self.spec, self._priorities)

    @property
    def agreed(self) -> GangSpec | None:
        """What its pending members say of the whole; None if they say nothing."""
        return next(iter(self._specs), None)

    @property
    def is_over(self) -> bool:
        """Whether no member is left that is pending or has a node, and none may be replaced.

        Where an object describes it, those that have finished count as long as they are there.
        Without, pods that name it after all have finished are those of another gang.
        """
        if self._pending or len(self.placed) > len(self.finished):
            return False
        return not self.placed or not (self.has_object or self.needed)

    @property
    def missing(self) -> int:
        """How many pods must still come, or lose their gates, before it is tried."""
        return 0 if self._is_settled else self._present.of(self.spec)

    @property
    def needed(self) -> int:
        """How many more pods must have nodes."""
        return 0 if self._is_settled else self._count.of(self.spec)

    @property
    def least(self) -> int:
        """How many pods it needs in all."""
        return self._none.of(self.spec)

    def needed_with(self, more: Counter[str]) -> int:
        """The same if these had nodes as well, by group."""
        return 0 if self._is_settled else lacking(self.spec, self._count.members + more)

    def useless_with(self, more: Counter[str]) -> set[str]:
        """Groups whose pods would have nodes in vain, if these had nodes as well."""
        return unsatisfied(self.spec, self._count.members + more) if self.spec.groups else set()

    @property
    def room(self) -> int | None:
        """How many more it may have; None: any number."""
        most = self.spec.maximum
        return None if most is None else max(0, most - len(self.placed))

    @property
    def spare(self) -> int:
        """How many of its members may be evicted singly."""
        if self.spec.evicted_whole or self.spec.groups:
            return 0
        alive = len(self.placed) - len(self.finished)
        return min(alive, max(0, len(self.placed) - self.spec.minimum))

    @property
    def spare_groups(self) -> list[frozenset[str]]:
        """Names of groups that it does not need; each set may be evicted as a whole."""
        if not 1 < len(self.spec.groups) <= _MOST_COMPARED:
            return []
        return spare_groups(self.spec, {name: n for name, n in self._count.members.items() if n})

    @property
    def is_partial(self) -> bool:
        """Whether members hold nodes in vain: it was never whole."""
        return len(self.placed) > len(self.finished) and not self.was_whole and self.needed > 0

    @property
    def is_stale(self) -> bool:
        """Whether it was whole and has lost members that it needs, and none has succeeded."""
        return self.was_whole and bool(self.placed) and not self.finished and self.needed > 0

    @property
    def is_ready(self) -> bool:
        if len(self._pending) == len(self._gated) or self.problem or self.room == 0:
            return False
        return not self.missing

    @property
    def _is_settled(self) -> bool:
        """Whether it needs no number of pods any more."""
        return self.was_whole and self.spec.counting is Counting.ONCE

    def put(self, pod: Pod) -> Pod | None:
        old = self._pending.get(pod.uid)
        if old is not None:
            self._note(old, -1)
        self._pending[pod.uid] = pod
        self.failed.discard(pod.name)
        if self._highest is None or pod.priority > self._highest:
            self._highest = pod.priority
        (self._gated.add if pod.gates or pod.problem else self._gated.discard)(pod.uid)
        if pod.problem:
            self._invalid[pod.uid] = pod
        elif self._invalid:
            self._invalid.pop(pod.uid, None)
        self._note(pod, +1)
        return old

    def take(self, uid: str) -> bool:
        pod = self._pending.get(uid)
        if pod is not None:
            self._note(pod, -1)
            del self._pending[uid]
        self._gated.discard(uid)
        self._invalid.pop(uid, None)
        return not self._pending

    def count(self, uid: str, group: str) -> None:
        """A member has a node, or has finished."""
        self.discount(uid)
        self.placed[uid] = group
        self._present.add(group, +1)
        self._count.add(group, +1)
        self.was_whole = self.was_whole or not self.needed

    def discount(self, uid: str) -> bool:
        """A member does not count any more; whether it did."""
        group = self.placed.pop(uid, None)
        if group is None:
            return False
        self.finished.discard(uid)
        self.asked = False
        self._present.add(group, -1)
        self._count.add(group, -1)
        if not self.placed and self.spec.counting is not Counting.ONCE:
            self.was_whole = False  # what comes now is placed as a new gang
        return True

    def _note(self, pod: Pod, change: int) -> None:
        """A pending member comes or goes."""
        said = pod.gang
        if pod.uid not in self._gated:
            self._present.add(said.group if said else "", change)
        self._priorities[pod.priority] += change
        if not self._priorities[pod.priority]:
            del self._priorities[pod.priority]
        if said and said.spec:
            self._specs[said.spec] += change
            if not self._specs[said.spec]:
                del self._specs[said.spec]

    def equivalence_class(self, request_of: RequestOf, tenant: str) -> EquivalenceClass:
        return self.class_with(Counter(map(request_of, self.pods)), tenant)

    def class_with(self, counts: Mapping[PodRequest, int], tenant: str) -> EquivalenceClass:
        """The same where it is known how many of its pods ask for what."""
        requests = frozenset(counts.items())
        alone = self.placed or self.spec.groups or self.spec.topology or self.spec.least_resources
        request = self.needed, requests, self.key if alone else ""
        return self.pod.scheduler, request, self.priority, tenant
