"""Keep nodes evenly loaded: the emptier, the better."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.nodes import GPU
from fairlead.model.pods import PodRequest
from fairlead.model.quantities import PODS
from fairlead.plugins.api import HIGHEST_SCORE


@dataclass(frozen=True, slots=True)
class Spread:
    """By the share of GPUs that stays free; by the share of pod places for pods without GPUs."""

    resource: str = GPU
    name: ClassVar[str] = "Spread"
    reads: ClassVar[Aspect] = Aspect.USAGE | Aspect.ALLOCATABLE

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        need = request.amount(self.resource)
        resource, need = (self.resource, need) if need else (PODS, 1)
        capacity = np.maximum(nodes.allocatable(resource), 1)
        left = np.clip(nodes.free(resource) - need, 0, capacity)
        scores: NodeScores = left * HIGHEST_SCORE / capacity
        return scores
