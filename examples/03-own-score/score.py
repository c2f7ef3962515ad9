"""A score rates each node from 0 to 100. The profile sets its weight."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairlead.plugin import Aspect, Nodes, NodeScores, PodRequest

WANTED = "example.com/wants-gpu"


@dataclass(frozen=True, slots=True)
class WantedModel:
    """Prefers nodes with the GPU model that an annotation of the pod names."""

    #: The node label that holds the model. Fields are options: the configuration may set them.
    label: str = "nvidia.com/gpu.product"
    name: ClassVar[str] = "WantedModel"
    #: What of a node the result depends on.
    reads: ClassVar[Aspect] = Aspect.LABELS
    #: What of a pod, besides its requests, the result depends on.
    pod_keys: ClassVar[tuple[str, ...]] = (WANTED,)

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        wanted = request.pod_value(WANTED)
        if wanted is None:
            return np.zeros(len(nodes))
        return np.where(nodes.label_in(self.label, (wanted,)), 100.0, 0.0)
