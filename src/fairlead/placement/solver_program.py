"""The program that HiGHS solves: how many nodes of each class take which pattern of pods.

It is solved once for each level of costs. What a level allows, and what is known already, limits
the levels after it.
"""

import math
from collections.abc import Sequence

import numpy as np

from fairlead.model.solver import (
    PatternUse,
    SolverAnswer,
    SolverQuestion,
    is_of_use,
    pattern_costs,
)
from fairlead.placement.linear import Floats, LinearProgram

#: What a node more costs, beside the dearest pattern: enough to decide between equal costs only.
_PER_NODE = 1e-4
#: Sums of costs are compared in so many parts of the dearest pattern.
_EQUAL = 1e-7

#: A class, and a pattern that its nodes may take.
_Use = tuple[int, int]


def solve_program(question: SolverQuestion) -> SolverAnswer:
    """The cheapest nodes for all pods, level by level, and of equally cheap ones the fewest.

    None if there is nothing better than what is known. If time runs out, the best that was found.
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
        self._table: Floats = table / self._dearest[:, None]
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

    def _nodes_by_use(self, costs: Floats) -> list[int] | None:
        """Nodes for each use, at the least costs within the limits."""
        question, uses = self._question, self._uses
        classes = np.array([c for c, _ in uses])
        nodes = np.array([each.nodes for each in question.classes])
        program = LinearProgram(costs, nodes[classes])
        pods = np.array([question.patterns[p] for _, p in uses]).T
        program.limit(pods, question.counts, question.counts)
        program.limit_some(
            classes, range(len(uses)), np.ones(len(uses)), [-math.inf] * len(nodes), nodes
        )
        for number, most in self._limits:
            program.limit(self._table[number], [-math.inf], [most])
        found = program.solved(whole=True, seconds=question.budget_s / max(1, len(question.levels)))
        return None if found is None else np.rint(found.amounts).astype(int).tolist()
