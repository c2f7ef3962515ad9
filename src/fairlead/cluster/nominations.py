"""Nominated pods: pods for which others were evicted, and the nodes that they wait for.

A nomination is no reservation. A pod that may evict the nominated pod ignores it; other pods must
leave room for it.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from fairlead.cluster.arrays import Rows
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.columns import Columns
from fairlead.cluster.eviction_rule import ByPriority, EvictionRule
from fairlead.cluster.improvements import Improvements
from fairlead.cluster.priority_sums import AmountsByRow, PrioritySums, Share, sum_by_row
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.model.quantities import PODS

# What a nomination reserves.
_RESERVED = Aspect.USAGE | Aspect.PODS | Aspect.PORTS | Aspect.DEVICES


@dataclass(frozen=True, slots=True)
class Suspended:
    """A nomination that does not count for a while, among all of its node in their order."""

    uid: str
    node: str
    pods: Mapping[str, Pod]


class Nominations:
    """Pending pods by the node that they are nominated for; one node a pod."""

    def __init__(self, columns: Columns, row_of: dict[str, int], improved: Improvements) -> None:
        self._columns = columns
        self._improved = improved
        self._row_of = row_of
        self._node_of: dict[str, str] = {}
        self._on: dict[str, dict[str, Pod]] = {}
        self._sums = PrioritySums(columns, below=False)
        self.eviction_rule: EvictionRule = ByPriority()
        #: Grows with every change.
        self.version = 0

    def __bool__(self) -> bool:
        return bool(self._node_of)

    def __iter__(self) -> Iterator[str]:
        """The uids of the nominated pods."""
        return iter(self._node_of)

    def node_of(self, uid: str) -> str:
        """The nominated node of the pod, or nothing."""
        return self._node_of.get(uid, "")

    def on(self, node: str) -> list[Pod]:
        return list(self._on.get(node, {}).values())

    def against(self, pod: Pod, node: str) -> list[Pod]:
        """Pods whose nomination this one must respect there."""
        nominated, may_evict = self._on.get(node, {}).values(), self.eviction_rule.may_evict
        return [p for p in nominated if p.uid != pod.uid and not may_evict(pod, p)]

    def amounts_against(self, pod: Pod) -> tuple[Rows, AmountsByRow] | None:
        """Rows with nominated pods that this pod must respect, and how much those request."""
        if not self._node_of or self._node_of.keys() == {pod.uid}:
            return None
        limit = self.eviction_rule.priority_limit(pod)
        table = self._sum_against(pod) if limit is None else self._sums.of(limit, self._shares)
        counted = self._columns.resource_index[PODS]
        rows = np.flatnonzero(table[counted, : self._columns.size])
        amounts = table[:, rows]
        own_row = self._row_of.get(self.node_of(pod.uid))
        if own_row is not None and limit is not None:  # the sums by priority include the pod
            amounts[:, rows == own_row] -= self._columns.vector(pod.request.resources)[:, None]
            others = amounts[counted] > 0
            rows, amounts = rows[others], amounts[:, others]
        return rows, amounts

    def _sum_against(self, pod: Pod) -> AmountsByRow:
        """The same without sums by priority."""
        rows = [(row, node) for node in self._on if (row := self._row_of.get(node)) is not None]
        vector = self._columns.vector
        against = [
            (row, vector(other.request.resources))
            for row, node in rows
            for other in self.against(pod, node)
        ]
        return sum_by_row(self._columns, against)

    def put(self, pod: Pod, node: str) -> None:
        self.settle(pod.uid, node)
        self._node_of[pod.uid] = node
        self._on.setdefault(node, {})[pod.uid] = pod
        self._columns.pods.expect(pod, +1)
        self._follow(pod, node, +1)

    def drop(self, uid: str) -> None:
        """The pod is nominated no more: others may have the room."""
        self.settle(uid, "")

    def settle(self, uid: str, node: str) -> None:
        """The nomination ends because this node is taken: by the pod, or by a more important one.

        Others may have the room that was reserved on any other node.
        """
        nominated = self._node_of.pop(uid, None)
        if nominated is None:
            return
        self._remove(uid, nominated)
        if nominated != node:
            self._improved.add(_RESERVED)

    def suspend(self, uid: str) -> Suspended | None:
        """Takes the nomination away for a while; returns what `resume` needs to undo that."""
        node = self._node_of.get(uid)
        if node is None:
            return None
        suspended = Suspended(uid, node, dict(self._on[node]))
        del self._node_of[uid]
        self._remove(uid, node)
        return suspended

    def resume(self, suspended: Suspended) -> None:
        """The nomination counts again, in its old place among those of the node."""
        node, pod = suspended.node, suspended.pods[suspended.uid]
        self._node_of[pod.uid] = node
        now = self._on.get(node, {}) | {pod.uid: pod}
        self._on[node] = {uid: now[uid] for uid in suspended.pods if uid in now} | now
        self._columns.pods.expect(pod, +1)
        self._follow(pod, node, +1)

    def _remove(self, uid: str, node: str) -> None:
        pods = self._on[node]
        pod = pods.pop(uid)
        if not pods:
            del self._on[node]
        self._columns.pods.expect(pod, -1)
        self._follow(pod, node, -1)

    def node_came(self, node: str) -> None:
        """The node has a row now: the pods nominated for it count."""
        for pod in self.on(node):
            self._follow(pod, node, +1)

    def node_went(self, row: int) -> None:
        self._sums.clear_row(row)
        self.version += 1

    def forget_sums(self) -> None:
        """There is a resource that nominated pods were not counted in."""
        self._sums.forget()
        self.version += 1

    def _follow(self, pod: Pod, node: str, sign: int) -> None:
        self.version += 1
        row = self._row_of.get(node)
        if row is not None:
            vector = self._columns.vector(pod.request.resources)
            self._sums.follow(row, pod.priority, vector, sign)

    def _shares(self) -> Iterator[Share]:
        for node, pods in self._on.items():
            row = self._row_of.get(node)
            if row is not None:
                for pod in pods.values():
                    yield row, pod.priority, self._columns.vector(pod.request.resources)
