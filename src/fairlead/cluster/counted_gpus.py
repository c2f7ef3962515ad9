"""Counted resources that are charged for GPUs, such as watts: so many for each GPU of a model."""

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fairlead.cluster.arrays import PerNode
from fairlead.model.counted import ANY_MODEL, Counts
from fairlead.model.gpus import WHOLE, GpuRequest
from fairlead.model.machines import is_model
from fairlead.model.pods import Amounts, Pod
from fairlead.model.queues import GPUS, GPUS_OF_MODEL

if TYPE_CHECKING:
    from fairlead.cluster.cluster import Cluster
    from fairlead.cluster.holdings import Holding


def gpus_of(cluster: "Cluster", pod: Pod) -> int:
    """What the pod asks for, in thousandths of GPUs."""
    return dict(cluster.charges.of_request(pod.request)).get(GPUS, 0)


def part(amount: int, milli: int) -> int:
    """The amount of so many thousandths of a GPU, rounded up."""
    return -(-amount * milli // WHOLE)


def least(per_gpu: Counts, milli: int) -> int:
    """What so many thousandths of GPUs are charged for at least, whatever their model."""
    amounts = dict(per_gpu)
    return part(min(amounts.values()), milli) if ANY_MODEL in amounts else 0


def charge(cluster: "Cluster", held: "Holding", per_gpu: Counts) -> int:
    """What the GPUs are charged for that a pod has."""
    return _charge(cluster.charges.of_holding(held), per_gpu)


@lru_cache(maxsize=1024)
def _charge(counted: Amounts, per_gpu: Counts) -> int:
    """Many pods have the same: thousands are charged in one turn if the object changes."""
    other, total = dict(counted).get(GPUS, 0), 0
    for name, milli in counted:
        if name.startswith(GPUS_OF_MODEL):
            total += part(_of_model(per_gpu, name.removeprefix(GPUS_OF_MODEL)), milli)
            other -= milli
    return total + part(dict(per_gpu).get(ANY_MODEL, 0), max(0, other))


def by_row(cluster: "Cluster", per_gpu: Counts) -> PerNode:
    """What one GPU of each row is charged for, at most."""
    devices, size = cluster.columns.devices, cluster.columns.size
    any_model = dict(per_gpu).get(ANY_MODEL, 0)
    found: PerNode = np.full(size, any_model, dtype=np.int64)
    named = [model for model, _ in per_gpu if model != ANY_MODEL]
    if not named:
        return found
    amounts: PerNode = np.full(devices.models.width + 1, any_model, dtype=np.int64)
    amounts[-1] = 0  # slots without a GPU
    for model in reversed(named):
        matches = devices.match.of(GpuRequest(gpus=1, models=frozenset((model,))))
        amounts[matches] = dict(per_gpu)[model]
    listed = devices.model[:size]
    rows = (listed >= 0).any(axis=1)
    found[rows] = amounts[listed].max(axis=1)[rows]
    return found


def _of_model(per_gpu: Counts, product: str) -> int:
    """The first model that the product is, by name."""
    found = (n for model, n in per_gpu if model != ANY_MODEL and is_model(product, model))
    return next(found, dict(per_gpu).get(ANY_MODEL, 0))
