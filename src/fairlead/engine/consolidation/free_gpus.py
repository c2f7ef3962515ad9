"""How many GPUs are free in sum, and how many of them on one node."""

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.cluster import Cluster
from fairlead.engine.consolidation.movable import requested_milli
from fairlead.model.gpus import WHOLE
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod


@dataclass(frozen=True, slots=True)
class FreeGpus:
    """On nodes that a pod could use, in thousandths; on all; and what is asked for."""

    free: int
    nodes: int
    most: int
    on_all: int
    asked: int
    #: Nodes that the pod could use, full or not.
    usable: int

    @property
    def is_enough(self) -> bool:
        """In sum: pods that move may use other nodes than the waiting one."""
        return self.on_all >= self.asked

    @property
    def message(self) -> str:
        free, most = f"{self.free / WHOLE:g}", f"{self.most / WHOLE:g}"
        return f"{free} free on {self.nodes} node(s), most on one: {most}"


def free_gpus(pod: Pod, pods: int, rows: NodeMask, cluster: Cluster) -> FreeGpus:
    """For so many pods like this one, on these rows."""
    ask, nodes = pod.request.gpu_request, cluster.nodes
    found = on_all = np.maximum(nodes.free(GPU), 0) * WHOLE
    if ask is not None:
        gpus = nodes.gpus
        parts = np.where(gpus.there(), np.maximum(gpus.milli_free(), 0), 0)
        on_all = np.where(gpus.known(), parts.sum(axis=1), found)
        parts = np.where(gpus.wanted(ask), parts, 0)  # pods that move may use other models
        # Parts of GPUs are of no use to a pod that asks for whole ones, until shares have moved.
        usable = np.where(gpus.unused(), parts, 0) if ask.whole else parts
        found = np.where(gpus.known(), usable.sum(axis=1), found)
    found = np.where(rows, found, 0)
    return FreeGpus(
        int(found.sum()),
        int(np.count_nonzero(found)),
        int(found.max(initial=0)),
        int(on_all.sum()),
        pods * requested_milli(pod.request),
        int(np.count_nonzero(rows)),
    )
