"""Disruption budgets drawn by lot, as their controller would have left them."""

from oracle.case import NAMESPACES, Object
from oracle.draws import POD_WORDS, Draw, selector


def budgets(draw: Draw, pods: list[Object]) -> list[Object]:
    return [_budget(draw, f"budget-{n}", pods) for n in range(draw.randint(0, 3))]


def _budget(draw: Draw, name: str, pods: list[Object]) -> Object:
    status: Object = {
        "observedGeneration": 1,
        "disruptionsAllowed": draw.randint(0, 2),
        "currentHealthy": 3,
        "desiredHealthy": 1,
        "expectedPods": 3,
    }
    if pods and draw.chance(0.2):
        disrupted = draw.one(pods)["metadata"]["name"]
        status["disruptedPods"] = {disrupted: "2026-01-01T00:00:00Z"}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": draw.one(NAMESPACES[:2])},
        "spec": {"minAvailable": 1, "selector": selector(draw, POD_WORDS)},
        "status": status,
    }
