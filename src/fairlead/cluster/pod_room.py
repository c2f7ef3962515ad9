"""How many equal pods each node has room for, from what is free on it.

It is never less than what could be placed there. It may be more where a rule looks at single
devices or at other pods: the trial decides.
"""

import numpy as np

from fairlead.cluster.arrays import PerNode
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import GpuRequest, Isolation
from fairlead.model.pods import Amounts, PodRequest
from fairlead.model.quantities import PODS
from fairlead.model.topology import HOSTNAME


def pod_room(
    request: PodRequest, amounts: Amounts, ask: GpuRequest | None, nodes: Nodes
) -> PerNode:
    """By node; `amounts` and `ask` are what counts of the resources and GPUs of the request."""
    room = np.maximum(nodes.free(PODS), 0)
    for resource, need in amounts:
        if need > 0:
            room = np.minimum(room, np.maximum(nodes.free(resource), 0) // need)
    if ask is not None and ask.map_slot is None:
        room = np.minimum(room, _gpu_room(ask, nodes))
    if request.host_ports or _apart(request, nodes):
        room = np.minimum(room, 1)
    return room


def _gpu_room(ask: GpuRequest, nodes: Nodes) -> PerNode:
    gpus = nodes.gpus
    usable = gpus.usable(ask)
    if ask.sliced:
        parts = gpus.room_for(ask)
    elif ask.whole:
        parts = usable.astype(np.int64)
    else:
        parts = gpus.milli_open(ask) // max(ask.milli, 1)
        if ask.by_memory:
            parts = np.minimum(parts, gpus.memory_free() // np.maximum(gpus.memory_asked(ask), 1))
        if ask.isolation is Isolation.MPS:
            parts = np.minimum(parts, gpus.free_clients())
    parts = np.where(usable, parts, 0)
    found: PerNode = parts.sum(axis=1) // max(ask.gpus, 1)
    # GPUs that are only counted are limited as a resource; other dialects need a list.
    return np.where(gpus.known(), found, np.iinfo(np.int64).max)


def _apart(request: PodRequest, nodes: Nodes) -> bool:
    """Whether two such pods keep each other from one node."""
    terms = (term for term in request.anti_affinity if term.topology_key == HOSTNAME)
    return any(nodes.means_itself(request, (term,)) for term in terms)
