"""Which GPUs a device plugin picked, where the agent of the node reports it.

The ledger counts the GPUs of such a node and names none of them: which GPU a pod gets is known only
after its kubelet has started it. The names are for people, and for readings of these GPUs.
"""

from collections.abc import Sequence
from dataclasses import replace

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.model.gpus import GpuUse


def picked_gpus(cluster: Cluster, node: str, uid: str) -> tuple[str, ...]:
    """The uuids of the GPUs that a device plugin picked for the pod; empty if it is not known."""
    found = cluster.node_named(node)
    picked = found.inventory.picked if found and found.inventory else None
    return picked.get(uid, ()) if picked else ()


def picked_by_several(cluster: Cluster, held: Holding) -> bool:
    """Whether its device plugin gave one of its GPUs to other pods, too, as those do that share
    GPUs by time.
    """
    own = set(picked_gpus(cluster, held.node, held.pod.uid))
    if not own:
        return False
    others = cluster.held_on(held.node)
    return any(
        own.intersection(picked_gpus(cluster, held.node, other.pod.uid))
        for other in others
        if other is not held
    )


def named_uses(cluster: Cluster, held: Holding) -> Sequence[GpuUse]:
    """What the pod has of GPUs, by name where it is known which."""
    uses = held.grant.uses if held.grant else ()
    if all(use.uuid for use in uses):
        return uses
    picked = iter(picked_gpus(cluster, held.node, held.pod.uid))
    return [use if use.uuid else replace(use, uuid=next(picked, "")) for use in uses]
