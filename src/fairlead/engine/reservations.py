"""GPUs that reservation pods take from a device plugin, so that they can be shared."""

from collections.abc import Iterable

from fairlead.cluster.cluster import Cluster
from fairlead.engine.instructions import AnnounceWarning, Unreserve
from fairlead.model.gpus import Grant
from fairlead.model.pods import Pod
from fairlead.model.reservations import Reservation, awaited
from fairlead.plugins.prepare import PrepareStep
from fairlead.plugins.reservation_step import ReservationStep

LOST = "GPUReservationLost"


def steps(node: str, grant: Grant | None) -> tuple[PrepareStep, ...]:
    """What must be done before a bind with this grant."""
    numbers = awaited(grant) if grant is not None else ()
    return (ReservationStep(node, numbers),) if numbers else ()


def lose(cluster: Cluster, pod: Pod, reservation: Reservation) -> list[AnnounceWarning]:
    """A reservation pod is gone; what to say of the pods that have shares of its GPU."""
    found = cluster.reservations.get(pod.node, reservation.number)
    is_known = found is not None and found.pod is not None and found.pod.uid == pod.uid
    sharing = cluster.sharing(pod.node, found) if found and is_known else []
    uuid = found.uuid if found else ""
    cluster.lose_reservation(pod, reservation)
    return list(_warnings((held.pod for held in sharing if not held.assumed), pod, uuid))


def _warnings(sharing: Iterable[Pod], pod: Pod, uuid: str) -> Iterable[AnnounceWarning]:
    for each in sharing:
        yield AnnounceWarning(
            each,
            LOST,
            f"The pod {pod.key}, which reserved GPU {uuid} on node {pod.node}, is gone. The device "
            "plugin can assign this GPU to other pods while this pod uses it. No new pod is "
            "assigned to this GPU; delete the pod and create it again.",
        )


def close(cluster: Cluster, node: str, number: int) -> list[Unreserve]:
    """A reservation that has had no shares for a while is deleted, unless it has some now."""
    pod = cluster.close_reservation(node, number)
    return [Unreserve(pod)] if pod else []
