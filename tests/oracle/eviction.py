"""How much harm an eviction does, by which nodes are chosen: equal harm is a tie."""

from collections.abc import Collection, Sequence

from oracle.api import Key
from oracle.case import Case, Object, labels_of, selects

_LOWEST = 2**31
_NOT_STARTED = "9"


def burden(case: Case, victims: Collection[Key]) -> tuple[object, ...]:
    """Budgets broken, highest priority, sum of priorities, number, and when the first started."""
    pods = [pod for pod in case.of_kind("Pod") if _key(pod) in victims]
    priorities = [pod["spec"].get("priority", 0) for pod in pods]
    top = max(priorities, default=-_LOWEST)
    started = [_start(pod) for pod in pods if pod["spec"].get("priority", 0) == top]
    earliest = min(started, default="")
    total = sum(priority + _LOWEST for priority in priorities)
    return _broken(case.of_kind("PodDisruptionBudget"), pods), top, total, len(pods), earliest


def _broken(budgets: Sequence[Object], pods: list[Object]) -> int:
    """Victims beyond what the budgets allow, the most important victims first."""
    left = {b["metadata"]["name"]: b["status"]["disruptionsAllowed"] for b in budgets}
    broken = 0
    for pod in sorted(pods, key=lambda pod: (-pod["spec"].get("priority", 0), _start(pod))):
        meant = [b["metadata"]["name"] for b in budgets if means(b, pod)]
        for name in meant:
            left[name] -= 1
        broken += any(left[name] < 0 for name in meant)
    return broken


def means(budget: Object, pod: Object) -> bool:
    return (
        budget["metadata"]["namespace"] == pod["metadata"]["namespace"]
        and bool(budget["spec"]["selector"])
        and pod["metadata"]["name"] not in budget["status"].get("disruptedPods", {})
        and selects(budget["spec"]["selector"], labels_of(pod))
    )


def _start(pod: Object) -> str:
    return pod.get("status", {}).get("startTime", _NOT_STARTED)


def _key(pod: Object) -> Key:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]
