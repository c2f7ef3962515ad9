"""GPUs that work as one go where a good ring of them is still free."""

from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest
from fairlead.plugins.api import HIGHEST_SCORE


@dataclass(frozen=True, slots=True)
class GpuLinks:
    """By what a machine loses, not by what it is: one with PCIe alone has nothing to lose, so pods
    that do not say that they need NVLink are not drawn to the machines that have it. It has
    nothing to say about GPUs that work alone.
    """

    name: ClassVar[str] = "GpuLinks"
    reads: ClassVar[Aspect] = Aspect.DEVICES

    def concerns(self, request: PodRequest) -> bool:
        ask = request.gpu_request
        return ask is not None and ask.whole and ask.together > 1

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        ask = request.gpu_request
        if ask is None or not self.concerns(request):
            return np.zeros(len(nodes))
        scores: NodeScores = HIGHEST_SCORE * nodes.gpus.ring_quality(ask)
        return scores
