"""GPUs of pods that are gone are given to others when the agent of their node says so."""

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.engine.instructions import AnnounceWarning
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod

OVERDUE = "GPUReleaseOverdue"


def keep(cluster: Cluster, held: Holding | None, pod: Pod, now_s: float) -> None:
    """Keeps what the pod held of GPUs, if containers of it may be running; `pod` is its last state.

    A watch that leaves out finished pods tells of one that has ended as of one that was removed.
    """
    if held is not None and not held.assumed and pod.started and not pod.finished:
        cluster.hold_back(held, now_s)


def confirmed(cluster: Cluster, node: Node) -> list[str]:
    """The uids of the pods whose GPUs the agent of the node calls free."""
    if not cluster.releasing or node.inventory is None:
        return []
    said = node.inventory.released
    return [uid for kept in cluster.releasing.on(node.name) if (uid := kept.pod.uid) in said]


def overdue(cluster: Cluster, uid: str) -> AnnounceWarning | None:
    """What to say of GPUs that are given to others without the word of the agent."""
    kept = cluster.releasing.get(uid)
    if kept is None:
        return None
    note = (
        f"The pod is gone, and the agent of node {kept.node} has not reported that its processes "
        f"have ended. {kept.gpus} can be assigned to other pods from now on. Check the agent and "
        "the processes on that node."
    )
    return AnnounceWarning(kept.pod, OVERDUE, note)
