"""PodDisruptionBudgets: how many pods may go right now."""

from typing import Any

from fairlead.sim.apiserver.clock import now_text
from fairlead.sim.apiserver.controllers import podmaking as pods
from fairlead.sim.apiserver.controllers.loop import Controller
from fairlead.sim.apiserver.selectors import matches
from fairlead.sim.apiserver.store import Change, StoredObject

Object = dict[str, Any]


class DisruptionController(Controller):
    resource = "poddisruptionbudgets.policy"

    def concerns(self, resource: str, change: Change) -> list[str]:
        if resource == self.resource:
            return [change.entry.key]
        budgets = self.api.store.collection(self.resource).entries if resource == "pods" else {}
        return [key for key in budgets if key.startswith(change.entry.namespace + "/")]

    async def sync(self, key: str) -> None:
        budget = self.api.find(self.resource, key)
        if budget is None:
            return
        chosen = [entry.object() for entry in self._pods(budget)]
        chosen = [
            pod for pod in chosen if pod["status"].get("phase") not in ("Succeeded", "Failed")
        ]
        disrupted = self._disrupted(budget, chosen)
        healthy = sum(
            pods.is_ready(pod) and pods.is_active(pod) and pod["metadata"]["name"] not in disrupted
            for pod in chosen
        )
        await pods.set_status(
            self.api, self.resource, budget, _status(budget, len(chosen), healthy, disrupted)
        )

    def _pods(self, budget: Object) -> list[StoredObject]:
        namespace, selector = budget["metadata"]["namespace"], budget["spec"].get("selector")
        entries = self.api.store.collection("pods").entries.values()
        return [
            entry
            for entry in entries
            if entry.namespace == namespace and matches(selector, entry.labels)
        ]

    def _disrupted(self, budget: Object, chosen: list[Object]) -> dict[str, str]:
        """Evicted pods that are not yet seen to go."""
        waiting = {pod["metadata"]["name"] for pod in chosen if pods.is_active(pod)}
        known: dict[str, str] = budget.get("status", {}).get("disruptedPods") or {}
        return {name: moment for name, moment in known.items() if name in waiting}


def _status(budget: Object, expected: int, healthy: int, disrupted: dict[str, str]) -> Object:
    spec = budget["spec"]
    if "maxUnavailable" in spec:
        desired = expected - pods.absolute(spec["maxUnavailable"], expected, round_up=True)
    else:
        desired = pods.absolute(spec.get("minAvailable", 0), expected, round_up=True)
    desired = max(desired, 0)
    allowed = max(healthy - desired, 0) if expected else 0
    verdict = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    status: Object = {
        "currentHealthy": healthy, "desiredHealthy": desired, "disruptionsAllowed": allowed,
        "expectedPods": expected, "observedGeneration": budget["metadata"].get("generation", 1),
        "conditions": [
            pods.condition(budget, "DisruptionAllowed", *verdict, "", now_text())
            | {"observedGeneration": budget["metadata"].get("generation", 1)}
        ],
    }  # fmt: skip
    status["conditions"][0].pop("lastUpdateTime", None)
    if disrupted:
        status["disruptedPods"] = disrupted
    return status
