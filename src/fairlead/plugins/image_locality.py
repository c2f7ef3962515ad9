"""Pods go where their images are already."""

from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeMask, NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodField, PodRequest

_MIB = 1 << 20
#: Less than this is not worth a detour; more than that for each container makes no difference.
_LEAST_BYTES = 23 * _MIB
_MOST_BYTES_A_CONTAINER = 1000 * _MIB


@dataclass(frozen=True, slots=True)
class ImageLocality:
    """By bytes that need not be pulled, less for images that few nodes have.

    Otherwise the first node with a new image would get all of its pods.
    """

    name: ClassVar[str] = "ImageLocality"
    reads: ClassVar[Aspect] = Aspect.IMAGES
    pod_fields: ClassVar[PodField] = PodField.IMAGES

    def applies_as_score(self, request: PodRequest, nodes: Nodes) -> bool:
        return any(map(nodes.has_image, request.images))

    def rank(self, request: PodRequest, nodes: Nodes, left: NodeMask) -> NodeScores:
        there = int(np.count_nonzero(nodes.present()))
        saved = np.zeros(len(nodes), dtype=np.int64)
        for image in filter(nodes.has_image, request.images):
            sizes = nodes.image_sizes_bytes(image)
            spread = np.count_nonzero(sizes) / there
            saved += (sizes.astype(np.float64) * spread).astype(np.int64)
        most = _MOST_BYTES_A_CONTAINER * max(1, request.containers)
        worth = np.clip(saved, _LEAST_BYTES, most) - _LEAST_BYTES
        scores: NodeScores = (100 * worth // (most - _LEAST_BYTES)).astype(np.float64)
        return scores
