"""A goal in seconds: how long a node fetches what the pod reads and the node does not have."""

from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.data_sets import (
    DATA,
    FLUID,
    KSERVE,
    MODEL,
    MODEL_NAMESPACE,
    DataItem,
    read_data,
)
from fairlead.model.errors import ConfigError, FairleadError
from fairlead.model.goals import GoalUnit
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.node_figures import Figure
from fairlead.model.pods import PodField, PodRequest

_BYTES_PER_MB = 1e6
_BYTES_PER_GB = 1e9


@dataclass(frozen=True, slots=True)
class FetchTime:
    """Images and data that the node lacks, divided by the bandwidth at which it fetches them."""

    #: Where the configuration has no bandwidth of a node.
    mb_per_s: float = 250.0
    #: At which images are pulled and unpacked, at most; 0: images are not counted.
    image_mb_per_s: float = 100.0
    #: Of labels of nodes with the amount of data that a node has cached; empty: there are none.
    cache_prefix: str = ""
    name: ClassVar[str] = "FetchTime"
    unit: ClassVar[GoalUnit] = GoalUnit.SECONDS
    reads: ClassVar[Aspect] = Aspect.IMAGES | Aspect.LABELS | Aspect.FIGURES
    pod_keys: ClassVar[tuple[str, ...]] = (DATA, MODEL, MODEL_NAMESPACE)
    pod_fields: ClassVar[PodField] = PodField.IMAGES

    def __post_init__(self) -> None:
        if self.mb_per_s <= 0 or self.image_mb_per_s < 0:
            raise ConfigError("mb_per_s must be above 0, and image_mb_per_s not below")

    def count(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        images, data = self._missing(request, nodes)
        bandwidth = self._bandwidth(nodes)
        seconds: NodeScores = data / bandwidth
        if self.image_mb_per_s:
            seconds += images / np.minimum(bandwidth, self.image_mb_per_s * _BYTES_PER_MB)
        return seconds

    def detail(self, request: PodRequest, node: Nodes) -> str:
        """What is missing on the one node given, and how fast it comes."""
        images, data = (float(each[0]) / _BYTES_PER_GB for each in self._missing(request, node))
        speed = float(self._bandwidth(node)[0]) / _BYTES_PER_MB
        return f"{images:.3g} GB of images and {data:.3g} GB of data at {speed:.4g} MB/s"

    def _missing(self, request: PodRequest, nodes: Nodes) -> tuple[NodeScores, NodeScores]:
        images = request.images if self.image_mb_per_s else ()
        return (
            nodes.missing_bytes((images, "", ())),
            nodes.missing_bytes(((), self.cache_prefix, data_of(request))),
        )

    def _bandwidth(self, nodes: Nodes) -> NodeScores:
        """In bytes for each second."""
        known = nodes.figure(Figure.BANDWIDTH)
        return np.where(known > 0, known, self.mb_per_s) * _BYTES_PER_MB


def data_of(request: PodRequest) -> tuple[DataItem, ...]:
    """What the pod names, the volume claims that may be those of Fluid, and its model."""
    named: tuple[DataItem, ...] = ()
    if text := request.pod_value(DATA):
        try:
            named = read_data(text, request.namespace)
        except FairleadError:
            named = ()  # its author is warned at admission
    claims = request.volumes.claims if request.volumes else ()
    mounted = tuple((FLUID + each.key, 0) for each in claims if not each.ephemeral)
    return (*named, *mounted, *_models(request))


def _models(request: PodRequest) -> tuple[DataItem, ...]:
    model, namespace = request.pod_value(MODEL), request.pod_value(MODEL_NAMESPACE)
    if not model:
        return ()
    # Caches of a namespace serve that namespace only.
    return (
        (f"{KSERVE}{namespace}/{model}" if namespace == request.namespace else KSERVE + model, 0),
    )
