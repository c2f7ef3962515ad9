"""What if, over many nodes: steps that are logged, so that views follow, and undone exactly.

A step is taken like the ordinary change, and undone by its inverse, the last first. All columns are
sums of integers, so that the inverse leaves no trace in them; what has an order gets its old order
back. Only views see steps and their undoing: no waiting pod is requeued before they are committed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import field
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from fairlead.cluster import claiming, reserving
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.device_claims import ClaimWrite
from fairlead.cluster.many_pods import ManyPods, plain_pods
from fairlead.cluster.nominations import Suspended
from fairlead.cluster.storage import SeenBefore
from fairlead.model.gpus import Grant
from fairlead.model.holders import Holder
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.model.storage import VolumePlan

if TYPE_CHECKING:
    from fairlead.cluster.cluster import Cluster
    from fairlead.cluster.holdings import Holding

#: How many steps a trial had taken.
Checkpoint = int
#: From how many pods on it pays to take them away together, and what each of them costs then (see
#: `Work.spent`).
_MANY = 8
_WORK_OF_MANY = 5


class _Step(Protocol):
    def undo(self, cluster: "Cluster") -> None: ...

    def commit(self, cluster: "Cluster") -> None:
        """Waiting pods may be requeued for it from now on."""
        ...


@dataclass(frozen=True, slots=True)
class _Assumed:
    held: "Holding"
    #: A pod that has a node needs no room kept elsewhere.
    nomination: Suspended | None

    def undo(self, cluster: "Cluster") -> None:
        cluster.detach(self.held.pod.uid)
        self._resume(cluster)

    def commit(self, cluster: "Cluster") -> None:
        """The nomination ends when it would have ended without a trial."""
        self._resume(cluster)
        cluster.release(self.held.pod.uid)
        cluster.improved.add(Aspect.PODS)

    def _resume(self, cluster: "Cluster") -> None:
        if self.nomination is not None:
            cluster.nominations.resume(self.nomination)


@dataclass(frozen=True, slots=True)
class _Evicted:
    held: "Holding"
    #: All that had GPUs of the node.
    holders: tuple[Holder, ...]

    def undo(self, cluster: "Cluster") -> None:
        cluster.attach(self.held)
        row = cluster.row_of.get(self.held.node)
        if row is not None and self.holders:
            cluster.columns.devices.reorder(row, self.holders)

    def commit(self, cluster: "Cluster") -> None:
        cluster.improved.add(self.held.touches)


@dataclass(frozen=True, slots=True)
class _EvictedTogether:
    pods: ManyPods

    def undo(self, cluster: "Cluster") -> None:
        cluster.work.pods += _WORK_OF_MANY * len(self.pods)
        self.pods.attach()

    def commit(self, cluster: "Cluster") -> None:
        for touches in self.pods.touches:
            cluster.improved.add(touches)


@dataclass(frozen=True, slots=True)
class _Suspended:
    nomination: Suspended

    def undo(self, cluster: "Cluster") -> None:
        cluster.nominations.resume(self.nomination)

    def commit(self, cluster: "Cluster") -> None:
        cluster.nominations.resume(self.nomination)


@dataclass(frozen=True, slots=True)
class _Planned:
    before: SeenBefore

    def undo(self, cluster: "Cluster") -> None:
        cluster.see_again(self.before)

    def commit(self, cluster: "Cluster") -> None:
        pass


@dataclass(frozen=True, slots=True)
class _Reserved:
    node: str
    number: int

    def undo(self, cluster: "Cluster") -> None:
        reserving.undo(cluster, self.node, self.number)

    def commit(self, cluster: "Cluster") -> None:
        pass


@dataclass(frozen=True, slots=True)
class _Claimed:
    writes: tuple[ClaimWrite, ...]

    def undo(self, cluster: "Cluster") -> None:
        claiming.undo(cluster, self.writes)

    def commit(self, cluster: "Cluster") -> None:
        cluster.claims.commit(self.writes)


@dataclass(frozen=True, slots=True)
class _Freed:
    claims: tuple[str, ...]

    def undo(self, cluster: "Cluster") -> None:
        claiming.hide(cluster, self.claims, hidden=False)

    def commit(self, cluster: "Cluster") -> None:
        """They are free only when the API server shows it."""
        self.undo(cluster)


@dataclass(slots=True)
class Trial:
    """Use it in a `with`: what was not committed at its end is undone. One at a time."""

    _cluster: "Cluster"
    _steps: list[_Step] = field(default_factory=list)
    _keys: frozenset[str] = frozenset()

    def assume(self, pod: Pod, node: str, grant: Grant | None = None) -> None:
        """The pod is on its way to the node."""
        nomination = self._cluster.nominations.suspend(pod.uid)
        held = self._cluster.holding(pod, node, grant)
        self._cluster.attach(held)
        self._add(_Assumed(held, nomination))

    def evict(self, uid: str) -> "Holding | None":
        """Takes away what a pod holds, and returns it; None if it holds nothing."""
        cluster = self._cluster
        held = cluster.holdings.get(uid)
        if held is None:
            return None
        row = cluster.row_of.get(held.node)
        holders = cluster.columns.devices.holders(row) if row is not None else ()
        cluster.detach(uid)
        self._add(_Evicted(held, holders))
        return held

    def evict_all(self, uids: Sequence[str]) -> None:
        """The same for many pods, at a lower cost than one by one."""
        plain = plain_pods(self._cluster, uids) if len(uids) >= _MANY else []
        if len(plain) >= _MANY:
            self._cluster.work.pods += _WORK_OF_MANY * len(plain)
            pods = ManyPods(self._cluster, plain)
            pods.detach()
            self._add(_EvictedTogether(pods))
        for uid in uids if len(plain) < len(uids) else ():
            self.evict(uid)

    def suspend_nomination(self, uid: str) -> None:
        """The room that a pod is nominated for is for any pod, until the trial ends."""
        nomination = self._cluster.nominations.suspend(uid)
        if nomination is not None:
            self._add(_Suspended(nomination))

    def assume_volumes(self, plan: VolumePlan, node: str) -> None:
        """The plan is being carried out."""
        before = self._cluster.storage.before(plan)
        self._cluster.assume_volumes(plan, node)
        self._add(_Planned(before))

    def reserve(self, node: str, number: int) -> None:
        """A GPU of the node's device plugin is being reserved."""
        self._cluster.reserve(node, number)
        self._add(_Reserved(node, number))

    def assume_claims(self, writes: tuple[ClaimWrite, ...]) -> None:
        """Resource claims are being allocated; other pods of the trial may rely on that."""
        claiming.assume(self._cluster, writes, in_trial=True)
        self._add(_Claimed(writes))

    def free_claims(self, uids: Iterable[str]) -> None:
        """As if the claims with these uids were deallocated."""
        found = tuple(uids)
        claiming.hide(self._cluster, found, hidden=True)
        self._add(_Freed(found))

    def checkpoint(self) -> Checkpoint:
        """What to roll back to."""
        return len(self._steps)

    def rollback(self, to: Checkpoint = 0) -> None:
        """Undoes the steps since the checkpoint, or all."""
        while len(self._steps) > to:
            self._steps.pop().undo(self._cluster)
            self._cluster.work.trials += 1
        self._cluster.columns.pods.keep_keys(self._keys)

    def commit(self) -> None:
        """The steps are ordinary changes from now on."""
        while self._steps:
            self._steps.pop().commit(self._cluster)

    def __enter__(self) -> Self:
        assert not self._cluster.in_trial, "a trial is under way already: use its checkpoints"
        self._cluster.in_trial = True
        self._keys = self._cluster.columns.pods.keys_of_anti_affinity
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.rollback()
        self._cluster.in_trial = False

    def _add(self, step: _Step) -> None:
        self._cluster.work.trials += 1
        self._steps.append(step)
