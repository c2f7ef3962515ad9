"""Use up what is begun: first GPUs in use, then nodes in use, then the smallest idle node."""

from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores, PerNode
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import WHOLE
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest
from fairlead.plugins.gaps import Gaps, gaps, gpu_count

_IDLE_NODE, _USED_NODE, _USED_GPUS = 33, 50, 100
_NONE = 1000


@dataclass(frozen=True, slots=True)
class GpuPacking:
    """In whole points; pods without GPUs may go anywhere."""

    name: ClassVar[str] = "GpuPacking"
    reads: ClassVar[Aspect] = Aspect.USAGE | Aspect.ALLOCATABLE | Aspect.DEVICES

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        found = gaps(request, nodes)
        if found is None:
            return np.zeros(len(nodes))
        begun = np.clip(_USED_GPUS - _free_on_begun(found) // 10, _USED_NODE, _USED_GPUS)
        fresh = _fresh_gpus(found)
        points = np.where(fresh > 0, np.maximum(_USED_NODE - fresh, _IDLE_NODE), begun)
        idle = (found.room == WHOLE).sum(axis=1)
        gpus = gpu_count(nodes)
        unused = np.clip(np.maximum(_IDLE_NODE - idle, idle), 0, _IDLE_NODE)
        scores: NodeScores = np.where(idle == gpus, unused, points).astype(np.float64)
        return scores


def _fresh_gpus(found: Gaps) -> PerNode:
    """Idle GPUs that the pod needs, once the usable ones in use are taken."""
    in_use = (found.usable & (found.room < WHOLE)).sum(axis=1)
    fresh: PerNode = np.clip(found.gpus - in_use, 0, None)
    return fresh


def _free_on_begun(found: Gaps) -> PerNode:
    """Percent free, added up over the fullest GPUs in use that the pod would take."""
    begun = found.usable & (found.room < WHOLE)
    percent = np.where(begun, found.room * 100 // WHOLE, _NONE)
    fullest = np.sort(percent, axis=1)[:, : found.gpus]
    free: PerNode = np.where(fullest == _NONE, 0, fullest).sum(axis=1)
    return free
