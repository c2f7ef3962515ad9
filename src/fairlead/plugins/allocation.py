"""How full a node would be, in kube-scheduler's whole-number arithmetic.

`LeastAllocated` likes empty nodes, `MostAllocated` full ones, `RequestedToCapacityRatio` what the
user draws. Cpu and memory count with kube-scheduler's defaults for what pods do not state.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores, PerNode
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.extended import has_class
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest
from fairlead.model.quantities import CPU, EPHEMERAL_STORAGE, MEMORY, is_scalar
from fairlead.plugins.shapes import ScoringShape, check_shape, fuller_is_better, line_of

_STATED_OR_NOT = (CPU, MEMORY)


def cpu_and_memory() -> Mapping[str, int]:
    return {CPU: 1, MEMORY: 1}


def check_weights(resources: Mapping[str, int]) -> None:
    if not resources:
        raise ValueError("resources: name at least one, with a weight")
    for resource, weight in resources.items():
        if not 1 <= weight <= 100:
            raise ValueError(f"resources: the weight of {resource} must be 1 to 100, not {weight}")


def read_for(resources: Iterable[str]) -> Aspect:
    """What scores of these resources depend on: devices may stand in for some of them."""
    read = Aspect.USAGE | Aspect.ALLOCATABLE
    if any(is_scalar(resource) for resource in resources):
        read |= Aspect.CLAIMS | Aspect.LABELS
    return read


def use_and_capacity(resource: str, request: PodRequest, nodes: Nodes) -> tuple[PerNode, PerNode]:
    """What pods take of a resource on each node, and how much of it there is.

    Where no device plugin offers a resource that has a DeviceClass, devices of the class count.
    """
    used, capacity = nodes.requested(resource), nodes.allocatable(resource)
    if not request.claims or not has_class(request.claims, resource):
        return used, capacity
    devices, held = nodes.claims.totals.of(resource, nodes)
    stand_in = (capacity == 0) & (devices > 0)
    return np.where(stand_in, held, used), np.where(stand_in, devices, capacity)


def use_and_capacity_here(resource: str, request: PodRequest, node: Nodes) -> tuple[int, int]:
    """The same of a single node, in plain numbers."""
    if not request.claims or not has_class(request.claims, resource):
        return node.amounts_here(resource)
    used, capacity = use_and_capacity(resource, request, node)
    return int(used[0]), int(capacity[0])


def counts_for(resource: str, request: PodRequest) -> bool:
    """The lesser resources count only for pods that ask for them."""
    if resource in (CPU, MEMORY, EPHEMERAL_STORAGE):
        return True
    return is_scalar(resource) and request.amount(resource) > 0


@dataclass(frozen=True, slots=True)
class LeastAllocated:
    #: Weight of each resource.
    resources: Mapping[str, int] = field(default_factory=cpu_and_memory)
    name: ClassVar[str] = "LeastAllocated"

    @property
    def reads(self) -> Aspect:
        return read_for(self.resources)

    def __post_init__(self) -> None:
        check_weights(self.resources)

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        if len(nodes) == 1:
            here = _shares_here(self.resources, request, nodes)
            return _mean_here((w, (there - used) * 100 // there) for w, used, there in here)
        total, counted = np.zeros((2, len(nodes)), dtype=np.int64)
        for weight, used, capacity in _shares(self.resources, request, nodes):
            total += weight * ((capacity - used) * 100 // np.maximum(capacity, 1))
            counted += np.where(capacity > 0, weight, 0)
        return _mean(total, counted)


@dataclass(frozen=True, slots=True)
class MostAllocated:
    #: Weight of each resource.
    resources: Mapping[str, int] = field(default_factory=cpu_and_memory)
    name: ClassVar[str] = "MostAllocated"

    @property
    def reads(self) -> Aspect:
        return read_for(self.resources)

    def __post_init__(self) -> None:
        check_weights(self.resources)

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        if len(nodes) == 1:
            here = _shares_here(self.resources, request, nodes)
            return _mean_here((w, used * 100 // there) for w, used, there in here)
        total, counted = np.zeros((2, len(nodes)), dtype=np.int64)
        for weight, used, capacity in _shares(self.resources, request, nodes):
            total += weight * (used * 100 // np.maximum(capacity, 1))
            counted += np.where(capacity > 0, weight, 0)
        return _mean(total, counted)


@dataclass(frozen=True, slots=True)
class RequestedToCapacityRatio:
    #: Weight of each resource.
    resources: Mapping[str, int] = field(default_factory=cpu_and_memory)
    shape: ScoringShape = field(default_factory=fuller_is_better)
    name: ClassVar[str] = "RequestedToCapacityRatio"

    @property
    def reads(self) -> Aspect:
        return read_for(self.resources)

    def __post_init__(self) -> None:
        check_weights(self.resources)
        check_shape(self.shape)

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        total, counted = np.zeros((2, len(nodes)), dtype=np.int64)
        line = line_of(self.shape)
        for weight, used, capacity in _shares(self.resources, request, nodes):
            score = np.where(capacity > 0, line[used * 100 // np.maximum(capacity, 1)], 0)
            total += weight * score
            counted += np.where(score > 0, weight, 0)  # what scores nothing does not count at all
        return _mean(2 * total + counted, 2 * counted)  # rounded


def _shares(
    weights: Mapping[str, int], request: PodRequest, nodes: Nodes
) -> Iterator[tuple[int, PerNode, PerNode]]:
    """Weight, use (never more than there is) and capacity of each resource that counts."""
    for resource, weight in weights.items():
        if counts_for(resource, request):
            used, capacity = _used(resource, request, nodes)
            yield weight, np.minimum(used, capacity), capacity


def _shares_here(
    weights: Mapping[str, int], request: PodRequest, nodes: Nodes
) -> Iterator[tuple[int, int, int]]:
    """The same of a single node in plain numbers: after each placement one is asked about again."""
    for resource, weight in weights.items():
        if counts_for(resource, request):
            taken, capacity = use_and_capacity_here(resource, request, nodes)
            if resource in _STATED_OR_NOT:
                which = _STATED_OR_NOT.index(resource)
                used = nodes.scored_here(which) + request.scored[which]
            else:
                used = taken + request.amount(resource)
            if capacity > 0:
                yield weight, min(used, capacity), capacity


def _used(resource: str, request: PodRequest, nodes: Nodes) -> tuple[PerNode, PerNode]:
    """With the pod, and how much there is."""
    if resource in _STATED_OR_NOT:
        which = _STATED_OR_NOT.index(resource)
        used = nodes.scored_requested(which) + request.scored[which]
        return used, nodes.allocatable(resource)
    used, capacity = use_and_capacity(resource, request, nodes)
    return used + request.amount(resource), capacity


def _mean(total: PerNode, counted: PerNode) -> NodeScores:
    scores: NodeScores = (total // np.maximum(counted, 1)).astype(np.float64)
    return scores


def _mean_here(scores: Iterable[tuple[int, int]]) -> NodeScores:
    """The weighted mean of one node's scores."""
    total = counted = 0
    for weight, score in scores:
        total += weight * score
        counted += weight
    return np.array([float(total // max(counted, 1))])
