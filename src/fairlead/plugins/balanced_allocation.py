"""Pods go where they make the use of cpu and memory more even."""

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeMask, NodeScores, PerNode
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest
from fairlead.plugins.allocation import (
    check_weights,
    counts_for,
    cpu_and_memory,
    read_for,
    use_and_capacity,
    use_and_capacity_here,
)


@dataclass(frozen=True, slots=True)
class NodeResourcesBalancedAllocation:
    """50 to 100: around 75 where the pod changes little, more where it evens things out."""

    #: The resources to balance; kube-scheduler takes weights here, and does not use them.
    resources: Mapping[str, int] = field(default_factory=cpu_and_memory)
    name: ClassVar[str] = "NodeResourcesBalancedAllocation"

    @property
    def reads(self) -> Aspect:
        return read_for(self.resources)

    def __post_init__(self) -> None:
        check_weights(self.resources)

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        if not any(request.amount(resource) for resource in self.resources):
            return np.zeros(len(nodes))
        counted = [resource for resource in self.resources if counts_for(resource, request)]
        if len(nodes) == 1 and len(counted) <= 2:
            return _rated_here(counted, request, nodes)
        known = [use_and_capacity(resource, request, nodes) for resource in counted]
        before, capacity = np.array(known).transpose(1, 0, 2)
        asked = np.array([[request.amount(resource)] for resource in counted])
        change = _evenness(before + asked, capacity) - _evenness(before, capacity)
        scores: NodeScores = (50 + (50 + change) // 2).astype(np.float64)
        return scores


def _rated_here(counted: list[str], request: PodRequest, nodes: Nodes) -> NodeScores:
    """The same of a single node in plain numbers: after each placement one is asked about again."""
    before, after = [], []
    for resource in counted:
        used, capacity = use_and_capacity_here(resource, request, nodes)
        if capacity > 0:
            before.append(min(float(used) / float(capacity), 1.0))
            after.append(min(float(used + request.amount(resource)) / float(capacity), 1.0))
    change = _evenness_of_two(after) - _evenness_of_two(before)
    return np.array([50.0 + (50 + change) // 2])


def _evenness_of_two(shares: list[float]) -> int:
    deviation = abs(shares[0] - shares[1]) / 2 if len(shares) == 2 else 0.0
    return int((1.0 - deviation) * 100.0)


def _evenness(used: PerNode, capacity: PerNode) -> PerNode:
    """100 where the node's resources are used to the same degree; (resources, rows) to (rows,)."""
    there = capacity > 0
    shares = np.where(there, np.minimum(used / np.maximum(capacity, 1), 1.0), 0.0)
    kinds = there.sum(axis=0)
    # Of two, half of what lies between them: the same, without the loss of digits on the way.
    between = shares.max(axis=0) - np.where(there, shares, 1.0).min(axis=0)
    deviation = np.where(kinds == 2, between / 2, 0.0)
    if len(capacity) > 2:
        deviation = np.where(kinds > 2, _deviation(shares, there, kinds), deviation)
    evenness: PerNode = ((1.0 - deviation) * 100.0).astype(np.int64)
    return evenness


def _deviation(shares: NodeScores, there: NodeMask, kinds: PerNode) -> NodeScores:
    count = np.maximum(kinds, 1)
    mean = shares.sum(axis=0) / count
    deviation: NodeScores = np.sqrt(np.where(there, (shares - mean) ** 2, 0.0).sum(axis=0) / count)
    return deviation
