"""DaemonSets: one pod for every node that its selector chooses, held to it by affinity."""

from typing import Any

from fairlead.sim.apiserver.controllers import podmaking as pods
from fairlead.sim.apiserver.controllers.loop import Controller
from fairlead.sim.apiserver.store import Change

Object = dict[str, Any]
_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"), ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)  # fmt: skip


class DaemonSetController(Controller):
    resource = "daemonsets.apps"
    follows: frozenset[str] | None = frozenset({"pods", "nodes"})

    def concerns(self, resource: str, change: Change) -> list[str]:
        if resource == "nodes" and _is_new_to_us(change):
            return list(self.api.store.collection(self.resource).entries)
        return super().concerns(resource, change)

    async def sync(self, key: str) -> None:
        daemonset = self.api.find(self.resource, key)
        if daemonset is None or daemonset["metadata"].get("deletionTimestamp"):
            return
        nodes = self._nodes(daemonset)
        owned = {_node_of(pod): pod for pod in self._active(daemonset)}
        metadata = daemonset["metadata"]
        for node in nodes:
            if node not in owned:
                await pods.make(self.api, "pods", metadata["namespace"], _pod(daemonset, node))
        for node, pod in owned.items():
            if node not in nodes:
                await pods.remove(self.api, "pods", metadata["namespace"], pod["metadata"]["name"])
        await self._report(daemonset, len(nodes))

    def _active(self, daemonset: Object) -> list[Object]:
        owned = self.owners.pods(daemonset["metadata"]["uid"])
        return [pod for pod in owned if pods.is_active(pod)]

    def _nodes(self, daemonset: Object) -> list[str]:
        wanted = daemonset["spec"]["template"]["spec"].get("nodeSelector") or {}
        entries = self.api.store.collection("nodes").entries
        return [
            name
            for name, entry in entries.items()
            if all(entry.labels.get(key) == value for key, value in wanted.items())
        ]

    async def _report(self, daemonset: Object, desired: int) -> None:
        active = self._active(daemonset)
        ready = sum(pods.is_ready(pod) for pod in active)
        status: Object = {
            "currentNumberScheduled": len(active), "desiredNumberScheduled": desired,
            "numberMisscheduled": 0, "numberReady": ready,
            "observedGeneration": daemonset["metadata"].get("generation", 1),
        }  # fmt: skip
        counts = {"updatedNumberScheduled": len(active), "numberAvailable": ready,
                  "numberUnavailable": desired - ready}  # fmt: skip
        status |= {name: count for name, count in counts.items() if count}
        await pods.set_status(self.api, self.resource, daemonset, status)


def _is_new_to_us(change: Change) -> bool:
    before = change.previous
    return before is None or change.type == "DELETED" or before.labels != change.entry.labels


def _pod(daemonset: Object, node: str) -> Object:
    pod = pods.pod_from(daemonset["spec"]["template"], daemonset, "apps/v1", "DaemonSet")
    metadata = daemonset["metadata"]
    pod["metadata"]["generateName"] = f"{metadata['name']}-"
    pod["metadata"].setdefault("labels", {}).update(
        {
            "controller-revision-hash": pods.fingerprint(daemonset["spec"]["template"]),
            "pod-template-generation": str(metadata.get("generation", 1)),
        }
    )
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
        "nodeSelectorTerms": [{"matchFields": [field]}]
    }
    tolerations = pod["spec"].setdefault("tolerations", [])
    tolerations += [
        {"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED
    ]
    return pod


def _node_of(pod: Object) -> str:
    terms = (
        pod["spec"].get("affinity", {}).get("nodeAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    )  # fmt: skip
    for term in terms:
        for field in term.get("matchFields", []):
            return str(field["values"][0])
    return str(pod["spec"].get("nodeName", ""))
