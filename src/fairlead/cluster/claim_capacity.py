"""GPUs that only a DRA driver publishes, in the amounts of a queue.

On other nodes a device plugin or an inventory has the GPUs, and they are counted there.
"""

from collections import Counter
from collections.abc import Iterator

from fairlead.cluster.claim_charges import milli_of_gpu
from fairlead.cluster.cluster import Cluster
from fairlead.model.nodes import GPU


def published_models(cluster: Cluster) -> Counter[str]:
    """How many GPUs there are of each model, each of them once; "": the model is not known."""
    found: Counter[str] = Counter()
    for node in _nodes(cluster):
        found.update(cluster.claim_gpus.models[node].values())
    return found


def held_by_claims(cluster: Cluster) -> int:
    """Thousandths of these GPUs that claims hold."""
    held = (cluster.claim_gpus.on(node).values() for node in _nodes(cluster))
    return sum(milli_of_gpu(devices) for gpus in held for devices in gpus)


def _nodes(cluster: Cluster) -> Iterator[str]:
    """Nodes whose GPUs only a driver publishes."""
    models = cluster.claim_gpus.models
    if not models:
        return
    known, offered = cluster.columns.devices.known, cluster.nodes.allocatable(GPU)
    for node in models:
        row = cluster.row_of.get(node)
        if row is not None and not known[row] and not offered[row]:
            yield node
