"""GPUs of one model for a gang whose pods may have any: a preference, never a reason to wait.

Ranks wait for the slowest one, so a gang on two models runs as fast as on the slower of them.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from fairlead.cluster.arrays import NodeMask, PerNode
from fairlead.cluster.cluster import Cluster
from fairlead.model.pods import Pod, PodRequest
from fairlead.placement.gang_room import GangRoom
from fairlead.placement.place import Placement

#: Models, and different requests, that are looked at.
_MOST_MODELS = 16
_MOST_REQUESTS = 8


def one_model(
    pods: Sequence[Pod],
    placed_on: Collection[str],
    placements: Mapping[str, Placement],
    cluster: Cluster,
) -> NodeMask | None:
    """The rows of a model that has room for all these pods; None if any rows will do.

    That of members with a node first, then one whose nodes scores prefer, then the one with the
    least room.
    """
    models: PerNode = cluster.columns.devices.model[: cluster.columns.size, 0]
    known = np.unique(models[models >= 0])
    if not 1 < len(known) <= _MOST_MODELS:
        return None
    room = GangRoom(cluster)
    counts: dict[PodRequest, int] = {}
    for pod in pods:
        request = room.know(pod, placements[pod.scheduler])
        counts[request] = counts.get(request, 0) + 1
        if len(counts) > _MOST_REQUESTS or not room.gpus_of(request):
            return None
    rows = [cluster.row_of[name] for name in placed_on if name in cluster.row_of]
    ranked = []
    for code in known.tolist():
        mask = models == code
        if all(int(room.of(each)[mask].sum()) >= count for each, count in counts.items()):
            apart = not any(mask[row] for row in rows)
            penalty = min(int(room.penalty(each)[mask].min()) for each in counts)
            ranked.append((apart, penalty, int(room.gpus_milli()[mask].sum()), code))
    return models == min(ranked)[-1] if ranked else None
