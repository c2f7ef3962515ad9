"""Quiet GPUs first: spreads by what GPUs really do."""

from typing import ClassVar

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest
from fairlead.plugins.api import HIGHEST_SCORE, GpuScores
from fairlead.plugins.measured import READS, of_best_gpus


@dataclass(frozen=True, slots=True)
class LowUtilisation:
    """The quietest GPUs that the pod would get; it likes all nodes alike for pods without GPUs."""

    name: ClassVar[str] = "LowUtilisation"
    reads: ClassVar[Aspect] = READS

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        return of_best_gpus(self.rate_gpus(request, nodes), request, nodes)

    def rate_gpus(self, request: PodRequest, nodes: Nodes) -> GpuScores:
        quiet: GpuScores = HIGHEST_SCORE * (1.0 - nodes.load.busy())
        return quiet
