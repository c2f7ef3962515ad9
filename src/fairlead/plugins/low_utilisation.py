"""Quiet cards first: spreads by what cards really do."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.pods import PodRequest
from fairlead.plugins.api import HIGHEST_SCORE, CardScores
from fairlead.plugins.gaps import gaps


@dataclass(frozen=True, slots=True)
class LowUtilisation:
    """The quietest cards that the pod would get; it likes all nodes alike for pods without GPUs."""

    name: ClassVar[str] = "LowUtilisation"
    reads: ClassVar[Aspect] = Aspect.LOAD | Aspect.DEVICES | Aspect.USAGE | Aspect.ALLOCATABLE

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        found = gaps(request, nodes)
        if found is None:
            return np.zeros(len(nodes))
        points = np.where(found.usable, self.rate_cards(request, nodes), 0.0)
        best = -np.sort(-points, axis=1)[:, : found.cards]
        scores: NodeScores = best.sum(axis=1) / found.cards
        return scores

    def rate_cards(self, request: PodRequest, nodes: Nodes) -> CardScores:
        quiet: CardScores = HIGHEST_SCORE * (1.0 - nodes.load.busy())
        return quiet
