"""The part of a node that a pod takes, which several goals count by."""

from abc import ABC, abstractmethod

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import WHOLE
from fairlead.model.pods import PodRequest
from fairlead.model.quantities import CPU, MEMORY
from fairlead.plugins.gaps import asked_gpus, gpu_count, parts


def share_of_node(request: PodRequest, nodes: Nodes) -> NodeScores:
    """The part of each node that the pod takes: the largest of GPUs, cpu and memory; 0 to 1."""
    share = np.zeros(len(nodes))
    for resource in (CPU, MEMORY):
        amount = request.amount(resource)
        if amount:
            share = np.maximum(share, amount / np.maximum(nodes.allocatable(resource), 1))
    ask = asked_gpus(request)
    if ask is not None:
        each = parts(ask, nodes).max(axis=1) if ask.by_memory else ask.milli
        taken = ask.gpus * (WHOLE if ask.whole else each)
        share = np.maximum(share, taken / np.maximum(gpu_count(nodes) * WHOLE, 1))
    return np.minimum(share, 1.0)


class OfNodeShare(ABC):
    """A goal that counts by the part of the node, which is computed once for all of them."""

    __slots__ = ()

    def count(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        return self.count_share(share_of_node(request, nodes), nodes)

    @abstractmethod
    def count_share(self, share: NodeScores, nodes: Nodes) -> NodeScores:
        """What a pod that takes this part of each node counts."""
