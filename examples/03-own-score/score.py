"""A score rates each node from 0 to 100. The profile says how much that weighs."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.pods import PodRequest

WANTED = "example.com/wants-gpu"


@dataclass(frozen=True, slots=True)
class WantedModel:
    """Nodes with the GPU model that the pod's annotation names come first; others will do."""

    #: The node label that holds the model. Fields are options: the configuration may set them.
    label: str = "nvidia.com/gpu.product"
    name: ClassVar[str] = "WantedModel"
    #: What of a node the answer depends on.
    reads: ClassVar[Aspect] = Aspect.LABELS
    #: What of a pod, beside its requests, the answer depends on.
    pod_keys: ClassVar[tuple[str, ...]] = (WANTED,)

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        wanted = request.pod_value(WANTED)
        if wanted is None:
            return np.zeros(len(nodes))
        return np.where(nodes.label_in(self.label, (wanted,)), 100.0, 0.0)
