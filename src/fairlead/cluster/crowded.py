"""Nodes that come with more pods than can be counted in one turn.

A client may write the name of a node into any number of pods, before there is such a node. None of
these nodes has room: its kubelet rejects what is beyond its limit of pods. So such a node gets no
row, as if it had not come yet, until enough of its pods are gone.
"""

from collections.abc import Iterable

from fairlead.cluster.holdings import Holding

#: In units of `weight_of`: 4,000 plain pods. To count that much takes less than 0.1 s.
MOST_WEIGHT = 32_000
#: Of a plain pod. Nodes are made for some hundreds of pods.
POD_WEIGHT = 8


def weight_of(held: Holding) -> int:
    """How much there is to count of a pod when its node comes; one is a few microseconds."""
    request, volumes = held.pod.request, held.pod.request.volumes
    terms = len(request.anti_affinity) + len(request.required_affinity)
    terms += len(request.preferred_affinity)
    if volumes is not None:
        terms += len(volumes.claims) + len(volumes.disks) + len(volumes.inline)
    if held.grant is not None:
        terms += len(held.grant.uses)
    return POD_WEIGHT + terms + len(held.ports) + len(held.shared)


def weight_of_all(pods: Iterable[Holding]) -> int:
    """The sum, as far as it is at most a little above the limit."""
    weight = 0
    for held in pods:
        weight += weight_of(held)
        if weight > MOST_WEIGHT:
            break
    return weight
