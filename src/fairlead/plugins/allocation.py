"""How full a node would be, in kube-scheduler's whole-number arithmetic.

`LeastAllocated` likes empty nodes, `MostAllocated` full ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores, PerNode
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.pods import PodRequest
from fairlead.model.quantities import CPU, MEMORY

_SCORED = (CPU, MEMORY)


def _cpu_and_memory() -> Mapping[str, int]:
    return {CPU: 1, MEMORY: 1}


@dataclass(frozen=True, slots=True)
class LeastAllocated:
    #: Weight of each resource.
    resources: Mapping[str, int] = field(default_factory=_cpu_and_memory)
    name: ClassVar[str] = "LeastAllocated"
    reads: ClassVar[Aspect] = Aspect.USAGE | Aspect.ALLOCATABLE

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        return _weighted(
            self.resources, request, nodes, lambda used, cap: (cap - used) * 100 // cap
        )


@dataclass(frozen=True, slots=True)
class MostAllocated:
    #: Weight of each resource.
    resources: Mapping[str, int] = field(default_factory=_cpu_and_memory)
    name: ClassVar[str] = "MostAllocated"
    reads: ClassVar[Aspect] = Aspect.USAGE | Aspect.ALLOCATABLE

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        return _weighted(self.resources, request, nodes, lambda used, cap: used * 100 // cap)


def _weighted(
    weights: Mapping[str, int],
    request: PodRequest,
    nodes: Nodes,
    share: Callable[[PerNode, PerNode], PerNode],
) -> NodeScores:
    """Weighted mean over the resources that the node has; extended ones only if asked for."""
    total: PerNode = np.zeros(len(nodes), dtype=np.int64)
    counted: PerNode = np.zeros(len(nodes), dtype=np.int64)
    for resource, weight in weights.items():
        if resource not in _SCORED and not request.amount(resource):
            continue
        capacity = nodes.allocatable(resource)
        there = capacity > 0
        used = np.minimum(_used(resource, request, nodes), capacity)
        total += np.where(there, weight * share(used, np.maximum(capacity, 1)), 0)
        counted += np.where(there, weight, 0)
    scores: NodeScores = (total // np.maximum(counted, 1)).astype(np.float64)
    return scores


def _used(resource: str, request: PodRequest, nodes: Nodes) -> PerNode:
    if resource in _SCORED:
        which = _SCORED.index(resource)
        return nodes.scored_requested(which) + request.scored[which]
    return nodes.requested(resource) + request.amount(resource)
