"""Reservations in the ledger: they are counted from the decision on, and until their pods are gone.

A reservation pod is evicted with the pods that share its GPU, and for the same pods. So its
priority in the ledger is the highest of theirs.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from fairlead.cluster.aspects import Aspect
from fairlead.cluster.holdings import Holding
from fairlead.cluster.reservations import ReservedGpu, expected
from fairlead.model.pods import Pod
from fairlead.model.reservations import NO_PRIORITY, PRIORITY, Reservation, awaited, slot_name

if TYPE_CHECKING:
    from fairlead.cluster.cluster import Cluster


def begin(cluster: "Cluster", node: str, number: int) -> None:
    """A pod waits for the reservation: it is counted from now on, if it is not yet."""
    found, pod = cluster.reservations.begin(node, number), expected(node, number)
    if found.pod is None and pod.uid not in cluster.holdings:
        cluster.renew_gpus(node, improves=False)
        cluster.attach(Holding.of(pod, node, assumed=True))


def settle(cluster: "Cluster", node: str, number: int) -> None:
    """A pod waits for it no more; the last one that did may have waited in vain."""
    if undo(cluster, node, number):
        cluster.improved.add(Aspect.DEVICES | Aspect.USAGE)


def undo(cluster: "Cluster", node: str, number: int) -> bool:
    """The same; whether it was the last one. Only views see the change."""
    cluster.reservations.end(node, number)
    if cluster.reservations.get(node, number) is not None:
        return False
    cluster.detach(expected(node, number).uid)
    cluster.renew_gpus(node, improves=False)
    return True


def confirm(cluster: "Cluster", pod: Pod, reservation: Reservation) -> None:
    """The API server shows the reservation pod on its node."""
    cluster.reservations.see(pod, reservation)
    cluster.remove(expected(pod.node, reservation.number).uid)
    cluster.renew_gpus(pod.node)
    cluster.confirm(pod)


def lose(cluster: "Cluster", pod: Pod, reservation: Reservation) -> None:
    """The reservation pod is gone, and with it the GPU."""
    cluster.reservations.lose(pod, reservation)
    cluster.remove(pod.uid)
    cluster.renew_gpus(pod.node)


def close(cluster: "Cluster", node: str, number: int) -> Pod | None:
    """Assigns no share there any more; its pod, if no share is there and none is expected."""
    found = cluster.reservations.get(node, number)
    if found is None or found.pod is None or found.waiting or sharing(cluster, node, found):
        return None
    found.closing = True
    cluster.renew_gpus(node)
    return found.pod


def pause(cluster: "Cluster", node: str, why: str) -> None:
    """No new ones there for the time being; with no reason, they are made again."""
    if why:
        cluster.reservations.paused[node] = why
    else:
        cluster.reservations.paused.pop(node, None)
    cluster.renew_gpus(node)


def sharing(cluster: "Cluster", node: str, found: ReservedGpu) -> list[Holding]:
    """The pods that have shares of a reserved GPU."""
    names = {slot_name(found.number), found.uuid} - {""}
    return [
        held
        for held in cluster.held_on(node)
        if held.pod.reservation is None
        and held.grant
        and any(use.uuid in names for use in held.grant.uses)
    ]


def name_gpus(cluster: "Cluster", held: Holding) -> bool:
    """Writes the uuids of reserved GPUs into what the pod holds; False if one is not known."""
    if held.grant is None or not awaited(held.grant):
        return True
    named = cluster.reservations.named(held.node, held.grant)
    if named is None:
        return False
    cluster.detach(held.pod.uid)
    held.grant = named
    cluster.attach(held)
    return True


def switch(cluster: "Cluster", *, on: bool) -> None:
    """GPUs of device plugins can be reserved from now on, or are only counted."""
    cluster.reservations.enabled = on
    for node in cluster.row_of:
        cluster.renew_gpus(node)


def weigh(cluster: "Cluster") -> None:
    """Gives reservation pods the priorities of their shares, where those have changed."""
    nodes, cluster.reservations.unweighed = cluster.reservations.unweighed, set()
    for node in nodes:
        for found in list(cluster.reservations.on(node)):
            held = cluster.holdings.get(found.pod.uid) if found.pod else None
            if held is not None:
                _set_priority(cluster, held, _priority(cluster, node, found))
    cluster.reservations.unweighed.clear()


def _priority(cluster: "Cluster", node: str, found: ReservedGpu) -> int:
    shares = sharing(cluster, node, found)
    if found.waiting or any(held.assumed for held in shares):
        return PRIORITY
    return max((held.pod.priority for held in shares), default=NO_PRIORITY)


def _set_priority(cluster: "Cluster", held: Holding, priority: int) -> None:
    if held.pod.priority != priority:
        cluster.detach(held.pod.uid)
        held.pod = replace(held.pod, priority=priority)
        cluster.attach(held)
