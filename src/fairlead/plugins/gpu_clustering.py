"""Keep like with like: nodes for shares, nodes for single GPUs, nodes for many."""

from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.devices import KINDS
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import WHOLE
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest
from fairlead.plugins.gaps import gaps

_ALIKE, _MIXED, _IDLE, _OTHERS = 75, 50, 25, 0


@dataclass(frozen=True, slots=True)
class GpuClustering:
    """In whole points; among nodes of one sort the fullest. Pods without GPUs may go anywhere."""

    #: The largest machine there is.
    largest_gpus: int = 8
    name: ClassVar[str] = "GpuClustering"
    reads: ClassVar[Aspect] = Aspect.USAGE | Aspect.ALLOCATABLE | Aspect.DEVICES

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        found = gaps(request, nodes)
        if found is None:
            return np.zeros(len(nodes))
        kinds = nodes.gpus.kinds() > 0
        same = kinds[:, 0 if found.shares else min(found.gpus, KINDS - 1)]
        sorts = kinds.sum(axis=1)
        base = np.where(
            same, np.where(sorts == 1, _ALIKE, _MIXED), np.where(sorts == 0, _IDLE, _OTHERS)
        )
        most = WHOLE * self.largest_gpus
        scores: NodeScores = base + 25.0 * np.clip(most - found.total, 0, most) // most
        return scores
