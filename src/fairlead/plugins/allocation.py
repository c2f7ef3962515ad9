"""How full a node would be, in kube-scheduler's whole-number arithmetic.

`LeastAllocated` likes empty nodes, `MostAllocated` full ones, `RequestedToCapacityRatio` what the
user draws. Cpu and memory count with kube-scheduler's defaults for what pods do not state.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores, PerNode
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.pods import PodRequest
from fairlead.model.quantities import CPU, EPHEMERAL_STORAGE, MEMORY, is_scalar

_STATED_OR_NOT = (CPU, MEMORY)
_HIGHEST_IN_SHAPE = 10


def cpu_and_memory() -> Mapping[str, int]:
    return {CPU: 1, MEMORY: 1}


def check_weights(resources: Mapping[str, int]) -> None:
    if not resources:
        raise ValueError("resources: name at least one, with a weight")
    for resource, weight in resources.items():
        if not 1 <= weight <= 100:
            raise ValueError(f"resources: the weight of {resource} must be 1 to 100, not {weight}")


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
    reads: ClassVar[Aspect] = Aspect.USAGE | Aspect.ALLOCATABLE

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
    reads: ClassVar[Aspect] = Aspect.USAGE | Aspect.ALLOCATABLE

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
class ShapePoint:
    """A corner of the line from how full a node is (in percent) to its score (0 to 10)."""

    utilization: int
    score: int


def _fuller_is_better() -> tuple[ShapePoint, ...]:
    return ShapePoint(0, 0), ShapePoint(100, _HIGHEST_IN_SHAPE)


@dataclass(frozen=True, slots=True)
class RequestedToCapacityRatio:
    #: Weight of each resource.
    resources: Mapping[str, int] = field(default_factory=cpu_and_memory)
    shape: tuple[ShapePoint, ...] = field(default_factory=_fuller_is_better)
    name: ClassVar[str] = "RequestedToCapacityRatio"
    reads: ClassVar[Aspect] = Aspect.USAGE | Aspect.ALLOCATABLE

    def __post_init__(self) -> None:
        check_weights(self.resources)
        _check_shape(self.shape)

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        total, counted = np.zeros((2, len(nodes)), dtype=np.int64)
        line = np.array([_on_line(self.shape, percent) for percent in range(101)], dtype=np.int64)
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
            capacity = nodes.allocatable(resource)
            yield weight, np.minimum(_used(resource, request, nodes), capacity), capacity


def _shares_here(
    weights: Mapping[str, int], request: PodRequest, nodes: Nodes
) -> Iterator[tuple[int, int, int]]:
    """The same of a single node in plain numbers: after each placement one is asked about again."""
    for resource, weight in weights.items():
        if counts_for(resource, request):
            taken, capacity = nodes.amounts_here(resource)
            if resource in _STATED_OR_NOT:
                which = _STATED_OR_NOT.index(resource)
                used = nodes.scored_here(which) + request.scored[which]
            else:
                used = taken + request.amount(resource)
            if capacity > 0:
                yield weight, min(used, capacity), capacity


def _used(resource: str, request: PodRequest, nodes: Nodes) -> PerNode:
    if resource in _STATED_OR_NOT:
        which = _STATED_OR_NOT.index(resource)
        return nodes.scored_requested(which) + request.scored[which]
    return nodes.requested(resource) + request.amount(resource)


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


def _check_shape(shape: tuple[ShapePoint, ...]) -> None:
    at = [point.utilization for point in shape]
    if not at or at != sorted(set(at)):
        raise ValueError("shape: give points of rising utilization, at least one")
    for point in shape:
        if not (0 <= point.utilization <= 100 and 0 <= point.score <= _HIGHEST_IN_SHAPE):
            raise ValueError("shape: utilization goes from 0 to 100, and score from 0 to 10")


def _on_line(shape: tuple[ShapePoint, ...], percent: int) -> int:
    """The score (0 to 100) of a node that is so full; between corners cut towards the first."""
    scale = 100 // _HIGHEST_IN_SHAPE
    before = shape[0]
    for point in shape:
        if percent <= point.utilization:
            rise, run = scale * (point.score - before.score), point.utilization - before.utilization
            return scale * before.score + int(rise * (percent - before.utilization) / max(run, 1))
        before = point
    return scale * before.score
