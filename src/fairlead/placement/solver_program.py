"""The program that HiGHS solves: how many nodes of each class take which pattern of pods.

It is solved once for each level of costs. What a level allows, and what is known already, limits
the levels after it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fairlead.model.solver import (
    PatternUse,
    SolverAnswer,
    SolverQuestion,
    is_of_use,
    pattern_costs,
)

#: What a node more costs, beside the dearest pattern: enough to decide between equal costs only.
_PER_NODE = 1e-4
#: Sums of costs are compared in so many parts of the dearest pattern.
_EQUAL = 1e-7

#: A class, and a pattern that its nodes may take.
_Use = tuple[int, int]
_Floats = npt.NDArray[np.float64]


def solve_program(question: SolverQuestion) -> SolverAnswer:
    """The cheapest nodes for all pods, level by level, and of equally cheap ones the fewest.

    None if there is nothing better than what is known. If time runs out, the best that was found.
    Importing the solver takes half a second.
    """
    uses = [(c, p) for c, each in enumerate(question.classes) for p in each.patterns]
    if not uses:
        return None
    counts = _Program(question, uses).solved()
    if counts is None:
        return None
    answer = tuple(
        PatternUse(c, p, count) for (c, p), count in zip(uses, counts, strict=True) if count
    )
    return answer if is_of_use(question, answer) else None


class _Program:
    def __init__(self, question: SolverQuestion, uses: list[_Use]) -> None:
        self._question = question
        self._uses = uses
        #: Costs by level and use, as parts of the dearest; and what these are parts of.
        table = np.array([
            pattern_costs(question.classes[c], question.patterns[p]) for c, p in uses
        ]).T.reshape(len(question.levels), len(uses))  # fmt: skip
        self._dearest = np.maximum(np.abs(table).max(axis=1, initial=0.0), 1e-300)
        self._table: _Floats = table / self._dearest[:, None]
        self._limits: list[tuple[int, float]] = []

    def solved(self) -> list[int] | None:
        levels = range(len(self._question.levels))
        if not levels:
            return self._nodes_by_use(np.ones(len(self._uses)))
        best, is_better = None, False
        for number in levels:
            if not is_better and self._question.cutoff is not None:
                self._limit(number, self._question.cutoff[number])
            found = self._nodes_by_use(self._table[number] + _PER_NODE)
            if found is None:
                break
            best, cost = found, self._cost(number, found)
            limit = self._question.levels[number].limit(cost)
            is_better |= self._question.cutoff is not None and self._question.cutoff[number] > limit
            self._limit(number, limit)
        return best

    def _limit(self, number: int, most: float) -> None:
        self._limits.append((number, most / float(self._dearest[number]) + _EQUAL))

    def _cost(self, number: int, counts: Sequence[int]) -> float:
        return float(self._table[number] @ np.array(counts) * self._dearest[number])

    def _nodes_by_use(self, costs: _Floats) -> list[int] | None:
        """Nodes for each use, at the least costs within the limits."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        question, uses = self._question, self._uses
        limits = [
            LinearConstraint(self._table[number], -np.inf, most) for number, most in self._limits
        ]
        found = milp(
            costs,
            constraints=[
                LinearConstraint(_pods(question, uses), question.counts, question.counts),
                LinearConstraint(
                    _nodes(question, uses), -np.inf, [c.nodes for c in question.classes]
                ),
                *limits,
            ],
            bounds=Bounds(0, np.array([question.classes[c].nodes for c, _ in uses])),
            integrality=np.ones(len(uses)),
            options={"time_limit": question.budget_s / max(1, len(question.levels))},
        )
        return None if found.x is None else np.rint(found.x).astype(int).tolist()


def _pods(question: SolverQuestion, uses: list[_Use]) -> Any:
    from scipy.sparse import csr_array

    return csr_array(np.array([question.patterns[p] for _, p in uses]).T)


def _nodes(question: SolverQuestion, uses: list[_Use]) -> Any:
    from scipy.sparse import coo_array

    rows, columns = [c for c, _ in uses], list(range(len(uses)))
    shape = len(question.classes), len(uses)
    return coo_array((np.ones(len(uses)), (rows, columns)), shape=shape).tocsr()
