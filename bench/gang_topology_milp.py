"""The same problems as `fairlead.placement.tree_knapsack`, solved by HiGHS."""

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from fairlead.placement.tree_knapsack import Problem

if TYPE_CHECKING:
    from gang_topology import Unequal


def optimum(problem: Problem) -> tuple[int, ...]:
    """The values of all objectives at the lexicographic optimum: one program for each objective."""
    program = _Program(problem)
    values: list[int] = []
    for objective in range(len(problem.objectives)):
        values.append(program.least(objective, values))
    return tuple(values)


class _Program:
    """Variables: pods by node, used by node, used by domain of each level."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        nodes = len(problem.room)
        self._sizes = [nodes, nodes, *(int(each.max()) + 1 for each in problem.domains)]
        self._starts = np.cumsum([0, *self._sizes])
        self._costs = [self._cost(place) for place in range(len(problem.objectives))]
        self._rows = self._constraints()

    def least(self, objective: int, before: list[int]) -> int:
        """Of one objective, with those before it at their best values."""
        rows = list(self._rows)
        for cost, value in zip(self._costs, before, strict=False):
            rows.append(LinearConstraint(cost[None], -np.inf, value))
        room = np.minimum(self._problem.room, self._problem.pods)
        upper = np.concatenate([room, np.ones(self._starts[-1] - len(room))])
        found = milp(
            self._costs[objective],
            constraints=rows,
            bounds=Bounds(0, upper),
            integrality=np.ones(self._starts[-1]),
        )
        assert found.success, found.message
        return round(found.fun)

    def _cost(self, place: int) -> np.ndarray:
        objective = self._problem.objectives[place]
        cost = np.zeros(self._starts[-1])
        start = self._starts[1 if objective.level is None else 2 + objective.level]
        cost[start : start + len(objective.cost)] = objective.cost
        return cost

    def _constraints(self) -> list[LinearConstraint]:
        problem, nodes = self._problem, self._sizes[0]
        pods, used = np.arange(nodes), nodes + np.arange(nodes)
        every = np.zeros(self._starts[-1])
        every[pods] = 1
        room = np.minimum(problem.room, problem.pods)
        rows = [
            LinearConstraint(every[None], problem.pods, problem.pods),
            self._at_most(pods, used, room),
        ]
        for level, domains in enumerate(problem.domains):
            rows.append(self._at_most(used, self._starts[2 + level] + domains, np.ones(nodes)))
        return rows

    def _at_most(self, low: np.ndarray, high: np.ndarray, factor: np.ndarray) -> LinearConstraint:
        """The low variable is at most the factor times the high one, one row each."""
        count = np.arange(len(low))
        matrix = coo_array(
            (
                np.concatenate([np.ones(len(low)), -factor]),
                (np.concatenate([count, count]), np.concatenate([low, high])),
            ),
            shape=(len(low), self._starts[-1]),
        )
        return LinearConstraint(matrix.tocsr(), -np.inf, 0)


def unequal_optimum(case: "Unequal", limit_s: float) -> tuple[int, int, int] | None:
    """Racks, nodes and GPUs left at the least weighted sum; None if there is no solution."""
    kinds, nodes = len(case.classes), len(case.gpus)
    racks = int(case.rack.max()) + 1
    size = kinds * nodes + nodes + racks
    used, rack = kinds * nodes + np.arange(nodes), kinds * nodes + nodes
    cost = np.zeros(size)
    cost[used] = case.weights[1] + case.gpus * case.weights[2]
    cost[rack:] = case.weights[0]
    upper = np.ones(size)
    matrix: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    rows = []
    for kind, (count, gpus, cores) in enumerate(case.classes):
        every = np.zeros(size)
        every[kind * nodes : (kind + 1) * nodes] = 1
        rows.append(LinearConstraint(every[None], count, count))
        room = np.minimum(np.minimum(case.gpus // gpus, case.cores // max(cores, 1)), count)
        upper[kind * nodes : (kind + 1) * nodes] = room
        matrix.append((kind * nodes + np.arange(nodes), used, room))
    for amounts, place in ((case.gpus, 1), (case.cores, 2)):
        full = np.zeros((nodes, size))
        for kind, each in enumerate(case.classes):
            full[np.arange(nodes), kind * nodes + np.arange(nodes)] = each[place]
        full[np.arange(nodes), used] = -amounts
        rows.append(LinearConstraint(full, -np.inf, 0))
    for low, high, factor in [*matrix, (used, rack + case.rack, np.ones(nodes))]:
        full = np.zeros((nodes, size))
        full[np.arange(nodes), low] = 1
        full[np.arange(nodes), high] = -factor
        rows.append(LinearConstraint(full, -np.inf, 0))
    found = milp(
        cost, constraints=rows, bounds=Bounds(0, upper), integrality=np.ones(size),
        options={"time_limit": limit_s, "mip_rel_gap": 0},
    )  # fmt: skip
    if found.x is None:
        return None
    chosen = np.round(found.x)
    on = np.flatnonzero(chosen[used])
    demand = sum(count * gpus for count, gpus, _ in case.classes)
    return int(chosen[rack:].sum()), len(on), int(case.gpus[on].sum()) - demand
