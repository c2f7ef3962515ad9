"""How many GPUs are free in sum, and how many of them on one node."""

from dataclasses import dataclass

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.cluster import Cluster
from fairlead.engine.consolidation.movable import requested_milli
from fairlead.model.gpus import WHOLE
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
    found = np.maximum(nodes.free(GPU), 0) * WHOLE
    if ask is not None:
        gpus = nodes.gpus
        there = gpus.there() & gpus.wanted(ask)
        milli = np.where(gpus.unused(), WHOLE, 0 if ask.whole else gpus.milli_free())
        by_gpu = np.where(there, np.maximum(milli, 0), 0).sum(axis=1)
        found = np.where(gpus.known(), by_gpu, found)
    on_all = int(found.sum())
    found = np.where(rows, found, 0)
    return FreeGpus(
        int(found.sum()),
        int(np.count_nonzero(found)),
        int(found.max(initial=0)),
        on_all,
        pods * requested_milli(pod.request),
        int(np.count_nonzero(rows)),
    )
