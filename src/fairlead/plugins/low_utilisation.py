"""Quiet cards first: spreads by what cards really do."""

from dataclasses import dataclass
from typing import ClassVar

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.pods import PodRequest
from fairlead.plugins.api import HIGHEST_SCORE, CardScores
from fairlead.plugins.measured import READS, of_best_cards


@dataclass(frozen=True, slots=True)
class LowUtilisation:
    """The quietest cards that the pod would get; it likes all nodes alike for pods without GPUs."""

    name: ClassVar[str] = "LowUtilisation"
    reads: ClassVar[Aspect] = READS

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        return of_best_cards(self.rate_cards(request, nodes), request, nodes)

    def rate_cards(self, request: PodRequest, nodes: Nodes) -> CardScores:
        quiet: CardScores = HIGHEST_SCORE * (1.0 - nodes.load.busy())
        return quiet
