"""Use up what is begun, by what was measured: shares go where there is really room left."""

from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.loads import UNKNOWN, expected_busy
from fairlead.model.pods import PodField, PodRequest
from fairlead.plugins.api import HIGHEST_SCORE, GpuScores
from fairlead.plugins.measured import READS, of_best_gpus, share

_HALF = HIGHEST_SCORE / 2


@dataclass(frozen=True, slots=True)
class FillQuietGpus:
    """The busiest GPU that stays below the level with the pod on it; then unused GPUs;
    then those that would be too busy, the least busy first. For whole GPUs all
    nodes are equal.
    """

    #: Share of the time up to which GPUs are filled.
    level: float = 0.8
    name: ClassVar[str] = "FillQuietGpus"
    reads: ClassVar[Aspect] = READS
    pod_fields: ClassVar[PodField] = PodField.LOAD

    def __post_init__(self) -> None:
        share(self, "level")

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        if request.gpu_request is None or request.gpu_request.whole:
            return np.zeros(len(nodes))
        return of_best_gpus(self.rate_gpus(request, nodes), request, nodes)

    def rate_gpus(self, request: PodRequest, nodes: Nodes) -> GpuScores:
        with_it = nodes.load.busiest() + expected_busy(request.load or UNKNOWN)
        filled = _HALF + _HALF * np.minimum(with_it / self.level, 1.0)
        too_busy = _HALF / 2 * (1.0 - np.minimum(with_it - self.level, 1.0))
        begun = np.where(with_it <= self.level, filled, too_busy)
        points: GpuScores = np.where(nodes.gpus.users() > 0, begun, _HALF)
        return points
