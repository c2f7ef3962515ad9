"""What decides by readings that the configuration names: a goal, a score and a filter.

The reading says itself whether it is about nodes or GPUs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeMask, NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.errors import ConfigError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest
from fairlead.plugins.api import HIGHEST_SCORE, GpuScores, Reason
from fairlead.plugins.gaps import gaps
from fairlead.plugins.measured import could_get, of_best_gpus

_READS = Aspect.READINGS | Aspect.DEVICES | Aspect.USAGE | Aspect.ALLOCATABLE


@dataclass(frozen=True, slots=True)
class ReadingGoal:
    """The reading of each node; of GPUs, the mean of the lowest that the pod could get.

    What has no value counts as the fallback, or as the median of the others.
    """

    reading: str
    name: str
    unit: str = ""
    reads: ClassVar[Aspect] = _READS

    @property
    def readings(self) -> tuple[str, ...]:
        return (self.reading,)

    def count(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        if nodes.is_of_gpus(self.reading):
            return np.maximum(self._of_gpus(request, nodes), 0.0)
        return np.maximum(_known(nodes.reading(self.reading), self.reading, nodes), 0.0)

    def _of_gpus(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        found = gaps(request, nodes)
        if found is None:
            return np.zeros(len(nodes))
        values = _known(nodes.gpu_reading(self.reading), self.reading, nodes)
        lowest = np.sort(np.where(could_get(found, nodes), values, np.inf), axis=1)[:, : found.gpus]
        mean: NodeScores = lowest.mean(axis=1)
        return np.where(np.isfinite(mean), mean, nodes.median_reading(self.reading))


@dataclass(frozen=True, slots=True)
class ReadingScore:
    """All points for `best`, none for `worst`, and in between in proportion."""

    reading: str
    best: float
    worst: float
    name: ClassVar[str] = "ReadingScore"
    reads: ClassVar[Aspect] = _READS

    def __post_init__(self) -> None:
        if self.best == self.worst:
            raise ConfigError("best and worst are the same; write two different values")

    @property
    def readings(self) -> tuple[str, ...]:
        return (self.reading,)

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        return self._points(nodes.reading(self.reading), nodes)

    def _points(self, values: GpuScores, nodes: Nodes) -> GpuScores:
        known = _known(values, self.reading, nodes)
        share = (known - self.worst) / (self.best - self.worst)
        return HIGHEST_SCORE * np.clip(share, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class GpuReadingScore(ReadingScore):
    """The same for a reading of GPUs: it chooses the GPU of a share, too."""

    name: ClassVar[str] = "GpuReadingScore"

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        return of_best_gpus(self.rate_gpus(request, nodes), request, nodes)

    def rate_gpus(self, request: PodRequest, nodes: Nodes) -> GpuScores:
        return self._points(nodes.gpu_reading(self.reading), nodes)


@dataclass(frozen=True, slots=True)
class ReadingLimit:
    """Refuses nodes with a reading beyond its limit; not those that have no value."""

    at_most: Mapping[str, float] = field(default_factory=dict)
    at_least: Mapping[str, float] = field(default_factory=dict)
    name: ClassVar[str] = "ReadingLimit"
    reads: ClassVar[Aspect] = Aspect.READINGS
    refusal: ClassVar[str] = "node(s) had a reading beyond its limit"
    resolvable: ClassVar[bool] = False
    #: What pods hold changes no answer.
    depends_on_pods: ClassVar[bool] = False

    @property
    def readings(self) -> tuple[str, ...]:
        return (*self.at_most, *self.at_least)

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        allowed = nodes.all()
        for _, _, refused in self._refused(nodes):
            allowed = allowed & ~refused
        return allowed

    def reasons(self, request: PodRequest, nodes: Nodes) -> Iterable[Reason]:
        left = nodes.all()
        for text, _, refused in self._refused(nodes):
            yield Reason(f"node(s) had {text}", left & refused, nodes.none())
            left = left & ~refused

    def detail(self, request: PodRequest, node: Nodes) -> str:
        for text, reading, refused in self._refused(node):
            if refused[0]:
                return f"{text}: it is {node.reading(reading)[0]:g}"
        return ""

    def _refused(self, nodes: Nodes) -> Iterable[tuple[str, str, NodeMask]]:
        for reading, most in self.at_most.items():
            yield f"{reading} above {most:g}", reading, nodes.reading(reading) > most
        for reading, least in self.at_least.items():
            yield f"{reading} below {least:g}", reading, nodes.reading(reading) < least


def _known(values: GpuScores, reading: str, nodes: Nodes) -> GpuScores:
    return np.nan_to_num(values, nan=nodes.median_reading(reading))
