"""Fill the node that is left with the least, cpu and GPU alike."""

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
class BestFit:
    """Best fit in two dimensions, in whole points, as compared in the FGD paper (ATC'23)."""

    #: The largest machine there is, so that cores and GPUs can be weighed against each other.
    largest_cores: int = 128
    largest_gpus: int = 8
    name: ClassVar[str] = "BestFit"
    reads: ClassVar[Aspect] = Aspect.USAGE | Aspect.ALLOCATABLE | Aspect.DEVICES

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        found = gaps(request, nodes)
        cpu_left = nodes.free(CPU) - request.amount(CPU)
        gpu_left = nodes.gpu_room().sum(axis=1) if found is None else found.total - found.asked
        waste = cpu_left / (1000 * self.largest_cores) * 0.5
        waste = waste + gpu_left / (WHOLE * self.largest_gpus) * 0.5
        scores: NodeScores = np.floor(np.clip((1.0 - waste) * HIGHEST_SCORE, 0, HIGHEST_SCORE))
        return scores
