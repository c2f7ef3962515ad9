"""Memory that is really free, whatever was booked."""

from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.loads import UNKNOWN
from fairlead.model.pods import PodField, PodRequest
from fairlead.plugins.api import HIGHEST_SCORE, GpuScores
from fairlead.plugins.gaps import asked_gpus
from fairlead.plugins.measured import READS, of_best_gpus


@dataclass(frozen=True, slots=True)
class MemoryRoom:
    """What would be left of a GPU's memory: of what is not booked, or of what is not in use,
    whichever is less. Where it is not measured, only the ledger counts; where the memory of GPUs
    is not known, all are equal.
    """

    #: Likes the least that is left rather than the most, but no GPU that is short of it.
    packs: bool = False
    name: ClassVar[str] = "MemoryRoom"
    reads: ClassVar[Aspect] = READS
    pod_fields: ClassVar[PodField] = PodField.LOAD

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        return of_best_gpus(self.rate_gpus(request, nodes), request, nodes)

    def rate_gpus(self, request: PodRequest, nodes: Nodes) -> GpuScores:
        gpus = nodes.gpus
        total = np.maximum(gpus.memory(), 1)
        not_in_use = gpus.memory() - nodes.load.memory_used()
        free = np.fmin(gpus.memory_free(), not_in_use)
        left = np.clip((free - _asked_mib(request, nodes)) / total, -1.0, 1.0)
        liked = np.where(left < 0, 0.0, 1.0 - left) if self.packs else (1.0 + left) / 2
        points: GpuScores = HIGHEST_SCORE * liked
        return points


def _asked_mib(request: PodRequest, nodes: Nodes) -> GpuScores:
    """What the pod takes of each GPU: what it asks for, or what it says it will need."""
    ask, memory = asked_gpus(request), nodes.gpus.memory()
    if ask is None:
        return np.zeros_like(memory, dtype=np.float64)
    if ask.whole:
        expected = (request.load or UNKNOWN).memory_mib or 0.0
        return np.full_like(memory, expected, dtype=np.float64)
    return nodes.gpus.memory_asked(ask).astype(np.float64)
