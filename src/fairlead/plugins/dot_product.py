"""Match what a pod asks for with what a node has little of."""

from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import WHOLE
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest
from fairlead.model.quantities import CPU
from fairlead.plugins.api import HIGHEST_SCORE
from fairlead.plugins.gaps import gaps


@dataclass(frozen=True, slots=True)
class DotProduct:
    """The product of request and free resources, the smaller the better, in whole points."""

    #: The largest machine there is, so that cores and GPUs can be weighed against each other.
    largest_cores: int = 128
    largest_gpus: int = 8
    name: ClassVar[str] = "DotProduct"
    reads: ClassVar[Aspect] = Aspect.USAGE | Aspect.ALLOCATABLE | Aspect.DEVICES

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        most_cpu, most_gpu = 1000.0 * self.largest_cores, float(WHOLE * self.largest_gpus)
        product = nodes.free(CPU) / most_cpu * (request.amount(CPU) / most_cpu)
        found = gaps(request, nodes)
        if found is not None:
            product = product + found.total / most_gpu * (found.asked / most_gpu)
        scores: NodeScores = np.floor(np.clip(HIGHEST_SCORE * (1.0 - product / 2), 0, 100))
        return scores
