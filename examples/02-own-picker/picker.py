"""A picker chooses one of the nodes that passed every filter."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairlead.plugin import PODS, Nodes, NodeScores, PodRequest


@dataclass(frozen=True, slots=True)
class FewestPods:
    """The node with the fewest pods; among several such, the one that scores best."""

    name: ClassVar[str] = "FewestPods"

    def pick(self, request: PodRequest, nodes: Nodes, scores: NodeScores) -> int:
        pods = nodes.requested(PODS)
        fewest = np.flatnonzero(pods == pods.min())
        return int(fewest[scores[fewest].argmax()])
