"""What Cluster Autoscaler and Karpenter read of a pod, for every revision of its status.

Both add nodes for pods with `PodScheduled=False` and the reason `Unschedulable`, and for no other.
A pod that is nominated waits for an eviction, and needs no node.

Cluster Autoscaler removes a node with GPUs whose pods request fewer of them than half, if each of
these pods fits on another node. Both read requests, not annotations.
"""

import json
from dataclasses import dataclass
from typing import Any

from fairlead.sim.controlplane import ControlPlane

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
        query = f"watch=1&resourceVersion={self._since}&timeoutSeconds=1"
        lines = self._plane.text(f"{self._path}?{query}").splitlines()
        events = (json.loads(line) for line in lines)
        return [_revision(event["object"]) for event in events if event["type"] != "DELETED"]

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
