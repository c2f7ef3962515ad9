"""What Cluster Autoscaler and Karpenter read of a pod, for every revision of its status.

Both add nodes for pods with `PodScheduled=False` and the reason `Unschedulable`, and for no other.
A pod that is nominated waits for an eviction, and needs no node.

Cluster Autoscaler removes a node with GPUs whose pods request fewer of them than half, if each of
these pods fits on another node. Both read requests, not annotations.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.model.quantities import amount
from fairlead.sim.controlplane import ControlPlane
from fairleads import eventually

Json = dict[str, Any]
UNSCHEDULABLE = "Unschedulable"
GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Revision:
    """A pod as far as autoscalers are concerned."""

    pod: str
    reason: str
    nominated: str
    bound: bool

    @property
    def buys(self) -> bool:
        """Whether a node would be added for it."""
        return self.reason == UNSCHEDULABLE and not self.nominated and not self.bound


class History:
    """All that becomes of the pods of a namespace from now on."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._since = plane.api("GET", self._path)[1]["metadata"]["resourceVersion"]

    def revisions(self) -> list[Revision]:
        pods = self._plane.api("GET", self._path)[1]["items"]
        newest = max(map(_version, pods), default=0)
        (events,) = eventually(lambda: self._told(newest), what="all revisions are told")
        return [_revision(event["object"]) for event in events if event["type"] != "DELETED"]

    def _told(self, newest: int) -> tuple[list[Json]] | None:
        """None if a busy server ended the watch before it came to the newest revision."""
        query = f"watch=1&resourceVersion={self._since}&timeoutSeconds=1"
        lines = self._plane.text(f"{self._path}?{query}").splitlines()
        events = [json.loads(line) for line in lines]
        seen = [int(self._since), *(_version(event["object"]) for event in events)]
        return (events,) if max(seen) >= newest else None

    def reasons(self) -> dict[str, list[str]]:
        """By pod, each reason that it had at any revision, in order."""
        found: dict[str, list[str]] = {}
        for each in self.revisions():
            before = found.setdefault(each.pod, [])
            if each.reason and each.reason not in before[-1:]:
                before.append(each.reason)
        return found

    def buyers(self) -> list[str]:
        """Pods for which a node would have been added at any revision."""
        return sorted({each.pod for each in self.revisions() if each.buys})


def _version(pod: Json) -> int:
    return int(pod["metadata"]["resourceVersion"])


def _revision(pod: dict[str, Any]) -> Revision:
    status = pod.get("status", {})
    reasons = [
        each.get("reason", "")
        for each in status.get("conditions", [])
        if each["type"] == "PodScheduled" and each["status"] == "False"
    ]
    nominated, bound = status.get("nominatedNodeName", ""), bool(pod["spec"].get("nodeName"))
    return Revision(pod["metadata"]["name"], "".join(reasons), nominated, bound)


def gpu_utilisation(plane: ControlPlane, node: str) -> float:
    """What Cluster Autoscaler compares with `--scale-down-gpu-utilization-threshold`."""
    has = int(plane.api("GET", f"/api/v1/nodes/{node}")[1]["status"]["allocatable"][GPU])
    pods = plane.api("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")[1]["items"]
    requested = (
        int(container.get("resources", {}).get("requests", {}).get(GPU, 0))
        for pod in pods
        for container in pod["spec"]["containers"]
    )
    return sum(requested) / has


# -- what an autoscaler would do -------------------------------------------------------------------


def added_for(plane: ControlPlane, pod: Json, templates: Sequence[Json]) -> list[str]:
    """The templates that a node would be added of for this pod; none: nothing is added.

    Both autoscalers first look for room on the nodes that are there.
    """
    if not _revision(pod).buys or any(_has_room(plane, node, pod) for node in _nodes(plane)):
        return []
    return [each["metadata"]["name"] for each in templates if _fits(each, [], pod)]


def is_removable(plane: ControlPlane, name: str) -> bool:
    """Whether each pod of an unneeded node fits on another one, by its requests."""
    others = [node for node in _nodes(plane) if node["metadata"]["name"] != name]
    moved = [each for each in _pods_on(plane, name) if _requests(each)]
    return all(any(_has_room(plane, node, pod) for node in others) for pod in moved)


def _has_room(plane: ControlPlane, node: Json, pod: Json) -> bool:
    return _fits(node, _pods_on(plane, node["metadata"]["name"]), pod)


def _fits(node: Json, there: Sequence[Json], pod: Json) -> bool:
    """As kube-scheduler's filters that read requests, selectors and taints."""
    labels = node["metadata"].get("labels", {}).items()
    if not pod["spec"].get("nodeSelector", {}).items() <= labels or _is_tainted(node):
        return False
    free = {key: amount(key, text) for key, text in node["status"]["allocatable"].items()}
    for other in there:
        for key, used in _requests(other).items():
            free[key] = free.get(key, 0) - used
    return all(free.get(key, 0) >= need for key, need in _requests(pod).items())


def _is_tainted(node: Json) -> bool:
    taints = node.get("spec", {}).get("taints", [])
    return any(each["effect"] in ("NoSchedule", "NoExecute") for each in taints)


def _requests(pod: Json) -> dict[str, int]:
    found: dict[str, int] = {}
    for container in pod["spec"]["containers"]:
        for key, text in container.get("resources", {}).get("requests", {}).items():
            found[key] = found.get(key, 0) + amount(key, text)
    return found


def _nodes(plane: ControlPlane) -> list[Json]:
    return list(plane.api("GET", "/api/v1/nodes")[1]["items"])


def _pods_on(plane: ControlPlane, node: str) -> list[Json]:
    return list(plane.api("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")[1]["items"])
