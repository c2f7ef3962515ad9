"""Goals: what a placement costs in units, and how a profile chooses by them.

A profile has levels. A level is one goal, or the sum of several in money. The nodes within the
tolerance of the best one go on to the next level, and the scores of the profile choose among those
that are left. So a level with a small tolerance decides before anything below it.
"""

from functools import reduce
from operator import or_
from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeMask, NodeScores
from fairlead.cluster.aspects import EVERYTHING, Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.goals import GoalUnit
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodField, PodRequest
from fairlead.plugins.api import (
    HIGHEST_SCORE,
    Goal,
    counts_once,
    pod_fields_of,
    pod_keys_of,
)
from fairlead.plugins.node_share import OfNodeShare, share_of_node

#: How far nodes of one level stay below those of the next.
_NEARLY = 0.99
#: GPUs of a node with which a part of a GPU is compared, as it is counted.
_GPUS = 8


class NodeShare:
    """Counts goals; the part of each node that the pod takes is computed for all of them once."""

    def __init__(self, request: PodRequest, nodes: Nodes) -> None:
        self._request, self._nodes = request, nodes
        self._share: NodeScores | None = None

    def count(self, goal: Goal) -> NodeScores:
        if not isinstance(goal, OfNodeShare):
            return goal.count(self._request, self._nodes)
        if self._share is None:
            self._share = share_of_node(self._request, self._nodes)
        return goal.count_share(self._share, self._nodes)


@dataclass(frozen=True, slots=True)
class GoalLevel:
    """Goals that are added up, each multiplied by its rate."""

    goals: tuple[tuple[Goal, float], ...]
    #: Nodes are as good as the best within this share of it, and this much.
    tolerance: float = 0.0
    slack: float = 0.0
    #: A pod waits so long for a node that counts at most this; None: it does not wait.
    at_most: float | None = None
    patience_s: float = 0.0

    @property
    def unit(self) -> str:
        """Of the sum: that of its goal, or money."""
        return self.goals[0][0].unit if len(self.goals) == 1 else GoalUnit.MONEY

    def total(
        self, request: PodRequest, nodes: Nodes, taken: NodeShare | None = None
    ) -> NodeScores:
        taken = taken or NodeShare(request, nodes)
        if len(self.goals) == 1:
            return taken.count(self.goals[0][0])
        total = np.zeros(len(nodes))
        for goal, rate in self.goals:
            total += rate * taken.count(goal)
        return total

    @property
    def rated(self) -> tuple[tuple[Goal, float], ...]:
        """Its goals and what each is multiplied by: one alone counts in its own unit."""
        return self.goals if len(self.goals) > 1 else ((self.goals[0][0], 1.0),)

    def by_pod_and_node(self, request: PodRequest, nodes: Nodes) -> tuple[NodeScores, NodeScores]:
        """What each such pod counts, and what all pods on a node together count once."""
        each, once = np.zeros(len(nodes)), np.zeros(len(nodes))
        for goal, rate in self.rated:
            (once if counts_once(goal) else each)[:] += rate * goal.count(request, nodes)
        return each, once

    @property
    def counts_once(self) -> bool:
        """Whether a part of it is counted once for a node."""
        return any(counts_once(goal) for goal, _ in self.goals)

    def limit(self, best: float) -> float:
        return best * (1.0 + self.tolerance) + self.slack


@dataclass(frozen=True, slots=True)
class Goals:
    """The goals of a profile as one score, which outweighs its other scores."""

    levels: tuple[GoalLevel, ...] = ()
    name: ClassVar[str] = "Goals"
    #: Some pod comes or goes with almost every decision, and then all nodes are compared again.
    reads: ClassVar[Aspect] = EVERYTHING

    def applies_as_score(self, request: PodRequest, nodes: Nodes) -> bool:
        return bool(self.levels)

    def rank(self, request: PodRequest, nodes: Nodes, left: NodeMask) -> NodeScores:
        """All points for nodes that are within the tolerance of every level."""
        scores, alive = np.zeros(len(nodes)), left
        step = HIGHEST_SCORE / max(1, len(self.levels))
        each = _GPUS if request.gpu_request is not None else 1
        taken = NodeShare(request, nodes)
        for number, level in enumerate(self.levels):
            for _ in level.goals:
                nodes.work.ask(len(nodes) * each)
            total = level.total(request, nodes, taken)
            among = total[alive]
            limit = level.limit(float(among.min()))
            out = alive & (total > limit)
            if not out.any():
                continue
            worst = float(among.max())
            nearness = (worst - total[out]) / max(worst - limit, 1e-12)
            scores[out] = step * (number + _NEARLY * nearness)
            alive = alive & ~out
        scores[alive] = HIGHEST_SCORE
        return scores

    @property
    def all(self) -> tuple[Goal, ...]:
        """Each goal once, in order."""
        found = {goal.name: goal for level in self.levels for goal, _ in level.goals}
        return tuple(found.values())

    @property
    def limited(self) -> tuple[GoalLevel, ...]:
        """Levels that pods wait for."""
        return tuple(level for level in self.levels if level.at_most is not None)

    @property
    def pod_fields(self) -> PodField:
        """Fields of pods that some goal reads."""
        return reduce(or_, map(pod_fields_of, self.all), PodField(0))

    @property
    def pod_keys(self) -> tuple[str, ...]:
        """Labels and annotations of pods that some goal reads."""
        return tuple(dict.fromkeys(key for goal in self.all for key in pod_keys_of(goal)))
