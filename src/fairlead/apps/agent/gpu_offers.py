"""GPUs as extended resources of the node, for what counts requests only, such as autoscalers."""

from collections.abc import Iterator, Mapping
from typing import Literal

from fairlead.apps.agent.unassigned_processes import NodePod, PodsByUid
from fairlead.base.node_inventory import WELL, Listing
from fairlead.model.gpu_resources import GPU_MIB, GPU_MILLI, GPU_PARTS
from fairlead.model.gpus import WHOLE
from fairlead.model.nodes import GPU
from fairlead.model.quantities import amount

#: Nothing is written; parts of GPUs; also whole GPUs, where no device plugin offers them; or what
#: was offered before is removed.
Offers = Literal["none", "parts", "all", "withdraw"]
CHOICES: tuple[Offers, ...] = ("none", "parts", "all", "withdraw")
#: Amounts by name; None: it is not to be there.
Capacity = Mapping[str, int | None]


def offered(offers: Offers, listed: Listing | None, pods: PodsByUid | None) -> Capacity | None:
    """What the node is to have; None while it is not known, and where nothing is written."""
    if offers == "none":
        return None
    if offers == "withdraw":
        return dict.fromkeys(sorted(GPU_PARTS))
    if listed is None or pods is None:
        return None
    used = set(_used(listed, pods))
    gpus = [gpu for gpu in listed.gpus if gpu.health == WELL or gpu.uuid in used]
    parts = {GPU_MILLI: WHOLE * len(gpus), GPU_MIB: sum(gpu.memory_mib for gpu in gpus)}
    return parts | ({GPU: len(gpus)} if offers == "all" else {})


def has(there: Mapping[str, str], offered: Capacity) -> bool:
    """Whether a status says so; the API server writes 2000 as 2k."""
    found = {key: there.get(key) for key in offered}
    return offered == {key: text and amount(key, text) for key, text in found.items()}


def _used(listed: Listing, pods: PodsByUid) -> Iterator[str]:
    """A GPU that is sick counts while a pod has it: the request of the pod counts, too."""
    here = [pod for claims in pods.values() for pod in claims if not pod.over]
    for pod in here:
        yield from _gpus(pod, listed)


def _gpus(pod: NodePod, listed: Listing) -> Iterator[str]:
    if pod.assigned is None:  # a device plugin chose them: it may be any
        yield from (gpu.uuid for gpu in listed.gpus)
    else:
        yield from pod.assigned
