"""The same problems as `fairlead.placement.tree_knapsack`, solved by HiGHS."""

from typing import TYPE_CHECKING

import numpy as np

from fairlead.placement.linear import LinearProgram
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

    def least(self, objective: int, before: list[int]) -> int:
        """Of one objective, with those before it at their best values."""
        room = np.minimum(self._problem.room, self._problem.pods)
        upper = np.concatenate([room, np.ones(self._starts[-1] - len(room))])
        program = LinearProgram(self._costs[objective], upper)
        self._limit(program)
        for cost, value in zip(self._costs, before, strict=False):
            program.limit(cost, [-np.inf], [value])
        found = program.solved(whole=True)
        assert found
        assert found.is_best
        return round(found.cost)

    def _cost(self, place: int) -> np.ndarray:
        objective = self._problem.objectives[place]
        cost = np.zeros(self._starts[-1])
        start = self._starts[1 if objective.level is None else 2 + objective.level]
        cost[start : start + len(objective.cost)] = objective.cost
        return cost

    def _limit(self, program: LinearProgram) -> None:
        problem, nodes = self._problem, self._sizes[0]
        pods, used = np.arange(nodes), nodes + np.arange(nodes)
        every = np.zeros(self._starts[-1])
        every[pods] = 1
        room = np.minimum(problem.room, problem.pods)
        program.limit(every, [problem.pods], [problem.pods])
        _limit_by(program, pods, used, room)
        for level, domains in enumerate(problem.domains):
            _limit_by(program, used, self._starts[2 + level] + domains, np.ones(nodes))


def _limit_by(
    program: LinearProgram, low: np.ndarray, high: np.ndarray, factor: np.ndarray
) -> None:
    """The low variable is at most the factor times the high one, one row each."""
    rows, columns = np.tile(np.arange(len(low)), 2), np.concatenate([low, high])
    factors = np.concatenate([np.ones(len(low)), -factor])
    program.limit_some(rows, columns, factors, np.full(len(low), -np.inf), np.zeros(len(low)))


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
    for kind, (count, gpus, cores) in enumerate(case.classes):
        room = np.minimum(np.minimum(case.gpus // gpus, case.cores // max(cores, 1)), count)
        upper[kind * nodes : (kind + 1) * nodes] = room
        matrix.append((kind * nodes + np.arange(nodes), used, room))
    program = LinearProgram(cost, upper)
    for kind, (count, *_) in enumerate(case.classes):
        every = np.zeros(size)
        every[kind * nodes : (kind + 1) * nodes] = 1
        program.limit(every, [count], [count])
    for amounts, place in ((case.gpus, 1), (case.cores, 2)):
        full = np.zeros((nodes, size))
        for kind, each in enumerate(case.classes):
            full[np.arange(nodes), kind * nodes + np.arange(nodes)] = each[place]
        full[np.arange(nodes), used] = -amounts
        program.limit(full, np.full(nodes, -np.inf), np.zeros(nodes))
    for low, high, factor in [*matrix, (used, rack + case.rack, np.ones(nodes))]:
        _limit_by(program, low, high, factor)
    found = program.solved(whole=True, seconds=limit_s, gap=0.0)
    if found is None:
        return None
    chosen = np.round(found.amounts)
    on = np.flatnonzero(chosen[used])
    demand = sum(count * gpus for count, gpus, _ in case.classes)
    return int(chosen[rack:].sum()), len(on), int(case.gpus[on].sum()) - demand
