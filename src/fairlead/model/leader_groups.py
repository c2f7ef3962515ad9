"""Groups of LeaderWorkerSets: a leader and workers that its controller creates after it.

With exclusive topology, workers are created when the leader has a node, for the domain of that
node. So the leader decides about the room of the whole group.
"""

from collections.abc import Mapping
from typing import NamedTuple

from fairlead.model.pods import Pod

_PREFIX = "leaderworkerset.sigs.k8s.io/"
#: Labels of its pods.
SET_NAME, GROUP_INDEX = _PREFIX + "name", _PREFIX + "group-index"
WORKER_INDEX = _PREFIX + "worker-index"
#: Annotations of its pods.
SIZE, EXCLUSIVE_TOPOLOGY = _PREFIX + "size", _PREFIX + "exclusive-topology"
#: Larger groups are not looked at.
_MOST = 10_000


class LeaderGroup(NamedTuple):
    """The node label whose values are the domains, and how many pods need room in one."""

    label: str
    pods: int


def led_group(pod: Pod) -> LeaderGroup | None:
    """The group that is to be in the domain of the pod; None: it leads none.

    The controller also writes this rule as a term of affinity; without one it has no effect.
    """
    label = pod.annotations.get(EXCLUSIVE_TOPOLOGY)
    if not label or pod.labels.get(WORKER_INDEX) != "0":
        return None
    if all(term.topology_key != label for term in pod.request.required_affinity):
        return None
    pods = group_size(pod.annotations)
    return LeaderGroup(label, pods) if pods > 1 else None


def group_size(annotations: Mapping[str, str]) -> int:
    """Pods of the group; 0: it is not known."""
    size = annotations.get(SIZE, "")
    pods = int(size) if size.isascii() and size.isdigit() and len(size) < 6 else 0
    return pods if pods <= _MOST else 0
