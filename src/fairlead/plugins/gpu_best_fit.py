"""Fill the node that is left with the fewest free GPUs."""

from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import WHOLE, GpuRequest
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import GPU
from fairlead.model.pods import PodRequest
from fairlead.plugins.api import HIGHEST_SCORE
from fairlead.plugins.gaps import asked_gpus, left_over


@dataclass(frozen=True, slots=True)
class GpuBestFit:
    """Counts what would remain, not what is used: a 4-GPU node with one left beats an 8-GPU node
    with four left. Parts of GPUs count as parts. Pods without GPUs go to nodes without GPUs first,
    then to those with none free.
    """

    resource: str = GPU
    name: ClassVar[str] = "GpuBestFit"
    reads: ClassVar[Aspect] = Aspect.USAGE | Aspect.ALLOCATABLE | Aspect.DEVICES

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        if len(nodes) == 1 and self.resource == GPU:  # after each placement one is asked about
            ask = asked_gpus(request)
            if ask is None or ask.whole:
                return np.array([_score_one(ask, nodes)])
        left, _, needs = left_over(self.resource, request, nodes)
        scores: NodeScores = HIGHEST_SCORE / (1.0 + left)
        if not needs:
            scores[(nodes.allocatable(self.resource) > 0) | nodes.gpus.known()] /= 2
        return scores


def _score_one(ask: GpuRequest | None, node: Nodes) -> float:
    """The same of a single node, in plain numbers: arrays of one cost ten times as much."""
    free, _ = node.free_gpus_here()
    if ask is not None:
        return HIGHEST_SCORE / (1.0 + max(free - ask.gpus * WHOLE, 0) / WHOLE)
    _, offered = node.amounts_here(GPU)
    score = HIGHEST_SCORE / (1.0 + max(free, 0) / WHOLE)
    return score / 2 if offered > 0 or node.gpus.known()[0] else score
