"""No GPU is overcommitted while another has room."""

from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest
from fairlead.plugins.api import HIGHEST_SCORE


@dataclass(frozen=True, slots=True)
class RoomFirst:
    """Nodes with room for the pod's shares by the book alone; it has nothing to say to others."""

    name: ClassVar[str] = "RoomFirst"
    reads: ClassVar[Aspect] = Aspect.DEVICES

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        ask = request.gpu_request
        if ask is None or ask.whole or ask.sliced or ask.map_slot:
            return np.zeros(len(nodes))
        return np.where(nodes.gpus.enough(ask), HIGHEST_SCORE, 0.0)
