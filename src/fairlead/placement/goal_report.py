"""What the goals of a profile say about the nodes that fit a pod: for people who ask why."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import NodeScores, Rows
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.model.goals import GoalCount, GoalOption, GoalReport
from fairlead.model.pods import Pod, PodRequest
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed, PlacementRecord
from fairlead.placement.views import REFUSED
from fairlead.plugins.api import Goal
from fairlead.plugins.goals import Goals

#: Placements that are shown of those that no other is better than.
_MOST_PARETO = 3
#: Nodes that are compared with all others for that.
_MOST_COMPARED = 256

Counts = npt.NDArray[np.float64]  # (goals, nodes)


def recorded(placement: Placement, cluster: Cluster, pod: Pod, placed: Placed) -> PlacementRecord:
    """What counted for the node of the pod, before the pod is there. Raises PluginFault."""
    record = placement.record(pod, placed)
    if placement.profile.goals is None:
        return record
    return replace(record, alternatives=goal_report(placement, cluster, pod, placed.node))


def goal_report(
    placement: Placement, cluster: Cluster, pod: Pod, chosen: str = ""
) -> GoalReport | None:
    """None without goals, and if no node fits. `chosen`: the node of the pod, if it has one."""
    goals = placement.profile.goals
    if goals is None:
        return None
    totals = placement.totals(pod)
    rows = np.flatnonzero(totals > REFUSED)
    if not len(rows):
        return None
    request = placement.request(pod)
    nodes = Nodes(cluster.columns, rows)
    counts: Counts = np.array([goal.count(request, nodes) for goal in goals.all])
    order = np.argsort(-totals[rows], kind="stable")
    options = _Options(goals, counts, request, cluster, rows)
    front = _front(counts, order)
    at = np.flatnonzero(rows == cluster.row_of.get(chosen, -1))
    best = int(at[0] if len(at) else order[0])
    next_ = _next(placement, pod, totals, rows, best)
    return GoalReport(
        options.at(best),
        None if next_ is None else options.at(next_),
        tuple(options.at(position) for position in front),
    )


def _next(placement: Placement, pod: Pod, totals: NodeScores, rows: Rows, best: int) -> int | None:
    """The position of the node that would be chosen if the best one were not there."""
    refused = totals == REFUSED
    refused[rows[best]] = True
    left = placement.view(pod).without(refused)[rows]
    found = int(left.argmax())
    return found if left[found] > REFUSED else None


class _Options:
    def __init__(
        self, goals: Goals, counts: Counts, request: PodRequest, cluster: Cluster, rows: Rows
    ) -> None:
        self._goals = goals
        self._counts = counts
        self._request = request
        self._cluster = cluster
        self._rows = rows

    def at(self, position: int) -> GoalOption:
        row, counted = int(self._rows[position]), self._counts[:, position].tolist()
        node = Nodes(self._cluster.columns, np.array([row]))
        by_name = {goal.name: each for goal, each in zip(self._goals.all, counted, strict=True)}
        counts = tuple(
            GoalCount(goal.name, goal.unit, by_name[goal.name], self._detail(goal, node))
            for goal in self._goals.all
        )
        levels = tuple(
            sum(rate * by_name[goal.name] for goal, rate in level.rated)
            for level in self._goals.levels
        )
        return GoalOption(self._cluster.node_at(row).name, counts, levels)

    def _detail(self, goal: Goal, node: Nodes) -> str:
        detail = getattr(goal, "detail", None)  # a look at a protocol takes ten times as long
        return detail(self._request, node) if detail else ""


def _front(counts: Counts, order: Rows) -> list[int]:
    """The first few positions, best first, of those that no other is better than.

    One is better if it is no worse for any goal, and less for one. Of equal ones the first.
    """
    front: list[int] = []
    values, left = counts[:, order].round(9), order
    for _ in range(_MOST_COMPARED):
        if not len(left) or len(front) == _MOST_PARETO:
            break
        mine = values[:, :1]
        if not ((values <= mine).all(axis=0) & (values < mine).any(axis=0)).any():
            front.append(int(left[0]))
        # What it equals or beats, itself included: what those beat, it beats as well.
        others = ~(values >= mine).all(axis=0)
        values, left = values[:, others], left[others]
    return front
