"""Nodes: taints that follow from conditions and cordons, and pods that do not tolerate them."""

from typing import Any

from fairlead.sim.apiserver.clock import now_text, seconds_since
from fairlead.sim.apiserver.controllers import podmaking as pods
from fairlead.sim.apiserver.controllers.loop import Controller
from fairlead.sim.apiserver.store import Change
from fairlead.sim.apiserver.updating import modify

Object = dict[str, Any]
_NOT_READY, _UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
_CORDONED = "node.kubernetes.io/unschedulable"
_OURS = frozenset({_NOT_READY, _UNREACHABLE, _CORDONED})


class NodeController(Controller):
    resource = "nodes"
    follows: frozenset[str] | None = frozenset()

    def concerns(self, resource: str, change: Change) -> list[str]:
        return [change.entry.key] if resource == "nodes" and change.type != "DELETED" else []

    async def sync(self, key: str) -> None:
        node = self.api.find(self.resource, key)
        if node is None:
            return
        have = node["spec"].get("taints") or []
        want = _wanted(node)
        others = [taint for taint in have if taint["key"] not in _OURS]
        ours = [_keep_time(taint, have) for taint in want]
        if {_name(taint) for taint in ours} != {_name(t) for t in have if t["key"] in _OURS}:
            await self._set_taints(key, [*others, *ours])
        if any(taint["effect"] == "NoExecute" for taint in ours):
            await self._evict(key, [taint for taint in ours if taint["effect"] == "NoExecute"])

    async def _set_taints(self, name: str, taints: list[Object]) -> None:
        def change(node: Object) -> Object:
            spec = {**node["spec"], "taints": taints}
            return {**node, "spec": spec}

        await modify(self.api, pods.call_for(self.api, "nodes", "", name), change)

    async def _evict(self, node: str, taints: list[Object]) -> None:
        """Deletes pods whose patience with the node is over; comes back for the others."""
        entries = self.api.store.collection("pods").entries.values()
        for entry in [each for each in entries if each.fields["spec.nodeName"] == node]:
            pod = entry.object()
            left = min((_patience_s(pod, taint) for taint in taints), default=None)
            if left is None or pod["metadata"].get("deletionTimestamp"):
                continue
            if left <= 0:
                await pods.remove(self.api, "pods", entry.namespace, entry.name)
            elif left != float("inf"):
                self.later(node, left)


def _wanted(node: Object) -> list[Object]:
    taints = []
    conditions = {each["type"]: each for each in node.get("status", {}).get("conditions") or []}
    ready = conditions.get("Ready", {}).get("status")
    key = {"False": _NOT_READY, "Unknown": _UNREACHABLE}.get(str(ready))
    if key:
        moment = now_text()
        taints = [
            {"key": key, "effect": effect, "timeAdded": moment}
            for effect in ("NoSchedule", "NoExecute")
        ]
    if node["spec"].get("unschedulable"):
        taints.append({"key": _CORDONED, "effect": "NoSchedule", "timeAdded": now_text()})
    return taints


def _name(taint: Object) -> tuple[str, str]:
    return taint["key"], taint["effect"]


def _keep_time(taint: Object, have: list[Object]) -> Object:
    return next((old for old in have if _name(old) == _name(taint)), taint)


def _patience_s(pod: Object, taint: Object) -> float:
    for each in pod["spec"].get("tolerations") or []:
        if each.get("key", "") in ("", taint["key"]) and each.get("effect", "") in (
            "",
            "NoExecute",
        ):
            if "tolerationSeconds" not in each:
                return float("inf")
            return float(each["tolerationSeconds"]) - (seconds_since(taint.get("timeAdded")) or 0)
    return 0.0
