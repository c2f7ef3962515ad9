"""What goals counted for a pod: on the node that they prefer, on the next best, and on others."""

from collections.abc import Iterator
from typing import Any

from fairlead.cluster.cluster import Cluster
from fairlead.model.goals import GoalOption
from fairlead.model.pods import Pod
from fairlead.placement.goal_report import goal_report
from fairlead.placement.place import Placement


def goals_answer(placement: Placement, cluster: Cluster, pod: Pod) -> dict[str, Any]:
    """Under the key `goals`; nothing without goals, and if no node fits."""
    found = goal_report(placement, cluster, pod)
    if found is None:
        return {}
    runner_up = _option(found.runner_up) if found.runner_up else None
    pareto = [_option(each) for each in found.pareto]
    return {"goals": {"best": _option(found.best), "runnerUp": runner_up, "pareto": pareto}}


def _option(option: GoalOption) -> dict[str, Any]:
    counts = [
        {"goal": count.goal, "amount": count.amount, "unit": count.unit, "detail": count.detail}
        for count in option.counts
    ]
    return {"node": option.node, "counts": counts, "levels": list(option.levels)}


def goal_lines(told: dict[str, Any]) -> Iterator[str]:
    best, runner_up = told["best"], told["runnerUp"]
    yield f"goals: {best['node']} counts {_counts(best)}"
    if runner_up:
        yield f"  next: {runner_up['node']} would count {_counts(runner_up)}"
    others = [each for each in told["pareto"] if each["node"] not in _shown(best, runner_up)]
    for each in others:
        yield f"  also not beaten: {each['node']} with {_counts(each)}"


def _shown(*options: dict[str, Any] | None) -> set[str]:
    return {each["node"] for each in options if each}


def _counts(option: dict[str, Any]) -> str:
    return ", ".join(
        f"{each['goal']} {each['amount']:.4g} {each['unit']}"
        + (f" ({each['detail']})" if each.get("detail") else "")
        for each in option["counts"]
    )
