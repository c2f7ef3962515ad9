"""What holdings count for, in the amounts of a queue.

GPUs are counted in thousandths under `nvidia.com/gpu`, and once more under the name of their model.
All other resources are counted as pods request them, and pods themselves under `pods`.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from fairlead.model.gpu_parts import MIG_RESOURCE, milli_of_request, milli_of_use, slice_milli
from fairlead.model.gpus import WHOLE, Gpu, GpuRequest
from fairlead.model.pods import Amounts, PodRequest
from fairlead.model.quantities import PODS
from fairlead.model.queues import GPUS, GPUS_OF_MODEL

if TYPE_CHECKING:
    from fairlead.cluster.cluster import Cluster
    from fairlead.cluster.holdings import Holding

ChargeOf = Callable[["Holding"], Amounts]


class Charges:
    """Computes them from holdings, requests and the GPUs of nodes. It keeps nothing."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster

    def of_holding(self, held: "Holding") -> Amounts:
        counted, mig = _others(held.amounts)
        milli = self._by_model(held)
        total = milli.total() + mig
        if total:
            counted[GPUS] = total
        for model, part in milli.items():
            if model:
                counted[GPUS_OF_MODEL + model] = part
        return tuple(counted.items())

    def of_request(self, request: PodRequest) -> Amounts:
        """What a pod may come to hold, at most; which model it gets is not known yet."""
        counted, mig = _others(request.resources)
        total = mig + self._gpus_of(request.gpu_request, request.amount(GPUS))
        if total:
            counted[GPUS] = total
        return tuple(counted.items())

    def _by_model(self, held: "Holding") -> Counter[str]:
        gpus = self._gpus_on(held.node)
        uses = held.grant.uses if held.grant else ()
        found: Counter[str] = Counter()
        if not uses:
            asked = self._gpus_of(held.pod.request.gpu_request, dict(held.amounts).get(GPUS, 0))
            if asked:
                found[_only_model(gpus.values())] = asked
        for use in uses:
            gpu = gpus.get(use.uuid)
            model = gpu.model if gpu else _only_model(gpus.values())
            found[model] += milli_of_use(use, gpu.memory_mib if gpu else 0)
        return found

    def _gpus_on(self, node: str) -> dict[str, Gpu]:
        inventory = self._cluster.inventory_of(node)
        return {gpu.uuid or str(gpu.index): gpu for gpu in inventory.gpus} if inventory else {}

    def _gpus_of(self, asked: GpuRequest | None, count: int) -> int:
        if asked is None:
            return count * WHOLE
        return milli_of_request(asked, self._smallest_mib(asked) if asked.memory_mib else 0)

    def _smallest_mib(self, asked: GpuRequest) -> int:
        """The memory of the smallest GPU that has as much as the request."""
        devices = self._cluster.columns.devices
        memory = devices.memory[devices.there & (devices.memory >= asked.memory_mib)]
        return int(np.min(memory)) if memory.size else 0


def _others(amounts: Amounts) -> tuple[dict[str, int], int]:
    """What is counted as it is, and MIG slices of a device plugin in thousandths of a GPU."""
    counted, mig = {PODS: 1}, 0
    for name, amount in amounts:
        if name == GPUS:
            continue
        counted[name] = amount
        if name.startswith(MIG_RESOURCE):
            mig += amount * slice_milli(name.removeprefix(MIG_RESOURCE))
    return counted, mig


def _only_model(gpus: Iterable[Gpu]) -> str:
    """Of GPUs that a device plugin picks: their model, if all of the node have the same."""
    models = {gpu.model for gpu in gpus}
    return models.pop() if len(models) == 1 else ""
