"""What keeps GPUs of a device plugin from being reserved for shares, in words."""

from collections.abc import Iterable

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.gpu_rows import GpuRows
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import GpuRequest

UNRESERVED = "node(s) had pods that share a GPU which is not reserved any more"
PAUSED = "node(s) had no GPU that could be reserved just now"
NO_FREE_GPU = "node(s) had no free GPU to reserve for shares"


def missing_reservations(gpus: GpuRows) -> Iterable[tuple[str, NodeMask, bool]]:
    """Of any request, before anything else is looked at."""
    if gpus.any_astray:
        yield UNRESERVED, gpus.astray(), False
    counted = gpus.slotted() & ~gpus.known()
    if counted.any():
        yield PAUSED, counted & ~gpus.there().any(axis=1), False


def missing_free_gpus(gpus: GpuRows) -> Iterable[tuple[str, NodeMask, bool]]:
    """Of shares, where nothing else is missing."""
    yield NO_FREE_GPU, gpus.slotted() & ~gpus.known(), True


def reservation_detail(ask: GpuRequest, node: Nodes) -> str:
    """About a single node; empty if something else is missing."""
    gpus = node.gpus
    if gpus.astray()[0]:
        return (
            "pods there share a GPU whose reservation pod is gone, and the device plugin could "
            "assign the same GPU; delete those pods (event GPUReservationLost)"
        )
    if ask.whole or gpus.known()[0] or not gpus.slotted()[0]:
        return ""
    if not gpus.there()[0].any():
        why = next((inventory.paused for inventory in node.inventories()), "")
        return why or "the device plugin has no GPU"
    usable, unused = gpus.usable(ask)[0], gpus.unused()[0]
    if (usable & unused).any() and not (usable & ~unused).any():
        return "no reserved GPU has room, and all others are in use"
    return ""
