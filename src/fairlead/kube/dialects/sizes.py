"""How much a bind writes at most: known before a node is chosen.

Kubernetes allows 256 KiB of annotations on a pod. A Binding that goes beyond is accepted, and from
then on every update of the pod is refused, those of its kubelet included.
"""

from collections.abc import Mapping

from fairlead.kube.writes.annotations import LARGEST_BYTES, MOST_ON_A_POD_BYTES, size_of
from fairlead.model.gpus import GpuRequest
from fairlead.model.limits import MOST_GPUS

#: The longest uuid that an inventory may list.
_UUID = 68
#: A device in `fairlead.dev/assignment` with every field, and in `fairlead.dev/gpus`.
_DEVICE, _VISIBLE = _UUID + 76, _UUID + 12
#: A device of one container, as two annotations of HAMi and Volcano say it; KAI says it in less.
_TOLD = 2 * (_UUID + 24)
#: Keys, node name, times, epoch; and the key of a container.
_FIXED, _CONTAINER = 2048, 160


def most_bytes(ask: GpuRequest | None) -> int:
    """What a bind writes for such a request, at most: no node has more than so many GPUs."""
    if ask is None:
        return _FIXED
    gpus = MOST_GPUS if ask.map_slot else min(ask.gpus, MOST_GPUS)
    told = sum(map(len, ask.containers)) or gpus
    devices = gpus * (_DEVICE + _VISIBLE) + told * _TOLD
    return _FIXED + devices + len(ask.containers) * _CONTAINER


def too_large(ask: GpuRequest) -> str:
    """Why its GPUs cannot be written with the bind; empty if they can."""
    size = most_bytes(ask)
    if size <= LARGEST_BYTES:
        return ""
    return (
        f"its containers request so many GPUs that their names take up to {size} bytes, and "
        f"the limit is {LARGEST_BYTES}; request GPUs in fewer init containers"
    )


def too_large_with(annotations: Mapping[str, str], ask: GpuRequest | None) -> str:
    """Why the pod has no room for what the bind writes; empty if it has."""
    own, added = size_of(annotations), most_bytes(ask)
    if own + added <= MOST_ON_A_POD_BYTES:
        return ""
    return (
        f"the pod's annotations take {own} bytes, and those that are written with the bind up to "
        f"{added}; Kubernetes allows {MOST_ON_A_POD_BYTES} on a pod"
    )
