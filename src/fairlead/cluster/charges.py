"""What holdings count for, in the amounts of a queue.

GPUs are counted in thousandths under `nvidia.com/gpu`, and once more under the name of their model.
All other resources are counted as pods request them, and pods themselves under `pods`.
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fairlead.cluster.claim_charges import asked_milli, count_users, held_milli
from fairlead.cluster.holdings import Holding
from fairlead.model.gpu_parts import charge_of, counted, milli_of_request, milli_of_use
from fairlead.model.gpus import WHOLE, GpuRequest, GpuUse, Grant, Inventory
from fairlead.model.pods import Amounts, Pod, PodRequest
from fairlead.model.queues import GPUS, GPUS_OF_MODEL
from fairlead.model.sizes import Kept

if TYPE_CHECKING:
    from fairlead.cluster.cluster import Cluster

ChargeOf = Callable[[Holding], Amounts]

_KEPT_BYTES = 2 << 20
_NONE = Inventory()


class Charges:
    """Computes them from holdings, requests and the GPUs of nodes."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        #: By request, of those that do not depend on the GPUs there are.
        self._kept: Kept[PodRequest, Amounts] = Kept(_KEPT_BYTES)

    def of_request(self, request: PodRequest) -> Amounts:
        """What a pod may come to hold, at most; which model it gets is not known yet."""
        found = self._kept.get(request)
        if found is not None:
            return found
        if request.claims:
            milli = asked_milli(request.claims, self._cluster.claims)
            return _plus(charge_of(request), milli)
        asked = request.gpu_request
        if asked is not None and asked.memory_mib:
            return charge_of(request, self._smallest_mib(asked))
        return self._kept.keep(request, charge_of(request), request.weight_bytes)

    def of_holding(self, held: Holding) -> Amounts:
        charge = self._of_holding(held)
        if not held.pod.request.claims:
            return charge
        pod = held.pod
        return _plus(charge, held_milli(pod.uid, pod.request.claims, self._cluster.claims))

    def of_counted(self, held: Holding) -> Amounts:
        """The same for one that is counted from now on."""
        if held.pod.request.claims:
            count_users(held.pod.uid, held.pod.request.claims, self._cluster.claims)
        return self.of_holding(held)

    def _of_holding(self, held: Holding) -> Amounts:
        inventory = self._cluster.inventory_of(held.node) or _NONE
        uses = held.grant.uses if held.grant else ()
        if not uses:
            return self._of_counted(held, inventory.model)
        by_model = _by_model(uses, inventory)
        return (
            *counted(held.amounts, by_model.total()),
            *((GPUS_OF_MODEL + model, milli) for model, milli in by_model.items() if model),
        )

    def on(self, pod: Pod, node: str, grant: Grant | None) -> Amounts:
        """What a pending pod would count for on the node."""
        return self.of_holding(Holding.of(pod, node, assumed=True, grant=grant))

    def _of_counted(self, held: Holding, model: str) -> Amounts:
        """GPUs that a device plugin picks have a model if all of the node have the same."""
        request = held.pod.request
        if held.amounts == request.resources and not request.claims:
            charge = self.of_request(request)
        else:
            charge = counted(held.amounts, self._gpus_of(held))
        if not model:
            return charge
        of_model = GPUS_OF_MODEL + model
        return (*charge, *((of_model, amount) for name, amount in charge if name == GPUS))

    def _gpus_of(self, held: Holding) -> int:
        """After a resize other amounts are held than were requested."""
        asked = held.pod.request.gpu_request
        if asked is None:
            return WHOLE * held.pod.request.amount(GPUS)
        return milli_of_request(asked, self._smallest_mib(asked) if asked.memory_mib else 0)

    def _smallest_mib(self, asked: GpuRequest) -> int:
        """The memory of the smallest GPU that has as much as the request."""
        devices = self._cluster.columns.devices
        memory = devices.memory[devices.there & (devices.memory >= asked.memory_mib)]
        return int(np.min(memory)) if memory.size else 0


def _plus(charge: Amounts, milli: int) -> Amounts:
    """With so many thousandths of GPUs more."""
    if not milli:
        return charge
    found = dict(charge)
    found[GPUS] = found.get(GPUS, 0) + milli
    return tuple(found.items())


def _by_model(uses: tuple[GpuUse, ...], inventory: Inventory) -> Counter[str]:
    """Thousandths of GPUs; of a GPU that is not listed the model of all others."""
    found: Counter[str] = Counter()
    if inventory.model and not any(use.memory_mib for use in uses):
        found[inventory.model] = sum(milli_of_use(use, 0) for use in uses)
        return found
    gpus = {gpu.uuid: gpu for gpu in inventory.gpus}
    for use in uses:
        gpu = gpus.get(use.uuid)
        model = gpu.model if gpu else inventory.model
        found[model] += milli_of_use(use, gpu.memory_mib if gpu else 0)
    return found
