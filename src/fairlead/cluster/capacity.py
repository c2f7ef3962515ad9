"""What the cluster has and what its pods hold together, in the amounts of a queue."""

from collections import Counter
from collections.abc import Iterable, Mapping

from fairlead.cluster.claim_capacity import held_by_claims, published_models
from fairlead.cluster.cluster import Cluster
from fairlead.model.gpus import WHOLE
from fairlead.model.machines import is_model
from fairlead.model.queues import GPUS, GPUS_OF_MODEL


def all_gpu_models(cluster: Cluster) -> Counter[str]:
    """How many GPUs there are of each model, those that only a DRA driver publishes included."""
    return Counter(cluster.gpu_models()) + published_models(cluster)


def capacity(cluster: Cluster, names: Iterable[str]) -> dict[str, int]:
    """Of each of these resources; those that no node has are left out."""
    models = all_gpu_models(cluster)
    found = {name: _capacity(cluster, name, models) for name in names}
    return {name: amount for name, amount in found.items() if amount}


def _capacity(cluster: Cluster, name: str, models: Mapping[str, int]) -> int:
    if name == GPUS:
        return WHOLE * sum(models.values())
    if name.startswith(GPUS_OF_MODEL):
        model = name.removeprefix(GPUS_OF_MODEL)
        return WHOLE * sum(count for other, count in models.items() if is_model(other, model))
    return int(cluster.nodes.allocatable(name).sum())


def held(cluster: Cluster, names: Iterable[str]) -> dict[str, int]:
    """By all pods; GPUs of one model are not told apart."""
    plain = (name for name in names if not name.startswith(GPUS_OF_MODEL))
    return {
        name: _held_gpus(cluster) if name == GPUS else int(cluster.nodes.requested(name).sum())
        for name in plain
    }


def _held_gpus(cluster: Cluster) -> int:
    devices, size = cluster.columns.devices, cluster.columns.size
    known = devices.known[:size]
    there = devices.there[:size] & known[:, None]
    single = WHOLE * int(there.sum()) - int(devices.milli_free[:size][there].sum())
    chosen = int(devices.elsewhere[:size][known].sum())
    counted = int(cluster.nodes.requested(GPUS)[~known].sum())
    return single + WHOLE * (chosen + counted) + held_by_claims(cluster)
