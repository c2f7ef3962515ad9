"""Two busy pods on one GPU slow each other down: how often would both use it?"""

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

#: A pod that keeps a GPU busy for less than this share of the time disturbs no other.
_LIGHT = 0.1


@dataclass(frozen=True, slots=True)
class QuietNeighbours:
    """The share of the time in which only one of them uses the GPU.

    Bursts fall into the gaps of others, so what a GPU does on the whole counts. Two rhythms drift
    until their busy stretches meet, so between them what it does at its busiest counts. A hot GPU
    is for light pods only. A GPU that is free in the ledger and still busy is used by an
    unassigned process.
    """

    #: A GPU that is busy for this share of the time, at its busiest, is hot.
    hot: float = 0.9
    name: ClassVar[str] = "QuietNeighbours"
    reads: ClassVar[Aspect] = READS
    pod_fields: ClassVar[PodField] = PodField.LOAD

    def __post_init__(self) -> None:
        share(self, "hot")

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        return of_best_gpus(self.rate_gpus(request, nodes), request, nodes)

    def rate_gpus(self, request: PodRequest, nodes: Nodes) -> GpuScores:
        load = request.load or UNKNOWN
        ours, theirs = expected_busy(load), nodes.load
        in_step = (theirs.cyclic() > 0) & bool(load.cyclic)
        wanted = np.where(in_step, theirs.busiest(), theirs.busy())
        # Who waits for memory waits, whatever else the GPU has to spare.
        wanted = np.fmax(wanted, theirs.memory_busy())
        points: GpuScores = HIGHEST_SCORE * (1.0 - ours * wanted)
        if ours >= _LIGHT:
            hot = np.fmax(theirs.busiest(), theirs.memory_busy()) >= self.hot
            points[hot] = 0.0
        return points
