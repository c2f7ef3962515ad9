"""Keep nodes evenly loaded: the emptier, the better."""

from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import GPU
from fairlead.model.pods import PodRequest
from fairlead.model.quantities import PODS
from fairlead.plugins.api import HIGHEST_SCORE
from fairlead.plugins.gaps import left_over


@dataclass(frozen=True, slots=True)
class Spread:
    """By the share of GPUs that stays free; by the share of pod places for pods without GPUs."""

    resource: str = GPU
    name: ClassVar[str] = "Spread"
    reads: ClassVar[Aspect] = Aspect.USAGE | Aspect.ALLOCATABLE | Aspect.DEVICES

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        left, capacity, needs = left_over(self.resource, request, nodes)
        if not needs:
            left, capacity = (nodes.free(PODS) - 1).astype(np.float64), nodes.allocatable(PODS)
        capacity = np.maximum(capacity, 1)
        scores: NodeScores = np.clip(left, 0, capacity) * HIGHEST_SCORE / capacity
        return scores
