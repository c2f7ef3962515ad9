"""The taste of the tutorial's gpu-aware-scheduler: free, idle, modern and well-joined GPUs."""

from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.devices import GpuMask
from fairlead.cluster.gpu_rows import GpuRows
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import WHOLE
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest
from fairlead.plugins.api import HIGHEST_SCORE, GpuScores
from fairlead.plugins.gaps import asked_gpus, gpu_count
from fairlead.plugins.measured import READS, of_best_gpus, positive


@dataclass(frozen=True, slots=True)
class GpuAware:
    """Points of the best GPUs that the pod would get. A GPU whose utilisation is not known
    gets half of what an idle one gets. Pods without GPUs stay off nodes with GPUs.
    """

    #: Part of the name of the models that are liked better.
    favoured: str = "H100"
    #: Node label that says "true" where GPUs are joined by NVLink.
    nvlink_label: str = "gpu.nvlink"
    #: Points for a GPU with all of its memory free, an idle one, a favoured and a joined one.
    free_points: float = 50.0
    idle_points: float = 30.0
    favoured_points: float = 30.0
    joined_points: float = 10.0
    name: ClassVar[str] = "GpuAware"
    reads: ClassVar[Aspect] = READS | Aspect.LABELS

    def __post_init__(self) -> None:
        positive(self, "free_points", "idle_points", "favoured_points", "joined_points")

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        if asked_gpus(request) is None:
            return np.where(gpu_count(nodes) > 0, 0.0, HIGHEST_SCORE)
        most = self.free_points + self.idle_points + self.favoured_points + self.joined_points
        points = self.rate_gpus(request, nodes)
        return of_best_gpus(points, request, nodes) * (HIGHEST_SCORE / most)

    def rate_gpus(self, request: PodRequest, nodes: Nodes) -> GpuScores:
        favoured = _models_with(self.favoured, nodes.gpus)
        joined = nodes.label_in(self.nvlink_label, ("true",))
        points: GpuScores = self.free_points * _free(nodes)
        points += self.idle_points * (1.0 - nodes.load.busy())
        points += self.favoured_points * favoured + self.joined_points * joined[:, None]
        return points


def _free(nodes: Nodes) -> GpuScores:
    """The share that is free by the book, or the memory that is not in use, whichever is less."""
    memory = nodes.gpus.memory()
    in_use = np.where(memory > 0, nodes.load.memory_used() / np.maximum(memory, 1), np.nan)
    free: GpuScores = np.fmin(nodes.gpu_room() / WHOLE, np.clip(1.0 - in_use, 0.0, 1.0))
    return free


def _models_with(part: str, gpus: GpuRows) -> GpuMask:
    codes = [code for model, code in gpus.codes().items() if part in model]
    found: GpuMask = np.isin(gpus.model(), codes)
    return found
