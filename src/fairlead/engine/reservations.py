"""GPUs that reservation pods take from a device plugin, so that they can be shared."""

from collections.abc import Iterable, Sequence

from fairlead.cluster import reserving
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.engine.instructions import AnnounceWarning, Unreserve
from fairlead.model.gpus import Grant
from fairlead.model.pods import Pod
from fairlead.model.reservations import SERVED, Reservation, awaited
from fairlead.placement.verdicts import VictimsByNode
from fairlead.plugins.prepare import PrepareStep
from fairlead.plugins.reservation_step import ReservationStep

LOST = "GPUReservationLost"


def steps(node: str, grant: Grant | None) -> tuple[PrepareStep, ...]:
    """What must be done before a bind with this grant."""
    numbers = awaited(grant) if grant is not None else ()
    return (ReservationStep(node, numbers),) if numbers else ()


def are_needed_for(pod: Pod) -> bool:
    """Whether there is a pod that has, or asks for, what only a reservation can give it.

    Slots for GPUs that are only counted cost time with every placement, so that there are none
    before the first such pod.
    """
    ask = pod.request.gpu_request
    if pod.reservation is not None:
        return True
    return ask is not None and not (ask.whole or ask.profile) and ask.dialect in SERVED


def see(cluster: Cluster, pod: Pod, reservation: Reservation) -> list[AnnounceWarning]:
    """A reservation pod is there. Its GPU is another one only if its kubelet lost the first."""
    before = cluster.reservations.get(pod.node, reservation.number)
    uuid, sharing = _shares(cluster, pod, reservation)
    other = before is not None and reservation.uuid not in ("", before.uuid)
    reserving.confirm(cluster, pod, reservation)
    return list(_warnings(sharing, pod, uuid)) if other and uuid else []


def lose(cluster: Cluster, pod: Pod, reservation: Reservation) -> list[AnnounceWarning]:
    """A reservation pod is gone; what to say of the pods that have shares of its GPU."""
    uuid, sharing = _shares(cluster, pod, reservation)
    reserving.lose(cluster, pod, reservation)
    return list(_warnings(sharing, pod, uuid))


def _shares(
    cluster: Cluster, pod: Pod, reservation: Reservation
) -> tuple[str, Sequence[Holding]]:  # fmt: skip
    """The GPU of the reservation pod as it was, and the pods with shares of it."""
    found = cluster.reservations.get(pod.node, reservation.number)
    if found is None or found.pod is None or found.pod.uid != pod.uid:
        return "", ()
    return found.uuid, reserving.sharing(cluster, pod.node, found)


def _warnings(sharing: Iterable[Holding], pod: Pod, uuid: str) -> Iterable[AnnounceWarning]:
    for held in sharing:
        if held.assumed or held.pod.deleting:
            continue
        yield AnnounceWarning(
            held.pod,
            LOST,
            f"GPU {uuid} of node {pod.node} is not reserved any more by the pod {pod.key}. The "
            "device plugin can assign it to other pods while this pod uses it. No GPU pod is "
            "placed on that node until then; delete this pod and create it again.",
        )


def close(cluster: Cluster, node: str, number: int) -> list[Unreserve]:
    """A reservation that has had no shares for a while is deleted, unless it has some now."""
    pod = reserving.close(cluster, node, number)
    return [Unreserve(pod)] if pod else []


def victims(cluster: Cluster, found: VictimsByNode) -> tuple[VictimsByNode, list[Unreserve]]:
    """Pods that are evicted in place of reservation pods: those that share their GPUs.

    A reservation without shares is closed at once.
    """
    if not cluster.reservations:
        return found, []
    evicted: dict[str, tuple[Pod, ...]] = {}
    made: list[Unreserve] = []
    for node, pods in found.items():
        on_node: dict[str, Pod] = {}
        for pod in pods:
            on_node |= {each.uid: each for each in _in_place_of(cluster, pod)}
            if pod.reservation is not None:
                made += close(cluster, node, pod.reservation.number)
        if on_node:
            evicted[node] = tuple(on_node.values())
    return evicted, made


def _in_place_of(cluster: Cluster, pod: Pod) -> list[Pod]:
    if pod.reservation is None:
        return [pod]
    reserved = cluster.reservations.get(pod.node, pod.reservation.number)
    sharing = reserving.sharing(cluster, pod.node, reserved) if reserved else []
    return [held.pod for held in sharing if not held.pod.deleting]
